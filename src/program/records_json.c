/* Tuning records as JSON. Input is untrusted: all values are bounded, and malformed records are skipped. */
#include <stdlib.h>

#include "base/json.h"
#include "program/records.h"

/* ---- reading ---- */
/* The string; NULL if the member is no string or contains a zero. */
static const char *text_of(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  const char *text = json_string_value(value);
  return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* An integer from 0 to `most`; `most` + 1 if invalid, 0 if absent. */
static uint64_t count_of(const json_t *object, const char *name, uint64_t most) {
  const json_t *value = json_object_get(object, name);
  if (!value) return 0;
  json_int_t number = json_integer_value(value);
  return json_is_integer(value) && number >= 0 && (uint64_t)number <= most ? (uint64_t)number : most + 1;
}

static bool hash_of(const json_t *object, const char *name, clade__hash *out) {
  const char *text = text_of(object, name);
  char high[17] = {0};
  *out = (clade__hash){0};
  if (!json_object_get(object, name)) return true;
  if (!text || strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32) return false;
  memcpy(high, text, 16);
  *out = (clade__hash){.hi = strtoull(high, NULL, 16), .lo = strtoull(text + 16, NULL, 16)};
  return true;
}

/* Invalid numbers and speeds count as not measured. */
static void profile_of(const json_t *json, clade__profile *out) {
  const json_t *peaks = json_object_get(json, "peak_gflops");
  *out = (clade__profile){.bandwidth_gbps = json_number_value(json_object_get(json, "bandwidth_gbps")),
                          .launch_us = json_number_value(json_object_get(json, "launch_us")),
                          .wait_us = json_number_value(json_object_get(json, "wait_us"))};
  const uint64_t local = count_of(json, "local_static_bytes", 1u << 30);
  for (int i = 1; i < CLADE_PEAKS; i++)
    out->peak_gflops[i] = json_number_value(json_object_get(peaks, clade_dtype_name((clade_dtype)i)));
  out->local_static_bytes = local;
  if (clade__profile_sane(out))
    clade__profile_round(out); /* round values that were edited by hand */
  else
    *out = (clade__profile){0};
}

static json_t *profile_json(const clade__profile *p) {
  json_t *peaks = json_object();
  for (int i = 1; i < CLADE_PEAKS; i++)
    if (p->peak_gflops[i] > 0)
      json_object_set_new(peaks, clade_dtype_name((clade_dtype)i), json_real(p->peak_gflops[i]));
  return json_pack("{s:f, s:f, s:f, s:I, s:o}", "bandwidth_gbps", p->bandwidth_gbps, "launch_us", p->launch_us,
                   "wait_us", p->wait_us, "local_static_bytes", (json_int_t)p->local_static_bytes, "peak_gflops",
                   peaks);
}

static bool device_of(const json_t *json, clade__tuned_device *d) {
  const uint64_t narrow = UINT32_MAX - 1, wide = INT64_MAX - 1;
  const char *name = text_of(json, "class");
  *d = (clade__tuned_device){.name = text_of(json, "name"), .driver = text_of(json, "driver")};
  if (!json_is_object(json) || !name || !hash_of(json, "key", &d->key)) return false;
  for (int c = CLADE_CPU; c <= CLADE_ACCEL; c++)
    if (strcmp(name, clade_device_class_name((clade_device_class)c)) == 0) d->device_class = (clade_device_class)c;
  d->compute_units = (uint32_t)count_of(json, "compute_units", narrow);
  d->vector_f32 = (uint32_t)count_of(json, "vector_f32", narrow);
  d->fma_units = (uint32_t)count_of(json, "fma_units", narrow);
  d->l1 = count_of(json, "l1", wide);
  d->l2 = count_of(json, "l2", wide);
  d->cache = count_of(json, "cache", wide);
  profile_of(json_object_get(json, "profile"), &d->profile);
  return d->device_class && d->compute_units <= narrow && d->vector_f32 <= narrow && d->fma_units <= narrow &&
         d->l1 <= wide && d->l2 <= wide && d->cache <= wide;
}

static bool record_of(const json_t *json, clade__record *r) {
  const char *name;
  json_t *value, *params = json_object_get(json, "params");
  *r = (clade__record){.op = text_of(json, "op"),
                       .problem = text_of(json, "problem"),
                       .impl = text_of(json, "impl"),
                       .seconds = json_number_value(json_object_get(json, "seconds")),
                       .default_seconds = json_number_value(clade__json_member(json, "default_seconds")),
                       .full = json_is_true(json_object_get(json, "full"))};
  if (!json_is_object(json) || !r->op || !r->problem || !r->impl || !hash_of(json, "kernel", &r->kernel)) return false;
  if ((params && !json_is_object(params)) || json_object_size(params) > CLADE_MAX_PARAMS) return false;
  json_object_foreach(params, name, value) {
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < INT32_MIN || number > INT32_MAX) return false;
    r->param[r->n_params] = name;
    r->value[r->n_params++] = (int32_t)number;
  }
  return true;
}

static clade_status take_records(const json_t *list, clade__records *set, size_t *bad) {
  for (size_t i = 0; i < json_array_size(list); i++) {
    clade__record r;
    clade_status status = record_of(json_array_get(list, i), &r) ? clade__records_put(set, &r) : CLADE_INVALID;
    if (status == CLADE_NO_MEMORY) return status;
    if (status != CLADE_OK) ++*bad;
  }
  return CLADE_OK;
}

static clade_status take_devices(const json_t *root, clade__record_sets *out, size_t *bad) {
  const json_t *list = json_object_get(root, "devices");
  size_t n = json_array_size(list);
  if (json_integer_value(json_object_get(root, "clade_tuning")) != 1 || !json_is_array(list) ||
      n > CLADE__RECORDS_DEVICES)
    return CLADE_FAIL(CORRUPT, "it holds no tuning records of format 1");
  for (size_t i = 0; i < n; i++) {
    const json_t *one = json_array_get(list, i);
    clade__tuned_device device;
    clade__records *set;
    if (!device_of(json_object_get(one, "device"), &device) || !json_is_array(json_object_get(one, "records")))
      return CLADE_FAIL(CORRUPT, "device %zu of it is not described", i);
    CLADE_TRY(clade__records_new(&device, &set));
    CLADE_TRY(clade__record_sets_add(out, set));
    CLADE_TRY(take_records(json_object_get(one, "records"), set, bad));
  }
  return CLADE_OK;
}

clade_status clade__records_parse(const void *text, size_t bytes, clade__record_sets *out, size_t *bad) {
  json_error_t error;
  *out = (clade__record_sets){0};
  *bad = 0;
  if (bytes > CLADE__RECORDS_BYTES)
    return CLADE_FAIL(CORRUPT, "it has %zu bytes; the most are %d", bytes, CLADE__RECORDS_BYTES);
  json_t *root = clade__json_load(text, bytes, &error);
  if (!root) {
    if (json_error_code(&error) == json_error_out_of_memory) return CLADE_FAIL(NO_MEMORY, "no memory to read JSON");
    return CLADE_FAIL(CORRUPT, "line %d: %s", error.line, error.text);
  }
  clade_status status = take_devices(root, out, bad);
  json_decref(root);
  if (status != CLADE_OK) clade__record_sets_free(out);
  return status;
}

/* ---- writing ---- */
static json_t *hash_json(clade__hash hash) {
  char text[33];
  return json_string(clade__hash_text(hash, text));
}

static bool is_zero(clade__hash hash) { return !hash.lo && !hash.hi; }

static json_t *device_json(const clade__tuned_device *d) {
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", d->name, "driver", d->driver, "class",
                clade_device_class_name(d->device_class), "compute_units", (json_int_t)d->compute_units, "vector_f32",
                (json_int_t)d->vector_f32, "l1", (json_int_t)d->l1, "l2", (json_int_t)d->l2, "cache",
                (json_int_t)d->cache, "fma_units", (json_int_t)d->fma_units);
  if (json && !is_zero(d->key)) json_object_set_new(json, "key", hash_json(d->key));
  if (json && clade__profile_known(&d->profile)) json_object_set_new(json, "profile", profile_json(&d->profile));
  return json;
}

static json_t *record_json(const clade__record *r) {
  json_t *params = json_object();
  for (int i = 0; i < r->n_params; i++) json_object_set_new(params, r->param[i], json_integer(r->value[i]));
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:o, s:f, s:f, s:b}", "op", r->op, "problem", r->problem, "impl", r->impl, "params",
                params, "seconds", r->seconds, "default_seconds", r->default_seconds, "full", r->full);
  if (json && !is_zero(r->kernel)) json_object_set_new(json, "kernel", hash_json(r->kernel));
  return json;
}

static int by_problem(const void *a, const void *b) {
  const clade__record *x = *(const clade__record *const *)a, *y = *(const clade__record *const *)b;
  int order = strcmp(x->op, y->op);
  if (!order) order = strcmp(x->problem, y->problem);
  return order ? order : strcmp(x->impl, y->impl);
}

/* Sorted, so that files do not depend on the order of insertion. */
static json_t *records_json(const clade__records *set) {
  const clade__record **sorted = clade__new(set->n, sizeof(clade__record *));
  json_t *list = sorted ? json_array() : NULL;
  for (size_t i = 0; list && i < set->n; i++) sorted[i] = &set->at[i];
  if (list && set->n) qsort(sorted, set->n, sizeof(clade__record *), by_problem);
  for (size_t i = 0; list && i < set->n; i++)
    if (json_array_append_new(list, record_json(sorted[i]))) json_decref(list), list = NULL;
  clade__free(sorted);
  return list;
}

clade_status clade__records_print(const clade__record_sets *sets, char **text) {
  json_t *devices = json_array();
  bool whole = devices != NULL;
  for (size_t i = 0; whole && i < sets->n; i++) {
    json_t *one =
        json_pack("{s:o, s:o}", "device", device_json(&sets->at[i]->device), "records", records_json(sets->at[i]));
    whole = one && !json_array_append_new(devices, one);
  }
  json_t *root = json_pack("{s:i, s:o}", "clade_tuning", 1, "devices", devices);
  clade_status status = clade__json_print(whole ? root : NULL, JSON_INDENT(1) | JSON_REAL_PRECISION(6), text);
  json_decref(root);
  return status;
}
