/* Finds existing kernels with members (persistent kernels), so that another func can reuse them instead of
 * compiling. */
#include "program/parts.h"

clade_status clade__member_hash(const clade__request *member, clade__hash *hash) {
  const char *caller;
  CLADE_TRY(clade__kernel_source("persistent", &caller));
  CLADE_TRY(clade__request_hash(member, hash));
  *hash = clade__hash_more_text(*hash, caller);
  return CLADE_OK;
}

clade__hash clade__member_key(clade__hash kernel, clade__hash member) {
  return clade__hash_more(kernel, &member, sizeof member);
}

clade_status clade__store_add_members(clade__store *store, const clade__request *request, clade__hash key) {
  clade__entry *entry = clade__store_entry(store, key);
  if (!request->n_members) return CLADE_OK;
  entry->members = clade__new((size_t)request->n_members, sizeof *entry->members);
  if (!entry->members) return CLADE_NO_MEMORY;
  for (; entry->n_members < (uint32_t)request->n_members; entry->n_members++)
    CLADE_TRY(clade__member_hash(&request->members[entry->n_members], &entry->members[entry->n_members]));
  return CLADE_OK;
}

/* The member's number in the kernel, or -1. With `entry` NULL, looks it up in the index. */
static int32_t number_of(const clade__store *store, const clade__entry *entry, clade__hash kernel, clade__hash member) {
  if (!entry) {
    const clade__index_record *record = clade__index_find(&store->index, clade__member_key(kernel, member));
    return record ? (int32_t)record->number : -1;
  }
  for (uint32_t i = 0; i < entry->n_members; i++)
    if (clade__hash_equal(entry->members[i], member)) return (int32_t)i;
  return -1;
}

typedef struct search {
  const clade__store *store;
  size_t n;
  const clade__hash *members;
  size_t most;
  clade__hash kernel; /* the best kernel so far */
  const clade__entry *entry;
} search;

static void consider(search *s, const clade__entry *entry, clade__hash kernel) {
  size_t held = 0;
  for (size_t i = 0; i < s->n; i++) held += number_of(s->store, entry, kernel, s->members[i]) >= 0;
  if (held <= s->most) return;
  s->most = held;
  s->kernel = kernel;
  s->entry = entry;
}

/* Prefers kernels in memory over those in the cache. */
static void look(search *s) {
  const clade__store *store = s->store;
  for (size_t i = 0; i < store->n_entries; i++)
    if (store->entries[i].n_members) consider(s, &store->entries[i], store->entries[i].key);
  for (size_t i = 0; i < store->index.n; i++)
    if (store->index.records[i].n_members) consider(s, NULL, store->index.records[i].key);
}

/* A kernel that fails to load counts as holding no members. */
static clade_status hold(clade__store *store, const search *s, int32_t *number, clade__holder *out) {
  for (size_t i = 0; i < s->n; i++) number[i] = number_of(store, s->entry, s->kernel, s->members[i]);
  const clade__request request = {.file = "persistent", .kernel = "persistent", .found = &s->kernel};
  const clade__wanted wanted = {&request, s->kernel, s->kernel};
  CLADE_TRY(clade__store_without_compiler(store, 1, &wanted));
  if (!clade__store_ready(store, &wanted)) return CLADE_OK;
  const clade__entry *entry = clade__store_entry(store, s->kernel);
  cl_kernel kernel;
  cl_uint n_args;
  CLADE_TRY(clade__kernel_new(store->device, store->programs[entry->program].program, entry->name, &kernel));
  clade_status status = clade__kernel_args(store->device, kernel, &n_args);
  clade__kernel_release(kernel);
  if (status == CLADE_OK) *out = (clade__holder){s->kernel, s->most, n_args};
  return status;
}

clade_status clade__store_holder(clade_device *device, size_t n, const clade__hash *members, int32_t *number,
                                 clade__holder *out) {
  clade__store *store;
  clade_status status = CLADE_OK;
  *out = (clade__holder){0};
  CLADE_TRY(clade__store_of(device, "looking for kernels", &store));
  pthread_mutex_lock(&store->mutex);
  if (store->cached) status = clade__index_refresh(&store->index, &store->cache, store->device_key);
  search s = {.store = store, .n = n, .members = members};
  if (status == CLADE_OK) look(&s);
  if (status == CLADE_OK && s.most) status = hold(store, &s, number, out);
  pthread_mutex_unlock(&store->mutex);
  return status;
}
