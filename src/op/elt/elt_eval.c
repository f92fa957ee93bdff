/* Elementwise programs evaluated in double, generated from eltwise.def: the reference for tests and for constant
 * folding. */
#include "op/op.h"

#include <math.h>

typedef int64_t T; /* the type name in integer expressions */
typedef uint64_t U;

#define E(...) (__VA_ARGS__)

static double rsqrt(double a) { return 1 / sqrt(a); }
/* GELU with the argument clamped to 40 in magnitude, since infinity times 0 would be NaN. */
static double gelu(double a) { return 0.5 * fmax(a, -40) * erfc(a * -0.70710678118654752440); }
static double gelu_grad(double a) {
  const double near = fmax(fmin(a, 40), -40);
  return 0.5 * erfc(a * -0.70710678118654752440) + 0.39894228040143267794 * near * exp(-0.5 * near * near);
}

typedef struct operands {
  double a, b, c, p, q;
} operands;

#define OPERANDS                                                 \
  const double a = o->a, b = o->b, c = o->c, p = o->p, q = o->q; \
  (void)a, (void)b, (void)c, (void)p, (void)q

static double real_value(unsigned number, const operands *o) {
  OPERANDS;
#define NO NAN
  switch (number) {
#define ELT(number, name, arity, n_params, kind, real, integer, reference, ...) \
  case number:                                                                  \
    return reference;
#include "op/eltwise.def"
#undef ELT
  default: return NAN;
  }
}

static double derivative(unsigned number, int by, const operands *o) {
  OPERANDS;
  switch (number) {
#define ELT(number, name, arity, n_params, kind, real, integer, reference, by_a, by_b, by_c, ...) \
  case number:                                                                                    \
    return by == 1 ? by_a : by == 2 ? by_b : by_c;
#include "op/eltwise.def"
#undef ELT
  default: return NAN;
  }
#undef NO
}

static T integer_value(unsigned number, T a, T b, T c, T P, T Q) {
  (void)b, (void)c, (void)P, (void)Q;
#define NO 0
  switch (number) {
#define ELT(number, name, arity, n_params, kind, real, integer, ...) \
  case number:                                                       \
    return integer;
#include "op/eltwise.def"
#undef ELT
  default: return 0;
  }
#undef NO
}

/* Reduces an integer to the bits that its type stores. */
static int64_t wrap(clade_dtype t, int64_t v) {
  const clade__dtype *row = clade__dtype_row(t);
  const int above = 64 - (int)row->bits;
  if (row->kind == CLADE__SIGNED) return (int64_t)((uint64_t)v << above) >> above;
  return row->kind == CLADE__UNSIGNED ? (int64_t)((uint64_t)v << above >> above) : v;
}

static int64_t saturate(double v, int64_t low, int64_t high) {
  if (isnan(v)) return 0;
  return v <= (double)low ? low : v >= (double)high ? high : (int64_t)v;
}

/* Rounds a value to its stored type. */
static double rounded(clade_dtype t, double v) {
  float f = (float)v;
  uint64_t bits;
  if (clade__has_blocks(t)) return v;              /* depends on the other elements of the block */
  (void)clade_convert(t, &bits, CLADE_F32, &f, 1); /* cannot fail for one element of a known type */
  (void)clade_convert(CLADE_F32, &f, t, &bits, 1);
  return (double)f;
}

static double cast(clade_dtype from, clade_dtype to, double v) {
  if (from == CLADE_BOOL) v = v != 0;
  if (to == CLADE_BOOL) return v != 0;
  if (clade__is_float(to)) return rounded(to, v);
  if (!clade__is_float(from)) return (double)wrap(to, saturate(v, INT64_MIN, INT64_MAX));
  return (double)saturate(v, clade__dtype_low(to), clade__dtype_high(to));
}

static double insn_value(const clade__elt_insn *insn, clade_dtype of, const double *value) {
  const clade__elt_row *row = clade__elt_by_number(insn->fn);
  operands o = {0, 0, 0, (double)insn->param[0], (double)insn->param[1]};
  double *operand[3] = {&o.a, &o.b, &o.c};
  if (!row) return NAN;
  for (int i = 0; i < row->arity; i++) *operand[i] = value[insn->arg[i]];
  if (insn->wrt) return row->kind == CLADE__ELT_CAST ? 1 : derivative(insn->fn, insn->wrt, &o);
  if (row->kind == CLADE__ELT_CAST) return cast(of, (clade_dtype)insn->dtype, o.a);
  if (clade__is_float(of) || !(row->kind == CLADE__ELT_NUMBER || row->kind == CLADE__ELT_INTEGER))
    return real_value(insn->fn, &o);
  T v[5];
  const double d[5] = {o.a, o.b, o.c, ceil(o.p), floor(o.q)};
  for (int i = 0; i < 5; i++) v[i] = saturate(d[i], INT64_MIN, INT64_MAX);
  return (double)wrap(of, integer_value(insn->fn, v[0], v[1], v[2], v[3], v[4]));
}

double clade__elt_eval(const clade__elt *p, const double *in) {
  double value[CLADE__ELT_INPUTS + CLADE__ELT_INSNS] = {0};
  uint8_t dtype[CLADE__ELT_INPUTS + CLADE__ELT_INSNS] = {0};
  for (int i = 0; i < p->n_in; i++) {
    value[i] = in[i];
    dtype[i] = p->in_dtype[i];
  }
  for (int k = 0; k < p->n_insn; k++) {
    value[p->n_in + k] = insn_value(&p->insn[k], (clade_dtype)dtype[p->insn[k].arg[0]], value);
    dtype[p->n_in + k] = p->insn[k].dtype;
  }
  return p->n_insn ? value[p->n_in + p->n_insn - 1] : value[0];
}
