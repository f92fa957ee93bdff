/* Compiles requests with equal options as one program, and finds the failing kernel if that does not build. */
#include "program/parts.h"

enum { BATCH = 40 }; /* kernels per program; bounds what a later process must load to get one of them */

typedef struct batch {
  const clade__request *requests[BATCH];
  clade__hash keys[BATCH];
  size_t n;
  bool lean;
} batch;

static bool holds(const batch *b, clade__hash key) {
  for (size_t i = 0; i < b->n; i++)
    if (clade__hash_equal(b->keys[i], key)) return true;
  return false;
}

static clade_status describe(const clade__store *store, const clade__request *r, const char *log) {
  clade__text defines = {0};
  for (int i = 0; i < r->n_defines; i++)
    clade__text_add(&defines, "%s%s=%s", i ? " " : "", r->defines[i].name, r->defines[i].text);
  clade_status status =
      CLADE_FAIL(BUILD, "%s: kernel %s of %s.cl does not compile (options \"%s\", parameters %.300s): %s",
                 clade__device_info(store->device)->name, r->kernel, r->file, clade__request_options(r),
                 defines.data ? defines.data : "none", log && *log ? log : clade_last_error());
  clade__text_free(&defines);
  return status;
}

/* -w: some implementations print the number of warnings, and a library must not print. */
static clade_status build(clade__store *store, const clade__text *text, bool lean, const char *options,
                          cl_program *program, char **log) {
  clade__text all = {0};
  clade_status status = CLADE_NO_MEMORY;
  clade__text_add(&all, "-w %s %s", lean ? CLADE__LEAN : "", options);
  if (!all.failed) status = clade__program_build(store->device, text->data, text->length, all.data, program, log);
  clade__text_free(&all);
  return status;
}

static clade_status compile(clade__store *store, const batch *b) {
  clade__text text = {0};
  char *log = NULL;
  cl_program program;
  size_t at;
  clade_status status;
  CLADE_GOTO(clade__program_text(b->n, b->requests, b->keys, b->lean, store->head, &text));
  status = build(store, &text, b->lean, clade__request_options(b->requests[0]), &program, &log);
  if (status == CLADE_BUILD && b->n == 1 && !b->lean) status = describe(store, b->requests[0], log);
  CLADE_GOTO(status);
  CLADE_GOTO(clade__store_add_program(store, program, (clade__hash){0}, &at));
  for (size_t i = 0; i < b->n; i++) {
    char name[CLADE__KERNEL_NAME];
    clade__request_name(b->requests[i], b->keys[i], name);
    CLADE_GOTO(clade__store_add_entry(store, b->keys[i], at, name));
    store->stats.compiled++;
  }
fail:
  clade__text_free(&text);
  clade__free(log);
  return status;
}

static clade_status compile_each(clade__store *store, const batch *b) {
  for (size_t i = 0; i < b->n; i++) {
    /* Not lean: the lean build has failed already. */
    batch one = {.requests = {b->requests[i]}, .keys = {b->keys[i]}, .n = 1};
    CLADE_TRY(compile(store, &one));
  }
  clade__log(CLADE_LOG_WARNING, "%s: %zu kernels compile one by one, but not together",
             clade__device_info(store->device)->name, b->n);
  store->stats.again++;
  return CLADE_OK;
}

/* Collects requests without an entry that share the first one's options. Users' kernels are not built lean, since
 * they may call any builtin. */
static void gather(const clade__store *store, size_t n, const clade__wanted *wanted, batch *b) {
  b->n = 0;
  for (size_t i = 0; i < n && b->n < BATCH; i++) {
    const clade__wanted *w = &wanted[i];
    if (clade__store_entry(store, w->key) || holds(b, w->key)) continue;
    const bool lean = store->lean && !w->request->source;
    if (b->n && (lean != b->lean || strcmp(clade__request_options(w->request), clade__request_options(b->requests[0]))))
      continue;
    b->lean = lean;
    b->requests[b->n] = w->request;
    b->keys[b->n++] = w->key;
  }
}

clade_status clade__store_build(clade__store *store, size_t n, const clade__wanted *wanted) {
  batch b;
  for (gather(store, n, wanted, &b); b.n; gather(store, n, wanted, &b)) {
    clade_status status = compile(store, &b);
    if (status == CLADE_BUILD && b.lean) {
      clade__log(CLADE_LOG_WARNING,
                 "%s: programs are built with the header of all functions, which takes longer, since: %s",
                 clade__device_info(store->device)->name, clade_last_error());
      store->lean = false;
      store->stats.again++;
      continue;
    }
    if (status == CLADE_BUILD && b.n > 1) status = compile_each(store, &b);
    CLADE_TRY(status);
  }
  return CLADE_OK;
}
