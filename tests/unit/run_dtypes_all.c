/* Casts between f32 and each narrower float on devices against the host: all 8-bit codes, many 16-bit codes, and
 * values between two of them. On PoCL and rusticl. */
#include "plan_kit.h"

#include <math.h>

enum { MOST = 1 << 10, ROOM = 8 * MOST };
typedef struct values {
  size_t n;
  float f[ROOM];
} values;

static bool is_small(clade_dtype t) {
  return clade__is_float(t) && clade__dtype_row(t)->bits <= 16 && !clade__has_blocks(t);
}

static float number(clade_dtype t, unsigned code) {
  const uint16_t wide = (uint16_t)code;
  float f;
  OK(clade_convert(CLADE_F32, &f, t, &wide, 1)); /* little-endian */
  return f;
}

static void put(values *v, float f) {
  v->f[v->n++] = f;
  v->f[v->n++] = -f;
}

/* Values that no device flushes to zero, midpoints and their neighbors, and values beyond the largest. */
static void make(clade_dtype t, values *v) {
  const clade__dtype *r = clade__dtype_row(t);
  const unsigned codes = 1u << (r->bits - 1), step = CLADE_MAX(codes / MOST, 1u);
  v->n = 0;
  for (unsigned a = r->exponent == 8 ? 1u << r->fraction : 0; a + 1 < codes; a += step) {
    const float low = number(t, a), high = number(t, a + 1), tie = (low + high) / 2;
    if (!isfinite(low) || !isfinite(high)) continue;
    put(v, tie), put(v, nextafterf(tie, 0)), put(v, nextafterf(tie, INFINITY));
  }
  const float most = (float)clade__dtype_most(t);
  put(v, most), put(v, most * (1 + (float)clade__dtype_unit(t))), put(v, INFINITY), put(v, NAN), put(v, 0.0f);
}

static void cast(clade_device *device, const char *prefer, clade_dtype from, const void *x, clade_dtype to, void *y,
                 size_t n) {
  clade_func *func;
  clade_run *run;
  clade_ticket ticket;
  size_t given, wanted;
  clade_graph *g = graph_new();
  OK(clade_dtype_bytes(from, (int64_t)n, &given));
  OK(clade_dtype_bytes(to, (int64_t)n, &wanted));
  clade_output(g, "y", clade_cast(g, clade_input(g, "x", from, CLADE_SHAPE((int64_t)n)), to));
  OK(clade_compile(g, device, &func, .prefer = prefer));
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, CLADE_FEEDS({"x", x, given, NULL}), &ticket));
  OK(clade_read(run, ticket, "y", y, wanted));
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
}

/* Compares as numbers, since NaN has several codes, and by sign. */
static void same(clade_dtype t, const char *what, const values *v, const void *got, const void *want) {
  static float a[ROOM], b[ROOM];
  OK(clade_convert(CLADE_F32, a, t, got, v->n));
  OK(clade_convert(CLADE_F32, b, t, want, v->n));
  for (size_t i = 0; i < v->n; i++)
    if (isnan(b[i]) ? !isnan(a[i]) : a[i] != b[i] || signbit(a[i]) != signbit(b[i]))
      fail_msg("%s, %s of %a: %a, not %a", what, clade_dtype_name(t), (double)v->f[i], (double)a[i], (double)b[i]);
}

static void check(clade_device *device, const char *what, const char *prefer, clade_dtype t) {
  static values v;
  static uint16_t got[ROOM], want[ROOM];
  static float back[ROOM];
  make(t, &v);
  OK(clade_convert(t, want, CLADE_F32, v.f, v.n));
  cast(device, prefer, CLADE_F32, v.f, t, got, v.n);
  same(t, what, &v, got, want);
  const unsigned codes = 1u << CLADE_MIN(clade__dtype_row(t)->bits, 12u);
  for (unsigned code = 0; code < codes; code++) /* little-endian: two bytes per word */
    if (clade__dtype_row(t)->bytes == 1)
      ((uint8_t *)want)[code] = (uint8_t)code;
    else
      want[code] = (uint16_t)(code << 4 | code >> 8);
  v.n = codes;
  OK(clade_convert(CLADE_F32, v.f, t, want, codes));
  cast(device, prefer, t, want, CLADE_F32, back, codes);
  for (unsigned i = 0; clade__dtype_row(t)->exponent == 8 && i < codes; i++) /* may be flushed to zero */
    if (fabsf(v.f[i]) < 0x1p-126f) back[i] = v.f[i];
  same(CLADE_F32, what, &v, back, v.f);
}

static void as_on_the_host(void **state) {
  clade_device *other = NULL;
  OK(clade_device_find("rusticl", &other));
  for (clade_dtype t = CLADE_DTYPE_NONE; (t = clade__dtype_next(t));) {
    if (!is_small(t)) continue;
    check(*state, "vec on PoCL", "eltwise=vec", t);
    check(*state, "ref on PoCL", "eltwise=ref", t);
    check(other, "ref on rusticl", "eltwise=ref", t);
  }
  clade_device_release(other);
}

static clade_val softmax(clade_graph *g, clade_val x) { return clade_softmax(g, x, 1); }
static clade_val reduce(clade_graph *g, clade_val x) { return clade_reduce_max(g, x); }
static clade_val arg_max(clade_graph *g, clade_val x) { return clade_arg_max(g, x, 1); }
static clade_val mixed(clade_graph *g, clade_val x) {
  return clade_gemm(g, x, clade_input(g, "w", CLADE_F32, CLADE_SHAPE(4, 4)));
}

/* A storage type: its products are f32, and unsupported ops report it. */
static void stored(void **state) {
  (void)state;
  clade_type type;
  clade_graph *g = graph_new();
  clade_val x = clade_input(g, "x", CLADE_F8E4M3, CLADE_SHAPE(4, 4)), dx;
  clade_val y = clade_gemm(g, x, x), sum = clade_sum(g, y);
  OK(clade_val_type(g, y, &type));
  assert_int_equal(type.dtype, CLADE_F32);
  OK(clade_val_type(g, clade_relu(g, x), &type));
  assert_int_equal(type.dtype, CLADE_F8E4M3);
  clade_gradients(g, sum, (clade_val){0, 0}, 1, &x, &dx);
  refused(clade_graph_status(g), CLADE_DTYPE, "types for storage have no derivatives");
  clade_graph_release(g);
  clade_val (*const build[])(clade_graph *, clade_val) = {softmax, reduce, arg_max, mixed};
  static const char *const words[] = {"x is f8e4m3; expected f32, f16 or bf16", "x is f8e4m3, a type for storage",
                                      "x is f8e4m3, a type for storage", "a is f8e4m3 and b is f32"};
  for (size_t i = 0; i < CLADE_COUNT(build); i++) {
    g = graph_new();
    build[i](g, clade_input(g, "x", CLADE_F8E4M3, CLADE_SHAPE(4, 4)));
    refused(clade_graph_status(g), CLADE_DTYPE, words[i]);
    clade_graph_release(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_on_the_host), cmocka_unit_test(stored)};
  return cmocka_run_group_tests_name("run_dtypes_all", tests, open_device, close_device);
}
