/* State of the layer: counts, the armed fault, recorded calls and live objects; and its control functions. */
#include "state.h"

#include <execinfo.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

enum { FRAMES = 48, BUCKETS = 4096 };

typedef struct object {
  const void *address;
  kind kind;
  int entry; /* that created it */
  uint64_t site;
  long count;
  struct object *next;
} object;

typedef struct record {
  int entry;
  bool failed;
  uint64_t site;
} record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialized, recording;
static uint64_t calls[ENTRIES], failed[ENTRIES], failures, matched;
static clade_layer_fault fault;
static char fault_name[64];
static object *objects[BUCKETS];
static long over[KINDS];
static record *records;
static size_t n_records, record_capacity;
static const char *report_path;

static const char *const kind_names[KINDS] = {
#define X(name, text) text,
    KIND_MAP(X)
#undef X
};

static const char *const entry_names[ENTRIES] = {
#define ROW(name)                                  #name,
#define CALL(name, natural, out, params, args)     ROW(name)
#define DONE(name, natural, params, args)          ROW(name)
#define CREATE(name, type, kind, natural, p, args) ROW(name)
#define MAP(name, natural, params, args)           ROW(name)
#define RETAIN(name, kind, natural, params, args)  ROW(name)
#define RELEASE(name, kind, natural, params, args) ROW(name)
#include "entries.def"
};

/* "clCreate*" matches by prefix. */
static bool matches(const char *pattern, const char *name) {
  size_t n = strlen(pattern);
  if (n > 0 && pattern[n - 1] == '*') return strncmp(pattern, name, n - 1) == 0;
  return strcmp(pattern, name) == 0;
}

/* ---- sites ---- */
static bool counts_for_sites(const char *file) {
  static char self[4096];
  static bool known;
  if (!known) {
    FILE *f = fopen("/proc/self/cmdline", "r");
    if (f) {
      self[fread(self, 1, sizeof self - 1, f)] = '\0';
      fclose(f);
    }
    known = true;
  }
  const char *base = strrchr(file, '/');
  base = base ? base + 1 : file;
  return strcmp(file, self) == 0 || strncmp(base, "libclade.", 9) == 0;
}

/* Called under the lock: dladdr and backtrace are slow, which is acceptable since sites are off in measurements. */
static uint64_t site_of_caller(void) {
  void *frames[FRAMES];
  int n = backtrace(frames, FRAMES);
  uint64_t hash = 1469598103934665603u; /* FNV-1a over the offsets */
  for (int i = 0; i < n; i++) {
    Dl_info info;
    if (!dladdr(frames[i], &info) || !info.dli_fname || !counts_for_sites(info.dli_fname)) continue;
    uint64_t offset = (uint64_t)((uintptr_t)frames[i] - (uintptr_t)info.dli_fbase);
    for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ ((offset >> shift) & 255)) * 1099511628211u;
  }
  return hash;
}

/* ---- faults ---- */
cl_int layer_enter(int entry, cl_int natural, uint64_t *site) {
  cl_int error = CL_SUCCESS;
  pthread_mutex_lock(&lock);
  *site = recording || fault.site ? site_of_caller() : 0;
  calls[entry]++;
  if (fault.nth && (!fault.name || matches(fault.name, entry_names[entry])) && (!fault.site || fault.site == *site)) {
    matched++;
    if (matched == fault.nth || (fault.for_good && matched > fault.nth)) {
      error = fault.error ? fault.error : natural;
      failures++;
      failed[entry]++;
    }
  }
  if (recording) {
    if (n_records == record_capacity) {
      size_t capacity = record_capacity ? record_capacity * 2 : 1024;
      record *larger = realloc(records, capacity * sizeof *larger);
      if (larger) records = larger, record_capacity = capacity;
    }
    if (n_records < record_capacity) records[n_records++] = (record){entry, error != CL_SUCCESS, *site};
  }
  pthread_mutex_unlock(&lock);
  return error;
}

/* ---- objects ---- */
static object **find(kind kind, const void *address) {
  object **o = &objects[((uintptr_t)address >> 4) % BUCKETS];
  while (*o && ((*o)->address != address || (*o)->kind != kind)) o = &(*o)->next;
  return o;
}

static void held(kind kind, const void *address, int entry, uint64_t site) {
  pthread_mutex_lock(&lock);
  object **o = find(kind, address);
  if (!*o && (*o = calloc(1, sizeof **o)) != NULL) {
    (*o)->address = address;
    (*o)->kind = kind;
    (*o)->entry = entry;
    (*o)->site = site;
  }
  if (*o) (*o)->count++;
  pthread_mutex_unlock(&lock);
}

void layer_created(kind kind, const void *object, int entry, uint64_t site) { held(kind, object, entry, site); }
void layer_retained(kind kind, const void *object, int entry, uint64_t site) { held(kind, object, entry, site); }
void layer_kept(kind kind, const void *object) { held(kind, object, 0, 0); }

void layer_released(kind kind, const void *address) {
  pthread_mutex_lock(&lock);
  object **at = find(kind, address), *o = *at;
  if (!o) {
    over[kind]++;
  } else if (--o->count == 0) {
    *at = o->next;
    free(o);
  }
  pthread_mutex_unlock(&lock);
}

static long live_of(int kind) {
  long sum = 0;
  for (size_t b = 0; b < BUCKETS; b++)
    for (const object *o = objects[b]; o; o = o->next)
      if (kind < 0 || (int)o->kind == kind) sum += o->count;
  return sum;
}

/* KINDS: unknown. */
static int kind_number(const char *name) {
  int kind = 0;
  while (kind < KINDS && strcmp(kind_names[kind], name) != 0) kind++;
  return kind;
}

/* ---- control functions ---- */
EXPORT bool clade_layer_loaded(void) { return initialized; }
EXPORT size_t clade_layer_entries(void) { return ENTRIES; }
EXPORT const char *clade_layer_entry(size_t index) { return index < ENTRIES ? entry_names[index] : NULL; }

EXPORT uint64_t clade_layer_calls(const char *name) {
  uint64_t sum = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < ENTRIES; i++)
    if (!name || matches(name, entry_names[i])) sum += calls[i];
  pthread_mutex_unlock(&lock);
  return sum;
}

EXPORT void clade_layer_reset(void) {
  pthread_mutex_lock(&lock);
  memset(calls, 0, sizeof calls);
  memset(failed, 0, sizeof failed);
  memset(over, 0, sizeof over);
  fault = (clade_layer_fault){0};
  failures = matched = 0;
  n_records = 0;
  pthread_mutex_unlock(&lock);
}

EXPORT void clade_layer_arm(const clade_layer_fault *wanted) {
  pthread_mutex_lock(&lock);
  fault = *wanted;
  if (fault.name) {
    snprintf(fault_name, sizeof fault_name, "%s", fault.name);
    fault.name = fault_name;
  }
  matched = 0;
  pthread_mutex_unlock(&lock);
}

EXPORT uint64_t clade_layer_failed(void) {
  pthread_mutex_lock(&lock);
  uint64_t n = failures;
  pthread_mutex_unlock(&lock);
  return n;
}

EXPORT void clade_layer_record(bool on) {
  pthread_mutex_lock(&lock);
  recording = on;
  pthread_mutex_unlock(&lock);
}

EXPORT size_t clade_layer_recorded(size_t max, clade_layer_call *out) {
  pthread_mutex_lock(&lock);
  size_t n = n_records;
  for (size_t i = 0; i < n && i < max; i++)
    out[i] = (clade_layer_call){entry_names[records[i].entry], records[i].site, records[i].failed};
  pthread_mutex_unlock(&lock);
  return n;
}

EXPORT long clade_layer_live(const char *kind) {
  pthread_mutex_lock(&lock);
  long sum = live_of(kind ? kind_number(kind) : -1);
  pthread_mutex_unlock(&lock);
  return sum;
}

EXPORT long clade_layer_over(const char *kind) {
  long sum = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < KINDS; i++)
    if (!kind || kind_number(kind) == i) sum += over[i];
  pthread_mutex_unlock(&lock);
  return sum;
}

EXPORT bool clade_layer_report(const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) return false;
  pthread_mutex_lock(&lock);
  fprintf(f, "loaded %d\n", initialized);
  for (int i = 0; i < ENTRIES; i++)
    if (calls[i]) fprintf(f, "calls %s %" PRIu64 "\n", entry_names[i], calls[i]);
  for (int i = 0; i < KINDS; i++) {
    fprintf(f, "live %s %ld\n", kind_names[i], live_of(i));
    fprintf(f, "over %s %ld\n", kind_names[i], over[i]);
  }
  for (size_t b = 0; b < BUCKETS; b++)
    for (const object *o = objects[b]; o; o = o->next)
      fprintf(f, "left %s %s %016" PRIx64 "\n", kind_names[o->kind], entry_names[o->entry], o->site);
  fprintf(f, "failed %" PRIu64 "\n", failures);
  for (int i = 0; i < ENTRIES; i++)
    if (failed[i]) fprintf(f, "fault %s %" PRIu64 "\n", entry_names[i], failed[i]);
  for (size_t i = 0; i < n_records; i++)
    fprintf(f, "call %zu %s %016" PRIx64 "\n", i + 1, entry_names[records[i].entry], records[i].site);
  pthread_mutex_unlock(&lock);
  return fclose(f) == 0;
}

/* ---- control by environment variables ---- */
static int error_number(const char *name) {
  static const struct {
    const char *name;
    int code;
  } rows[] = {{"CL_OUT_OF_RESOURCES", CL_OUT_OF_RESOURCES},
              {"CL_OUT_OF_HOST_MEMORY", CL_OUT_OF_HOST_MEMORY},
              {"CL_DEVICE_NOT_AVAILABLE", CL_DEVICE_NOT_AVAILABLE},
              {"CL_MEM_OBJECT_ALLOCATION_FAILURE", CL_MEM_OBJECT_ALLOCATION_FAILURE},
              {"CL_INVALID_VALUE", CL_INVALID_VALUE}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0) return rows[i].code;
  return atoi(name);
}

/* Parses NAME[@SITE]:N[+][:ERROR]. */
static void fail_from_text(const char *text) {
  char name[64] = "", rest[128] = "", error[64] = "";
  unsigned long long nth = 0;
  char plus = 0;
  if (sscanf(text, "%63[^:]:%127s", name, rest) != 2) return;
  clade_layer_fault wanted = {.name = name};
  char *at = strchr(name, '@');
  if (at) {
    *at = '\0';
    wanted.site = strtoull(at + 1, NULL, 16);
  }
  if (sscanf(rest, "%llu%c", &nth, &plus) >= 1) wanted.nth = nth;
  wanted.for_good = plus == '+';
  const char *colon = strchr(rest, ':');
  if (colon) {
    snprintf(error, sizeof error, "%s", colon + 1);
    wanted.error = error_number(error);
  }
  clade_layer_arm(&wanted);
}

/* Runs when the object is opened, by a test before its first OpenCL call or by the loader. */
__attribute__((constructor)) static void begin(void) {
  void *frame[1];
  backtrace(frame, 1); /* loads its dependencies now, not within a call */
  const char *text = getenv("CLADE_LAYER_FAIL"), *record = getenv("CLADE_LAYER_RECORD");
  report_path = getenv("CLADE_LAYER_REPORT");
  recording = record && strcmp(record, "1") == 0;
  if (text) fail_from_text(text);
}

__attribute__((destructor)) static void end(void) {
  if (report_path) clade_layer_report(report_path);
}

void layer_initialized(void) { initialized = true; }
