/* Builders of the elementwise functions: each adds a node with a program of one instruction. */
#include <clade/ops.h>

#include "op/op.h"

clade_val clade__eltwise_program(clade_graph *g, const char *name, const clade__elt *program, const clade_val *in) {
  clade__eltwise_attrs attrs = {.program = *program};
  clade_val out[1] = {{0}};
  return clade_node_add(g, &clade__op_eltwise, name, &attrs, program->n_in, in, out);
}

static clade_status make(clade_graph *g, const clade__elt_row *row, const clade_val *in, const float *params,
                         clade_dtype want, clade__elt *p) {
  clade_dtype dtype[3] = {CLADE_DTYPE_NONE}, result;
  *p = (clade__elt){.n_in = (uint8_t)row->arity, .n_insn = 1};
  p->insn[0].fn = row->number;
  for (int i = 0; i < row->arity; i++) {
    clade_type type;
    clade_status status = clade_val_type(g, in[i], &type);
    if (status != CLADE_OK) return clade__fail_in(status, "%s: operand %d", row->name, i);
    dtype[i] = type.dtype;
    p->in_dtype[i] = (uint8_t)type.dtype;
    p->insn[0].arg[i] = (uint8_t)i;
  }
  for (int i = 0; i < row->n_params; i++) {
    if (params[i] != params[i]) return CLADE_FAIL(INVALID, "%s: parameter %d is no number", row->name, i);
    p->insn[0].param[i] = params[i];
  }
  CLADE_TRY(clade__elt_result(row, dtype, want, &result));
  p->insn[0].dtype = (uint8_t)result;
  return CLADE_OK;
}

static clade_val build(clade_graph *g, const clade__elt_row *row, const clade_val *in, const float *params,
                       clade_dtype want) {
  clade__elt program;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = make(g, row, in, params, want, &program);
  return status == CLADE_OK ? clade__eltwise_program(g, NULL, &program, in) : clade__graph_fail(g, status, NULL);
}

clade_val clade_eltwise(clade_graph *g, const char *fn, int n_in, const clade_val *in, int n, const double *params) {
  const clade__elt_row *row = clade__elt_by_name(fn);
  float p[CLADE__ELT_PARAMS];
  if (!clade__graph_ok(g)) return (clade_val){0};
  if (!row)
    return clade__graph_fail(g, CLADE_FAIL(NOT_FOUND, "clade_eltwise: there is no function \"%s\"", fn ? fn : "(null)"),
                             NULL);
  if (n_in != row->arity || !in)
    return clade__graph_fail(
        g, CLADE_FAIL(INVALID, "%s: %d operands; expected %d", row->name, in ? n_in : 0, row->arity), NULL);
  if (n < 0 || n > row->n_params || (n && !params))
    return clade__graph_fail(g, CLADE_FAIL(INVALID, "%s: %d parameters; it has %d", row->name, n, row->n_params), NULL);
  if (row->kind == CLADE__ELT_CAST)
    return clade__graph_fail(g, CLADE_FAIL(INVALID, "cast: the type is not given: call clade_cast"), NULL);
  for (int i = 0; i < CLADE__ELT_PARAMS; i++) p[i] = i < n ? (float)params[i] : row->param[i];
  return build(g, row, in, p, CLADE_DTYPE_NONE);
}

#define X(name) \
  clade_val clade_##name(clade_graph *g, clade_val x) { return clade_eltwise(g, #name, 1, &x, 0, NULL); }
CLADE_UNARY_MAP(X)
#undef X

#define X(name)                                                      \
  clade_val clade_##name(clade_graph *g, clade_val a, clade_val b) { \
    return clade_eltwise(g, #name, 2, (clade_val[]){a, b}, 0, NULL); \
  }
CLADE_BINARY_MAP(X)
#undef X

clade_val clade_leaky_relu(clade_graph *g, clade_val x, double slope) {
  return clade_eltwise(g, "leaky_relu", 1, &x, 1, &slope);
}

clade_val clade_elu(clade_graph *g, clade_val x, double alpha) { return clade_eltwise(g, "elu", 1, &x, 1, &alpha); }

clade_val clade_clip(clade_graph *g, clade_val x, double lo, double hi) {
  if (clade__graph_ok(g) && !(lo <= hi))
    return clade__graph_fail(g, CLADE_FAIL(INVALID, "clip: lo is %g, hi is %g; expected lo <= hi", lo, hi), NULL);
  return clade_eltwise(g, "clip", 1, &x, 2, (double[]){lo, hi});
}

clade_val clade_select(clade_graph *g, clade_val condition, clade_val a, clade_val b) {
  return clade_eltwise(g, "select", 3, (clade_val[]){condition, a, b}, 0, NULL);
}

bool clade__is_cast(const clade__node *n) {
  if (n->op != &clade__op_eltwise) return false;
  const clade__elt *p = &((const clade__eltwise_attrs *)n->attrs)->program;
  const clade__elt_row *row = p->n_insn == 1 ? clade__elt_by_number(p->insn[0].fn) : NULL;
  return row && row->kind == CLADE__ELT_CAST && !p->insn[0].wrt;
}

clade_val clade__wide(clade_graph *g, clade_val x) {
  return build(g, clade__elt_by_name("cast"), &x, (float[CLADE__ELT_PARAMS]){0}, CLADE_F32);
}

clade_val clade_cast(clade_graph *g, clade_val x, clade_dtype dtype) {
  clade_type type;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade_val_type(g, x, &type);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "cast");
  if (type.dtype == dtype) return x;
  return build(g, clade__elt_by_name("cast"), &x, (float[CLADE__ELT_PARAMS]){0}, dtype);
}
