/* Elementwise nodes on the interpreting kernels of a bundle (fpga/eltwise.cl). */
#include "op/systolic/kernels.h"

enum { OPERANDS = 4, AXES = 4 };

static const clade__elt *program_of(const clade_query *q) {
  return &((const clade__eltwise_attrs *)q->node->attrs)->program;
}

/* Axes, outermost first, and the operands' strides. The kernel supports AXES of them. */
typedef struct walk {
  int rank;
  int64_t dim[CLADE_MAX_RANK], stride[CLADE__ELT_INPUTS][CLADE_MAX_RANK];
} walk;
static walk walk_of(const clade_node *n) {
  const clade_shape *y = &n->out[0].shape;
  walk w = {.rank = y->rank};
  int64_t(*sets[CLADE__ELT_INPUTS])[CLADE_MAX_RANK];
  const int n_in = CLADE_MIN(n->n_in, CLADE__ELT_INPUTS); /* states the bound, for compiler warnings */
  memcpy(w.dim, y->dim, sizeof w.dim);
  for (int i = 0; i < n_in; i++) {
    clade__broadcast_strides(&n->in[i].shape, y, w.stride[i]);
    sets[i] = &w.stride[i];
  }
  w.rank = clade__collapse(w.rank, w.dim, n_in, sets);
  return w;
}

/* The last AXES values; `none` replaces missing ones. */
static void emit_last(clade_kernel_step *s, const walk *w, const int64_t *value, int64_t none) {
  int64_t last[AXES];
  for (int i = 0; i < AXES; i++) last[i] = i < AXES - w->rank ? none : value[i - (AXES - w->rank)];
  clade__systolic_int4(s, last);
}

static const char *accept(const clade_query *q) {
  if (walk_of(q->node).rank > AXES) return "its kernel supports four axes only";
  return clade__systolic_refuses(program_of(q), OPERANDS);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  walk w = walk_of(n);
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise");
  for (int i = 0; i < OPERANDS; i++) { /* placeholders for missing operands */
    clade_emit_in(s, i < n->n_in ? i : 0);
    emit_last(s, &w, w.stride[i], 0);
  }
  clade_emit_out(s, 0);
  emit_last(s, &w, w.dim, 1);
  clade_emit_i32(s, n->n_in);
  clade__systolic_program(s, program_of(q));
  clade__systolic_launch(s);
  return CLADE_OK;
}

const clade_impl clade__systolic_eltwise =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = accept, .cost = clade__systolic_elements, .emit = emit,
                         .bundled = "eltwise");

/* ---- i64: one function of one or two operands ---- */
static int64_t elements(const clade_type *t) { return clade__product(&t->shape, 0, t->shape.rank); }

static const char *i64_accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__elt *p = program_of(q);
  if (p->n_insn != 1 || p->insn[0].wrt || p->insn[0].fn < 160 || p->insn[0].fn > 162)
    return "its kernel supports addition, subtraction and multiplication only";
  if (n->out[0].dtype != CLADE_I64) return "requires i64";
  for (int i = 0; i < n->n_in; i++)
    if (elements(&n->in[i]) != 1 && elements(&n->in[i]) != elements(&n->out[0]))
      return "its kernel broadcasts single elements only";
  return NULL;
}

static clade_status i64_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade__elt_insn *insn = &program_of(q)->insn[0];
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise_i64");
  clade_emit_in(s, insn->arg[0]);
  clade_emit_in(s, insn->arg[1]);
  clade_emit_out(s, 0);
  clade_emit_index(s, elements(&n->out[0]));
  for (int i = 0; i < 2; i++) clade_emit_i32(s, elements(&n->in[insn->arg[i]]) != 1);
  clade_emit_i32(s, insn->fn);
  clade__systolic_launch(s);
  return CLADE_OK;
}

const clade_impl clade__systolic_eltwise_i64 =
    CLADE__SYSTOLIC_IMPL(.name = "systolic_i64", .accept = i64_accept, .cost = clade__systolic_elements,
                         .emit = i64_emit, .bundled = "eltwise_i64");
