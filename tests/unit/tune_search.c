/* The tuner end to end, on an op whose space has a wrong, a slow and a good configuration: measurements are stored,
 * used by later compilations, overridden by pins, and repeated when they become invalid. Over 400 lines: all cases
 * use the op and its space at its top. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <clade/clade.h>

#include "program/store.h"
#include "program/tuning.h"
#include "tune/internal.h"

/* y = 2 x, adding and subtracting something `extra` times, so that the last bits identify the configuration. */
static const char source[] =
    "#ifdef WANT_acme_double\n"
    "KERNEL(acme_double)(ARG(const float, x), ARG(float, y), const index_t n) {\n"
    "  USE(const float, x);\n"
    "  USE(float, y);\n"
    "  const index_t i = (index_t)get_global_id(0);\n"
    "  if (i >= n) return;\n"
    "  float r = x[i];\n"
    "  for (int k = 0; k < EXTRA; k++) r = r * 1.0009765625f + 0.0001f * (float)(k & 1);\n"
    "  for (int k = 0; k < EXTRA; k++) r = (r - 0.0001f * (float)(k & 1 ^ 1)) / 1.0009765625f;\n"
    "  y[i] = x[i] * 2 + (r - x[i]) * 1e-6f;\n"
    "  if (WRONG && i >= n / 32 * 32) y[i] = x[i];\n"
    "}\n"
    "#endif\n";

static clade_status infer(clade_node *n) {
  n->out[0] = n->in[0];
  return CLADE_OK;
}

static const char *const params[] = {"extra", "wrong", NULL};
static void defaults(const clade_query *q, int32_t *config) {
  (void)q;
  config[0] = 60, config[1] = 0;
}
static int listed = 3;
static bool configs(const clade_query *q, int i, int32_t *config) {
  static const int32_t all[][2] = {{0, 1}, {240, 0}, {1, 0}};
  (void)q;
  if (i >= listed) return false;
  memcpy(config, all[i], sizeof all[i]);
  return true;
}
static const clade_space space = {sizeof space, params, defaults, configs};

static clade_status emit_with(clade_emit *e, const clade_query *q, int extra, int wrong) {
  clade_kernel_step *s = clade_emit_kernel(e, "acme_double");
  int64_t n = 1;
  for (int i = 0; i < q->node->in[0].shape.rank; i++) n *= q->node->in[0].shape.dim[i];
  clade_emit_define(s, "EXTRA", extra);
  clade_emit_define(s, "WRONG", wrong);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  clade_emit_range(s, 1, &(size_t){(size_t)n}, &(size_t){32});
  return CLADE_OK;
}
static clade_status emit(clade_emit *e, const clade_query *q) { return emit_with(e, q, q->config[0], q->config[1]); }
static clade_status emit_ref(clade_emit *e, const clade_query *q) { return emit_with(e, q, 15, 0); }
static clade_status emit_slow(clade_emit *e, const clade_query *q) { return emit_with(e, q, 120, 0); }
static double cheap(const clade_query *q) {
  (void)q;
  return 1e-3;
}
static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "vec", .cost = cheap, .emit = emit, .space = &space),
    CLADE_IMPL(.name = "ref", .emit = emit_ref),
    NULL,
};
static const clade_op op = {.size = sizeof(clade_op),
                            .name = "acme.double",
                            .min_in = 1,
                            .max_in = 1,
                            .n_out = 1,
                            .infer = infer,
                            .impls = impls,
                            .source = source};

/* The same with an implementation that exceeds the op's error bound and is never chosen by cost. */
static clade_status emit_rough(clade_emit *e, const clade_query *q) { return emit_with(e, q, 0, 0); }
static clade_status emit_plain(clade_emit *e, const clade_query *q) { return emit_with(e, q, 60, 0); }
static double never(const clade_query *q) {
  (void)q;
  return 1e8;
}
static const clade_impl *const with_loose[] = {
    CLADE_IMPL(.name = "rough", .cost = never, .emit = emit_rough, .loose = true),
    CLADE_IMPL(.name = "plain", .cost = cheap, .emit = emit_plain),
    CLADE_IMPL(.name = "ref", .emit = emit_slow),
    NULL,
};
static const clade_op loose_op = {.size = sizeof(clade_op),
                                  .name = "acme.loose",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .n_out = 1,
                                  .infer = infer,
                                  .impls = with_loose,
                                  .source = source};
static const clade_op *tuned; /* one of the two */

/* ---- helpers ---- */
enum { N = 1 << 16 }; /* divisible by 32: the wrong configuration is correct for this size */
static char root[64];
static clade_device *device;
static char words[4096];

static void remember(void *user, clade_log_level level, const char *message) {
  (void)user, (void)level;
  size_t used = strlen(words);
  snprintf(words + used, sizeof words - used, "%s\n", message);
}

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-tune-XXXXXX");
  if (!mkdtemp(root) || setenv("CLADE_CACHE_DIR", root, 1)) return -1;
  words[0] = '\0';
  listed = 3;
  tuned = &op;
  clade_log_set(remember, NULL, CLADE_LOG_WARNING);
  return clade_device_find(NULL, &device) == CLADE_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  char command[128];
  clade_device_release(device);
  clade_log_set(NULL, NULL, 0);
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

static clade_func *compiled(const char *choices) {
  clade_graph *g;
  clade_func *func;
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N));
  clade_output(g, "y", clade_node_add(g, tuned, "double", NULL, 1, &x, NULL));
  assert_int_equal(clade_compile(g, device, &func, .choices = choices), CLADE_OK);
  clade_graph_release(g);
  return func;
}

static clade__hash bits(clade_func *func) {
  static float x[N], y[N];
  clade_run *run;
  clade_ticket ticket;
  for (int i = 0; i < N; i++) x[i] = (float)(i % 97) / 31;
  assert_int_equal(clade_run_new(func, NULL, &run), CLADE_OK);
  assert_int_equal(clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket), CLADE_OK);
  assert_int_equal(clade_read(run, ticket, "y", y, sizeof y), CLADE_OK);
  clade_run_free(run);
  for (int i = 0; i < N; i++) assert_true(y[i] > 1.999f * x[i] - 1e-3f && y[i] < 2.001f * x[i] + 1e-3f);
  return clade__hash_bytes(y, sizeof y);
}

static const char *why(const clade_func *func) {
  clade_impl_info info = {.size = sizeof info};
  assert_int_equal(clade_func_impl(func, 0, &info), CLADE_OK);
  return info.why;
}

typedef struct seen {
  int calls, whole, known, wrong, candidates;
  char before[64], after[64];
  double before_seconds, after_seconds;
} seen;
static void observe(void *user, const clade_tune_row *row) {
  seen *s = user;
  if (!strcmp(row->op, "func")) {
    s->whole++;
    assert_true(row->before_seconds > 0 && row->after_seconds <= row->before_seconds);
    return;
  }
  s->calls++;
  s->known += row->known;
  s->wrong = row->wrong;
  s->candidates = row->candidates;
  s->before_seconds = row->before_seconds;
  s->after_seconds = row->after_seconds;
  snprintf(s->before, sizeof s->before, "%s", row->before);
  snprintf(s->after, sizeof s->after, "%s", row->after);
  assert_int_equal(row->done, row->total);
  assert_string_equal(row->problem, "f32[65536] -> f32");
}
static seen tune_as(clade_func *func, clade_tune_mode mode, bool again, bool loose) {
  seen s = {0};
  assert_int_equal(
      clade_tune(func, mode, .seconds = 600, .again = again, .loose = loose, .observe = observe, .observe_user = &s),
      CLADE_OK);
  assert_int_equal(s.calls, 1);
  return s;
}
static seen tune(clade_func *func, bool again) { return tune_as(func, CLADE_TUNE_FULL, again, false); }

/* The fastest record. */
static const clade__record *recorded(clade__tuning **tuning) {
  const clade__record *best = NULL;
  assert_int_equal(clade__tuning_get(device, tuning), CLADE_OK);
  for (int k = 0; k < (*tuning)->n && !best; k++) {
    const clade__records *set = (*tuning)->layer[k];
    const clade__record *r = clade__records_find(set, tuned->name, "f32[65536] -> f32", "");
    for (; r; r = clade__records_next(set, r))
      if (!best || r->seconds < best->seconds) best = r;
  }
  return best;
}

/* ---- guarantees ---- */
static void the_wrong_row_is_refused_and_the_slow_one_not_taken(void **state) {
  (void)state;
  clade__tuning *tuning;
  clade_func *before = compiled(NULL);
  assert_string_equal(why(before), "cheapest");
  seen s = tune(before, false);
  assert_string_equal(s.before, "vec extra=60 wrong=0");
  assert_string_equal(s.after, "vec extra=1 wrong=0");
  assert_int_equal(s.wrong, 1);
  assert_int_equal(s.whole, 1);
  assert_int_equal(s.candidates, 5); /* the four configurations and ref */
  assert_true(s.after_seconds > 0 && s.after_seconds < s.before_seconds);
  assert_non_null(strstr(words, "vec extra=0 wrong=1 gives a wrong answer on a shape with tails"));
  const clade__record *r = recorded(&tuning);
  assert_non_null(r);
  assert_true(r->full && r->seconds > 0 && r->default_seconds > r->seconds);
  clade__tuning_release(tuning);

  clade_func *after = compiled(NULL);
  char *text;
  assert_string_equal(why(after), "measured");
  assert_int_equal(clade_func_explain(after, &text), CLADE_OK);
  assert_non_null(strstr(text, "(measured"));
  clade_text_free(text);
  assert_false(clade__hash_equal(bits(before), bits(after)));
  s = tune(after, false); /* known now */
  assert_int_equal(s.known, 1);
  assert_int_equal(s.candidates, 0);
  clade_func_release(before);
  clade_func_release(after);
}

static void pins_hold_whatever_is_tuned(void **state) {
  (void)state;
  char *choices;
  clade_func *func = compiled(NULL);
  clade__hash first = bits(func);
  assert_int_equal(clade_func_choices(func, &choices), CLADE_OK);
  tune(func, false);
  clade_func *pinned = compiled(choices), *free_ = compiled(NULL);
  assert_string_equal(why(pinned), "pinned");
  assert_true(clade__hash_equal(bits(pinned), first));
  assert_false(clade__hash_equal(bits(free_), first));
  tune(pinned, true); /* again, with the pins applied */
  clade_func *still = compiled(choices), *same = compiled(NULL);
  assert_true(clade__hash_equal(bits(still), first));
  assert_string_equal(why(same), "measured");
  clade_func *const all[] = {func, pinned, free_, still, same};
  for (size_t i = 0; i < CLADE_COUNT(all); i++) clade_func_release(all[i]);

  /* an invalid choice: chosen anew, with a warning */
  clade_graph *g;
  char *edited = strstr(choices, "\"extra\": 60");
  assert_non_null(edited);
  memcpy(edited, "\"extra\": 61", strlen("\"extra\": 61"));
  words[0] = '\0';
  func = compiled(choices);
  assert_string_equal(why(func), "measured");
  assert_non_null(strstr(words, "does not hold"));
  assert_null(strstr(words, "of no step"));
  clade_func_release(func);

  /* nor one for a problem that does not occur */
  edited = strstr(choices, "f32[65536]");
  assert_non_null(edited);
  memcpy(edited, "f32[65537]", strlen("f32[65537]"));
  words[0] = '\0';
  func = compiled(choices);
  assert_non_null(strstr(words, "1 of 1 choices that were kept are of no step of this func"));
  clade_func_release(func);
  clade_text_free(choices);
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_output(g, "y", clade_fill(g, CLADE_F32, CLADE_SHAPE(2), 1));
  assert_int_equal(clade_compile(g, device, &func, .choices = "{\"clade_tuning\": 2}"), CLADE_CORRUPT);
  assert_null(func);
  clade_graph_release(g);
}

static void bad_rows_are_measured_again(void **state) {
  (void)state;
  clade__tuning *tuning;
  clade_func *func = compiled(NULL);
  tune(func, false);
  listed = 2; /* a version whose space lacks the winner */
  clade_func *later = compiled(NULL);
  assert_string_equal(why(later), "cheapest");
  seen s = tune(later, false);
  assert_int_equal(s.known, 0);
  const clade__record *r = recorded(&tuning);
  assert_non_null(r);
  assert_string_equal(r->impl, "ref");
  clade__tuning_release(tuning);
  clade_func_release(func);
  clade_func_release(later);
}

static void records_travel(void **state) {
  (void)state;
  char path[128], other[128];
  int count = 0;
  clade_func *func = compiled(NULL);
  snprintf(path, sizeof path, "%s/shipped.json", root);
  assert_int_equal(clade_tune_export(device, path), CLADE_NOT_FOUND);
  tune(func, false);
  assert_int_equal(clade_tune_export(device, path), CLADE_OK);
  clade_func_release(func);
  clade_device_release(device);

  snprintf(other, sizeof other, "%s/elsewhere", root); /* a machine that has only the file */
  assert_int_equal(mkdir(other, 0700), 0);
  setenv("CLADE_CACHE_DIR", other, 1);
  setenv("CLADE_TUNING", path, 1);
  assert_int_equal(clade_device_find(NULL, &device), CLADE_OK);
  func = compiled(NULL);
  assert_string_equal(why(func), "measured");
  clade_func_release(func);
  unsetenv("CLADE_TUNING");
  assert_int_equal(clade_tune_merge(path, &count), CLADE_OK);
  assert_int_equal(count, 2); /* of vec and of ref */
  assert_int_equal(clade_tune_merge(path, &count), CLADE_OK);
  assert_int_equal(count, 0); /* not faster than itself */
  func = compiled(NULL);
  assert_string_equal(why(func), "measured");
  clade_func_release(func);
  setenv("CLADE_TUNING", "off", 1);
  clade_device_release(device);
  assert_int_equal(clade_device_find(NULL, &device), CLADE_OK);
  func = compiled(NULL);
  assert_string_equal(why(func), "cheapest");
  clade_func_release(func);
  unsetenv("CLADE_TUNING");
}

static const char *taken(const clade_func *func) {
  clade_impl_info info = {.size = sizeof info};
  assert_int_equal(clade_func_impl(func, 0, &info), CLADE_OK);
  return info.impl;
}

/* Implementations beyond the op's error bound are measured and used only if permitted. */
static void what_is_loose_is_taken_where_it_is_allowed(void **state) {
  (void)state;
  static const struct {
    clade_tune_mode mode;
    bool loose;
    const char *impl;
  } steps[] = {{CLADE_TUNE_FULL, false, "plain"},
               {CLADE_TUNE_FULL, true, "rough"},
               {CLADE_TUNE_FULL, false, "plain"},
               {CLADE_TUNE_QUICK, true, "rough"},
               {CLADE_TUNE_QUICK, false, "plain"}};
  tuned = &loose_op;
  for (size_t i = 0; i < CLADE_COUNT(steps); i++) {
    clade__tuning *tuning;
    clade_func *func = compiled(NULL);
    seen s = tune_as(func, steps[i].mode, true, steps[i].loose);
    assert_memory_equal(s.after, steps[i].impl, strlen(steps[i].impl));
    const clade__record *r = recorded(&tuning);
    assert_non_null(r);
    assert_string_equal(r->impl, steps[i].impl);
    clade__tuning_release(tuning);
    clade_func_release(func);
    func = compiled(NULL);
    assert_string_equal(why(func), "measured");
    assert_string_equal(taken(func), steps[i].impl);
    clade_func_release(func);
  }
}

static void off_and_wrong_arguments(void **state) {
  (void)state;
  clade__tuning *tuning;
  clade_func *func = compiled(NULL);
  assert_int_equal(clade_tune(func, CLADE_TUNE_OFF), CLADE_OK);
  assert_null(recorded(&tuning));
  clade__tuning_release(tuning);
  assert_int_equal(clade_tune(NULL, CLADE_TUNE_QUICK), CLADE_INVALID);
  assert_int_equal(clade_tune(func, (clade_tune_mode)7), CLADE_INVALID);
  assert_non_null(strstr(clade_last_error(), "7"));
  assert_int_equal(clade_tune(func, CLADE_TUNE_QUICK, .seconds = -1), CLADE_INVALID);
  assert_int_equal(clade_tune_export(NULL, NULL), CLADE_INVALID);
  assert_int_equal(clade_tune_merge("/nowhere/at/all", NULL), CLADE_NOT_FOUND);
  clade_func_release(func);
}

/* ---- time budget ---- */
static uint64_t compiled_kernels(void) {
  clade__store_stats stats;
  assert_int_equal(clade__store_get_stats(device, &stats), CLADE_OK);
  return stats.compiled;
}

static clade__records *fast_row(void) {
  clade__tuned_device describes;
  clade__records *set;
  const clade__record r = {.op = "acme.double",
                           .problem = "f32[65536] -> f32",
                           .impl = "vec",
                           .n_params = 2,
                           .param = {"extra", "wrong"},
                           .value = {1, 0},
                           .seconds = 1e-6};
  clade__tuned_describe(device, &describes);
  assert_int_equal(clade__records_new(&describes, &set), CLADE_OK);
  assert_int_equal(clade__records_put(set, &r), CLADE_OK);
  return set;
}

static double judged(clade_func *func, clade__records *fresh, double left, double most) {
  clade__clock clock = {clade__now() + left, most};
  clade_tune_row row = {.size = sizeof row};
  assert_int_equal(clade__whole_judge(func, fresh, &clock, &row), CLADE_OK);
  return row.before_seconds;
}

static void the_whole_is_not_compiled_without_time(void **state) {
  (void)state;
  clade_func *func = compiled(NULL);
  clade__records *fresh = fast_row();
  uint64_t before = compiled_kernels();
  assert_true(judged(func, fresh, -1, 0) == 0);
  assert_true(judged(func, fresh, 1000, 1500) == 0); /* a kernel may exceed the remaining time */
  assert_int_equal(compiled_kernels(), before);
  assert_true(judged(func, fresh, 1000, 1) > 0);
  assert_true(compiled_kernels() > before);
  clade__records_release(fresh);
  clade_func_release(func);
}

static clade__found searched(double left, double most, double *learned) {
  const int32_t config[CLADE_MAX_PARAMS] = {60, 0};
  char text[] = "f32[65536] -> f32";
  const clade__problem p = {.device = device,
                            .op = &op,
                            .n_in = 1,
                            .n_out = 1,
                            .in = {{.dtype = CLADE_F32, .shape = CLADE_SHAPE(N)}},
                            .config = config,
                            .text = text,
                            .nodes = 1};
  clade__found found;
  clade__clock clock = {clade__now() + left, most};
  assert_int_equal(clade__search(&p, &(clade_tune_opt){.mode = CLADE_TUNE_QUICK}, clock.deadline, &clock, &found),
                   CLADE_OK);
  *learned = clock.most;
  return found;
}

static void no_candidate_is_compiled_without_time(void **state) {
  (void)state;
  double most;
  clade__found found = searched(-1, 0, &most);
  assert_true(!found.n_best && !found.candidates && !found.complete);
  assert_true(most > 0 && most < 600); /* trusted ones */
  found = searched(1000, 1500, &most); /* a kernel may exceed the remaining time */
  assert_true(!found.n_best && !found.candidates && !found.complete);
  found = searched(1000, 0, &most);
  assert_int_equal(found.n_best, 1); /* ref has no cost estimate and is only tried without time pressure */
  assert_int_equal(found.candidates, 4);
  assert_true(found.complete && found.before.median > 0);
}

/* ---- FMA units ---- */
/* Latencies of four and five cycles, one and two units, a tenth of noise. */
static void units_are_told_whatever_the_latency(void **state) {
  (void)state;
  static const double noise[] = {0.9, 0.95, 0.98, 1, 1.02, 1.05, 1.1};
  for (size_t i = 0; i < CLADE_COUNT(noise); i++)
    for (uint32_t latency = 4; latency <= 5; latency++)
      for (uint32_t units = 1; units <= 2; units++)
        assert_int_equal(clade__core_units(latency * units * noise[i]), units);
  assert_int_equal(clade__core_units(12), 2); /* three units: limited by the number of chains */
  static const double nothing[] = {0, 1, 2, 2.5, 16, 1e9, -4, NAN};
  for (size_t i = 0; i < CLADE_COUNT(nothing); i++) assert_int_equal(clade__core_units(nothing[i]), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_wrong_row_is_refused_and_the_slow_one_not_taken, set_up, tear_down),
      cmocka_unit_test_setup_teardown(pins_hold_whatever_is_tuned, set_up, tear_down),
      cmocka_unit_test_setup_teardown(bad_rows_are_measured_again, set_up, tear_down),
      cmocka_unit_test_setup_teardown(records_travel, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_loose_is_taken_where_it_is_allowed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(off_and_wrong_arguments, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_whole_is_not_compiled_without_time, set_up, tear_down),
      cmocka_unit_test_setup_teardown(no_candidate_is_compiled_without_time, set_up, tear_down),
      cmocka_unit_test(units_are_told_whatever_the_latency),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
