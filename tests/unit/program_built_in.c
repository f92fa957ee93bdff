/* Built-in tuning records: each must name an existing op, implementation and parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <clade/clade.h>

#include "base/file.h"
#include "pass/pass.h"
#include "program/tuning.h"

static char root[64];
static clade_device *device;
static clade_func *func;

static int set_up(void **state) {
  (void)state;
  strcpy(root, "/tmp/clade-built-in-XXXXXX");
  return !mkdtemp(root) || setenv("CLADE_CACHE_DIR", root, 1) || clade_device_find(NULL, &device) ? -1 : 0;
}
static int tear_down(void **state) {
  (void)state;
  char command[128];
  clade_func_release(func);
  clade_device_release(device);
  snprintf(command, sizeof command, "rm -rf %s", root);
  return system(command);
}

/* ---- valid records ---- */
static bool is_dtype(const char *word, size_t n) {
  bool found = false;
  for (clade_dtype t = CLADE_F32; t <= CLADE_BOOL && !found; t++)
    found = strlen(clade_dtype_name(t)) == n && !memcmp(clade_dtype_name(t), word, n);
  return found;
}

/* name=value, or a dtype with its sizes; after the arrow, dtypes. */
static bool is_problem(const char *text) {
  bool after = false;
  size_t results = 0;
  for (size_t n; *text; text += n + (text[n] == ' ')) {
    n = strcspn(text, " ");
    const char *value = memchr(text, '=', n), *sizes = memchr(text, '[', n);
    bool arrow = n == 2 && !memcmp(text, "->", 2);
    if (arrow ? after : after ? !is_dtype(text, n) : !value && !(sizes && is_dtype(text, (size_t)(sizes - text))))
      return false;
    results += after;
    after |= arrow;
  }
  return results > 0;
}

static const clade_impl *impl_of(const clade__record *r) {
  const clade_op *op = clade__op_find(r->op);
  const clade_impl *const *impl = op ? op->impls : NULL;
  while (impl && *impl && strcmp((*impl)->name, r->impl)) impl++;
  return impl ? *impl : NULL;
}

static bool has_params(const clade__record *r, const clade_space *space) {
  int n = 0;
  for (; space && space->params[n]; n++) {
    int k = 0;
    while (k < r->n_params && strcmp(r->param[k], space->params[n])) k++;
    if (k == r->n_params) return false;
  }
  return n == r->n_params;
}

/* A default configuration needs an implementation with parameters. Records of links and program changes only have a
 * time. */
static const char *record_fault(const clade__record *r) {
  if (!strcmp(r->op, clade__link_op) || !strcmp(r->op, clade__change_op)) return r->seconds > 0 ? NULL : "seconds";
  bool start = !strcmp(r->problem, "*");
  if (!clade__op_find(r->op)) return "op";
  const clade_impl *impl = impl_of(r);
  if (!impl) return "impl";
  if (start && !impl->space) return "start";
  if (!start && !is_problem(r->problem)) return "problem";
  return has_params(r, impl->space) ? NULL : "params";
}

/* Reason why a file cannot be built in, or NULL. */
static const char *fault_of(const char *text) {
  clade__record_sets sets;
  size_t bad;
  const char *fault = NULL;
  if (clade__records_parse(text, strlen(text), &sets, &bad) != CLADE_OK) return "file";
  for (size_t i = 0; i < sets.n && !fault; i++)
    for (size_t k = 0; k < sets.at[i]->n && !fault; k++) fault = record_fault(&sets.at[i]->at[k]);
  clade__record_sets_free(&sets);
  return fault || !bad ? fault : "record";
}

static void the_defaults_are_well_formed(void **state) {
  (void)state;
  assert_null(fault_of(clade__tuning_defaults));
}

#define PARAMS "\"TM\": 8, \"vectors\": 2, \"BK\": 256, \"BM\": 240, \"BN\": 128"
#define ROW(op, problem, impl, params) \
  "{\"op\": \"" op "\", \"problem\": \"" problem "\", \"impl\": \"" impl "\", \"params\": {" params "}}"
#define START   ROW("gemm", "*", "vec", PARAMS ", \"parts\": 1")
#define PROBLEM "trans_b=1 f32[64,400] f32[128,400] -> f32"
static void what_is_built_in_is_looked_at(void **state) {
  (void)state;
  static const struct {
    const char *fault, *records;
  } all[] = {
      {NULL, START},
      {NULL, START ", " ROW("gemm", PROBLEM, "vec", PARAMS ", \"parts\": 1") ", " ROW("gemm", PROBLEM, "vec_bare", "")},
      {NULL, "{\"op\": \"transfer\", \"problem\": \"4096\", \"impl\": \"copy\", \"seconds\": 1}"},
      {"seconds", ROW("transfer", "4096", "copy", "")},
      {"record", START ", 5"},
      {"record", START ", {\"op\": \"gemm\", \"problem\": \"*\"}"},
      {"op", START ", " ROW("gem", "*", "vec", PARAMS ", \"parts\": 1")},
      {"impl", ROW("gemm", "*", "vect", PARAMS ", \"parts\": 1") ", " START},
      {"start", START ", " ROW("gemm", "*", "vec_bare", "")},
      {"params", START ", " ROW("gemm", "*", "vec", PARAMS)},
      {"params", ROW("gemm", PROBLEM, "vec", PARAMS ", \"part\": 1")},
      {"params", ROW("gemm", PROBLEM, "vec", PARAMS ", \"parts\": 1, \"more\": 1")},
      {"params", ROW("gemm", PROBLEM, "vec_bare", "\"parts\": 1")},
      {"problem", ROW("gemm", "**", "vec", PARAMS ", \"parts\": 1")},
      {"problem", ROW("gemm", "f32[64,64] f32[64,64]", "vec", PARAMS ", \"parts\": 1")},
      {"problem", ROW("gemm", "f32[64,64] f32[64,64] ->", "vec", PARAMS ", \"parts\": 1")},
      {"problem", ROW("gemm", "f33[64,64] f32[64,64] -> f32", "vec", PARAMS ", \"parts\": 1")},
      {"problem", ROW("gemm", "f32[64,64] f32[64,64] -> float", "vec", PARAMS ", \"parts\": 1")},
      {"file", START "}"},
  };
  for (size_t i = 0; i < CLADE_COUNT(all); i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"clade_tuning\": 1, \"devices\": [{\"device\": {\"class\": \"cpu\"}, \"records\": [%s]}]}",
             all[i].records);
    const char *fault = fault_of(text);
    if (!fault != !all[i].fault || (fault && strcmp(fault, all[i].fault)))
      fail_msg("%s: %s instead of %s", all[i].records, fault ? fault : "nothing",
               all[i].fault ? all[i].fault : "nothing");
  }
}

/* Exported records can be built in unchanged (docs/tuning.md). */
static void what_is_exported_can_be_built_in(void **state) {
  (void)state;
  clade_graph *g;
  clade__bytes file;
  char path[128];
  snprintf(path, sizeof path, "%s/exported.json", root);
  assert_int_equal(clade_graph_new(&g), CLADE_OK);
  clade_val a = clade_input(g, "a", CLADE_F32, CLADE_SHAPE(20, 16)),
            b = clade_input(g, "b", CLADE_F32, CLADE_SHAPE(16, 8));
  clade_output(g, "y", clade_gemm(g, a, b));
  assert_int_equal(clade_compile(g, device, &func), CLADE_OK);
  assert_int_equal(clade_tune(func, CLADE_TUNE_QUICK, .seconds = 20), CLADE_OK);
  assert_int_equal(clade_tune_export(device, path), CLADE_OK);
  assert_int_equal(clade__file_read(path, CLADE__RECORDS_BYTES, &file), CLADE_OK);
  char *text = calloc(file.n + 1, 1);
  memcpy(text, file.data, file.n);
  assert_non_null(strstr(text, "\"f32[20,16] f32[16,8] -> f32\""));
  assert_null(fault_of(text));
  free(text);
  clade__free(file.data);
  clade_graph_release(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_defaults_are_well_formed),
      cmocka_unit_test(what_is_built_in_is_looked_at),
      cmocka_unit_test_setup_teardown(what_is_exported_can_be_built_in, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
