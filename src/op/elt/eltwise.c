/* Elementwise computation with broadcasting: one function of the table below, or several fused into one program. */
#include <clade/ops.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/elt/eltwise.h"
#include "op/group.h"
#include "op/systolic.h"

#include <inttypes.h>
#include <stdio.h>

static const clade__elt *program_of(const clade_node *n) { return &((const clade__eltwise_attrs *)n->attrs)->program; }

/* Name in error messages: the function's, if the program is a single one. */
static const char *label(const clade__elt *p) {
  const clade__elt_row *row = p->n_insn == 1 ? clade__elt_by_number(p->insn[0].fn) : NULL;
  return row ? row->name : "eltwise";
}

static clade_status infer(clade_node *n) {
  const clade__elt *p = program_of(n);
  CLADE_TRY(clade__elt_check(p));
  if (n->n_in != p->n_in) return CLADE_FAIL(INVALID, "%s: %d operands; its program has %d", label(p), n->n_in, p->n_in);
  clade_shape shape = CLADE_SCALAR;
  for (int i = 0; i < n->n_in; i++) {
    if (n->in[i].dtype != (clade_dtype)p->in_dtype[i])
      return CLADE_FAIL(DTYPE, "%s: operand %d is %s; its program expects %s", label(p), i,
                        clade_dtype_name(n->in[i].dtype), clade_dtype_name((clade_dtype)p->in_dtype[i]));
    if (n->in[i].layout.block)
      return CLADE_FAIL(UNSUPPORTED, "%s: operand %d has a blocked layout; expected dense: unpack it", label(p), i);
    CLADE_TRY(clade__broadcast_shape(label(p), &shape, &n->in[i].shape, &shape));
  }
  n->out[0] = (clade_type){.dtype = clade__elt_dtype(p), .shape = shape};
  return CLADE_OK;
}

/* ---- gradients ---- */
/* True if an expression uses an operand, a single letter that is not part of a longer name. */
static bool mentions(const char *expression, char operand) {
  bool before = false;
  for (const char *at = expression; *at; at++) {
    bool word = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '_';
    bool next = (at[1] >= 'a' && at[1] <= 'z') || (at[1] >= '0' && at[1] <= '9') || at[1] == '_' || at[1] == '.';
    if (*at == operand && !before && !next) return true;
    before = word;
  }
  return false;
}

/* dy times the derivative by operand `by`, as one program that reads only what the derivative depends on. The gradient
 * of relu reads its result instead of its operand, which then need not be kept in memory and can be fused with relu. */
static clade_val derive(clade_grad *g, const clade__elt_row *row, const clade__elt *p, int by) {
  const char *text = row->derivative[by];
  const clade__elt_row *mul = clade__elt_by_name("mul"), *relu = clade__elt_by_name("relu");
  uint8_t result = p->insn[0].dtype;
  clade__elt d = {.n_in = 1, .n_insn = 2, .in_dtype = {result}};
  clade_val in[CLADE__ELT_INPUTS] = {g->dout[0]};
  uint8_t at[3] = {0};
  if (strcmp(text, "1.0f") == 0) return g->dout[0];
  if (strcmp(text, "-1.0f") == 0) return clade_neg(g->graph, g->dout[0]);
  for (int i = 0; i < row->arity; i++)
    if (mentions(text, (char)('a' + i))) {
      at[i] = d.n_in;
      d.in_dtype[d.n_in] = p->in_dtype[p->insn[0].arg[i]];
      in[d.n_in++] = row == relu ? g->out[0] : g->in[p->insn[0].arg[i]];
    }
  if (text[1] == '\0') return clade_mul(g->graph, g->dout[0], in[1]); /* the derivative is one of the operands */
  d.insn[0] = p->insn[0];
  d.insn[0].wrt = (uint8_t)(by + 1);
  memcpy(d.insn[0].arg, at, sizeof at);
  d.insn[1] = (clade__elt_insn){.fn = mul->number, .dtype = result, .arg = {0, d.n_in}};
  return clade__eltwise_program(g->graph, NULL, &d, in);
}

static clade_status grad(clade_grad *g) {
  const clade__elt *p = program_of(g->node);
  const clade__elt_row *row = clade__elt_by_number(p->insn[0].fn);
  if (!clade_val_ok(g->dout[0])) return CLADE_OK;
  if (p->n_insn != 1 || p->insn[0].wrt || !row)
    return CLADE_FAIL(UNSUPPORTED, "%s: only single functions are differentiated", label(p));
  for (int i = 0; i < row->arity; i++) {
    int operand = p->insn[0].arg[i];
    const clade_type *type = &g->node->in[operand];
    if (!g->wanted[operand] || !clade__is_float(type->dtype) || !clade__is_float(g->node->out[0].dtype)) continue;
    clade_val d = {0};
    if (row->kind == CLADE__ELT_CAST)
      d = clade_cast(g->graph, g->dout[0], type->dtype);
    else if (row->derivative[i])
      d = derive(g, row, p, i);
    else
      continue;
    g->din[operand] = clade__sum_to(g->graph, d, &type->shape);
    CLADE_TRY(clade_graph_status(g->graph));
  }
  return CLADE_OK;
}

static uint64_t in_place(const clade_node *n, int out) { return clade__elementwise(n, out, 0); }

/* ---- ref: one element per work-item ---- */
static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  clade_type in[CLADE__ELT_INPUTS], out;
  clade_node stored;
  const clade_node *n = &stored;
  const clade__elt *p = program_of(q->node);
  clade__node_stored(q->node, in, &out, &stored);
  bool flat = clade__walk_flat(n);
  int64_t elements;
  clade__walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  clade__walk_of(n, &w);
  clade_kernel_step *s = clade_emit_kernel(e, flat ? "eltwise_flat_ref" : "eltwise_strided_ref");
  clade_emit_define(s, "RANK", flat ? 0 : clade__walk_rank(w.rank));
  CLADE_TRY(clade__eltwise_describe(s, p, &w, flat, CLADE__ONE));
  for (int i = 0; i < n->n_in; i++) clade__emit_in_blocks(s, i);
  clade_emit_out(s, 0);
  size_t group = flat ? 256 : w.dim[0] <= 4 ? 4 : w.dim[0] <= 16 ? 16 : 64;
  while (group > q->device->max_group) group /= 2;
  if (flat) {
    clade_emit_index(s, elements);
    clade_emit_range(s, 1, &(size_t){(size_t)elements}, &group);
    return CLADE_OK;
  }
  for (int i = w.rank; i < CLADE_MAX_RANK; i++) w.dim[i] = 1;
  size_t row = ((size_t)w.dim[0] + group - 1) / group, global;
  if (!clade__mul(elements ? (size_t)(elements / w.dim[0]) * row : 0, group, &global))
    return CLADE_FAIL(OVERFLOW, "%s: %" PRId64 " elements are too many work-items", label(p), elements);
  clade_emit_index8(s, CLADE_MAX_RANK, w.dim);
  for (int i = 0; i < n->n_in; i++) clade_emit_index8(s, CLADE_MAX_RANK, w.stride[i]);
  clade_emit_index(s, (int64_t)row);
  clade_emit_range(s, 1, &global, &group);
  return CLADE_OK;
}

/* ---- blocks: one block per work-item, since its scale depends on all of its elements ---- */
static const char *ref_accept(const clade_query *q) {
  return clade__has_blocks(q->node->out[0].dtype) ? "does not support block types" : NULL;
}

static const char *blocks_accept(const clade_query *q) {
  return clade__has_blocks(q->node->out[0].dtype) ? NULL : "requires a block type";
}

static clade_status blocks_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const size_t group = 64;
  int64_t elements;
  clade__walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  clade__walk_of(n, &w);
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise_blocks_ref");
  clade_emit_define(s, "RANK", 0);
  CLADE_TRY(clade__eltwise_describe(s, program_of(n), &w, true, CLADE__ONE));
  clade__emit_in_blocks(s, 0);
  clade__emit_out_blocks(s, 0);
  clade_emit_index(s, elements);
  const size_t blocks = (size_t)clade__up(elements, 32) / 32;
  clade_emit_range(s, 1, &blocks, &(size_t){CLADE_MIN(group, q->device->max_group)});
  return CLADE_OK;
}

/* ---- vec: vectors of sixteen floats, or of bytes that are cast from or to floats ---- */
enum { PIECE = 1 << 14, LIGHT = 16 }; /* in elements, and in multiply-adds */

/* True if the computation is so cheap that memory bandwidth is the limit. */
static bool light(const clade__elt *p) {
  double work = 0;
  for (int i = 0; i < p->n_insn; i++) work += clade__elt_by_number(p->insn[i].fn)->cost;
  return work < LIGHT;
}

static const char *vec_accept(const clade_query *q) {
  const clade__elt *p = program_of(q->node);
  return clade__elt_wide(p) || clade__elt_wide_whole(p) ? NULL : "requires floats";
}

static double vec_cost(const clade_query *q) { return clade__cost(q->device, 0, clade__node_bytes(q->node), 1); }

static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  clade_type in[CLADE__ELT_INPUTS], out;
  clade_node stored;
  const clade_node *n = &stored;
  const clade__elt *p = program_of(q->node);
  clade__node_stored(q->node, in, &out, &stored);
  bool flat = clade__walk_flat(n);
  int64_t elements;
  clade__walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  clade__walk_of(n, &w);
  int64_t piece = (clade__piece(q->device, elements, 16, PIECE) + 15) / 16 * 16;
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise_forward_vec");
  clade_emit_define(s, "RANK", flat ? 0 : clade__walk_rank(w.rank));
  clade__way by = clade__walk_way(&w, n->n_in, flat);
  clade_emit_define(s, "SHORT", by == CLADE__APART);
  clade_emit_define(s, "REPEATED", by == CLADE__REPEATED);
  clade_emit_define(s, "STREAM", n->out[0].dtype == CLADE_F32 && clade__streams(q->device, &n->out[0]));
  clade_emit_define(s, "LIGHT", light(p));
  CLADE_TRY(clade__eltwise_describe(s, p, &w, flat, CLADE__WIDE));
  for (int i = 0; i < n->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  for (int i = w.rank; i < CLADE_MAX_RANK; i++) w.dim[i] = 1;
  if (!flat) clade_emit_index8(s, CLADE_MAX_RANK, w.dim);
  for (int i = 0; !flat && i < n->n_in; i++) clade_emit_index8(s, CLADE_MAX_RANK, w.stride[i]);
  if (!flat) clade_emit_index(s, clade__walk_period(&w, n->n_in));
  clade_emit_index(s, elements);
  clade_emit_index(s, piece);
  clade__emit_flat(s, q->device, clade__ceil_div(elements, piece));
  return CLADE_OK;
}

/* ---- group: four consecutive elements of a row per work-item ---- */
static const char *group_accept(const clade_query *q) {
  enum { FOURS = 4 };
  clade__walk w;
  if (clade__elt_has_blocks(program_of(q->node))) return "does not support block types";
  clade__walk_of(q->node, &w);
  if (!clade__walk_flat(q->node) && w.dim[0] < FOURS) return "rows are shorter than four elements";
  return clade__group_refuses(q, 2 * FOURS);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade__elt *p = program_of(n);
  const bool flat = clade__walk_flat(n);
  int64_t elements;
  clade__walk w;
  CLADE_TRY(clade_shape_elements(&n->out[0].shape, &elements));
  clade__walk_of(n, &w);
  clade_kernel_step *s = clade_emit_kernel(e, "eltwise_forward_group");
  clade_emit_define(s, "RANK", flat ? 0 : clade__walk_rank(w.rank));
  CLADE_TRY(clade__eltwise_describe(s, p, &w, flat, CLADE__FOUR));
  for (int i = 0; i < n->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  if (flat) {
    clade_emit_index(s, elements);
    clade__emit_fours(s, elements);
    return CLADE_OK;
  }
  for (int i = w.rank; i < CLADE_MAX_RANK; i++) w.dim[i] = 1;
  const int64_t fours = (w.dim[0] + 3) / 4, pieces = elements ? elements / w.dim[0] * fours : 0;
  clade_emit_index8(s, CLADE_MAX_RANK, w.dim);
  for (int i = 0; i < n->n_in; i++) clade_emit_index8(s, CLADE_MAX_RANK, w.stride[i]);
  clade_emit_index(s, fours);
  clade_emit_index(s, pieces);
  clade__emit_fours(s, 4 * pieces);
  return CLADE_OK;
}

static double ref_cost(const clade_query *q) { return 4 * vec_cost(q); }

static const clade_attr attrs[] = {
    {"program", CLADE_ATTR_BYTES, offsetof(clade__eltwise_attrs, program), sizeof(clade__elt)}, {.name = NULL}};
static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "vec", CLADE__LONG_VEC, .accept = vec_accept, .cost = vec_cost, .emit = vec_emit,
               .any_layout = true),
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = vec_cost, .emit = group_emit),
    CLADE__SYSTOLIC(eltwise)     /* with its comma */
    CLADE__SYSTOLIC(eltwise_i64) /* with its comma */
    CLADE_IMPL(.name = "blocks", .family = CLADE_FAMILY_REF, .accept = blocks_accept, .cost = ref_cost,
               .emit = blocks_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit,
               .any_layout = true),
    NULL,
};
const clade_op clade__op_eltwise = {
    .size = sizeof(clade_op),
    .name = "eltwise",
    .min_in = 1,
    .max_in = CLADE__ELT_INPUTS,
    .n_out = 1,
    .attr_bytes = sizeof(clade__eltwise_attrs),
    .attrs = attrs,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
    .ties = clade__tie_same,
    .autocast = CLADE_AUTOCAST_CARRY,
    .dims = clade__dims_same,
};
