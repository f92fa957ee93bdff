/* Collects the tuning records for a device, in order of precedence: its own, those of named files, those of other
 * devices by similarity, and Clade's defaults. */
#include "program/tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "program/parts.h"

void clade__tuned_describe(const clade_device *device, clade__tuned_device *out) {
  const clade_device_info *i = clade__device_info(device);
  *out = (clade__tuned_device){.key = clade__device_key(device),
                               .name = i->name,
                               .driver = i->driver,
                               .device_class = i->device_class,
                               .compute_units = i->compute_units,
                               .vector_f32 = i->vector_f32,
                               .l1 = i->l1_bytes,
                               .l2 = i->l2_bytes,
                               .cache = i->cache_bytes};
}

/* ---- collecting ---- */
typedef struct found {
  clade__records *set; /* retained */
  double distance;     /* negative: the device's own */
  size_t turn;         /* order of discovery, to break ties */
} found;
typedef struct collection {
  clade__tuned_device device;
  found *at;
  size_t n, capacity;
  size_t left_out; /* skipped records */
} collection;

static clade_status add(collection *c, clade__record_sets *sets, bool own) {
  for (size_t i = 0; i < sets->n; i++) {
    double distance = own ? -1 : clade__tuned_distance(&c->device, &sets->at[i]->device);
    if (!isfinite(distance)) continue;
    CLADE_TRY(clade__grow(&c->at, &c->capacity, c->n + 1, sizeof *c->at));
    c->at[c->n] = (found){clade__records_retain(sets->at[i]), distance, c->n};
    c->n++;
  }
  return CLADE_OK;
}

static int nearest_first(const void *a, const void *b) {
  const found *x = a, *y = b;
  if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
  return x->turn < y->turn ? -1 : x->turn > y->turn;
}

/* An unreadable file is not fatal: it is logged. */
static clade_status mild(clade_status status) {
  if (status == CLADE_OK || status == CLADE_NO_MEMORY || status == CLADE_NOT_FOUND)
    return status == CLADE_NOT_FOUND ? CLADE_OK : status;
  clade__log(CLADE_LOG_WARNING, "%s: these tuning records are not used", clade_last_error());
  return CLADE_OK;
}

static clade_status add_named(collection *c, const char *list) {
  while (list && *list) {
    size_t n = strcspn(list, ":");
    clade__text path = {0};
    clade__record_sets sets = {0};
    clade__text_add_bytes(&path, list, n);
    clade_status status = path.failed ? CLADE_NO_MEMORY : CLADE_OK;
    if (status == CLADE_OK && n) {
      status = clade__tuning_read(path.data, &sets, &c->left_out);
      /* A file that the user named. */
      if (status == CLADE_NOT_FOUND) status = clade__fail_again(CLADE_IO, clade_last_error());
    }
    if (mild(status) == CLADE_OK) status = add(c, &sets, false);
    clade__record_sets_free(&sets);
    clade__text_free(&path);
    CLADE_TRY(status == CLADE_NO_MEMORY ? status : CLADE_OK);
    list += n + (list[n] == ':');
  }
  return CLADE_OK;
}

static clade_status add_text(collection *c, const char *text, size_t bytes) {
  clade__record_sets sets;
  size_t left_out = 0;
  CLADE_TRY(clade__records_parse(text, bytes, &sets, &left_out));
  c->left_out += left_out;
  clade_status status = add(c, &sets, false);
  clade__record_sets_free(&sets);
  return status;
}

static clade_status collect(const clade__cache *cache, collection *c) {
  const char *named = clade__settings_get()->tuning, *variable = getenv("CLADE_TUNING");
  clade__record_sets own = {0}, others = {0};
  clade_status status = CLADE_OK;
  if (cache) {
    CLADE_GOTO(mild(clade__tuning_files(cache, c->device.key, &own, &others, &c->left_out)));
    if (own.n) c->device.fma_units = own.at[0]->device.fma_units;
    if (own.n) c->device.profile = own.at[0]->device.profile;
    CLADE_GOTO(add(c, &own, true));
  }
  CLADE_GOTO(add_named(c, named));
  CLADE_GOTO(add_named(c, variable));
  CLADE_GOTO(add(c, &others, false));
  if (c->n) qsort(c->at, c->n, sizeof *c->at, nearest_first);
  /* last, whatever their similarity: they hold no specific problems */
  size_t measured = c->n;
  CLADE_GOTO(add_text(c, clade__tuning_defaults, strlen(clade__tuning_defaults)));
  if (c->n > measured) qsort(c->at + measured, c->n - measured, sizeof *c->at, nearest_first);
  if (c->left_out)
    clade__log(CLADE_LOG_WARNING, "%zu tuning records are malformed and not used: `clade tune` measures again",
               c->left_out);
fail:
  clade__record_sets_free(&own);
  clade__record_sets_free(&others);
  return status;
}

static clade_status make(const clade__cache *cache, clade__store *store, clade__tuning **out) {
  const char *variable = getenv("CLADE_TUNING");
  const bool off = variable && !strcmp(variable, "off");
  collection c = {0};
  clade__tuning *t = clade__new(1, sizeof *t);
  if (!t) return CLADE_NO_MEMORY;
  clade__ref_init(&t->ref);
  clade__tuned_describe(store->device, &c.device);
  if (store->measured) t->layer[t->n++] = clade__records_retain(store->measured);
  clade_status status = off ? CLADE_OK : collect(cache, &c);
  if (status == CLADE_OK && !off) clade__profile_find(store, &c.device.profile);
  t->profile = c.device.profile;
  for (size_t i = 0; i < c.n; i++)
    if (status == CLADE_OK && t->n < CLADE__LAYERS && c.at[i].set->n)
      t->layer[t->n++] = c.at[i].set;
    else
      clade__records_release(c.at[i].set);
  clade__free(c.at);
  if (status != CLADE_OK) {
    clade__tuning_release(t);
    return status;
  }
  *out = t;
  return CLADE_OK;
}

/* ---- records of a device ---- */
clade_status clade__tuning_get(clade_device *device, clade__tuning **out) {
  clade__store *store = NULL;
  clade__stamp stamp = {0};
  *out = NULL;
  CLADE_TRY(clade__store_of(device, "reading tuning records", &store));
  const clade__cache *cache = store->cached ? &store->cache : NULL;
  if (cache) clade__tuning_stamp(cache, clade__device_key(device), &stamp);
  pthread_mutex_lock(&store->tuning_mutex);
  clade_status status = CLADE_OK;
  if (!store->tuning || memcmp(&stamp, &store->tuning_stamp, sizeof stamp)) {
    clade__tuning *fresh = NULL;
    status = make(cache, store, &fresh);
    if (status == CLADE_OK) {
      clade__tuning_release(store->tuning);
      store->tuning = fresh;
      store->tuning_stamp = stamp;
    }
  }
  if (status == CLADE_OK) {
    clade__ref_up(&store->tuning->ref);
    *out = store->tuning;
  }
  pthread_mutex_unlock(&store->tuning_mutex);
  return status;
}

/* Keeps the records in this process if they cannot be written to a file. */
static clade_status keep_here(clade__store *store, const clade__records *records) {
  clade__records *set;
  CLADE_TRY(clade__records_renewed(store->measured, records, &set));
  clade__records_release(store->measured);
  store->measured = set;
  clade__tuning_release(store->tuning);
  store->tuning = NULL;
  return CLADE_OK;
}

clade_status clade__tuning_keep(clade_device *device, const clade__records *records) {
  clade__store *store = NULL;
  CLADE_TRY(clade__store_of(device, "keeping tuning records", &store));
  clade_status status = store->cached ? clade__tuning_merge(records, true, NULL) : CLADE_NOT_FOUND;
  if (status == CLADE_OK || status == CLADE_NO_MEMORY) return status;
  if (store->cached && !store->measured) /* log once */
    clade__log(CLADE_LOG_WARNING, "%s: what was tuned holds for this process only", clade_last_error());
  pthread_mutex_lock(&store->tuning_mutex);
  status = keep_here(store, records);
  pthread_mutex_unlock(&store->tuning_mutex);
  return status;
}
