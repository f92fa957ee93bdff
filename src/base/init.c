/* clade_init and the library's version. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool done;

static clade_status set_unset(const char *name, const char *value) {
  if (setenv(name, value, 0) != 0) return CLADE_FAIL(NO_MEMORY, "clade_init: %s=%s cannot be set", name, value);
  return CLADE_OK;
}

/* PoCL compiles a variant of each kernel per local size, and a generic one when the binary is fetched, which blocks
 * launches meanwhile. On CPUs, Clade's kernels have work-groups of one work-item and gain nothing from the variants. */
static clade_status set_variants(void) { return set_unset("POCL_WORK_GROUP_SPECIALIZATION", "0"); }

static clade_status set_threads(const clade_init_opt *o) {
  char text[16];
  if (!o->no_affinity) CLADE_TRY(set_unset("POCL_AFFINITY", "1"));
  if (o->cpu_threads == 0) return CLADE_OK;
  snprintf(text, sizeof text, "%d", o->cpu_threads);
  return set_unset("POCL_MAX_PTHREAD_COUNT", text);
}

static clade_status check(const clade_init_opt *o) {
  if (done || clade__allocator_used())
    return CLADE_FAIL(BUSY, "clade_init: must be the first call, and be called once");
  if (o->cpu_threads < 0) return CLADE_FAIL(INVALID, "clade_init: .cpu_threads is %d", o->cpu_threads);
  if (o->log_level && (o->log_level < CLADE_LOG_ERROR || o->log_level > CLADE_LOG_DEBUG))
    return CLADE_FAIL(INVALID, "clade_init: .log_level is %d, which is none", (int)o->log_level);
  if (o->cache_dir && !o->cache_dir[0]) return CLADE_FAIL(INVALID, "clade_init: .cache_dir is an empty text");
  if (o->bundle_policy != CLADE_BUNDLES_ANY && o->bundle_policy != CLADE_BUNDLES_SIGNED)
    return CLADE_FAIL(INVALID, "clade_init: .bundle_policy is %d, which is none", (int)o->bundle_policy);
  return CLADE_OK;
}

static clade_status apply(const clade_init_opt *o) {
  CLADE_TRY(check(o));
  if (o->allocator) CLADE_TRY(clade__allocator_set(o->allocator));
  clade__settings settings = {.cache_dir = o->cache_dir,
                              .tuning = o->tuning,
                              .no_cache = o->no_cache,
                              .cpu_threads = o->cpu_threads,
                              .no_affinity = o->no_affinity,
                              .libraries = o->libraries,
                              .bundle_policy = o->bundle_policy,
                              .bundle_keys = o->bundle_keys};
  CLADE_TRY(clade__settings_set(&settings));
  CLADE_TRY(set_threads(o));
  CLADE_TRY(set_variants());
  done = true;
  return CLADE_OK;
}

clade_status clade_init_(const clade_init_opt *opt) {
  clade_init_opt o;
  CLADE_TRY(clade__opt_copy(&o, sizeof o, opt, "clade_init"));
  pthread_mutex_lock(&lock);
  clade_status status = apply(&o);
  pthread_mutex_unlock(&lock);
  if (status == CLADE_OK && o.log) clade_log_set(o.log, o.log_user, o.log_level);
  return status;
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
const char *clade_version(void) {
  return TEXT(CLADE_VERSION_MAJOR) "." TEXT(CLADE_VERSION_MINOR) "." TEXT(CLADE_VERSION_PATCH);
}
