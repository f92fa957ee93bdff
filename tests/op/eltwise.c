/* Cases of elementwise functions: in each, one row of eltwise.def leads, and all rows that are defined where it is
 * join it, so that one graph tests many. Where operands repeat along axes, few rows stand for all: kernels of two rows
 * differ in what is computed, and not in how they walk. */
#include "op_test.h"

#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_I8,        CLADE_U8,
                                     CLADE_I32, CLADE_I64, CLADE_BOOL, CLADE_DTYPE_NONE};

enum { LEADER, ALONE, SPECIALS, INFINITIES, CAST_TO }; /* of op_case.i */

static bool is_integer(clade_dtype t) { return t == CLADE_I8 || t == CLADE_U8 || t == CLADE_I32 || t == CLADE_I64; }

/* The half formats share float's arithmetic, the short integers i32's, and differ in loading and storing: each goes
 * through a part of the rows. */
static bool takes(const clade__elt_row *row, clade_dtype t) {
  static const struct {
    unsigned part, rest;
  } of[] = {[CLADE_F16] = {4, 0}, [CLADE_BF16] = {4, 1}, [CLADE_I8] = {2, 0}, [CLADE_U8] = {2, 1}};
  bool all = row->kind == CLADE__ELT_CAST || row->kind == CLADE__ELT_SELECT;
  if (!all && t < (clade_dtype)CLADE_COUNT(of) && of[t].part && row->number % of[t].part != of[t].rest) return false;
  switch (row->kind) {
  case CLADE__ELT_FLOAT:
  case CLADE__ELT_TEST: return op_is_float(t);
  case CLADE__ELT_NUMBER: return op_is_float(t) || is_integer(t);
  case CLADE__ELT_INTEGER: return is_integer(t);
  case CLADE__ELT_LOGIC: return t == CLADE_BOOL;
  default: return true;
  }
}

/* Joins the leader: same operands, and defined (and so differentiable) at least where the leader is. */
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

/* One of each arity, with as many others as can join. */
static const clade__elt_row *small_row(const op_case *c) {
  static const char *const names[3][3] = {
      {"asin", "pow", "select"}, {"abs", "add", "select"}, {"logical_not", "logical_or", "select"}};
  int kind = op_is_float(c->dtype) ? 0 : c->dtype == CLADE_BOOL ? 2 : 1;
  return clade__elt_by_name(names[kind][c->number % 3]);
}

static void draw_casts(op_case *c, op_random *r) {
  c->i[CAST_TO] = (int)dtypes[op_integer(r, 0, 7)];
  if (c->i[CAST_TO] == (int)c->dtype) c->i[CAST_TO] = c->dtype == CLADE_F32 ? CLADE_I8 : CLADE_F32;
  if (c->gradient) c->i[CAST_TO] = CLADE_F32; /* of itself: the node disappears */
}

/* Stands for those of as many operands where these repeat along axes. */
static const clade__elt_row *lone_row(const op_case *c, int arity) {
  bool real = op_is_float(c->dtype);
  if (arity > 2) return clade__elt_by_name("select");
  return clade__elt_by_name(c->dtype == CLADE_BOOL ? "logical_and" : real && c->number % 3 == 0 ? "pow" : "sub");
}

static void draw(op_case *c, op_random *r) {
  const clade__elt_row *rows[OP_OUTPUTS];
  clade_shape shape;
  bool far = op_draw_long(r, c, &shape), deep = !c->small && !c->gradient && c->number % 8 == 7; /* many axes */
  const clade__elt_row *leader = c->small ? small_row(c) : nth_row(c->dtype, c->number);
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
    if (leader->kind == CLADE__ELT_COMPARE && is_integer(c->dtype)) c->in[j].low = -4, c->in[j].high = 4;
    if (leader->kind == CLADE__ELT_COMPARE) c->in[j].ties = 4;
    if (c->dtype == CLADE_BOOL) c->in[j].low = 0, c->in[j].high = 1;
    if (c->dtype == CLADE_U8) c->in[j].low = 0, c->in[j].high = CLADE_MAX(1, CLADE_MIN(255, leader->high));
    if (c->dtype == CLADE_I8) c->in[j].low = CLADE_MAX(-128, leader->low), c->in[j].high = CLADE_MIN(127, leader->high);
  }
  int whole = (int)op_integer(r, 0, c->n_in - 1); /* this one keeps the shape; others may repeat along axes */
  for (int j = 0; j < c->n_in; j++)
    if (repeats && j != whole && (far || op_chance(r, 0.7)))
      c->in[j].shape = far && op_chance(r, 0.7) ? CLADE_SHAPE(shape.dim[1]) : op_draw_broadcast(r, &shape);
}

/* Limits of the type, and what is no number. */
static void fill(const op_case *c, op_random *r, op_array *in) {
  static const double limits[][4] = {[CLADE_I8] = {-128, 127, 0, -1},
                                     [CLADE_U8] = {0, 255, 0, 1},
                                     [CLADE_I32] = {-2147483648.0, 2147483647.0, 0, -1},
                                     [CLADE_I64] = {-0x1p63, 0x1p63 - 1024, 0, -1}};
  for (int j = 0; c->i[SPECIALS] && j < c->n_in; j++)
    for (int64_t i = 0; i < in[j].n; i++) {
      if (in[j].dtype == CLADE_BOOL || !op_chance(r, 0.1)) continue;
      if (is_integer(in[j].dtype))
        in[j].v[i] = limits[in[j].dtype][op_integer(r, 0, 3)];
      else
        in[j].v[i] = op_chance(r, 0.5)                                 ? NAN
                     : c->i[INFINITIES]                                ? (op_chance(r, 0.5) ? HUGE_VAL : -HUGE_VAL)
                     : leader_of(c)->low > 0 || leader_of(c)->high < 0 ? leader_of(c)->high
                                                                       : -0.0;
      in[j].v[i] = op_round(in[j].dtype, in[j].v[i]);
    }
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
    out->v[i] = clade__elt_eval(&p, v);
    out->bound[i] = row->ulp * 0x1p-23 * CLADE_MAX(fabs(out->v[i]), row->floor);
    if (!(out->bound[i] < HUGE_VAL)) out->bound[i] = 0; /* of what is infinite or no number */
  }
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  const clade__elt_row *rows[OP_OUTPUTS];
  int n = rows_of(c, rows);
  for (int k = 0; k < n; k++) reference_row(c, rows[k], in, &out[k]);
}

const op_test op_test_eltwise = {.name = "eltwise",
                                 .dtypes = dtypes,
                                 .draw = draw,
                                 .build = build,
                                 .reference = reference,
                                 .fill = fill,
                                 .gradient_bound = 2e-4};
