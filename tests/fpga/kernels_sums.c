/* Reductions, the optimizers' update, and i64 arithmetic against their definitions. */
#include "kernels.h"

#include <math.h>

enum { MOST = 20000, CASES = 20, RULES = 7, TENSORS = 3 };

static double take(int kind, double s, double v) {
  if (kind == 0) return s + v;
  return kind == 2 ? fmax(s, v) : fmin(s, v);
}

static void run_reduce(int kind) {
  static double x[MOST], y[MOST];
  cl_int8 size, stride = {{0}};
  int all = 1, outputs = 1;
  for (int i = 7; i >= 0; i--) { /* alternating kept and reduced axes, innermost first */
    int axis = i & 1 ? 4 + i / 2 : i / 2;
    size.s[axis] = draw(15) == 0 ? 0 : 1 + (int)draw(i < 4 ? 2 : 5);
    stride.s[axis] = all;
    all *= size.s[axis];
    if (axis < 4) outputs *= size.s[axis];
  }
  int n = size.s[4] * size.s[5] * size.s[6] * size.s[7];
  cl_int n_out = outputs, which = kind;
  cl_float count = kind == 0 && draw(2) ? (cl_float)n : 1;
  buffer bx = buffer_floats((size_t)all, -2, 2, x), by = buffer_new((size_t)outputs, 4, NULL);
  kernels_launch("reduce", (const void *const[]){&bx, &by, &n_out, &size, &stride, &which, &count});
  buffer_doubles(&by, y);
  for (int o = 0; o < outputs; o++) {
    int rest = o, from = 0;
    double s = kind == 0 ? 0 : kind == 2 ? -INFINITY : INFINITY, absolute = 0;
    for (int a = 3; a >= 0; a--) from += rest % size.s[a] * stride.s[a], rest /= size.s[a];
    for (int i = 0; i < n; i++) {
      int at = from;
      rest = i;
      for (int a = 7; a >= 4; a--) at += rest % size.s[a] * stride.s[a], rest /= size.s[a];
      s = take(kind, s, x[at]);
      absolute += fabs(x[at]);
    }
    near("reduce", (size_t)o, y[o], s / (double)count, kind ? 0 : 0x1p-22 * absolute);
  }
  buffer_free(&bx);
  buffer_free(&by);
}

/* Result of an update rule on (a, b, c) with gradient d. */
typedef struct state {
  double a, b, c;
} state;
static state change(int rule, const float *k, double lr, double t, double d, state s) {
  double p = (double)k[3], q = (double)k[4], r = (double)k[5];
  double x = s.a - lr * (double)k[2] * s.a, w = rule <= 4 ? d + (double)k[1] * s.a : d;
  switch (rule) {
  case 0: return (state){x - lr * w, 0, 0};
  case 1: s.b = p * s.b + w; return (state){x - lr * (r > 0 ? w + p * s.b : s.b), s.b, 0};
  case 2:
    s.b += (w - s.b) * p;
    s.c += (w * w - s.c) * q;
    x -= lr * (s.b / (1 - pow(1 - p, t))) / (sqrt(s.c / (1 - pow(1 - q, t))) + r);
    return (state){x, s.b, s.c};
  case 3: s.b += (w * w - s.b) * q; return (state){x - lr * w / (sqrt(s.b) + r), s.b, 0};
  case 4:
    s.b += (w * w - s.b) * q;
    s.c = p * s.c + w / (sqrt(s.b) + r);
    return (state){x - lr * s.c, s.b, s.c};
  case 5: return (state){t <= 1 ? w : s.a + (w - s.a) * p, 0, 0};
  default: return (state){t <= 1 ? w : s.a + w, 0, 0};
  }
}

static void run_update(int rule, bool in_place) {
  static double g[MOST], old[TENSORS][MOST], new[TENSORS][MOST], scalar[3];
  static const int states[RULES] = {1, 2, 3, 2, 3, 1, 1};
  cl_int n = (cl_int)draw(100), which = rule;
  int64_t t = 1 + draw(3);
  cl_float8 k = {{(cl_float)(draw(2) ? INFINITY : 0.5), (cl_float)(draw(2) ? 0 : 0.1), (cl_float)(draw(2) ? 0 : 0.1),
                  0.1f, 0.2f, (cl_float)(rule == 1 ? draw(2) : 1e-3)}};
  k.s[6] = (cl_float)log1p(-(double)k.s[3]);
  k.s[7] = (cl_float)log1p(-(double)k.s[4]);
  buffer bs[3], from[TENSORS], to[TENSORS], bt = buffer_new(1, 8, &t), bg = buffer_floats((size_t)n, -2, 2, g);
  for (int i = 0; i < 3; i++) bs[i] = buffer_floats(1, 0.2, 1, &scalar[i]);
  for (int i = 0; i < TENSORS; i++) {
    from[i] = buffer_floats((size_t)n, i == 0 ? -2 : 0.1, 2, old[i]);
    to[i] = in_place || i >= states[rule] ? from[i] : buffer_new((size_t)n, 4, NULL);
  }
  kernels_launch("update", (const void *const[]){&bs[0], &bt, &bs[1], &bs[2], &bg, &from[0], &to[0], &from[1], &to[1],
                                                 &from[2], &to[2], &n, &which, &k});
  for (int i = 0; i < TENSORS; i++) buffer_doubles(&to[i], new[i]);
  for (int i = 0; i < n; i++) {
    double clip = (double)k.s[0], d = fmax(fmin(g[i] * scalar[1], clip), -clip) * scalar[2];
    state want = change(rule, k.s, scalar[0], (double)t, d, (state){old[0][i], old[1][i], old[2][i]});
    near("update: a", (size_t)i, new[0][i], want.a, 1e-5);
    near("update: b", (size_t)i, new[1][i], states[rule] > 1 ? want.b : old[1][i], 1e-5);
    near("update: c", (size_t)i, new[2][i], states[rule] > 2 ? want.c : old[2][i], 1e-5);
  }
  for (int i = 0; i < TENSORS; i++) {
    if (to[i].mem != from[i].mem) buffer_free(&to[i]);
    buffer_free(&from[i]);
    buffer_free(&bs[i]);
  }
  buffer_free(&bt);
  buffer_free(&bg);
}

static void run_i64(int function) {
  int64_t a[8], b[8], y[8];
  cl_int n = 8, a_step = (cl_int)draw(2), b_step = (cl_int)draw(2), which = function;
  for (int i = 0; i < 8; i++) {
    a[i] = (int64_t)draw(1u << 31) << draw(16);
    b[i] = (int64_t)draw(1u << 16) - 100;
  }
  buffer ba = buffer_new(8, 8, a), bb = buffer_new(8, 8, b), by = buffer_new(8, 8, NULL);
  kernels_launch("eltwise_i64", (const void *const[]){&ba, &bb, &by, &n, &a_step, &b_step, &which});
  buffer_read(&by, y);
  for (int i = 0; i < 8; i++) {
    int64_t u = a[i * a_step], v = b[i * b_step], want = function == 160 ? u + v : function == 161 ? u - v : u * v;
    REQUIRE(y[i] == want, "eltwise_i64: element %d of function %d", i, function);
  }
  buffer_free(&ba);
  buffer_free(&bb);
  buffer_free(&by);
}

void test_sums(void) {
  for (int i = 0; i < CASES; i++) {
    run_reduce(i % 4 == 1 ? 0 : i % 4);
    run_update(i % RULES, i / RULES & 1);
    run_i64(160 + i % 3);
  }
}
