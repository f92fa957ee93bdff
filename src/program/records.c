/* Sets of tuning records: insertion, lookup, and similarity of devices. */
#include "program/records.h"

#include <ctype.h>
#include <math.h>

enum { LONGEST_NAME = 63, LONGEST_PROBLEM = 1023 };

clade_status clade__records_new(const clade__tuned_device *device, clade__records **out) {
  clade__records *r = clade__new(1, sizeof *r);
  *out = r;
  if (!r) return CLADE_NO_MEMORY;
  clade__ref_init(&r->ref);
  r->device = *device;
  r->device.name = clade__arena_text(&r->arena, device->name ? device->name : "");
  r->device.driver = clade__arena_text(&r->arena, device->driver ? device->driver : "");
  if (r->device.name && r->device.driver) return CLADE_OK;
  clade__records_release(r);
  *out = NULL;
  return CLADE_NO_MEMORY;
}

clade__records *clade__records_retain(clade__records *records) {
  if (records) clade__ref_up(&records->ref);
  return records;
}

void clade__records_release(clade__records *records) {
  if (!records || !clade__ref_down(&records->ref)) return;
  clade__map_free(&records->by_problem);
  clade__free(records->at);
  clade__arena_free(&records->arena);
  clade__free(records);
}

void clade__record_sets_free(clade__record_sets *sets) {
  for (size_t i = 0; i < sets->n; i++) clade__records_release(sets->at[i]);
  clade__free(sets->at);
  *sets = (clade__record_sets){0};
}

clade_status clade__record_sets_add(clade__record_sets *sets, clade__records *records) {
  clade_status status = clade__grow(&sets->at, &sets->capacity, sets->n + 1, sizeof(clade__records *));
  if (status == CLADE_OK)
    sets->at[sets->n++] = records;
  else
    clade__records_release(records);
  return status;
}

void clade__tuning_release(clade__tuning *tuning) {
  if (!tuning || !clade__ref_down(&tuning->ref)) return;
  for (int i = 0; i < tuning->n; i++) clade__records_release(tuning->layer[i]);
  clade__free(tuning);
}

/* ---- one record ---- */
/* Printable only, so that strings from untrusted files can be shown. */
static bool text_fits(const char *text, size_t longest) {
  size_t n = text ? strnlen(text, longest + 1) : 0;
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)text[i] < 32 || (unsigned char)text[i] > 126) return false;
  return n > 0 && n <= longest;
}

static clade_status check(const clade__record *r) {
  if (!text_fits(r->op, LONGEST_NAME) || !text_fits(r->impl, LONGEST_NAME) || !text_fits(r->problem, LONGEST_PROBLEM))
    return CLADE_FAIL(INVALID, "a tuning record names no op, implementation or problem");
  if (r->n_params < 0 || r->n_params > CLADE_MAX_PARAMS)
    return CLADE_FAIL(INVALID, "a tuning record of %s has %d parameters; expected 0 to %d", r->op, r->n_params,
                      CLADE_MAX_PARAMS);
  for (int i = 0; i < r->n_params; i++)
    if (!text_fits(r->param[i], LONGEST_NAME))
      return CLADE_FAIL(INVALID, "a tuning record of %s: parameter %d has no name", r->op, i);
  if (!(r->seconds >= 0 && r->seconds < 1e9) || !(r->default_seconds >= 0 && r->default_seconds < 1e9))
    return CLADE_FAIL(INVALID, "a tuning record of %s: %g seconds instead of %g", r->op, r->seconds,
                      r->default_seconds);
  return CLADE_OK;
}

void clade__record_config(clade__record *r, const clade_impl *impl, const int32_t *config) {
  for (r->n_params = 0; config && r->n_params < CLADE_MAX_PARAMS && impl->space->params[r->n_params]; r->n_params++) {
    r->param[r->n_params] = impl->space->params[r->n_params];
    r->value[r->n_params] = config[r->n_params];
  }
}

int32_t clade__record_alternative(const clade__record *r) {
  for (int i = 0; i < r->n_params; i++)
    if (strcmp(r->param[i], CLADE__LAYOUTS_PARAM) == 0) return r->value[i];
  return 0;
}

static clade__hash key_of(const char *op, const char *problem) {
  return clade__hash_more_text(clade__hash_bytes(op, strlen(op)), problem);
}

/* Names repeat: shares the string with the previous record if equal. */
static const char *keep(clade__records *set, const char *text, const char *last) {
  return last && strcmp(last, text) == 0 ? last : clade__arena_text(&set->arena, text);
}

/* Appends to the list of its problem. */
static clade_status append(clade__records *set, clade__record *r) {
  clade__hash key = key_of(r->op, r->problem);
  size_t at;
  int others = 1;
  r->next = 0;
  CLADE_TRY(clade__grow(&set->at, &set->capacity, set->n + 1, sizeof *set->at));
  if (clade__map_get(&set->by_problem, key, &at)) {
    for (; set->at[at].next; at = set->at[at].next - 1) others++;
    if (others >= CLADE__RECORDS_IMPLS)
      return CLADE_FAIL(OVERFLOW, "%s (%s) has %d tuning records already: that is the most", r->op, r->problem, others);
    set->at[at].next = set->n + 1;
  } else {
    CLADE_TRY(clade__map_put(&set->by_problem, key, set->n));
  }
  set->at[set->n++] = *r;
  return CLADE_OK;
}

clade_status clade__records_put(clade__records *set, const clade__record *record) {
  CLADE_TRY(check(record));
  clade__record r = *record;
  const clade__record *last = set->n ? &set->at[set->n - 1] : NULL;
  const clade__record *known = clade__records_same(set, &r);
  if (!known && set->n >= CLADE__RECORDS_MOST)
    return CLADE_FAIL(OVERFLOW, "there are %d tuning records already: that is the most", CLADE__RECORDS_MOST);
  r.op = keep(set, r.op, last ? last->op : NULL);
  r.impl = keep(set, r.impl, last ? last->impl : NULL);
  r.problem = clade__arena_text(&set->arena, r.problem);
  bool kept = r.op && r.impl && r.problem;
  for (int i = 0; i < r.n_params; i++) {
    r.param[i] = keep(set, r.param[i], last && i < last->n_params ? last->param[i] : NULL);
    kept = kept && r.param[i];
  }
  if (!kept) return CLADE_NO_MEMORY;
  if (!known) return append(set, &r);
  r.next = known->next;
  set->at[known - set->at] = r;
  return CLADE_OK;
}

const clade__record *clade__records_find(const clade__records *set, const char *op, const char *problem,
                                         const char *impl) {
  size_t at;
  const clade__record *r = clade__map_get(&set->by_problem, key_of(op, problem), &at) ? &set->at[at] : NULL;
  while (r && *impl && strcmp(r->impl, impl) != 0) r = clade__records_next(set, r);
  return r;
}

const clade__record *clade__records_same(const clade__records *set, const clade__record *like) {
  const clade__record *r = clade__records_find(set, like->op, like->problem, "");
  while (r && (strcmp(r->impl, like->impl) != 0 || clade__record_alternative(r) != clade__record_alternative(like)))
    r = clade__records_next(set, r);
  return r;
}

const clade__record *clade__records_next(const clade__records *set, const clade__record *r) {
  return r->next ? &set->at[r->next - 1] : NULL;
}

clade_status clade__records_renewed(const clade__records *from, const clade__records *by, clade__records **out) {
  CLADE_TRY(clade__records_new(from ? &from->device : &by->device, out));
  clade_status status = CLADE_OK;
  for (size_t i = 0; from && i < from->n && status == CLADE_OK; i++)
    if (!clade__records_find(by, from->at[i].op, from->at[i].problem, ""))
      status = clade__records_put(*out, &from->at[i]);
  for (size_t i = 0; i < by->n && status == CLADE_OK; i++) status = clade__records_put(*out, &by->at[i]);
  if (status == CLADE_OK) return CLADE_OK;
  clade__records_release(*out);
  *out = NULL;
  return status;
}

/* ---- similarity of devices ---- */
static double ratio(double a, double b, double unknown) {
  return a > 0 && b > 0 ? fabs(log2(a / b)) : a == b ? 0 : unknown;
}

double clade__tuned_distance(const clade__tuned_device *a, const clade__tuned_device *b) {
  if (a->device_class != b->device_class) return INFINITY;
  /* Tile sizes depend on the kind of core, and hardly on the number of cores. */
  return 4 * ratio(a->vector_f32, b->vector_f32, 1) + 4 * ratio(a->fma_units, b->fma_units, 0.5) +
         ratio((double)a->l1, (double)b->l1, 0.5) + ratio((double)a->l2, (double)b->l2, 0.5) +
         0.25 * ratio((double)a->cache, (double)b->cache, 0.5) + 0.25 * ratio(a->compute_units, b->compute_units, 0.5);
}
