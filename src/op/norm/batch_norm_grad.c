/* Gradients of batch normalization in training mode with respect to input, weight and bias. Sums over a channel have an
 * error of at most 2^-19 of the sum of absolute terms; each element of the input's gradient contains them. */
#include "op/norm/batch_norm.h"
#include "op/systolic.h"

enum { X, DY, WEIGHT, MEAN, RSTD };
static const char *const names[] = {"weight", "mean", "rstd"};

static clade_status infer(clade_node *n) {
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, X, "x"));
  if (n->in[X].shape.rank < 2)
    return CLADE_FAIL(BAD_SHAPE, "batch_norm_grad: x has %d dimensions; expected [samples, channels, …]",
                      n->in[X].shape.rank);
  if (!clade_type_equal(&n->in[X], &n->in[DY])) {
    char a[200], b[200];
    return CLADE_FAIL(BAD_SHAPE, "batch_norm_grad: dy is %s%s, x %s%s; expected the same",
                      clade_dtype_name(n->in[DY].dtype), clade_shape_text(&n->in[DY].shape, a, sizeof a),
                      clade_dtype_name(n->in[X].dtype), clade_shape_text(&n->in[X].shape, b, sizeof b));
  }
  CLADE_TRY(clade__want_channels(n, WEIGHT, 3, names));
  n->out[0] = n->in[X];
  n->out[1] = n->out[2] = n->in[WEIGHT];
  return CLADE_OK;
}

static void emit_sums(clade_emit *e, const clade_query *q, const clade__channels *c) {
  clade_kernel_step *s = clade_emit_kernel(e, "batch_norm_grad_sums");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  clade_emit_in(s, X);
  clade_emit_in(s, DY);
  clade_emit_in(s, MEAN);
  clade__channels_emit(s, c);
  clade__emit_flat(s, q->device, c->groups * c->chunks);
}

static void emit_join(clade_emit *e, const clade_query *q, const clade__channels *c) {
  clade_kernel_step *s = clade_emit_kernel(e, "batch_norm_grad_join");
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_in(s, RSTD);
  clade_emit_out(s, 1);
  clade_emit_out(s, 2);
  clade_emit_index(s, c->channels);
  clade_emit_index(s, c->chunks);
  clade__emit_flat(s, q->device, c->channels);
}

static void emit_spread(clade_emit *e, const clade_query *q, const clade__channels *c) {
  int64_t total = c->groups * c->block * c->count;
  int64_t piece = clade__up(clade__piece(q->device, total, 16, 1 << 14), CLADE__LANES);
  clade_kernel_step *s = clade_emit_kernel(e, "batch_norm_grad_spread");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= RSTD; i++) clade_emit_in(s, i);
  for (int i = 1; i <= 2; i++) clade_emit_out(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, total);
  clade_emit_index(s, piece);
  clade_emit_index(s, c->channels);
  clade_emit_index(s, c->inner);
  clade_emit_f32(s, (float)c->count);
  clade_emit_index(s, c->block);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(total, piece));
}

/* Arguments of kernels that do all passes over a channel. */
static clade_kernel_step *all_of(clade_emit *e, const char *kernel, const clade_query *q, const clade__channels *c) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  for (int i = X; i <= RSTD; i++) clade_emit_in(s, i);
  for (int i = 0; i < 3; i++) clade_emit_out(s, i);
  clade__channels_emit(s, c);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  return s;
}

static void emit_turns(clade_emit *e, const clade_query *q, const clade__channels *c, int64_t share) {
  for (int64_t turn = 0; turn <= c->channels; turn++) {
    clade_kernel_step *s = all_of(e, "batch_norm_grad_turn", q, c);
    clade__channels_window(s, q);
    clade_emit_index(s, share);
    clade_emit_index(s, turn);
    clade__emit_flat(s, q->device, clade__ceil_div(c->chunks, share));
  }
}

static size_t workspace(const clade_query *q) { return clade__channels_workspace(q, 2); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade__channels c = clade__channels_of(&q->node->in[X]);
  const int64_t share = clade__channels_share(q, &c, 2);
  if (share) {
    emit_turns(e, q, &c, share);
  } else if (clade__channels_whole(q, &c, 2)) {
    clade__emit_flat(all_of(e, "batch_norm_grad_whole", q, &c), q->device, c.groups);
  } else {
    emit_sums(e, q, &c);
    emit_join(e, q, &c);
    emit_spread(e, q, &c);
  }
  return CLADE_OK;
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q;
  in[X] = in[DY] = out[0] = clade__channel_blocks();
}

/* ---- group: teams of work-items have whole channels, or sum chunks of channels, which are combined then ---- */
static const char *group_accept(const clade_query *q) { return clade__columns_refuses(q, 1); }
static const char *group_last_accept(const clade_query *q) { return clade__columns_last_refuses(q, 1); }
static void group_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  in[X] = in[DY] = out[0] = clade__channels_last(1, q->node->in[X].shape.dim[1]);
}

static clade_kernel_step *group_step(clade_emit *e, const clade_query *q, const char *kernel) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[X].dtype));
  clade_emit_in(s, X);
  clade_emit_in(s, DY);
  return s;
}

static void group_sums(clade_emit *e, const clade_query *q) {
  const clade__columns p = clade__columns_of(&q->node->in[X]);
  const int64_t channels = q->node->in[X].shape.dim[1];
  clade_kernel_step *s = group_step(e, q, "batch_norm_grad_group_sums");
  clade_emit_in(s, MEAN);
  clade__columns_emit(s, &p);
  clade__emit_groups(s, q, &p.sums, p.columns * p.chunks);
  s = clade_emit_kernel(e, "batch_norm_grad_group_join");
  clade__columns_emit(s, &p);
  clade_emit_in(s, RSTD);
  clade_emit_out(s, 1);
  clade_emit_out(s, 2);
  clade_emit_index(s, channels);
  clade__emit_groups(s, q, &p.join, channels);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  clade__group team;
  if (clade__columns_whole(q, &team)) {
    clade__columns_emit_whole(e, q, "batch_norm_grad_group_whole", &team, 3);
    return CLADE_OK;
  }
  const clade__channels c = clade__channels_run(&q->node->in[X]);
  group_sums(e, q);
  clade_kernel_step *s = group_step(e, q, "batch_norm_grad_group_spread");
  for (int i = WEIGHT; i <= RSTD; i++) clade_emit_in(s, i);
  for (int i = 1; i <= 2; i++) clade_emit_out(s, i);
  clade_emit_out(s, 0);
  clade_emit_index(s, c.channels * c.count);
  clade_emit_index(s, c.channels);
  clade_emit_index(s, c.inner);
  clade_emit_f32(s, (float)c.count);
  clade__emit_fours(s, c.channels * c.count);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "blocked", CLADE__LONG_VEC, .accept = clade__channels_blocked, .layouts = layouts,
               .cost = clade__channels_cost, .workspace = workspace, .emit = emit),
    CLADE_IMPL(CLADE__GROUP, .accept = group_accept, .cost = clade__columns_cost, .workspace = clade__columns_workspace,
               .emit = group_emit, .file = "batch_norm_group"),
    CLADE_IMPL(.name = "group_last", CLADE__TEAMS, .accept = group_last_accept, .layouts = group_last_layouts,
               .cost = clade__columns_cost, .workspace = clade__columns_workspace, .emit = group_emit,
               .file = "batch_norm_group"),
    CLADE__SYSTOLIC(batch_norm_grad) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = clade__channels_accept,
               .cost = clade__channels_cost, .workspace = workspace, .emit = emit),
    NULL,
};

const clade_op clade__op_batch_norm_grad = {
    .size = sizeof(clade_op),
    .name = "batch_norm_grad",
    .min_in = 5,
    .max_in = 5,
    .n_out = 3,
    .infer = infer,
    .in_place = clade__dx_in_place,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
    .carries = 3, /* x and dy */
};
