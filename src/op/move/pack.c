/* Conversion to a blocked layout: splits an axis into blocks, and optionally interleaves elements of the preceding
 * axis. Padding is zero. */
#include <clade/ops.h>

#include "op/conv/conv.h"
#include "op/move/pack.h"

typedef clade__pack_attrs attrs;
static const clade_attr table[] = {{"axis", CLADE_ATTR_I32, offsetof(attrs, axis), 1},
                                   {"block", CLADE_ATTR_I32, offsetof(attrs, block), 1},
                                   {"interleave", CLADE_ATTR_I32, offsetof(attrs, interleave), 1},
                                   {"tile", CLADE_ATTR_I32, offsetof(attrs, tile), 1},
                                   {0}};

enum { MOST_LANES = 4 * CLADE__LANES }; /* lanes in private memory, 36 values each */

/* The layouts for panels, Winograd weights and weight spectra are introduced by layout selection, never by builders. */
static bool takes_tile(const clade_node *n, int axis) {
  const attrs *a = n->attrs;
  const clade_shape *w = &n->in[0].shape;
  if (a->tile == CLADE_PANELS)
    return (w->rank >= 2 && axis >= w->rank - 2) || (w->rank == 4 && (axis == 1 || a->interleave > 1));
  if (w->rank != 4 || axis > 1 || n->in[0].dtype != CLADE_F32 || a->interleave > 1) return false;
  if (a->tile == 4 || a->tile == 6)
    return w->dim[2] == 3 && w->dim[3] == 3 && a->block % CLADE__LANES == 0 && a->block <= MOST_LANES;
  return (a->tile == 16 || a->tile == 32 || a->tile == 64) && w->dim[2] <= a->tile && w->dim[3] <= a->tile &&
         a->block == CLADE__LANES;
}

static clade_status check_tile(const clade_node *n, int axis) {
  const attrs *a = n->attrs;
  if (!a->tile || takes_tile(n, axis)) return CLADE_OK;
  return CLADE_FAIL(
      INVALID,
      "pack: tile is %d; expected %d for a matrix in blocks of one of the last two axes or for weights of "
      "windows in blocks of axis 1, or 0 if interleaved, for f32 weights of windows along axis 0 or 1 4 or 6 (of 3 x "
      "3, in blocks of a "
      "multiple of %d, at most %d) or 16, 32 or 64 (of no larger ones, in blocks of %d), else 0",
      a->tile, CLADE_PANELS, CLADE__LANES, MOST_LANES, CLADE__LANES);
}

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  int axis;
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__axis("pack", a->axis, n->in[0].shape.rank, &axis));
  if (a->block < 1 || a->block > UINT16_MAX)
    return CLADE_FAIL(INVALID, "pack: block is %d; expected 1 to %d", a->block, UINT16_MAX);
  if (a->interleave < 0 || a->interleave > UINT16_MAX)
    return CLADE_FAIL(INVALID, "pack: interleave is %d; expected 0 to %d", a->interleave, UINT16_MAX);
  if (a->interleave > 1 && axis == 0 && !a->tile)
    return CLADE_FAIL(INVALID, "pack: interleave is %d, but there is no axis before axis 0", a->interleave);
  CLADE_TRY(check_tile(n, axis));
  n->out[0] = n->in[0];
  n->out[0].layout = (clade_layout){.axis = (int16_t)axis,
                                    .block = (uint16_t)a->block,
                                    .interleave = (uint16_t)a->interleave,
                                    .tile = (uint16_t)a->tile};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  g->din[0] = clade_unpack(g->graph, g->dout[0]);
  return CLADE_OK;
}

clade__packed clade__packed_of(const clade_type *t) {
  const clade_shape *s = &t->shape;
  int axis = t->layout.axis;
  int64_t interleave = CLADE_MAX(t->layout.interleave, 1);
  clade__packed p = {.outer = 1, .before = 1, .block = t->layout.block, .interleave = interleave};
  if (interleave > 1) p.before = s->dim[axis - 1];
  p.outer = clade__product(s, 0, interleave > 1 ? axis - 1 : axis);
  p.axis = s->dim[axis];
  p.inner = clade__product(s, axis + 1, s->rank);
  return p;
}

void clade__packed_args(clade_kernel_step *s, const clade__packed *p) {
  clade_emit_index(s, p->outer);
  clade_emit_index(s, p->before);
  clade_emit_index(s, p->axis);
  clade_emit_index(s, p->inner);
  clade_emit_i32(s, (int32_t)p->block);
  clade_emit_i32(s, (int32_t)p->interleave);
}

int64_t clade__packed_blocks(const clade__packed *p) {
  int64_t rows = clade__ceil_div(p->before, p->interleave), blocks = clade__ceil_div(p->axis, p->block);
  return p->outer * rows * blocks * p->inner;
}

/* ---- tiles ---- */
enum { STRIP = 256 };
static const char other_base[] = "does not support panels or transformed weights";

const char *clade__packed_tiles(const clade_type *blocked) {
  if (blocked->layout.tile) return other_base;
  if (clade__element_bytes(blocked->dtype) > 4) return "requires elements of up to 32 bits";
  return blocked->layout.block % CLADE__LANES || blocked->layout.interleave > 1
             ? "requires blocks of a multiple of 16 elements"
             : NULL;
}

double clade__packed_cost(const clade_query *q, bool tiles) {
  return clade__cost(q->device, 0, (tiles ? 1 : 3) * clade__node_bytes(q->node), 1);
}

void clade__packed_emit_tiles(clade_emit *e, const clade_query *q, const clade_type *blocked, const char *kernel) {
  clade__packed p = clade__packed_of(blocked);
  int64_t strips = clade__ceil_div(p.inner, STRIP), blocks = clade__ceil_div(p.axis, p.block);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade__raw_name(blocked->dtype));
  clade_emit_define(s, "STRIP", STRIP);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade_emit_index(s, p.outer);
  clade_emit_index(s, p.axis);
  clade_emit_index(s, p.inner);
  clade_emit_index(s, p.block);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, p.outer * blocks * strips);
}

static const char *tiles_accept(const clade_query *q) { return clade__packed_tiles(&q->node->out[0]); }
static double tiles_cost(const clade_query *q) { return clade__packed_cost(q, true); }
static clade_status tiles_emit(clade_emit *e, const clade_query *q) {
  clade__packed_emit_tiles(e, q, &q->node->out[0], "pack_forward_tiles");
  return CLADE_OK;
}

/* ---- group: channels last, and other layouts without padding; each block is a matrix that is transposed ---- */
const char *clade__packed_turns(const clade_query *q, const clade_type *blocked) {
  const clade_layout *l = &blocked->layout;
  if (l->tile) return other_base;
  if (clade__element_bytes(blocked->dtype) > 4) return "requires elements of up to 32 bits";
  if (l->interleave > 1 || l->block < 8 || blocked->shape.dim[l->axis] % l->block)
    return "requires whole blocks of at least 8 elements";
  return clade__group_refuses(q, 2 * CLADE__TURNED_TILE);
}

void clade__packed_emit_turned(clade_emit *e, const clade_type *blocked, bool packs) {
  const clade__packed p = clade__packed_of(blocked);
  const int64_t matrices = p.outer * (p.axis / p.block);
  clade__emit_turned(e, clade__raw_name(blocked->dtype), matrices, packs ? p.block : p.inner,
                     packs ? p.inner : p.block);
}

static const char *group_accept(const clade_query *q) { return clade__packed_turns(q, &q->node->out[0]); }
static clade_status group_emit(clade_emit *e, const clade_query *q) {
  clade__packed_emit_turned(e, &q->node->out[0], true);
  return CLADE_OK;
}

/* ---- panels: of a matrix or of convolution weights, block after block ---- */
static const char *panels_accept(const clade_query *q) {
  return q->node->out[0].layout.tile == CLADE_PANELS ? NULL : "packs panels only";
}
static bool is_words(const clade_type *t) {
  return t->shape.rank == 4 && t->layout.axis <= 1 && t->layout.interleave > 1;
}

/* Elements of other than 32 bits are moved one by one, at the estimated cost of ALONE floating-point operations per
 * byte. The cost for matrices is raised, because implementations that pack a matrix themselves overlap packing with
 * multiplying, and because estimates of products of bytes are six times too long. */
static double panels_cost(const clade_query *q) {
  enum { ALONE = 660 };
  const clade_type *t = &q->node->out[0];
  const double bytes = clade__node_bytes(q->node);
  if (is_words(t)) return clade__cost(q->device, 0, (clade__element_bytes(t->dtype) == 2 ? 1.5 : 12) * bytes, 1);
  if (t->layout.axis < t->shape.rank - 2)
    return clade__cost(q->device, 0, (clade__element_bytes(t->dtype) == 4 ? 1 : 12) * bytes, 1);
  if (clade__element_bytes(t->dtype) == 4) return clade__cost(q->device, 0, 3 * bytes, 1);
  return clade__cost(q->device, ALONE * bytes, 0, 1);
}

/* Weights of windows with interleaved inner channels: for each block and tap, all inner channels. */
static clade_status words_emit(clade_emit *e, const clade_query *q) {
  enum { TAPS = 64 };
  const clade_type *t = &q->node->out[0];
  const clade_shape *s = &t->shape;
  const int axis = t->layout.axis;
  const int64_t window = s->dim[2] * s->dim[3], block = t->layout.block, interleave = t->layout.interleave;
  const int64_t steps = clade__ceil_div(s->dim[!axis], interleave), strides[] = {s->dim[1] * window, window};
  clade_kernel_step *step = clade_emit_kernel(e, "pack_forward_words");
  clade_emit_define(step, "TAPS", TAPS);
  clade_emit_in(step, 0);
  clade_emit_out(step, 0);
  clade_emit_index8(step, 8,
                    (int64_t[]){s->dim[axis], s->dim[!axis], window, strides[axis], strides[!axis], block, interleave,
                                (int64_t)clade__element_bytes(t->dtype)});
  clade__emit_flat(step, q->device, clade__ceil_div(s->dim[axis], block) * steps * clade__ceil_div(window, TAPS));
  return CLADE_OK;
}

static clade_status panels_emit(clade_emit *e, const clade_query *q) {
  enum { RUN = 16 };
  const clade_type *t = &q->node->out[0];
  const clade_shape *s = &t->shape;
  if (is_words(t)) return words_emit(e, q);
  const bool last = t->layout.axis == s->rank - 1, windows = t->layout.axis < s->rank - 2;
  const int64_t axis = s->dim[t->layout.axis], n = windows ? s->dim[0] : 1;
  const int64_t window = windows ? s->dim[2] * s->dim[3] : s->dim[s->rank - 1 - last];
  const int64_t block = t->layout.block, interleave = CLADE_MAX(t->layout.interleave, 1);
  const int64_t matrices = windows ? 1 : clade__product(s, 0, s->rank - 2);
  const int64_t run = last ? interleave : clade__up(RUN, interleave), apart = last ? axis : 1;
  const int64_t along = last ? 1 : window, across = axis * window;
  clade_kernel_step *step = clade_emit_kernel(e, "pack_forward_panels");
  clade_emit_in(step, 0);
  clade_emit_out(step, 0);
  clade_emit_index8(step, 8, (int64_t[]){matrices, axis, n, window, along, across, apart, run});
  clade_emit_index(step, (int64_t)clade__element_bytes(t->dtype));
  clade_emit_index(step, block);
  clade_emit_index(step, interleave);
  clade__emit_flat(step, q->device, matrices * clade__ceil_div(axis, block) * n * clade__ceil_div(window, run));
  return CLADE_OK;
}

/* ---- winograd: transformed weights ---- */
static const char *winograd_accept(const clade_query *q) {
  int tile = q->node->out[0].layout.tile;
  return tile > CLADE_PANELS && tile < CLADE_SPECTRUM ? NULL : "packs Winograd's weights only";
}

/* ---- fft: weight spectra ---- */
static const char *fft_accept(const clade_query *q) {
  return q->node->out[0].layout.tile >= CLADE_SPECTRUM ? NULL : "packs spectra of weights only";
}

/* ---- ref ---- */
static const char *ref_accept(const clade_query *q) { return q->node->out[0].layout.tile ? other_base : NULL; }
static double cost(const clade_query *q) { return clade__packed_cost(q, false); }

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade__packed p = clade__packed_of(&q->node->out[0]);
  clade_kernel_step *s = clade_emit_kernel(e, "pack_forward_ref");
  clade_emit_define_text(s, "T", clade__raw_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  clade__packed_args(s, &p);
  clade__emit_flat(s, q->device, clade__packed_blocks(&p));
  return CLADE_OK;
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  in[0] = (clade_layout){0};
  out[0] = q->node->out[0].layout;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "tiles", CLADE__LONG_VEC, .accept = tiles_accept, .layouts = layouts, .cost = tiles_cost,
               .emit = tiles_emit),
    CLADE_IMPL(CLADE__GROUP_PLAIN, CLADE__PACKED_TURNS, .accept = group_accept, .emit = group_emit),
    CLADE_IMPL(.name = "panels", .family = CLADE_FAMILY_VEC, .accept = panels_accept, .layouts = layouts,
               .cost = panels_cost, .emit = panels_emit),
    CLADE_IMPL(.name = "winograd", .family = CLADE_FAMILY_VEC, .accept = winograd_accept, .layouts = layouts,
               .cost = clade__transformed_weights_cost, .emit = clade__transformed_weights_emit,
               .file = "conv2d_winograd"),
    CLADE_IMPL(.name = "fft", .family = CLADE_FAMILY_VEC, .accept = fft_accept, .layouts = layouts,
               .cost = clade__transformed_weights_cost, .emit = clade__transformed_weights_emit, .file = "conv2d_fft"),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .layouts = layouts, .cost = cost,
               .emit = emit),
    NULL,
};

const clade_op clade__op_pack = {
    .size = sizeof(clade_op),
    .name = "pack",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
    .autocast = CLADE_AUTOCAST_CARRY,
};

clade_val clade_pack(clade_graph *g, clade_val x, clade_layout layout) {
  clade_type type;
  attrs a;
  memset(&a, 0, sizeof a);
  clade_status status = clade_val_type(g, x, &type);
  int axis = 0;
  if (status == CLADE_OK) status = clade__axis("x", layout.axis, type.shape.rank, &axis);
  if (status == CLADE_OK && layout.tile)
    status = CLADE_FAIL(INVALID, "pack: .tile is %u; expected 0: implementations ask for it", layout.tile);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "pack");
  a.axis = axis;
  a.block = layout.block;
  a.interleave = layout.interleave;
  return clade_node_add(g, &clade__op_pack, NULL, &a, 1, &x, NULL);
}
