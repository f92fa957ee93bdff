/* Enumerates the devices of all platforms once per process. Platforms that fail are skipped. */
#include "cl/internal.h"

#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(clade__list *) made; /* never freed */
static size_t capacity;

/* Skips a platform or device and records the reason. Only an allocation failure ends the enumeration. Having no
 * devices or an old version is not logged as a warning. */
static clade_status leave_out(clade__platform_report *report, clade_status why) {
  if (why == CLADE_NO_MEMORY) return why;
  bool usual = why == CLADE_NOT_FOUND || why == CLADE_UNSUPPORTED;
  clade__log(usual ? CLADE_LOG_INFO : CLADE_LOG_WARNING, "left out: %s", clade_last_error());
  return report->message ? CLADE_OK : clade__intern(clade_last_error(), &report->message);
}

static clade_status add_device(clade__list *list, cl_platform_id platform, cl_device_id id) {
  char text[16];
  CLADE_TRY(clade__grow(&list->at, &capacity, (size_t)list->n + 1, sizeof *list->at));
  clade__entry *entry = &list->at[list->n];
  CLADE_TRY(clade__describe(platform, id, &entry->facts));
  snprintf(text, sizeof text, "%d", list->n);
  CLADE_TRY(clade__intern(text, &entry->facts.info.id));
  entry->platform = platform;
  entry->id = id;
  list->n++;
  return CLADE_OK;
}

static clade_status add_devices(clade__list *list, cl_platform_id platform, clade__platform_report *report,
                                cl_device_id *ids, cl_uint n) {
  report->error = clade__cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, ids, NULL);
  if (report->error) return clade__cl_error(NULL, "clGetDeviceIDs", report->error);
  for (cl_uint i = 0; i < n; i++) {
    clade_status status = add_device(list, platform, ids[i]);
    if (status == CLADE_OK)
      report->devices++;
    else
      CLADE_TRY(leave_out(report, status));
  }
  return CLADE_OK;
}

static clade_status add_platform(clade__list *list, cl_platform_id platform, clade__platform_report *report) {
  cl_uint n = 0;
  CLADE_TRY(clade__platform_text(platform, CL_PLATFORM_NAME, &report->name));
  report->remedy = clade__platform_remedy(report->name);
  CLADE_TRY(clade__platform_text(platform, CL_PLATFORM_VERSION, &report->version));
  CLADE_TRY(clade__platform_check(report->name));
  report->error = clade__cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n);
  if (report->error == CL_SUCCESS && n == 0) report->error = CL_DEVICE_NOT_FOUND;
  if (report->error) return clade__cl_error(NULL, "clGetDeviceIDs", report->error);
  cl_device_id *ids = clade__new(n, sizeof *ids);
  if (!ids) return CLADE_NO_MEMORY;
  clade_status status = add_devices(list, platform, report, ids, n);
  clade__free(ids);
  return status;
}

static clade_status add_platforms(clade__list *list, cl_platform_id *ids, cl_uint n) {
  CLADE__CALL(NULL, clGetPlatformIDs, n, ids, NULL);
  list->platforms = clade__new(n, sizeof *list->platforms);
  if (!list->platforms) return CLADE_NO_MEMORY;
  for (cl_uint i = 0; i < n; i++) {
    clade__platform_report *report = &list->platforms[list->n_platforms++];
    report->name = report->version = "?";
    clade_status status = add_platform(list, ids[i], report);
    if (status != CLADE_OK) CLADE_TRY(leave_out(report, status));
  }
  return CLADE_OK;
}

static clade_status fill(clade__list *list) {
  cl_uint n = 0;
  list->error = clade__cl.clGetPlatformIDs(0, NULL, &n);
  if (list->error == CLADE__NO_PLATFORM) return CLADE_OK; /* an empty list that holds the reason */
  if (list->error) return clade__cl_error(NULL, "clGetPlatformIDs", list->error);
  cl_platform_id *ids = clade__new(n, sizeof *ids);
  if (!ids) return CLADE_NO_MEMORY;
  clade_status status = add_platforms(list, ids, n);
  clade__free(ids);
  return status;
}

static bool has_namesake(const clade__list *list, int index) {
  for (int i = 0; i < list->n; i++)
    if (i != index && !strcmp(list->at[i].facts.info.name, list->at[index].facts.info.name)) return true;
  return false;
}

static clade_status label_all(clade__list *list) {
  for (int i = 0; i < list->n; i++) {
    clade__facts *facts = &list->at[i].facts;
    char text[512];
    if (!has_namesake(list, i)) continue;
    snprintf(text, sizeof text, "%s (device %s)", facts->info.name, facts->info.id);
    CLADE_TRY(clade__intern(text, &facts->label));
  }
  return CLADE_OK;
}

static clade_status make(clade__list **out) {
  clade__list *list = clade__new(1, sizeof *list);
  if (!list) return CLADE_NO_MEMORY;
  capacity = 0;
  clade_status status = fill(list);
  if (status == CLADE_OK) status = label_all(list);
  if (status == CLADE_OK) {
    *out = list;
    return CLADE_OK;
  }
  clade__free(list->at);
  clade__free(list->platforms);
  clade__free(list);
  return status;
}

clade_status clade__list_get(const char *function, clade__list **out) {
  CLADE_TRY(clade__fork_check(function));
  *out = atomic_load_explicit(&made, memory_order_acquire);
  if (*out) return CLADE_OK;
  clade_status status = clade__loader_open();
  if (status != CLADE_OK) return clade__fail_in(status, "%s", function);
  pthread_mutex_lock(&lock);
  *out = atomic_load(&made);
  if (!*out) {
    status = make(out);
    if (status == CLADE_OK) atomic_store_explicit(&made, *out, memory_order_release);
  }
  pthread_mutex_unlock(&lock);
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "%s", function);
}

clade_status clade__info_copy(const clade_device_info *from, clade_device_info *to, const char *function) {
  if (!to) return CLADE_FAIL(INVALID, "%s: info is NULL", function);
  size_t size = to->size;
  if (size < sizeof size || size > 1 << 20)
    return CLADE_FAIL(INVALID, "%s: info->size is %zu; set it to sizeof(clade_device_info)", function, size);
  memset(to, 0, size);
  memcpy(to, from, CLADE_MIN(size, sizeof *from));
  to->size = size;
  return CLADE_OK;
}

clade_status clade_device_count(int *count) {
  clade__list *list;
  if (!count) return CLADE_FAIL(INVALID, "clade_device_count: count is NULL");
  *count = 0;
  CLADE_TRY(clade__list_get("clade_device_count", &list));
  *count = list->n;
  return CLADE_OK;
}

static clade_status entry_of(int index, const char *function, clade__entry **out) {
  clade__list *list;
  CLADE_TRY(clade__list_get(function, &list));
  if (index < 0 || index >= list->n)
    return CLADE_FAIL(NOT_FOUND, "%s: there is no device %d; there are %d", function, index, list->n);
  *out = &list->at[index];
  return CLADE_OK;
}

clade_status clade_device_describe(int index, clade_device_info *info) {
  clade__entry *entry = NULL;
  CLADE_TRY(entry_of(index, "clade_device_describe", &entry));
  return clade__info_copy(&entry->facts.info, info, "clade_device_describe");
}

int clade_device_quirks(int index, const clade_quirk_info **quirks) {
  clade__entry *entry = NULL;
  if (quirks) *quirks = NULL;
  if (entry_of(index, "clade_device_quirks", &entry) != CLADE_OK) return 0;
  if (quirks) *quirks = entry->facts.rows;
  return entry->facts.n_rows;
}

int clade__device_twin(const clade_device *device) {
  clade__list *list;
  int twin = 0;
  if (!device->entry || clade__list_get("clade__device_twin", &list) != CLADE_OK) return 0;
  for (clade__entry *e = list->at; e != device->entry; e++)
    twin += clade__hash_equal(clade__info_key(&e->facts.info), device->key);
  return twin;
}

clade_status clade__device_find_twin(clade__hash key, int twin, clade_device **out) {
  clade__list *list;
  CLADE_TRY(clade__list_get("clade__device_find_twin", &list));
  for (int i = 0; i < list->n; i++)
    if (clade__hash_equal(clade__info_key(&list->at[i].facts.info), key) && !twin--)
      return clade__device_open(&list->at[i], out);
  return CLADE_FAIL(NOT_FOUND, "the device is not among the %d that are listed", list->n);
}

int clade__platforms_inspect(int room, clade__platform_report *reports) {
  clade__list *list;
  if (clade__list_get("clade__platforms_inspect", &list) != CLADE_OK) return 0;
  for (int i = 0; i < room && i < list->n_platforms; i++) reports[i] = list->platforms[i];
  return list->n_platforms;
}
