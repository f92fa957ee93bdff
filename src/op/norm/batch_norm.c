/* Batch normalization in training mode: normalizes each channel by the mean and variance of the batch, and updates the
 * running mean and variance. Means and variances are computed in two passes over cache-sized pieces and combined as in
 * Chan's algorithm, which avoids cancellation. Error bounds: mean, 2^-16 of the standard deviation plus 2^-22 of the
 * mean of absolute values; variance, 2^-16 of itself. As in PyTorch the running variance uses the unbiased estimate (0
 * for a single element). An empty batch leaves the running values unchanged. */
#include "ir/dimensions.h"
#include "op/norm/batch_norm.h"
#include "op/elt/epilogue.h"
#include "op/systolic.h"

typedef clade__batch_norm_attrs attrs;
static const clade_attr table[] = {{"eps", CLADE_ATTR_F32, offsetof(attrs, eps), 1},
                                   {"momentum", CLADE_ATTR_F32, offsetof(attrs, momentum), 1},
                                   {"epilogue", CLADE_ATTR_BYTES, offsetof(attrs, epilogue), sizeof(clade__elt)},
                                   {0}};

enum { X, WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR, OWN }; /* operands */
enum { Y, MEAN, RSTD, NEXT_MEAN, NEXT_VAR };              /* results; RSTD is 1 / sqrt(variance + eps) */
static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, X, "x"));
  if (n->in[X].shape.rank < 2)
    return CLADE_FAIL(BAD_SHAPE, "batch_norm: x has %d dimensions; expected [samples, channels, …]",
                      n->in[X].shape.rank);
  CLADE_TRY(clade__want_channels(n, WEIGHT, 4, names));
  if (!(a->eps >= 0)) return CLADE_FAIL(INVALID, "batch_norm: eps is %g; expected 0 or more", (double)a->eps);
  if (!(a->momentum >= 0 && a->momentum <= 1))
    return CLADE_FAIL(INVALID, "batch_norm: momentum is %g; expected 0 to 1", (double)a->momentum);
  n->out[Y] = n->in[X];
  for (int i = MEAN; i <= NEXT_VAR; i++) n->out[i] = n->in[WEIGHT];
  return clade__epilogue_infer(n, &n->out[Y]);
}

static void dims(clade_dims *d, const clade_node *n) {
  if (n->n_in > OWN) return;
  const int channels = clade__dims_axis(d, n, 1, 1);
  for (int i = WEIGHT; i < OWN; i++) clade_dims_along(d, channels, i, 0, 1);
  for (int i = MEAN; i <= NEXT_VAR; i++) clade_dims_along(d, channels, n->n_in + i, 0, 1);
}

static clade_status grad(clade_grad *g) {
  clade_val out[3];
  if (g->node->n_in > OWN || ((const attrs *)g->node->attrs)->epilogue.n_insn)
    return CLADE_FAIL(UNSUPPORTED, "batch_norm: derivatives are taken before an epilogue is fused in");
  for (int i = MEAN; i <= NEXT_VAR; i++)
    if (clade_val_ok(g->dout[i]))
      return CLADE_FAIL(UNSUPPORTED, "batch_norm: only its first output has a derivative, not number %d", i);
  clade_val in[] = {g->in[X], g->dout[Y], g->in[WEIGHT], g->out[MEAN], g->out[RSTD]};
  clade_node_add(g->graph, &clade__op_batch_norm_grad, NULL, NULL, 5, in, out);
  for (int i = X; i <= BIAS; i++) g->din[i] = out[i];
  return CLADE_OK;
}

static void emit_moments(clade_emit *e, const clade_query *q, const clade__channels *c) {
  clade_kernel_step *s = clade_emit_kernel(e, "batch_norm_forward_moments");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  clade_emit_in(s, X);
  clade__channels_emit(s, c);
  clade__emit_flat(s, q->device, c->groups * c->chunks);
}

static void emit_join(clade_emit *e, const clade_query *q, const clade__channels *c) {
  const attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, "batch_norm_forward_join");
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_in(s, RUNNING_MEAN);
  clade_emit_in(s, RUNNING_VAR);
  for (int i = MEAN; i <= NEXT_VAR; i++) clade_emit_out(s, i);
  clade_emit_index(s, c->channels);
  clade_emit_index(s, c->count);
  clade_emit_index(s, c->chunk);
  clade_emit_index(s, c->chunks);
  clade_emit_f32(s, a->eps);
  clade_emit_f32(s, a->momentum);
  clade__emit_flat(s, q->device, c->channels);
}

/* Adds the epilogue and the range. */
static clade_status finish(clade_kernel_step *s, const clade_query *q, int64_t items) {
  int64_t none[CLADE__ELT_INPUTS][CLADE_MAX_RANK] = {{0}}; /* the epilogue's operands have y's memory order */
  CLADE_TRY(clade__epilogue_define(s, q->node));
  CLADE_TRY(clade__epilogue_define16(s, q->node));
  clade__epilogue_args(s, q->node, none);
  clade__emit_flat(s, q->device, items);
  return CLADE_OK;
}

/* Begins a kernel that scales and shifts elements. */
static clade_kernel_step *begin_scale(clade_emit *e, const char *kernel, const clade_query *q, int64_t total) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= BIAS; i++) clade_emit_in(s, i);
  clade_emit_out(s, MEAN);
  clade_emit_out(s, RSTD);
  clade_emit_out(s, Y);
  clade_emit_index(s, total);
  return s;
}

static clade_status emit_scale(clade_emit *e, const clade_query *q, const clade__channels *c) {
  int64_t total = c->groups * c->block * c->count;
  int64_t piece = clade__up(clade__piece(q->device, total, 16, 1 << 14), CLADE__LANES);
  clade_kernel_step *s = begin_scale(e, "batch_norm_forward_scale", q, total);
  clade_emit_index(s, piece);
  clade_emit_index(s, c->channels);
  clade_emit_index(s, c->inner);
  clade_emit_index(s, c->block);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[Y]));
  return finish(s, q, clade__ceil_div(total, piece));
}

/* Arguments of kernels that do all passes over a channel, without the epilogue's. */
static clade_kernel_step *all_of(clade_emit *e, const char *kernel, const clade_query *q, const clade__channels *c) {
  const attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= RUNNING_VAR; i++) clade_emit_in(s, i);
  for (int i = Y; i <= NEXT_VAR; i++) clade_emit_out(s, i);
  clade__channels_emit(s, c);
  clade_emit_f32(s, a->eps);
  clade_emit_f32(s, a->momentum);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[Y]));
  return s;
}

static clade_status emit_turns(clade_emit *e, const clade_query *q, const clade__channels *c, int64_t share) {
  for (int64_t turn = 0; turn <= c->channels; turn++) {
    clade_kernel_step *s = all_of(e, "batch_norm_forward_turn", q, c);
    clade__channels_window(s, q);
    clade_emit_index(s, share);
    clade_emit_index(s, turn);
    CLADE_TRY(finish(s, q, clade__ceil_div(c->chunks, share)));
  }
  return CLADE_OK;
}

static size_t workspace(const clade_query *q) { return clade__channels_workspace(q, 1); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade__channels c = clade__channels_of(&q->node->in[X]);
  const int64_t share = clade__channels_share(q, &c, 1);
  if (share) return emit_turns(e, q, &c, share);
  if (clade__channels_whole(q, &c, 1)) return finish(all_of(e, "batch_norm_forward_whole", q, &c), q, c.groups);
  emit_moments(e, q, &c);
  emit_join(e, q, &c);
  return emit_scale(e, q, &c);
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  in[X] = out[Y] = clade__channel_blocks();
  for (int i = OWN; i < q->node->n_in; i++) in[i] = clade__channel_blocks();
}

/* ---- group: teams of work-items have whole channels, or sum chunks of channels, which are combined then ---- */
static const char *group_accept(const clade_query *q) { return clade__columns_refuses(q, 2); }
static const char *group_last_accept(const clade_query *q) { return clade__columns_last_refuses(q, 2); }
static void group_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  in[X] = out[Y] = clade__channels_last(1, q->node->in[X].shape.dim[1]);
  for (int i = OWN; i < q->node->n_in; i++) in[i] = in[X];
}

static void group_join(clade_emit *e, const clade_query *q, const clade__columns *p) {
  const attrs *a = q->node->attrs;
  const int64_t channels = q->node->in[X].shape.dim[1];
  clade_kernel_step *s = clade_emit_kernel(e, "batch_norm_forward_group_join");
  clade__columns_emit(s, p);
  clade_emit_in(s, RUNNING_MEAN);
  clade_emit_in(s, RUNNING_VAR);
  for (int i = MEAN; i <= NEXT_VAR; i++) clade_emit_out(s, i);
  clade_emit_index(s, channels);
  clade_emit_f32(s, a->eps);
  clade_emit_f32(s, a->momentum);
  clade__emit_groups(s, q, &p->join, channels);
}

static clade_status group_scale(clade_emit *e, const clade_query *q) {
  int64_t none[CLADE__ELT_INPUTS][CLADE_MAX_RANK] = {{0}}; /* the epilogue's operands have y's memory order */
  const clade__channels c = clade__channels_run(&q->node->in[X]);
  const int64_t total = c.channels * c.count;
  clade_kernel_step *s = begin_scale(e, "batch_norm_forward_group_scale", q, total);
  clade_emit_index(s, c.channels);
  clade_emit_index(s, c.inner);
  CLADE_TRY(clade__epilogue_define(s, q->node));
  clade__epilogue_args(s, q->node, none);
  clade__emit_fours(s, total);
  return CLADE_OK;
}

static clade_status group_whole(clade_emit *e, const clade_query *q, const clade__group *team) {
  int64_t none[CLADE__ELT_INPUTS][CLADE_MAX_RANK] = {{0}}; /* the epilogue's operands have y's memory order */
  const attrs *a = q->node->attrs;
  clade_kernel_step *s = clade__columns_emit_whole(e, q, "batch_norm_forward_group_whole", team, 5);
  clade_emit_f32(s, a->eps);
  clade_emit_f32(s, a->momentum);
  CLADE_TRY(clade__epilogue_define(s, q->node));
  clade__epilogue_args(s, q->node, none);
  return CLADE_OK;
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  clade__group team;
  if (clade__columns_whole(q, &team)) return group_whole(e, q, &team);
  const clade__columns p = clade__columns_of(&q->node->in[X]);
  clade_kernel_step *s = clade_emit_kernel(e, "batch_norm_forward_group_moments");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  clade_emit_in(s, X);
  clade__columns_emit(s, &p);
  clade__emit_groups(s, q, &p.sums, p.columns * p.chunks);
  group_join(e, q, &p);
  return group_scale(e, q);
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "blocked", CLADE__LONG_VEC, .accept = clade__channels_blocked, .layouts = layouts,
               .cost = clade__channels_cost, .workspace = workspace, .emit = emit),
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = clade__columns_cost, .workspace = clade__columns_workspace,
               .emit = group_emit, .file = "batch_norm_group"),
    CLADE_IMPL(.name = "group_last", CLADE__TEAMS, .accept = group_last_accept, .layouts = group_last_layouts,
               .cost = clade__columns_cost, .workspace = clade__columns_workspace, .emit = group_emit,
               .file = "batch_norm_group"),
    CLADE__SYSTOLIC(batch_norm) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = clade__channels_accept,
               .cost = clade__channels_cost, .workspace = workspace, .emit = emit),
    NULL,
};

/* x is read completely before y is written, and running values element by element. */
static uint64_t in_place(const clade_node *n, int out) {
  (void)n;
  return out == Y ? 1u << X : out == NEXT_MEAN ? 1u << RUNNING_MEAN : out == NEXT_VAR ? 1u << RUNNING_VAR : 0;
}

const clade_op clade__op_batch_norm = {
    .size = sizeof(clade_op),
    .name = "batch_norm",
    .min_in = 5,
    .max_in = OWN + CLADE__ELT_INPUTS - 1,
    .n_out = 5,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .carries = 1, /* x */
    .dims = dims,
};

clade_val clade__batch_norm(clade_graph *g, const clade_val in[5], float eps, float momentum, clade_val next[2]) {
  attrs a;
  memset(&a, 0, sizeof a); /* attributes are compared and hashed bytewise, padding included */
  a.eps = eps, a.momentum = momentum;
  clade_val out[5] = {{0}};
  clade_node_add(g, &clade__op_batch_norm, NULL, &a, 5, in, out);
  next[0] = out[NEXT_MEAN];
  next[1] = out[NEXT_VAR];
  return out[Y];
}
