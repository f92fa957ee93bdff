/* Sparse checkpoints: values are restored, files are smaller, and inconsistent bit masks are refused. */
#include <math.h>

#include "io/checkpoint.h"
#include "io_vars_kit.h"

enum { ROWS = 5, COLUMNS = 7, ELEMENTS = ROWS * COLUMNS };

static const io_var model[] = {{"w", CLADE_F32, {2, {ROWS, COLUMNS}}, true},
                               {"half", CLADE_BF16, {2, {ROWS, COLUMNS}}, true},
                               {"full", CLADE_F32, {1, {ROWS}}, true},
                               {"optimizer.mean:w", CLADE_F32, {2, {ROWS, COLUMNS}}, false},
                               {"optimizer.step", CLADE_I64, {0}, false}};

static clade_vars *sparse(uint64_t seed, int every) {
  clade_vars *vars = io_vars(CLADE_COUNT(model), model, seed);
  uint32_t w[ELEMENTS];
  uint16_t half[ELEMENTS];
  OK(clade_vars_get(vars, "w", w, sizeof w));
  OK(clade_vars_get(vars, "half", half, sizeof half));
  for (int i = 0; i < ELEMENTS; i++) {
    if (i % every == 0) continue;
    w[i] = 0;
    half[i] = 0;
  }
  w[1] = 0x80000000u; /* -0 is kept */
  OK(clade_vars_set(vars, "w", w, sizeof w));
  OK(clade_vars_set(vars, "optimizer.mean:w", w, sizeof w));
  OK(clade_vars_set(vars, "half", half, sizeof half));
  return vars;
}

static int64_t weights_of(const char *name) {
  clade_checkpoint *c;
  OK(clade_checkpoint_open(io_path(name), CLADE_CHECKPOINT_LATEST, &c));
  const int64_t bytes = clade__checkpoint_weights(c);
  clade_checkpoint_free(c);
  return bytes;
}

/* Tensors with few zeros stay dense. */
static void both_ways(void **state) {
  (void)state;
  for (int every = 1; every <= ELEMENTS; every += 2)
    for (int pack = 0; pack < 2; pack++) {
      clade_checkpoint_dir *dir;
      clade_checkpoint *c;
      const char *name = pack ? "packed" : "plain";
      clade_vars *want = sparse(3, every), *have = sparse(4, 2);
      OK(clade_checkpoint_dir_open(io_path(name), &dir));
      OK(clade_checkpoint_save(dir, want, every, "", .pack_zeros = pack));
      clade_checkpoint_dir_close(dir);
      OK(clade_checkpoint_open(io_path(name), CLADE_CHECKPOINT_LATEST, &c));
      OK(clade_checkpoint_apply(c, have));
      assert_true(io_same(have, want));
      clade_checkpoint_free(c);
      clade_vars_release(want);
      clade_vars_release(have);
      const int left = (ELEMENTS + every - 1) / every, bits = (ELEMENTS + 7) / 8, zero = every > 1;
      const int64_t plain = ELEMENTS * 6 + ROWS * 4;
      if (!pack) assert_int_equal(weights_of(name), plain);
      if (pack && every > 1) assert_int_equal(weights_of(name), ROWS * 4 + 2 * bits + 4 * (left + zero) + 2 * left);
      if (pack && every == 1) assert_int_equal(weights_of(name), plain);
    }
}

static void shapes_of_a_graph(void **state) {
  (void)state;
  clade_checkpoint_dir *dir;
  clade_checkpoint *c;
  clade_graph *g;
  clade_type type;
  clade_vars *vars = sparse(1, 4);
  OK(clade_checkpoint_dir_open(io_path("shapes"), &dir));
  OK(clade_checkpoint_save(dir, vars, 1, "", .pack_zeros = true));
  clade_checkpoint_dir_close(dir);
  clade_vars_release(vars);
  OK(clade_checkpoint_open(io_path("shapes"), CLADE_CHECKPOINT_LATEST, &c));
  OK(clade_graph_new(&g));
  OK(clade_checkpoint_shapes(c, g));
  OK(clade_val_type(g, clade_parameter(g, "w", CLADE_F32, CLADE_SHAPE(9, 9), (clade_initial){0}), &type));
  assert_int_equal(type.shape.dim[0] * 100 + type.shape.dim[1], 100 * ROWS + COLUMNS);
  const clade_shape own = CLADE_SHAPE(50, 70);
  OK(clade_val_type(g, clade_variable(g, "optimizer.mean:w", CLADE_F32, own, (clade_initial){0}), &type));
  assert_true(clade_shape_equal(&type.shape, &own)); /* optimizer state has the parameter's length */
  clade_graph_release(g);
  clade_checkpoint_free(c);
}

/* A file with one tensor "w", U8 of n bytes, with this declared type and shape. */
static clade_status parse_as(const char *key, const char *type, const char *dtype, size_t n, const unsigned char *data,
                             clade__tensors *t) {
  clade__bytes file = {0};
  char header[400];
  const int length = snprintf(header, sizeof header,
                              "{\"__metadata__\":{\"clade.%s:w\":\"%s\"},\"w\":{\"dtype\":\"%s\",\"shape\":[%zu],"
                              "\"data_offsets\":[0,%zu]}}",
                              key, type, dtype, n, n);
  file.n = 8 + (size_t)length + n;
  file.data = clade__new(file.n, 1);
  assert_non_null(file.data);
  clade__put_little(file.data, (uint64_t)length, 8);
  memcpy(file.data + 8, header, (size_t)length);
  if (n) memcpy(file.data + 8 + length, data, n);
  return clade__tensors_parse("x.safetensors", &file, t);
}

static clade_status parse(const char *zeros, const char *dtype, size_t n, const unsigned char *data) {
  clade__tensors t;
  CLADE_TRY(parse_as("zeros", zeros, dtype, n, data, &t));
  float have[4];
  assert_int_equal(t.at[0].bytes, sizeof have);
  memcpy(have, t.at[0].data, sizeof have);
  assert_true(have[0] == 0 && have[1] == 1 && have[2] == 0 && have[3] == 2);
  clade__tensors_free(&t);
  return CLADE_OK;
}

static void refusals(void **state) {
  (void)state;
  static const unsigned char data[] = {0x0a, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0, 0},
                             more[] = {0x0e, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
  OK(parse("F32 4", "U8", 9, data));
  OK(parse("F32 2 2", "U8", 9, data));
  REFUSED(CORRUPT, parse("F32 4", "I8", 9, data), "no row of bytes");
  REFUSED(CORRUPT, parse("", "U8", 9, data), "its type and shape are none");
  REFUSED(CORRUPT, parse("F33 4", "U8", 9, data), "its type and shape are none");
  REFUSED(CORRUPT, parse("F32 4 ", "U8", 9, data), "its type and shape are none");
  REFUSED(CORRUPT, parse("F32 -4", "U8", 9, data), "its type and shape are none");
  REFUSED(CORRUPT, parse("F32 1 1 1 1 1 1 1 1 4", "U8", 9, data), "its type and shape are none");
  REFUSED(OVERFLOW, parse("F32 999999999 999999999 999999999", "U8", 9, data), "tensor \"w\"");
  REFUSED(CORRUPT, parse("F32 73", "U8", 9, data), "fewer bits than elements");
  REFUSED(CORRUPT, parse("F32 4", "U8", 8, data), "more bits than elements");
  REFUSED(CORRUPT, parse("F32 4", "U8", 9, more), "more bits than elements");
  REFUSED(CORRUPT, parse("F32 4", "U8", 13, data), "more elements follow");
  REFUSED(CORRUPT, parse("F32 4", "U8", 0, data), "fewer bits than elements");
}

/* Block-quantized elements, stored as bytes. */
static clade_status parse_blocks(const char *type, const char *dtype, size_t n) {
  static const unsigned char data[100];
  clade__tensors t;
  CLADE_TRY(parse_as("blocks", type, dtype, n, data, &t));
  assert_int_equal(t.at[0].dtype, CLADE_Q4_0);
  assert_int_equal(t.at[0].bytes, n);
  assert_int_equal(t.at[0].shape.rank, 2);
  clade__tensors_free(&t);
  return CLADE_OK;
}

static void blocks(void **state) {
  (void)state;
  static const unsigned char data[18];
  clade__tensors t;
  OK(parse_blocks("Q4_0 2 32", "U8", 36));
  OK(parse_blocks("Q4_0 3 11", "U8", 36)); /* the last block is incomplete */
  REFUSED(CORRUPT, parse_blocks("Q4_0 2 32", "I8", 36), "no row of bytes");
  REFUSED(CORRUPT, parse_blocks("Q4_0 2 32 ", "U8", 36), "its type and shape are none");
  REFUSED(CORRUPT, parse_blocks("F32 3 3", "U8", 36), "its type and shape are none");
  REFUSED(CORRUPT, parse_blocks("Q4_0 2 33", "U8", 36), "another number of bytes");
  REFUSED(CORRUPT, parse_blocks("Q8_0 2 32", "U8", 36), "another number of bytes");
  REFUSED(OVERFLOW, parse_blocks("Q4_0 999999999 999999999 999999999", "U8", 36), "tensor \"w\"");
  REFUSED(DTYPE, parse_as("other", "", "Q4_0", 18, data, &t), "nothing is known of the type \"Q4_0\"");
  REFUSED(DTYPE, parse_as("zeros", "Q4_0 32", "U8", 18, data, &t), "no element of it lies by itself");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(both_ways), cmocka_unit_test(shapes_of_a_graph),
                                     cmocka_unit_test(refusals), cmocka_unit_test(blocks)};
  return cmocka_run_group_tests(tests, io_device_set_up, io_device_tear_down);
}
