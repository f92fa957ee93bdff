/* Sum of squares over several tensors, added to a carried value, for gradient norms; elements are first scaled and
 * clipped. The error is at most 2^-16 of the result, usually far below 2^-18. */
#include "op/group.h"
#include "op/update/update.h"

enum { SCALARS = 2, TENSORS = CLADE__UPDATE_TENSORS };

typedef struct attrs {
  float clip;
} attrs;
static const clade_attr table[] = {{"clip", CLADE_ATTR_F32, offsetof(attrs, clip), 1}, {0}};

static clade_status infer(clade_node *n) {
  static const char *const names[SCALARS] = {"before", "carry"};
  char text[640];
  CLADE_TRY(clade__want_dense(n));
  for (int i = 0; i < SCALARS; i++)
    if (n->in[i].dtype != CLADE_F32 || n->in[i].shape.rank != 0)
      return CLADE_FAIL(BAD_SHAPE, "square_sum: %s is %s; expected a scalar of f32", names[i],
                        clade__type_text(&n->in[i], text, sizeof text));
  for (int i = SCALARS; i < n->n_in; i++) {
    CLADE_TRY(clade__want_float(n, i, "a tensor"));
    if (n->in[i].dtype != n->in[SCALARS].dtype)
      return CLADE_FAIL(DTYPE, "square_sum: operand %d is %s, operand %d %s: they are of one type", i,
                        clade_dtype_name(n->in[i].dtype), SCALARS, clade_dtype_name(n->in[SCALARS].dtype));
  }
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = CLADE_SCALAR};
  return CLADE_OK;
}

typedef struct pieces {
  int64_t begin[8], length[8], piece;
} pieces;

static void cut(pieces *p, int64_t piece) {
  p->piece = piece;
  for (int k = 0; k < TENSORS; k++) p->begin[k + 1] = p->begin[k] + clade__ceil_div(p->length[k], piece);
}

/* Lengths of the tensors, before they are divided into pieces. */
static pieces lengths_of(const clade_query *q) {
  const clade_node *n = q->node;
  pieces p = {0};
  for (int k = 0; k < n->n_in - SCALARS; k++) {
    const clade_shape *shape = &n->in[SCALARS + k].shape;
    p.length[k] = clade__product(shape, 0, shape->rank);
  }
  return p;
}

static pieces pieces_of(const clade_query *q) {
  pieces p = lengths_of(q);
  int64_t blocks = 0;
  for (int k = 0; k < TENSORS; k++) blocks += (p.length[k] + 15) / 16;
  cut(&p, 16 * clade__piece(q->device, blocks, 64, 1 << 12));
  return p;
}

static double cost(const clade_query *q) {
  double bytes = clade__node_bytes(q->node);
  return clade__cost(q->device, bytes, bytes, 0.2);
}

static const char *accept(const clade_query *q) {
  return clade__cut_short(q->device, (double)pieces_of(q).begin[7] + 1);
}

static size_t workspace(const clade_query *q) { return (size_t)pieces_of(q).begin[7] * sizeof(float); }

static clade_kernel_step *part_step(clade_emit *e, const clade_query *q, const char *kernel, const pieces *p) {
  const clade_node *n = q->node;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[SCALARS].dtype));
  clade_emit_in(s, 0);
  for (int i = 0; i < TENSORS; i++) clade_emit_in(s, SCALARS + (i < n->n_in - SCALARS ? i : 0));
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index8(s, 8, p->begin);
  clade_emit_index8(s, 8, p->length);
  clade_emit_index(s, p->piece);
  clade_emit_f32(s, ((const attrs *)n->attrs)->clip);
  return s;
}

static clade_kernel_step *join_step(clade_emit *e, const char *kernel, const pieces *p) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_in(s, 1);
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_index(s, p->begin[7]);
  return s;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  pieces p = pieces_of(q);
  if (!p.begin[7]) { /* nothing to add */
    clade_emit_copy(e, 1, 0);
    return CLADE_OK;
  }
  clade__emit_flat(part_step(e, q, "square_sum_part_ref", &p), q->device, p.begin[7]);
  clade__emit_flat(join_step(e, "square_sum_join_ref", &p), q->device, 1);
  return CLADE_OK;
}

/* ---- group: one team of work-items per piece; a second launch combines them ---- */
enum { PIECE = 1 << 14 };
static const clade__group summing = {CLADE__GROUP_ITEMS, 1, false}, joining = {CLADE__GROUP_ITEMS, 1, true};

static pieces group_pieces(const clade_query *q) {
  pieces p = lengths_of(q);
  cut(&p, PIECE);
  return p;
}

static const char *group_accept(const clade_query *q) {
  const double join = clade__group_turns(&joining, group_pieces(q).begin[7]);
  return clade__group_refuses(q, CLADE_MAX(clade__group_turns(&summing, PIECE) + 2, join));
}

static double group_cost(const clade_query *q) { return clade__group_cost(q, clade__node_bytes(q->node)); }

static size_t group_workspace(const clade_query *q) { return (size_t)group_pieces(q).begin[7] * sizeof(float); }

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const pieces p = group_pieces(q);
  if (!p.begin[7]) {
    clade_emit_copy(e, 1, 0);
    return CLADE_OK;
  }
  clade__emit_groups(part_step(e, q, "square_sum_part_group", &p), q, &summing, p.begin[7]);
  clade__emit_groups(join_step(e, "square_sum_join_group", &p), q, &joining, 1);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = group_cost, .workspace = group_workspace,
               .emit = group_emit, .file = "square_sum_group"),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = cost, .workspace = workspace,
               .emit = emit),
    NULL,
};

const clade_op clade__op_square_sum = {
    .size = sizeof(clade_op),
    .name = "square_sum",
    .min_in = SCALARS + 1,
    .max_in = SCALARS + TENSORS,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .impls = impls,
};

clade_val clade__square_sum(clade_graph *g, int n, const clade_val *x, clade_val before, float clip, clade_val carry) {
  attrs a = {clip};
  for (int i = 0; i < n; i += TENSORS) {
    clade_val in[SCALARS + TENSORS] = {before, carry};
    int count = CLADE_MIN(TENSORS, n - i);
    memcpy(in + SCALARS, x + i, (size_t)count * sizeof *x);
    carry = clade_node_add(g, &clade__op_square_sum, NULL, &a, SCALARS + count, in, NULL);
  }
  return carry;
}
