/* Block-quantized types: bytes in ggml's format, use in files, constants and variables, refusals, and products with
 * such weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <clade/io.h>

#include "plan_kit.h"

enum { BLOCK = 32, Q4 = 18, Q8 = 34 };
static const clade_dtype types[] = {CLADE_Q4_0, CLADE_Q8_0};

static void whole_blocks(void **state) {
  (void)state;
  static const struct {
    int64_t elements;
    size_t blocks;
  } cases[] = {{0, 0}, {1, 1}, {32, 1}, {33, 2}, {64 * 64, 128}};
  size_t bytes;
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    OK(clade_dtype_bytes(CLADE_Q4_0, cases[i].elements, &bytes));
    assert_int_equal(bytes, cases[i].blocks * Q4);
    OK(clade_dtype_bytes(CLADE_Q8_0, cases[i].elements, &bytes));
    assert_int_equal(bytes, cases[i].blocks * Q8);
  }
  OK(clade_type_bytes(&(clade_type){.dtype = CLADE_Q4_0, .shape = CLADE_SHAPE(2, 64)}, &bytes));
  assert_int_equal(bytes, 4 * Q4);
}

/* ---- values ---- */
static uint16_t half_of(float f) {
  uint16_t h;
  OK(clade_convert(CLADE_F16, &h, CLADE_F32, &f, 1));
  return h;
}

static float number(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(*seed >> 8) * 0x1p-23f - 1;
}

/* ggml's quantize_row_q4_0_ref and quantize_row_q8_0_ref, reimplemented. */
static void ggml_q4_0(const float *x, uint8_t *block) {
  float amax = 0, max = 0;
  for (int i = 0; i < BLOCK; i++)
    if (amax < fabsf(x[i])) amax = fabsf(x[i]), max = x[i];
  const float d = max / -8;
  const volatile float id = d < 0 || d > 0 ? 1.0f / d : 0.0f;
  const uint16_t scale = half_of(d);
  memcpy(block, &scale, 2);
  for (int i = 0; i < 16; i++) {
    const volatile float low = x[i] * id, high = x[i + 16] * id;
    block[2 + i] = (uint8_t)(CLADE_MIN(15, (int8_t)(low + 8.5f)) | CLADE_MIN(15, (int8_t)(high + 8.5f)) << 4);
  }
}

static void ggml_q8_0(const float *x, uint8_t *block) {
  float amax = 0;
  for (int i = 0; i < BLOCK; i++) amax = fmaxf(amax, fabsf(x[i]));
  const float d = amax / 127;
  const volatile float id = d > 0 ? 1.0f / d : 0.0f;
  const uint16_t scale = half_of(d);
  memcpy(block, &scale, 2);
  for (int i = 0; i < BLOCK; i++) block[2 + i] = (uint8_t)(int8_t)roundf(x[i] * id);
}

static void as_ggml(void **state) {
  (void)state;
  uint32_t seed = 1;
  float x[BLOCK], back[BLOCK];
  uint8_t have[Q8], want[Q8];
  for (int round = 0; round < 2000; round++) {
    const float size = ldexpf(1, round % 21 - 10);
    for (int i = 0; i < BLOCK; i++) x[i] = number(&seed) * size;
    if (round % 5 == 0) x[3] = -size, x[20] = size; /* equal magnitudes: the first counts */
    ggml_q4_0(x, want);
    OK(clade_convert(CLADE_Q4_0, have, CLADE_F32, x, BLOCK));
    assert_memory_equal(have, want, Q4);
    OK(clade_convert(CLADE_F32, back, CLADE_Q4_0, have, BLOCK));
    float scale;
    OK(clade_convert(CLADE_F32, &scale, CLADE_F16, have, 1));
    for (int i = 0; i < BLOCK; i++)
      assert_true(back[i] == scale * (float)((i < 16 ? have[2 + i] & 15 : have[2 + i - 16] >> 4) - 8));
    ggml_q8_0(x, want);
    OK(clade_convert(CLADE_Q8_0, have, CLADE_F32, x, BLOCK));
    assert_memory_equal(have, want, Q8);
    OK(clade_convert(CLADE_F32, back, CLADE_Q8_0, have, BLOCK));
    OK(clade_convert(CLADE_F32, &scale, CLADE_F16, have, 1));
    for (int i = 0; i < BLOCK; i++) assert_true(back[i] == scale * (float)(int8_t)have[2 + i]);
  }
}

static void edges(void **state) {
  (void)state;
  float x[BLOCK + 1] = {0}, back[BLOCK + 1];
  uint8_t blocks[2 * Q8];
  for (size_t k = 0; k < CLADE_COUNT(types); k++) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f};
    for (size_t i = 0; i < CLADE_COUNT(odd); i++) { /* not finite: this block is NaN, the next is not */
      x[5] = odd[i], x[BLOCK] = 1;
      OK(clade_convert(types[k], blocks, CLADE_F32, x, BLOCK + 1));
      OK(clade_convert(CLADE_F32, back, types[k], blocks, BLOCK + 1));
      for (int j = 0; j < BLOCK; j++) assert_true(isnan(back[j]));
      assert_true(fabsf(back[BLOCK] - 1) < 1e-3f);
    }
    static const float tiny[] = {0, 1e-12f, 1e-40f}; /* scales that underflow f16 */
    for (size_t i = 0; i < CLADE_COUNT(tiny); i++) {
      x[5] = tiny[i];
      OK(clade_convert(types[k], blocks, CLADE_F32, x, BLOCK));
      OK(clade_convert(CLADE_F32, back, types[k], blocks, BLOCK));
      for (int j = 0; j < BLOCK; j++) assert_true(!(back[j] < 0) && !(back[j] > 0));
    }
    const int8_t whole[3] = {-8, 4, 8}; /* conversions from and to integers */
    int8_t again[3];
    OK(clade_convert(types[k], blocks, CLADE_I8, whole, 3));
    OK(clade_convert(CLADE_I8, again, types[k], blocks, 3));
    assert_int_equal(again[0], types[k] == CLADE_Q4_0 ? -8 : -7); /* 8/127 rounds down in f16; truncated toward 0 */
    assert_int_equal(again[1], 4);
  }
}

/* ---- graphs ---- */
static void execute(clade_graph *g, void *device, clade_vars *given, const clade_feed *feeds, int n, void *y,
                    size_t bytes) {
  clade_func *func;
  clade_run *run;
  clade_vars *vars = given;
  clade_ticket ticket;
  OK(clade_compile(g, device, &func));
  if (!vars) OK(clade_vars_new(func, 1, &vars));
  OK(clade_run_new(func, vars, &run));
  OK(clade_execute(run, n, feeds, &ticket));
  OK(clade_read(run, ticket, "y", y, bytes));
  clade_run_free(run);
  if (!given) clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
}

/* A constant that is reshaped, copied and converted back. */
static void constants(void **state) {
  enum { N = 4 * BLOCK };
  float x[N], want[N], y[N];
  uint8_t blocks[4 * Q8], copy[4 * Q8];
  uint32_t seed = 3;
  for (int i = 0; i < N; i++) x[i] = number(&seed);
  for (size_t k = 0; k < CLADE_COUNT(types); k++) {
    const size_t bytes = 4 * (types[k] == CLADE_Q4_0 ? Q4 : Q8);
    OK(clade_convert(types[k], blocks, CLADE_F32, x, N));
    OK(clade_convert(CLADE_F32, want, types[k], blocks, N));
    clade_graph *g = graph_new();
    const clade_val c =
        clade_reshape(g, clade_constant(g, types[k], CLADE_SHAPE(N), blocks), CLADE_SHAPE(2, 2 * BLOCK));
    clade_output(g, "y", clade_relu(g, clade_cast(g, c, CLADE_F32)));
    execute(g, *state, NULL, NULL, 0, y, sizeof y);
    for (int i = 0; i < N; i++) assert_true(y[i] == fmaxf(want[i], 0));
    g = graph_new();
    clade_output(g, "y", clade_reshape(g, clade_input(g, "x", types[k], CLADE_SHAPE(N)), CLADE_SHAPE(4, BLOCK)));
    execute(g, *state, NULL, &(clade_feed){"x", blocks, bytes, NULL}, 1, copy, bytes);
    assert_memory_equal(copy, blocks, bytes);
  }
}

/* Variables of each type: initialized, saved, loaded; f32 in NPY. */
static void files(void **state) {
  enum { N = 3 * BLOCK };
  char path[] = "/tmp/clade-blocks-XXXXXX", name[64];
  uint8_t before[3 * Q8], after[3 * Q8];
  float x[N];
  clade_array array;
  assert_non_null(mkdtemp(path));
  for (size_t k = 0; k < CLADE_COUNT(types); k++) {
    const size_t bytes = 3 * (types[k] == CLADE_Q4_0 ? Q4 : Q8);
    clade_vars *vars[2];
    clade_graph *g = graph_new();
    const clade_val w =
        clade_parameter(g, "w", types[k], CLADE_SHAPE(3, BLOCK), (clade_initial){CLADE_INIT_UNIFORM, -1, 1});
    const clade_val bias =
        clade_parameter(g, "bias", CLADE_F32, CLADE_SHAPE(3), (clade_initial){CLADE_INIT_ZERO, 0, 0});
    clade_output(
        g, "y",
        clade_add(g, clade_gemm(g, clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, BLOCK)), w, .trans_b = true), bias));
    clade_func *func = compiled(g, *state);
    for (int i = 0; i < 2; i++) OK(clade_vars_new(func, (uint64_t)i + 1, &vars[i]));
    OK(clade_vars_get(vars[0], "w", before, bytes));
    snprintf(name, sizeof name, "%s/w.safetensors", path);
    OK(clade_vars_save(vars[0], name));
    OK(clade_vars_load(vars[1], name));
    OK(clade_vars_get(vars[1], "w", after, bytes));
    assert_memory_equal(after, before, bytes);
    remove(name);
    snprintf(name, sizeof name, "%s/w.npy", path);
    OK(clade_npy_write(name, &(clade_array){types[k], CLADE_SHAPE(3, BLOCK), before, bytes, NULL}));
    OK(clade_npy_read(name, &array));
    OK(clade_convert(CLADE_F32, x, types[k], before, N));
    assert_int_equal(array.dtype, CLADE_F32);
    assert_int_equal(array.bytes, sizeof x);
    assert_memory_equal(array.data, x, sizeof x);
    clade_array_free(&array);
    remove(name);
    for (int i = 0; i < 2; i++) clade_vars_release(vars[i]);
    clade_func_release(func);
  }
  remove(path);
}

/* Under mixed precision, products with such weights stay f32. */
static void mixed(void **state) {
  clade_func *func;
  clade_graph *g = graph_new();
  const clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(2, BLOCK));
  const clade_val w =
      clade_parameter(g, "w", CLADE_Q4_0, CLADE_SHAPE(3, BLOCK), (clade_initial){CLADE_INIT_ZERO, 0, 0});
  clade_output(g, "y", clade_gemm(g, clade_relu(g, x), w, .trans_b = true));
  OK(clade_compile(g, *state, &func, .precision = CLADE_BF16));
  clade_func_release(func);
  clade_graph_release(g);
}

/* ---- refusals ---- */
static clade_val transposed(clade_graph *g, clade_val q) { return clade_transpose(g, q, 2, (int[]){1, 0}); }
static clade_val sliced(clade_graph *g, clade_val q) {
  return clade_slice(g, q, CLADE_SHAPE(0, 8), CLADE_SHAPE(4, 32));
}
static clade_val relu(clade_graph *g, clade_val q) { return clade_relu(g, q); }
static clade_val padded(clade_graph *g, clade_val q) {
  return clade_pad(g, q, CLADE_SHAPE(1, 0), CLADE_SHAPE(0, 0), 1);
}
static clade_val filled(clade_graph *g, clade_val q) {
  (void)q;
  return clade_fill(g, CLADE_Q4_0, CLADE_SHAPE(4), 1);
}
static clade_val softmax(clade_graph *g, clade_val q) { return clade_softmax(g, q, 1); }
static clade_val both(clade_graph *g, clade_val q) { return clade_gemm(g, q, q, .trans_b = true); }
static clade_val untransposed(clade_graph *g, clade_val q) {
  return clade_gemm(g, clade_input(g, "a", CLADE_F32, CLADE_SHAPE(2, 4)), q);
}
static clade_val narrow(clade_graph *g, clade_val q) {
  return clade_gemm(g, clade_input(g, "a", CLADE_BF16, CLADE_SHAPE(2, 64)), q, .trans_b = true);
}
static clade_val uneven(clade_graph *g, clade_val q) {
  (void)q;
  return clade_gemm(g, clade_input(g, "a", CLADE_F32, CLADE_SHAPE(2, 48)),
                    clade_input(g, "w", CLADE_Q4_0, CLADE_SHAPE(3, 48)), .trans_b = true);
}

static void refusals(void **state) {
  static const struct {
    clade_val (*build)(clade_graph *g, clade_val q);
    clade_status status;
    const char *words;
  } cases[] = {{transposed, CLADE_DTYPE, "no element of it lies by itself"},
               {sliced, CLADE_DTYPE, "q4_0 stores 32 elements in a block of 18 bytes"},
               {relu, CLADE_DTYPE, "relu: operand 0 is q4_0; expected elements that share no block: cast them"},
               {padded, CLADE_DTYPE, "q4_0 stores 32 elements"},
               {filled, CLADE_DTYPE, "q4_0 stores 32 elements"},
               {softmax, CLADE_DTYPE, "x is q4_0; expected f32, f16 or bf16"},
               {both, CLADE_DTYPE, "a is q4_0; expected f32, f16 or bf16"},
               {untransposed, CLADE_UNSUPPORTED, "whose blocks lie along its rows; expected it whole, with .trans_b"},
               {narrow, CLADE_DTYPE, "a is bf16 and b is q4_0; expected a in f32"},
               {uneven, CLADE_BAD_SHAPE, "q4_0 with rows of 48; expected a multiple of 32"}};
  size_t bytes;
  refused(clade__dtype_element(CLADE_Q4_0, &bytes), CLADE_DTYPE, "q4_0 stores 32 elements in a block of 18 bytes");
  for (size_t i = 0; i < CLADE_COUNT(cases); i++) {
    clade_func *func = NULL;
    clade_graph *g = graph_new();
    clade_output(g, "y", cases[i].build(g, clade_input(g, "q", CLADE_Q4_0, CLADE_SHAPE(4, 64))));
    clade_status status = clade_graph_status(g);
    if (status == CLADE_OK) status = clade_compile(g, *state, &func);
    refused(status, cases[i].status, cases[i].words);
    clade_graph_release(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_blocks), cmocka_unit_test(as_ggml), cmocka_unit_test(edges),
                                     cmocka_unit_test(constants),    cmocka_unit_test(files),   cmocka_unit_test(mixed),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests_name("run_blocks", tests, open_device, close_device);
}
