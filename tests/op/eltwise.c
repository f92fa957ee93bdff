/* Elementwise functions. In each case one row of eltwise.def leads, and all rows that are defined on its domain
 * join, so that one graph tests many. With broadcast operands, few rows represent all, because kernels differ only
 * in the function computed. */
#include "op_test.h"

#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

enum { LEADER, ALONE, SPECIALS, INFINITIES, CAST_TO }; /* indices in op_case.i */

/* Types that are loaded as another type share its arithmetic and differ only in loading and storing: each tests a
 * part of the rows. */
static bool in_part(const clade__elt_row *row, clade_dtype t) {
  const bool real = op_is_float(t);
  if (clade__dtype_row(t)->bits >= 32 || t == CLADE_BOOL) return true;
  return real ? row->number % 4 == (t + 2) % 4 : row->number % 2 == t % 2;
}

static bool takes(const clade__elt_row *row, clade_dtype t) {
  bool all = row->kind == CLADE__ELT_CAST || row->kind == CLADE__ELT_SELECT;
  if (!all && !in_part(row, t)) return false;
  switch (row->kind) {
  case CLADE__ELT_FLOAT:
  case CLADE__ELT_TEST: return op_is_float(t);
  case CLADE__ELT_NUMBER: return op_is_float(t) || clade__is_integer(t);
  case CLADE__ELT_INTEGER: return clade__is_integer(t);
  case CLADE__ELT_LOGIC: return t == CLADE_BOOL;
  default: return true;
  }
}

/* A row joins if it has the same operands and is defined and differentiable where the leader is. */
static bool joins(const op_case *c, const clade__elt_row *leader, const clade__elt_row *row) {
  if (row == leader) return true;
  if (row->arity != leader->arity || row->kind == CLADE__ELT_CAST || leader->kind == CLADE__ELT_CAST ||
      !takes(row, c->dtype) || (row->kind == CLADE__ELT_SELECT) != (leader->kind == CLADE__ELT_SELECT))
    return false;
  if (c->i[ALONE]) return false;
  return row->low <= leader->low && row->high >= leader->high;
}

static const clade__elt_row *leader_of(const op_case *c) { return clade__elt_by_number((unsigned)c->i[LEADER]); }

/* The rows of a case, in order. */
static int rows_of(const op_case *c, const clade__elt_row *rows[OP_OUTPUTS]) {
  int n = 0;
  for (const clade__elt_row *row = clade__elt_rows; row->name && n < OP_OUTPUTS; row++)
    if (joins(c, leader_of(c), row)) rows[n++] = row;
  return n;
}

static const clade__elt_row *nth_row(clade_dtype dtype, int number) {
  int n = 0;
  for (const clade__elt_row *row = clade__elt_rows; row->name; row++) n += takes(row, dtype);
  number %= n;
  for (const clade__elt_row *row = clade__elt_rows; row->name; row++)
    if (takes(row, dtype) && number-- == 0) return row;
  return clade__elt_rows;
}

/* A leader of each arity that most other rows can join. */
static const clade__elt_row *small_row(const op_case *c) {
  static const char *const names[3][3] = {
      {"asin", "pow", "select"}, {"abs", "add", "select"}, {"logical_not", "logical_or", "select"}};
  int kind = op_is_float(c->dtype) ? 0 : c->dtype == CLADE_BOOL ? 2 : 1;
  return clade__elt_by_name(names[kind][c->number % 3]);
}

/* Some f32 cases are casts to each narrower float type, by each implementation; CLADE_DTYPE_NONE: other cases. */
static clade_dtype narrowed(const op_case *c) {
  enum { EVERY = 12, EACH = 24 };
  int at = 0, n = 0;
  clade_dtype last = CLADE_DTYPE_NONE;
  if (c->dtype != CLADE_F32 || c->number % EVERY != 2 || c->small) return last;
  for (int i = 0; op_all_types[i]; i++) n += op_is_float(op_all_types[i]) && op_all_types[i] != CLADE_F32;
  at = n - 1 - c->number / EACH % n;
  for (int i = 0; op_all_types[i] && at >= 0; i++)
    if (op_is_float(op_all_types[i]) && op_all_types[i] != CLADE_F32 && at-- == 0) last = op_all_types[i];
  return last;
}

static void draw_casts(op_case *c, op_random *r) {
  int types = 0;
  while (op_all_types[types]) types++;
  c->i[CAST_TO] = (int)op_all_types[op_integer(r, 0, types - 1)];
  if (c->i[CAST_TO] == (int)c->dtype) c->i[CAST_TO] = c->dtype == CLADE_F32 ? CLADE_I8 : CLADE_F32;
  if (narrowed(c)) c->i[CAST_TO] = (int)narrowed(c);
  if (c->gradient) c->i[CAST_TO] = CLADE_F32; /* an identity, which is removed */
}

/* The row that represents its arity if operands are broadcast. */
static const clade__elt_row *lone_row(const op_case *c, int arity) {
  bool real = op_is_float(c->dtype);
  if (arity > 2) return clade__elt_by_name("select");
  return clade__elt_by_name(c->dtype == CLADE_BOOL ? "logical_and" : real && c->number % 3 == 0 ? "pow" : "sub");
}

/* Limits values to the type's range. */
static void within(const op_case *c, const clade__elt_row *leader, op_input *in) {
  const bool real = op_is_float(c->dtype);
  if (in->dtype != c->dtype || (!real && clade__dtype_row(c->dtype)->bits > 8)) return;
  const double low = real ? -clade__dtype_most(c->dtype) : (double)clade__dtype_low(c->dtype);
  const double high = real ? clade__dtype_most(c->dtype) : (double)clade__dtype_high(c->dtype);
  if (c->dtype == CLADE_BOOL || c->dtype == CLADE_U8)
    in->low = 0, in->high = CLADE_MAX(1, CLADE_MIN(high, leader->high));
  else
    in->low = CLADE_MAX(low, real ? in->low : leader->low), in->high = CLADE_MIN(high, real ? in->high : leader->high);
}

/* Casts to block-quantized types, from floats and between such types. */
static void draw_blocks(op_case *c, op_random *r) {
  static const clade_dtype types[] = {CLADE_Q4_0, CLADE_Q8_0};
  const bool both = op_chance(r, 0.3);
  const int to = c->number / 2 % 2;
  c->i[CAST_TO] = (int)types[to];
  c->i[LEADER] = clade__elt_by_name("cast")->number;
  c->i[ALONE] = true;
  c->i[SPECIALS] = !both && op_chance(r, 0.3);
  c->i[INFINITIES] = c->i[SPECIALS] && op_chance(r, 0.5);
  c->n_in = c->n_out = 1;
  c->in[0] = (op_input){.dtype = both ? types[1 - to] : CLADE_F32, .shape = op_draw_shape(r, c, 0, 3, 4000)};
  if (op_chance(r, 0.3)) c->in[0].low = -1e-6, c->in[0].high = 1e-6; /* scales that underflow f16 or nearly do */
  snprintf(c->note, sizeof c->note, "to %s", clade_dtype_name(types[to]));
}

static void draw(op_case *c, op_random *r) {
  const clade__elt_row *rows[OP_OUTPUTS];
  clade_shape shape;
  if (!strcmp(c->impl, "blocks") && c->dtype == CLADE_F32 && !c->gradient) {
    draw_blocks(c, r);
    return;
  }
  bool far = op_draw_long(r, c, &shape), deep = !c->small && !c->gradient && c->number % 8 == 7; /* many axes */
  const clade__elt_row *leader = c->small ? small_row(c) : nth_row(c->dtype, c->number);
  if (narrowed(c)) leader = clade__elt_by_name("cast");
  bool repeats = far || deep || (leader->arity > 1 && op_chance(r, 0.6));
  c->i[ALONE] = !c->small && repeats;
  if (c->i[ALONE]) leader = lone_row(c, deep ? 2 : leader->arity);
  c->i[LEADER] = leader->number;
  c->i[SPECIALS] = !c->gradient && op_chance(r, 0.3);
  c->i[INFINITIES] = c->i[SPECIALS] && op_chance(r, 0.5);
  draw_casts(c, r);
  snprintf(c->note, sizeof c->note, "%s", leader->name);
  if (!far) shape = op_draw_shape(r, c, deep ? 4 : 0, deep ? 8 : 3, deep ? 2000 : 4000);
  c->n_in = leader->arity;
  c->n_out = rows_of(c, rows);
  for (int j = 0; j < c->n_in; j++) {
    c->in[j] = (op_input){.dtype = c->dtype, .shape = shape, .low = leader->low, .high = leader->high};
    if (leader->kind == CLADE__ELT_SELECT && j == 0) c->in[j] = (op_input){.dtype = CLADE_BOOL, .shape = shape};
    if (leader->kind == CLADE__ELT_COMPARE && clade__is_integer(c->dtype)) c->in[j].low = -4, c->in[j].high = 4;
    if (leader->kind == CLADE__ELT_COMPARE) c->in[j].ties = 4;
    within(c, leader, &c->in[j]);
  }
  int whole = (int)op_integer(r, 0, c->n_in - 1); /* keeps the full shape; others may be broadcast */
  for (int j = 0; j < c->n_in; j++)
    if (repeats && j != whole && (far || op_chance(r, 0.7)))
      c->in[j].shape = far && op_chance(r, 0.7) ? CLADE_SHAPE(shape.dim[1]) : op_draw_broadcast(r, &shape);
}

static double limit(clade_dtype t, int64_t which) {
  if (which > 1) return which == 2 || clade__dtype_low(t) == 0 ? (double)(which - 2) : -1;
  const double high = (double)clade__dtype_high(t);
  return which == 0 ? (double)clade__dtype_low(t) : high < 0x1p63 ? high : 0x1p63 - 1024;
}

static double special(const op_case *c, op_random *r) {
  const clade__elt_row *leader = leader_of(c);
  if (op_chance(r, 0.5)) return NAN;
  if (c->i[INFINITIES]) return op_chance(r, 0.5) ? HUGE_VAL : -HUGE_VAL;
  return leader->low > 0 || leader->high < 0 ? leader->high : -0.0;
}

/* Limits of the type, NaN and infinity, and ties of the type that it is cast to. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  const clade_dtype to = (clade_dtype)c->i[CAST_TO];
  const bool ties =
      leader_of(c)->kind == CLADE__ELT_CAST && c->dtype == CLADE_F32 && op_is_float(to) && !clade__has_blocks(to);
  for (int j = 0; c->i[SPECIALS] && j < c->n_in; j++)
    for (int64_t i = 0; i < in[j].n; i++) {
      if (in[j].dtype == CLADE_BOOL || !op_chance(r, 0.1)) continue;
      in[j].v[i] = clade__is_integer(in[j].dtype) ? limit(in[j].dtype, op_integer(r, 0, 3)) : special(c, r);
      in[j].v[i] = op_round(in[j].dtype, in[j].v[i]);
    }
  for (int64_t i = 0; ties && i < in->n; i += 2)
    in->v[i] = op_round(CLADE_F32, op_tie(to, ldexp(in->v[i], (int)(i % 21) - 12)));
}

static clade__elt program_of(const op_case *c, const clade__elt_row *row) {
  clade__elt p = {.n_in = (uint8_t)row->arity, .n_insn = 1};
  clade_dtype in[3] = {CLADE_DTYPE_NONE}, result = CLADE_DTYPE_NONE;
  p.insn[0].fn = row->number;
  memcpy(p.insn[0].param, row->param, sizeof row->param);
  if (strcmp(row->name, "clip") == 0) p.insn[0].param[0] = -3.5f, p.insn[0].param[1] = 7.25f;
  for (int j = 0; j < row->arity; j++) {
    in[j] = c->in[j].dtype;
    p.in_dtype[j] = (uint8_t)in[j];
    p.insn[0].arg[j] = (uint8_t)j;
  }
  if (clade__elt_result(row, in, (clade_dtype)c->i[CAST_TO], &result) == CLADE_OK) p.insn[0].dtype = (uint8_t)result;
  return p;
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  const clade__elt_row *rows[OP_OUTPUTS];
  int n = rows_of(c, rows);
  for (int k = 0; k < n; k++) {
    clade__elt p = program_of(c, rows[k]);
    double params[CLADE__ELT_PARAMS] = {(double)p.insn[0].param[0], (double)p.insn[0].param[1]};
    if (rows[k]->kind == CLADE__ELT_CAST)
      out[k] = clade_cast(g, in[0], (clade_dtype)c->i[CAST_TO]);
    else
      out[k] = clade_eltwise(g, rows[k]->name, c->n_in, in, rows[k]->n_params, params);
  }
}

static void reference_row(const op_case *c, const clade__elt_row *row, const op_array *in, op_array *out) {
  clade__elt p = program_of(c, row);
  clade_shape shape = {0};
  for (int j = 0; j < c->n_in; j++)
    if (clade__broadcast_shape("reference", &shape, &in[j].shape, &shape) != CLADE_OK) return;
  op_result(out, (clade_dtype)p.insn[0].dtype, shape);
  for (int64_t i = 0; i < out->n; i++) {
    int64_t index[CLADE_MAX_RANK];
    double v[CLADE__ELT_INPUTS] = {0};
    op_unravel(&shape, i, index);
    for (int j = 0; j < c->n_in; j++) v[j] = in[j].v[op_broadcast_at(&in[j].shape, &shape, index)];
    /* with gradients a cast is an identity, whose rounding would be most of a central difference near 0 */
    out->v[i] = c->gradient && row->kind == CLADE__ELT_CAST ? v[0] : clade__elt_eval(&p, v);
    out->bound[i] = row->ulp * 0x1p-23 * CLADE_MAX(fabs(out->v[i]), row->floor);
    if (!(out->bound[i] < HUGE_VAL)) out->bound[i] = 0; /* results that are not finite */
  }
  if (clade__has_blocks(out->dtype)) op_round_blocks(out->dtype, out->n, out->v);
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  const clade__elt_row *rows[OP_OUTPUTS];
  int n = rows_of(c, rows);
  for (int k = 0; k < n; k++) reference_row(c, rows[k], in, &out[k]);
}

const op_test op_test_eltwise = {.name = "eltwise",
                                 .dtypes = op_all_types,
                                 .draw = draw,
                                 .build = build,
                                 .reference = reference,
                                 .fill = fill,
                                 .gradient_bound = 2e-4};
