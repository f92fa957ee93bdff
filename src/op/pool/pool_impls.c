/* Implementations of pooling:
 *
 *   ref      one work-item per result
 *   vec      vectors along rows of pixels
 *   triples  vectors along rows, for the gradient of 3 x 3 max pooling with stride 2 and padding 1
 *   blocked  one channel per vector lane
 *   group    a strip of windows, or four pixels, per work-item; group_last: four channels of a window or pixel */
#include "op/group.h"
#include "op/pool/pool.h"
#include "op/systolic.h"

/* Buffer sizes of the kernels in floats: a row of pixels or the rows of a window; the windows that reach a pixel. */
enum { LINE = 4096, RING = 2048 };
enum { TRIPLES = 2048 }; /* windows per row, a multiple of 16 */
/* Pixels (of sixteen channels each) in a tile of a blocked gradient, and its maximum height. */
enum { BOX = 512, BOX_ROWS = 8 };

typedef clade__pool_task task;
task clade__pool_task_of(const clade_query *q) {
  const clade_node *n = q->node;
  bool max = n->op == &clade__op_max_pool2d || n->op == &clade__op_max_pool2d_grad;
  bool back = n->op == &clade__op_max_pool2d_grad || n->op == &clade__op_avg_pool2d_grad;
  const clade__pool_attrs *a = n->attrs;
  const clade_shape *in = &n->in[n->n_in - 1].shape, *out = &n->out[0].shape;
  task t = {.x = back ? *out : *in, .y = back ? *in : *out, .w = &a->window, .max = max, .back = back};
  int64_t block = CLADE_MAX(n->out[0].layout.block, 1);
  t.planes = t.x.dim[0] * clade__ceil_div(t.x.dim[1], block);
  t.divisor = !max && a->count_pad ? (int64_t)t.w->kernel[0] * t.w->kernel[1] : 0;
  return t;
}

/* Begins a kernel with its operands, shapes and index map. */
static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const task *t, const char *kernel) {
  const clade_node *n = q->node;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  for (int i = 0; i < n->n_in; i++) clade_emit_in(s, i);
  clade_emit_out(s, 0);
  clade_emit_index8(s, 8,
                    (int64_t[]){t->planes, t->x.dim[2], t->x.dim[3], t->y.dim[2], t->y.dim[3], t->w->kernel[0],
                                t->w->kernel[1], t->divisor});
  clade__emit_maps(s, t->w, clade__window_covers);
  return s;
}

static double taps(const task *t) { return (double)t->w->kernel[0] * (t->w->kernel[1] + 2.0) + 2; }
static double elements(const clade_query *q) { return (double)clade__product(&q->node->out[0].shape, 0, 4); }

/* ---- ref ---- */
static const char *ref_accept(const clade_query *q) { /* gradient: per covering window, a search of that window */
  task t = clade__pool_task_of(q);
  return clade__cut_short(q->device, t.max && t.back ? taps(&t) * taps(&t) : taps(&t));
}

static double ref_cost(const clade_query *q) {
  task t = clade__pool_task_of(q);
  return clade__cost(q->device, 8 * elements(q) * taps(&t), clade__node_bytes(q->node), 0.02);
}

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  task t = clade__pool_task_of(q);
  const char *kernel = !t.back ? "pool2d_forward_ref" : t.max ? "max_pool2d_backward_ref" : "avg_pool2d_backward_ref";
  const clade_shape *to = &q->node->out[0].shape;
  clade_kernel_step *s = begin(e, q, &t, kernel);
  if (!t.back) clade_emit_define(s, "MAX", t.max);
  clade_emit_range(s, 2, (size_t[]){(size_t)(to->dim[2] * to->dim[3]), (size_t)t.planes}, (size_t[]){16, 1});
  return CLADE_OK;
}

/* ---- vec ---- */
typedef struct plan {
  int64_t tile, joined; /* windows (or pixels, in the gradient) per tile of a row; rows that are processed as one */
  int64_t rows, piece;  /* rows of y, or bands of rows of x in the gradient, over all planes */
  int64_t bands;
} plan;

/* True if windows cover rows without gaps and overlaps, and rows follow each other without padding. */
static bool side_by_side(const task *t) {
  return t->w->kernel[1] <= t->w->stride[1] && !t->w->pad[0] && !t->w->pad[1] && !t->w->pad[2] && !t->w->pad[3] &&
         t->y.dim[3] * t->w->stride[1] == t->x.dim[3];
}

/* Number of windows of a row that fit into a work-item's buffers, a multiple of 8. */
static int64_t tile_of(const task *t) {
  int64_t kh = t->w->kernel[0], kw = t->w->kernel[1], sy = t->w->stride[0], sx = t->w->stride[1];
  int64_t tile = (LINE - kw - 16) / sx - 8;
  if (t->back) {
    int64_t more = (kw - 1) / sx, ring = (kh - 1) / sy + 1;
    tile = CLADE_MIN(tile, RING / ring - more - 16);
    if (t->max) tile = CLADE_MIN(tile, ((LINE - 8 * sx - 16) / kh - kw - 16) / sx - more);
  }
  return tile / 8 * 8;
}

static plan plan_of(const clade_query *q, const task *t) {
  plan p = {.tile = tile_of(t), .joined = 1};
  int64_t width = t->y.dim[3];
  p.bands = (t->x.dim[2] - 1 + t->w->pad[0]) / t->w->stride[0] + 1;
  p.rows = t->planes * (t->back ? p.bands : t->y.dim[2]);
  int64_t row = t->x.dim[3] * t->w->stride[0];
  p.piece = CLADE_MAX(clade__piece(q->device, p.rows * row, row, 1 << 15) / row, 1);
  if (!t->back && side_by_side(t)) p.joined = CLADE_MAX(CLADE_MIN(p.tile / CLADE_MAX(width, 1), p.piece), 1);
  if (p.joined > 1) p.tile = width;
  if (t->back) /* rows are padded to whole tiles */
    p.tile = CLADE_MIN(p.tile, ((t->x.dim[3] - 1 + t->w->pad[1]) / t->w->stride[1] + 8) / 8 * 8);
  return p;
}

static const char *vec_accept(const clade_query *q) {
  task t = clade__pool_task_of(q);
  if (t.w->dilation[0] > 1 || t.w->dilation[1] > 1) return "the window is dilated";
  return tile_of(&t) < 8 ? "the window is too large for a work-item's memory" : NULL;
}

static double vec_cost(const clade_query *q) {
  task t = clade__pool_task_of(q);
  return clade__cost(q->device, 8 * elements(q) * taps(&t), clade__node_bytes(q->node), 0.2);
}

static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  task t = clade__pool_task_of(q);
  plan p = plan_of(q, &t);
  clade_kernel_step *s = begin(e, q, &t, t.back ? "pool2d_backward_vec" : "pool2d_forward_vec");
  clade_emit_define(s, "MAX", t.max);
  clade_emit_define(s, "LINE", LINE);
  const clade__window *w = t.w;
  bool common = w->stride[0] == 2 && w->stride[1] == 2 && w->kernel[0] == w->kernel[1] &&
                (w->kernel[0] == 2 || w->kernel[0] == 3);
  clade_emit_define(s, "TAPS", common ? w->kernel[0] : 0);
  clade_emit_define(s, "STEP", 2);
  if (t.back) clade_emit_define(s, "RING", RING);
  if (t.back) clade_emit_index(s, p.bands);
  clade_emit_index(s, p.piece);
  clade_emit_index(s, p.tile);
  if (!t.back) clade_emit_index(s, p.joined);
  clade_emit_i32(s, clade__streams(q->device, t.back ? &q->node->out[0] : &q->node->in[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(p.rows, p.piece));
  return CLADE_OK;
}

/* ---- triples ---- */
static const char *triples_accept(const clade_query *q) {
  task t = clade__pool_task_of(q);
  bool fits = t.max && t.back;
  for (int i = 0; i < 2; i++) fits = fits && t.w->kernel[i] == 3 && t.w->stride[i] == 2 && t.w->dilation[i] == 1;
  for (int i = 0; i < 4; i++) fits = fits && t.w->pad[i] == 1;
  if (!fits) return "requires gradients of a 3 x 3 maximum with stride 2 and padding 1";
  return t.y.dim[3] > TRIPLES ? "a row exceeds a work-item's private memory" : NULL;
}

/* Preferred to `blocked`. */
static double triples_cost(const clade_query *q) { return 0.9 * vec_cost(q); }

static clade_status triples_emit(clade_emit *e, const clade_query *q) {
  task t = clade__pool_task_of(q);
  int64_t pairs = t.planes * t.y.dim[2], pair = 2 * t.x.dim[3];
  int64_t piece = CLADE_MAX(clade__piece(q->device, pairs * pair, pair, 1 << 15) / CLADE_MAX(pair, 1), 1);
  clade_kernel_step *s = begin(e, q, &t, "max_pool2d_backward_triples");
  clade_emit_define(s, "WIDE", TRIPLES);
  clade_emit_index(s, piece);
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, clade__ceil_div(pairs, piece));
  return CLADE_OK;
}

/* ---- blocked ---- */
static void blocked_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  for (int i = 0; i < q->node->n_in; i++) in[i] = clade__channel_blocks();
  out[0] = clade__channel_blocks();
}

/* Preferred to `vec` only slightly, so that it does not cause layout conversions. */
static double blocked_cost(const clade_query *q) { return 0.95 * vec_cost(q); }

static clade_status blocked_emit(clade_emit *e, const clade_query *q) {
  task t = clade__pool_task_of(q);
  clade_kernel_step *s = begin(e, q, &t, t.back ? "pool2d_backward_blocked" : "pool2d_forward_blocked");
  clade_emit_define(s, "MAX", t.max);
  int64_t rows = t.planes * t.y.dim[2], width = t.y.dim[3] * t.w->stride[1] * CLADE__LANES, items;
  if (t.back) {
    int64_t high = CLADE_MIN(t.x.dim[2], BOX_ROWS), wide = CLADE_MIN(t.x.dim[3], BOX / CLADE_MAX(high, 1));
    clade_emit_define(s, "BOX", BOX * CLADE__LANES);
    clade_emit_index(s, high);
    clade_emit_index(s, wide);
    items = high && wide ? t.planes * clade__ceil_div(t.x.dim[2], high) * clade__ceil_div(t.x.dim[3], wide) : 0;
  } else {
    int64_t piece = CLADE_MAX(clade__piece(q->device, rows * width, width, 1 << 15) / CLADE_MAX(width, 1), 1);
    clade_emit_index(s, piece);
    items = clade__ceil_div(rows, piece);
  }
  clade_emit_i32(s, clade__streams(q->device, &q->node->out[0]));
  clade__emit_flat(s, q->device, items);
  return CLADE_OK;
}

/* ---- group: for GPUs; the gradient of max pooling first finds the index of each maximum ---- */
enum { STRIP = 4 }; /* the same in the kernels */

static const char *group_accept(const clade_query *q) {
  task t = clade__pool_task_of(q);
  if (t.max && t.back && t.x.dim[2] * t.x.dim[3] > INT32_MAX) return "a plane's pixels exceed the range of i32";
  return clade__group_refuses(q, (t.back ? 1 : STRIP) * taps(&t));
}

static double group_cost(const clade_query *q) {
  task t = clade__pool_task_of(q);
  return clade__cost(q->device, 8 * elements(q) * taps(&t), clade__node_bytes(q->node), 0.3);
}

static size_t group_workspace(const clade_query *q) {
  task t = clade__pool_task_of(q);
  return t.max && t.back ? (size_t)clade__product(&t.y, 0, 4) * sizeof(int32_t) : 0;
}

static void group_sizes(clade_kernel_step *s, const task *t) {
  clade_emit_index8(s, 8,
                    (int64_t[]){t->planes, t->x.dim[2], t->x.dim[3], t->y.dim[2], t->y.dim[3], t->w->kernel[0],
                                t->w->kernel[1], t->divisor});
  clade__emit_maps(s, t->w, clade__window_covers);
}

static void group_windows(clade_emit *e, const clade_query *q, const task *t) {
  const int64_t total = t->planes * clade__ceil_div(t->y.dim[2], STRIP) * t->y.dim[3];
  const bool square = t->w->kernel[0] == t->w->kernel[1] && t->w->dilation[0] == 1 && t->w->dilation[1] == 1;
  const size_t items = (size_t)total, group = CLADE__GROUP_ITEMS;
  clade_kernel_step *s = clade_emit_kernel(e, "pool2d_forward_group");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_define(s, "TAPS", square && t->w->kernel[0] <= 3 ? t->w->kernel[0] : 0);
  clade_emit_define(s, "WINNERS", t->back);
  clade_emit_define(s, "MAX", t->max);
  clade_emit_in(s, 0);
  if (t->back)
    clade_emit_workspace(s, 0, sizeof(int32_t));
  else
    clade_emit_out(s, 0);
  group_sizes(s, t);
  clade_emit_index(s, total);
  clade_emit_range(s, 1, &items, &group);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  const task t = clade__pool_task_of(q);
  const int64_t fours = (t.x.dim[3] + 3) / 4, total = t.planes * t.x.dim[2] * fours;
  if (!t.back || t.max) group_windows(e, q, &t);
  if (!t.back) return CLADE_OK;
  clade_kernel_step *s = clade_emit_kernel(e, t.max ? "max_pool2d_backward_group" : "avg_pool2d_backward_group");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  if (t.max) clade_emit_workspace(s, 0, sizeof(int32_t));
  clade_emit_in(s, q->node->n_in - 1);
  clade_emit_out(s, 0);
  group_sizes(s, &t);
  clade_emit_index(s, fours);
  clade_emit_index(s, total);
  clade__emit_fours(s, 4 * total);
  return CLADE_OK;
}

/* ---- group_last: channels last ---- */
static const char *group_last_accept(const clade_query *q) {
  task t = clade__pool_task_of(q);
  const char *reason = clade__channels_last_refuse(&t.x);
  if (!reason && t.y.dim[2] * t.y.dim[3] == 1) reason = clade__channels_last_refuse(&t.y);
  if (t.max && t.back && t.x.dim[2] * t.x.dim[3] > INT32_MAX) return "a plane's pixels exceed the range of i32";
  return reason ? reason : clade__group_refuses(q, taps(&t));
}

static void group_last_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  out[0] = clade__channels_last(1, q->node->out[0].shape.dim[1]);
  for (int i = 0; i < q->node->n_in; i++) in[i] = out[0];
}

static void group_last_end(clade_kernel_step *s, const task *t, const clade_shape *to) {
  const int64_t total = clade__product(to, 0, 4);
  group_sizes(s, t);
  clade_emit_index(s, t->x.dim[1]);
  clade_emit_index(s, total / 4);
  clade__emit_fours(s, total);
}

static clade_status group_last_emit(clade_emit *e, const clade_query *q) {
  const task t = clade__pool_task_of(q);
  const char *type = clade_dtype_name(q->node->in[0].dtype);
  clade_kernel_step *s;
  if (!t.back || t.max) {
    s = clade_emit_kernel(e, "pool2d_forward_group_last");
    clade_emit_define_text(s, "T", type);
    clade_emit_define(s, "WINNERS", t.back);
    clade_emit_define(s, "MAX", t.max);
    clade_emit_in(s, 0);
    if (t.back)
      clade_emit_workspace(s, 0, sizeof(int32_t));
    else
      clade_emit_out(s, 0);
    group_last_end(s, &t, &t.y);
  }
  if (!t.back) return CLADE_OK;
  s = clade_emit_kernel(e, "pool2d_backward_group_last");
  clade_emit_define_text(s, "T", type);
  clade_emit_define(s, "MAX", t.max);
  if (t.max) clade_emit_workspace(s, 0, sizeof(int32_t));
  clade_emit_in(s, q->node->n_in - 1);
  clade_emit_out(s, 0);
  group_last_end(s, &t, &t.x);
  return CLADE_OK;
}

const clade_impl *const clade__pool_impls[] = {
    CLADE_IMPL(.name = "triples", CLADE__LONG_VEC, .accept = triples_accept, .cost = triples_cost, .emit = triples_emit,
               .file = "pool2d_triples"),
    CLADE_IMPL(.name = "blocked", CLADE__LONG_VEC, .layouts = blocked_layouts, .cost = blocked_cost,
               .emit = blocked_emit, .file = "pool2d_blocked"),
    CLADE_IMPL(.name = "vec", CLADE__LONG_VEC, .accept = vec_accept, .cost = vec_cost, .emit = vec_emit),
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = group_cost, .workspace = group_workspace,
               .emit = group_emit, .file = "pool2d_group"),
    CLADE_IMPL(.name = "group_last", CLADE__NO_TEAMS, .accept = group_last_accept, .layouts = group_last_layouts,
               .cost = group_cost, .workspace = group_workspace, .emit = group_last_emit, .file = "pool2d_group_last"),
    CLADE__SYSTOLIC(pool)      /* with its comma */
    CLADE__SYSTOLIC(pool_grad) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit),
    NULL,
};
