/* Probes a device's matrix units, in this process or in a child, and caches the results. */
#include "base/child.h"
#include "cl/units.h"
#include "program/parts.h"

#include <stdio.h>
#include <stdlib.h>

static const double SECONDS = 30, GRACE = 10;
enum { WHY = 512 };

typedef struct verdict {
  clade__unit_answer answer;
  char why[WHY];
} verdict;

/* ---- results in this process; the lock is held during a probe ---- */
typedef struct told {
  clade__hash name;
  verdict verdict;
} told;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static told *all;
static size_t n_all, capacity;

static const told *find(clade__hash name) {
  for (size_t i = 0; i < n_all; i++)
    if (clade__hash_equal(all[i].name, name)) return &all[i];
  return NULL;
}

/* If memory is short, the probe is repeated later. */
static void remember(clade__hash name, const verdict *v) {
  if (v->answer == CLADE__UNIT_UNKNOWN || clade__grow(&all, &capacity, n_all + 1, sizeof *all) != CLADE_OK) return;
  all[n_all++] = (told){name, *v};
}

/* ---- results in the cache: the line that the child wrote ---- */
static verdict verdict_of(const char *line) {
  static const char *const words[] = {
      [CLADE__UNIT_NO] = "no ", [CLADE__UNIT_YES] = "yes", [CLADE__UNIT_UNKNOWN] = "unknown "};
  verdict v = {CLADE__UNIT_UNKNOWN, "clade-probe gave no answer that makes sense"};
  for (int i = 0; i < (int)CLADE_COUNT(words); i++) {
    const size_t n = strlen(words[i]);
    if (strncmp(line, words[i], n) != 0) continue;
    v.answer = (clade__unit_answer)i;
    snprintf(v.why, sizeof v.why, "%s", line + n);
  }
  return v;
}

static bool read_kept(const clade__cache *cache, clade__hash name, verdict *v) {
  clade__cache_blob blob = {0};
  char line[WHY + 8] = "";
  if (cache->dir < 0 || clade__cache_read(cache, CLADE__CACHE_UNIT, name, name, &blob) != CLADE_OK) return false;
  memcpy(line, blob.data, CLADE_MIN(blob.bytes, sizeof line - 1));
  clade__free(blob.file);
  *v = verdict_of(line);
  return v->answer != CLADE__UNIT_UNKNOWN;
}

/* ---- probing ---- */
static double time_limit(void) {
  const char *text = getenv("CLADE_PROBE_SECONDS");
  char *end;
  double seconds = text ? strtod(text, &end) : SECONDS;
  if (!text || (end != text && !*end && seconds > 0 && seconds <= 3600)) return seconds;
  clade__log(CLADE_LOG_WARNING, "CLADE_PROBE_SECONDS=%s is no number of seconds: %g is used", text, SECONDS);
  return SECONDS;
}

static clade_status ask_child(const clade_device *device, const clade__unit_row *row, char *line, size_t bytes) {
  char key[33], hash[33], twin[16], seconds[32], unit[32];
  char *path;
  const double limit = time_limit();
  clade__hash_text(clade__device_key(device), key);
  clade__hash_text(clade__unit_hash(row), hash);
  snprintf(twin, sizeof twin, "%d", clade__device_twin(device));
  snprintf(seconds, sizeof seconds, "%g", limit);
  snprintf(unit, sizeof unit, "%s", row->name);
  CLADE_TRY(clade__probe_program(&path));
  clade_status status =
      clade__child_ask(path, (char *[]){path, key, twin, unit, hash, seconds, NULL}, limit + GRACE, line, bytes);
  clade__free(path);
  return status;
}

/* Holds the cache's lock: of several processes one probes, and none compiles beside its child. */
static verdict ask_or_read(const clade_device *device, const clade__unit_row *row, clade__hash name) {
  verdict v = {CLADE__UNIT_UNKNOWN, ""};
  clade__cache cache = {.dir = -1};
  char line[WHY + 8];
  if (clade__cache_wanted()) (void)!clade__cache_open_configured(true, &cache);
  if (!read_kept(&cache, name, &v)) {
    int held = clade__cache_lock(&cache);
    if (!read_kept(&cache, name, &v)) {
      clade_status status = ask_child(device, row, line, sizeof line);
      if (status == CLADE_OK)
        v = verdict_of(line);
      else
        snprintf(v.why, sizeof v.why, "not probed: %s",
                 status == CLADE_NO_MEMORY ? clade_status_text(status) : clade_last_error());
      if (status == CLADE_NO_MEMORY) clade__log(CLADE_LOG_WARNING, "%s is %s", row->name, v.why);
      if (v.answer != CLADE__UNIT_UNKNOWN && cache.dir >= 0)
        (void)!clade__cache_write(&cache, CLADE__CACHE_UNIT, name, name, line, strlen(line));
    }
    clade__cache_unlock(held);
  }
  clade__cache_close(&cache);
  return v;
}

static clade__unit_answer probe_apart(clade_device *device, const clade__unit_row *row, char *why, size_t bytes) {
  const clade__hash probe = clade__unit_hash(row);
  const clade__hash name = clade__hash_more(clade__device_key(device), &probe, sizeof probe);
  pthread_mutex_lock(&lock);
  const told *known = find(name);
  verdict v = known ? known->verdict : ask_or_read(device, row, name);
  if (!known) remember(name, &v);
  pthread_mutex_unlock(&lock);
  if (v.answer == CLADE__UNIT_YES) return clade__unit_permit(row, why, bytes);
  snprintf(why, bytes, "%s", v.why);
  return v.answer;
}

clade_status clade_device_ask_units(clade_device *device) {
  CLADE_TRY(clade__device_check(device, "clade_device_ask_units"));
  return clade__device_ask_units(device, clade__assembly_tried(device, true) ? clade__unit_probe : probe_apart);
}

static clade__unit_answer was_tried(clade_device *device, const clade__unit_row *row, char *why, size_t bytes) {
  (void)device, (void)row, (void)why, (void)bytes;
  return CLADE__UNIT_YES;
}

const char *clade__persistent_assembly(clade_device *device) {
  char why[WHY] = "";
  if (!clade__quirk_has(device, CLADE__QUIRK_SLOW_WAKE) || clade__assembly_aborts(device)) return "";
  clade__unit_prober *prober = clade__assembly_tried(device, false) ? was_tried : probe_apart;
  if (clade__unit_pass(device, &clade__assembly_row, prober, why, sizeof why)) return clade__assembly_defines;
  clade__log(CLADE_LOG_INFO, "workers of persistent kernels wait without the processor's help: %s", why);
  return "";
}
