/* Sliced variables: initialized like the corresponding part of the whole, preserved by copies, and stored in files
 * as the whole. */
#include "io/checkpoint.h"
#include "io_vars_kit.h"
#include "ir/ir.h"

typedef struct cut {
  const char *name;
  clade_dtype dtype;
  clade_shape shape;
  clade_initial initial;
  int axis;
} cut;

static const cut model[] = {
    {"rows", CLADE_F32, {2, {7, 5}}, {CLADE_INIT_NORMAL, 0, 1}, 0},
    {"middle", CLADE_F32, {3, {3, 6, 4}}, {CLADE_INIT_UNIFORM, -1, 1}, 1},
    {"last", CLADE_F16, {2, {4, 9}}, {CLADE_INIT_NORMAL, 0, 1}, 1},
    {"long", CLADE_F32, {2, {300, 700}}, {CLADE_INIT_NORMAL, 0, 1}, 1},
    {"orthogonal", CLADE_F32, {2, {8, 6}}, {CLADE_INIT_ORTHOGONAL, 1, 0}, 0},
    {"ones", CLADE_I32, {1, {5}}, {CLADE_INIT_FILL, 1, 0}, 0},
    {"whole", CLADE_F32, {1, {5}}, {CLADE_INIT_NORMAL, 0, 1}, -1},
};
enum { PARTS = 2, VARIABLES = CLADE_COUNT(model) };

static int64_t begin_of(const cut *c, int part) { return c->shape.dim[c->axis] * part / PARTS; }

/* Part -1: the whole. */
static clade_vars *vars_of(int part) {
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
  OK(clade_graph_new(&g));
  for (size_t i = 0; i < VARIABLES; i++) {
    const cut *c = &model[i];
    clade_shape shape = c->shape;
    const bool is_part = part >= 0 && c->axis >= 0;
    if (is_part) shape.dim[c->axis] = begin_of(c, part + 1) - begin_of(c, part);
    const clade_val v = clade_parameter(g, c->name, c->dtype, shape, c->initial);
    if (is_part) g->variables.at[i].part = (clade__part){true, c->axis, begin_of(c, part), c->shape};
    if (i == 0) clade_output(g, "y", v);
  }
  OK(clade_compile(g, io_device, &func));
  clade_graph_release(g);
  OK(clade_vars_new(func, 7, &vars));
  clade_func_release(func);
  return vars;
}

static unsigned char *bytes_of(const clade_vars *vars, const char *name, const clade_shape *shape, clade_dtype dtype) {
  size_t bytes;
  OK(clade_type_bytes(&(clade_type){.dtype = dtype, .shape = *shape}, &bytes));
  unsigned char *data = clade__new(bytes, 1);
  assert_non_null(data);
  OK(clade_vars_get(vars, name, data, bytes));
  return data;
}

/* Copies element by element, by position along the axis. */
static void put_part(const cut *c, int part, const unsigned char *from, unsigned char *whole) {
  const int64_t begin = begin_of(c, part), own = begin_of(c, part + 1) - begin;
  int64_t outer = 1, inner = 1;
  size_t element;
  OK(clade__dtype_element(c->dtype, &element));
  for (int i = 0; i < c->axis; i++) outer *= c->shape.dim[i];
  for (int i = c->axis + 1; i < c->shape.rank; i++) inner *= c->shape.dim[i];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < own; k++)
      for (int64_t i = 0; i < inner; i++)
        memcpy(whole + (size_t)((o * c->shape.dim[c->axis] + begin + k) * inner + i) * element,
               from + (size_t)((o * own + k) * inner + i) * element, element);
}

static void join(clade_vars *const *parts, const cut *c, unsigned char *whole) {
  for (int p = 0; p < PARTS; p++) {
    clade_shape shape = c->shape;
    shape.dim[c->axis] = begin_of(c, p + 1) - begin_of(c, p);
    unsigned char *part = bytes_of(parts[p], c->name, &shape, c->dtype);
    put_part(c, p, part, whole);
    clade__free(part);
  }
}

static void test_initial(void **state) {
  clade_vars *whole = vars_of(-1), *parts[PARTS] = {vars_of(0), vars_of(1)};
  (void)state;
  for (size_t i = 0; i < VARIABLES; i++) {
    const cut *c = &model[i];
    size_t bytes;
    OK(clade_type_bytes(&(clade_type){.dtype = c->dtype, .shape = c->shape}, &bytes));
    unsigned char *want = bytes_of(whole, c->name, &c->shape, c->dtype), *have = clade__new(bytes, 1);
    assert_non_null(have);
    if (c->axis >= 0)
      join(parts, c, have);
    else
      OK(clade_vars_get(parts[1], c->name, have, bytes));
    if (memcmp(want, have, bytes) != 0) fail_msg("parts of %s are not those of the whole", c->name);
    clade__free(want);
    clade__free(have);
  }
  clade_vars_release(whole);
  for (int p = 0; p < PARTS; p++) clade_vars_release(parts[p]);
}

static void expect_part(const clade_vars *vars, const char *name, bool is_part, int axis, int64_t begin) {
  clade_part part = {.size = sizeof part};
  OK(clade_vars_part(vars, name, &part));
  assert_int_equal(part.is_part, is_part);
  assert_int_equal(part.axis, axis);
  assert_int_equal(part.begin, begin);
}

static void test_told(void **state) {
  clade_part part = {.size = sizeof part}, small = {.size = 4};
  clade_vars *vars = vars_of(1), *copy;
  (void)state;
  OK(clade_vars_snapshot(vars, &copy));
  expect_part(vars, "middle", true, 1, 3);
  expect_part(copy, "middle", true, 1, 3);
  expect_part(copy, "whole", false, 0, 0);
  OK(clade_vars_part(vars, "rows", &part));
  assert_true(clade_shape_equal(&part.whole, &model[0].shape));
  OK(clade_vars_part(vars, "whole", &part));
  assert_true(clade_shape_equal(&part.whole, &model[VARIABLES - 1].shape));
  REFUSED(NOT_FOUND, clade_vars_part(vars, "none", &part), "\"none\"");
  REFUSED(INVALID, clade_vars_part(vars, "rows", &small), "size is 4");
  REFUSED(INVALID, clade_vars_part(NULL, "rows", &part), "vars is NULL");
  REFUSED(UNSUPPORTED, clade_vars_save(vars, io_path("parts.safetensors")), "is a part");
  clade_vars_release(vars);
  clade_vars_release(copy);
}

/* ---- files ---- */
static clade_status read_parts(void *user, const clade__foreign_var *var, void *data, size_t bytes) {
  (void)bytes;
  for (size_t i = 0; i < VARIABLES; i++)
    if (!strcmp(model[i].name, var->name)) join(user, &model[i], data);
  return CLADE_OK;
}

static clade__foreign foreign_of(clade_vars **parts, clade__foreign_var *room) {
  clade__foreign f = {.at = room, .read = read_parts, .user = parts};
  for (size_t i = 0; i < VARIABLES; i++) {
    if (model[i].axis < 0) continue;
    clade__foreign_var *var = &room[f.n++];
    *var = (clade__foreign_var){.type = {.dtype = model[i].dtype, .shape = model[i].shape}, .parameter = true};
    snprintf(var->name, sizeof var->name, "%s", model[i].name);
  }
  return f;
}

static void expect_same_files(const char *a, const char *b) {
  clade__bytes one, two;
  OK(clade__file_read(io_path(a), UINT64_MAX, &one));
  OK(clade__file_read(io_path(b), UINT64_MAX, &two));
  assert_int_equal(one.n, two.n);
  assert_memory_equal(one.data, two.data, one.n);
  clade__free(one.data);
  clade__free(two.data);
}

static void save(const char *name, const clade_vars *vars, const clade__foreign *foreign) {
  clade_checkpoint_dir *dir;
  clade_checkpoint_opt opt = {.size = sizeof opt, .text = "{}"};
  OK(clade_checkpoint_dir_open(io_path(name), &dir));
  OK(clade__checkpoint_save(dir, vars, foreign, 3, &opt));
  clade_checkpoint_dir_close(dir);
}

static void test_files(void **state) {
  clade_vars *whole = vars_of(-1), *parts[PARTS] = {vars_of(0), vars_of(1)};
  clade__foreign_var room[VARIABLES];
  clade__foreign foreign = foreign_of(parts, room);
  char one[65], two[65];
  clade_checkpoint *c;
  (void)state;
  save("one", whole, NULL);
  save("two", parts[0], &foreign);
  expect_same_files("one/step-0000000003.safetensors", "two/step-0000000003.safetensors");
  OK(clade_vars_sha256(whole, one));
  OK(clade__vars_hash(parts[0], &foreign, two));
  assert_string_equal(one, two);
  OK(clade_checkpoint_open(io_path("one"), CLADE_CHECKPOINT_LATEST, &c));
  OK(clade__checkpoint_apply(c, parts[0], &foreign));
  REFUSED(BAD_SHAPE, clade_checkpoint_apply(c, parts[0]), "of another type");
  foreign.n--;
  REFUSED(NOT_FOUND, clade__checkpoint_apply(c, parts[0], &foreign), "unexpected: ones");
  clade_checkpoint_free(c);
  clade_vars_release(whole);
  for (int p = 0; p < PARTS; p++) clade_vars_release(parts[p]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_initial),
      cmocka_unit_test(test_told),
      cmocka_unit_test(test_files),
  };
  return cmocka_run_group_tests(tests, io_device_set_up, io_device_tear_down);
}
