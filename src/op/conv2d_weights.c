/* The derivative of a convolution by its weights: for each of them, the sum over images and pixels of x times y. The
 * sum is cut into parts that are added in a fixed order; each result is within (P + 4) 2^-24 of sum |x y| over its P
 * products, besides the rounding to the stored type. */
#include "op/conv.h"

#include <math.h>

static clade_status infer(clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade_shape y;
  CLADE_TRY(clade__conv_operands(n));
  CLADE_TRY(clade__conv_check(n, &n->in[0].shape, &a->shape, &n->in[1].shape, &y));
  n->out[0] = (clade_type){.dtype = n->in[0].dtype, .shape = a->shape};
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  const clade__conv_attrs *a = g->node->attrs;
  clade_val x = g->in[0], y = g->in[1], dw = g->dout[0];
  if (g->wanted[0]) g->din[0] = clade__conv_node(g->graph, &clade__op_conv2d_data, a, y, dw, &g->node->in[0].shape);
  if (g->wanted[1]) g->din[1] = clade__conv_node(g->graph, &clade__op_conv2d, a, x, dw, NULL);
  return CLADE_OK;
}

/* ---- what implementations share: parts of the sum in scratch memory, and a second launch that joins them ---- */
typedef struct problem {
  int64_t n, groups, rows, inner, source[2], result[2], kernel[2];
  int64_t columns, outputs; /* weights of a row; of all */
} problem;

static problem problem_of(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  const clade_shape *x = &n->in[0].shape, *y = &n->in[1].shape, *w = &n->out[0].shape;
  problem p = {.n = x->dim[0],
               .groups = a->groups,
               .rows = w->dim[0] / a->groups,
               .inner = w->dim[1],
               .source = {x->dim[2], x->dim[3]},
               .result = {y->dim[2], y->dim[3]},
               .kernel = {w->dim[2], w->dim[3]}};
  p.columns = p.inner * p.kernel[0] * p.kernel[1];
  p.outputs = w->dim[0] * p.columns;
  return p;
}

/* A sum in one part of the stored type is the result already. */
static bool direct(const clade_query *q, int64_t parts) { return parts == 1 && q->node->out[0].dtype == CLADE_F32; }

static size_t scratch(const clade_query *q, int64_t parts) {
  size_t bytes = 0;
  bool fits =
      direct(q, parts) || clade__mul((size_t)parts * sizeof(float), (size_t)problem_of(q->node).outputs, &bytes);
  return fits ? bytes : SIZE_MAX;
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel, const problem *p,
                                int64_t parts) {
  const clade__conv_attrs *a = q->node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  if (direct(q, parts))
    clade_emit_out(s, 0);
  else
    clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index8(
      s, 8, (int64_t[]){p->n, p->groups, p->rows, p->inner, p->source[0], p->source[1], p->result[0], p->result[1]});
  clade_emit_index8(s, 3, (int64_t[]){p->kernel[0], p->kernel[1], parts});
  clade__emit_maps(s, &a->window, clade__window_covers);
  return s;
}

static void join(clade_emit *e, const clade_query *q, int64_t parts) {
  if (direct(q, parts)) return;
  int64_t outputs = problem_of(q->node).outputs;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_weights_join");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_index(s, outputs);
  clade_emit_index(s, parts);
  size_t global = (size_t)outputs, local = 64;
  clade_emit_range(s, 1, &global, &local);
}

static double flops(const problem *p) {
  return 2 * (double)p->outputs * (double)p->n * (double)(p->result[0] * p->result[1]);
}

/* ---- ref: a work-item per weight and part; a part is so many lines of pixels, of all images ---- */
static int64_t ref_lines(const clade_query *q, const problem *p) {
  int64_t want = 512 * CLADE__SUM_UNITS, lines = CLADE_MAX(p->n * p->result[0], 1);
  int64_t parts = CLADE_MIN(CLADE_MAX(want / CLADE_MAX(p->outputs, 1), 1), lines);
  int64_t most = q->device->max_passes ? CLADE_MAX(q->device->max_passes / (p->result[1] + 2) - 1, 1) : INT64_MAX;
  return CLADE_MIN((lines + parts - 1) / parts, most);
}

static int64_t ref_parts(const clade_query *q) {
  problem p = problem_of(q->node);
  int64_t lines = ref_lines(q, &p);
  return CLADE_MAX((p.n * p.result[0] + lines - 1) / lines, 1);
}

static const char *ref_accept(const clade_query *q) {
  problem p = problem_of(q->node);
  double part = (double)ref_lines(q, &p) * ((double)p.result[1] + 2);
  return clade__cut_short(q->device, CLADE_MAX(part, (double)ref_parts(q)) + 1);
}
static double ref_cost(const clade_query *q) {
  problem p = problem_of(q->node);
  double efficiency = q->device->device_class == CLADE_CPU ? 0.02 : 0.05;
  return clade__cost(q->device, flops(&p), clade__node_bytes(q->node), efficiency);
}
static size_t ref_workspace(const clade_query *q) { return scratch(q, ref_parts(q)); }

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  problem p = problem_of(q->node);
  int64_t parts = ref_parts(q);
  clade_kernel_step *s = begin(e, q, "conv2d_weights_ref", &p, parts);
  clade_emit_index(s, ref_lines(q, &p));
  size_t global[3] = {(size_t)p.columns, (size_t)(p.groups * p.rows), (size_t)parts};
  clade_emit_range(s, 3, global, (size_t[]){16, 1, 1});
  join(e, q, parts);
  return CLADE_OK;
}

/* ---- vec and lanes: a work-item does a block of weights, or some groups of one row and one channel, for the strips of
 * places of one part. How they are cut follows from shapes alone: it orders the sums. ---- */
enum {
  LINES = 32768,
  TURNED = 32768,
  BLOCK = 32768,
  COLUMNS = 512,
  STRIP = 256,
  PIECES = 512,
  TAPS = 64,
  ITEMS = 2 * CLADE__SUM_UNITS
};

static const int vec_rows = 6, lane_rows = 3; /* of a register tile, which is two vectors wide */
static int width_of(const clade_query *q) { return q->device->vector_f32 >= 16 ? 16 : 8; }
static int tile_rows(const clade_query *q) { return width_of(q) == 16 ? 2 * vec_rows : vec_rows; }

typedef struct cut {
  int64_t strip, strips, parts;            /* strips of a part */
  int64_t rows, channels, some[2], blocks; /* of a block: rows, channels, lines of taps and taps of a line */
  double cycles;
} cut;

/* Along both axes, for taps at once: all, those of a line, or one. False: that is too much. */
static bool reach(const clade_query *q, const problem *p, int64_t strip, const int64_t some[2], int64_t *line) {
  const clade__window *w = &((const clade__conv_attrs *)q->node->attrs)->window;
  clade__conv_axis all[2], own[2];
  for (int i = 0; i < 2; i++) {
    clade__map_1d m = clade__window_covers(w, i);
    all[i] = clade__conv_axis_of(m, p->result[i], p->source[i], p->kernel[i], 0);
    own[i] = clade__conv_axis_of(m, p->result[i], p->source[i], some[i], 0);
  }
  int64_t kinds = own[0].kinds * own[1].kinds, taps = some[0] * some[1];
  int64_t length = clade__up(strip + (own[0].span + (some[0] > 1)) * all[1].pitch + own[1].span + 1, 32) + 16;
  *line = kinds * length;
  return taps <= COLUMNS / 2 && *line <= LINES && kinds * (length / CLADE_MAX(all[1].pitch, 1) + 2) <= PIECES;
}

static int64_t places_of(const clade_query *q, const problem *p) {
  const clade__window *w = &((const clade__conv_attrs *)q->node->attrs)->window;
  int64_t places = p->n;
  for (int i = 0; i < 2; i++)
    places *= clade__conv_axis_of(clade__window_covers(w, i), p->result[i], p->source[i], p->kernel[i], 0).pitch;
  return places;
}

static void parts_of(cut *c, int64_t places, int64_t blocks) {
  int64_t strips = CLADE_MAX((places + c->strip - 1) / c->strip, 1);
  int64_t parts = CLADE_MIN((ITEMS + blocks - 1) / CLADE_MAX(blocks, 1), strips);
  c->blocks = blocks;
  c->strips = (strips + parts - 1) / CLADE_MAX(parts, 1);
  c->parts = (strips + c->strips - 1) / CLADE_MAX(c->strips, 1);
}

/* Of all blocks, in cycles of a core that begins two vector operations in each. */
static double cycles_of(const problem *p, const cut *c, int64_t line, int64_t panel, int64_t tile, int64_t places) {
  double taps = (double)(c->some[0] * c->some[1]), columns = (double)c->channels * taps;
  double tiles = ceil((double)c->rows / (double)panel) * ceil(columns / (double)tile);
  double dense = (double)(p->n * p->result[0] * p->result[1]) / CLADE_MAX((double)places, 1) * (double)c->strip;
  double multiply = tiles * (dense * (double)tile * 1.05 + 30);
  double copy = 1.2 * (double)c->rows * dense + 0.5 * (double)(c->channels * line) + 1500;
  double strips = (double)(c->strips * c->parts);
  return (double)c->blocks * (strips * (multiply + copy) + (double)c->parts * (double)c->rows * columns * 2.5);
}

/* Where each place has one tap, its own, an image is one line. */
static problem vec_problem(const clade_query *q) {
  const clade__conv_attrs *a = q->node->attrs;
  problem p = problem_of(q->node);
  bool flat = true; /* then an image is one line */
  for (int i = 0; i < 2; i++)
    flat = flat && p.kernel[i] == 1 && a->window.stride[i] == 1 && !a->window.pad[i] && p.source[i] == p.result[i];
  if (flat) {
    p.source[1] = p.result[1] = p.source[0] * p.source[1];
    p.source[0] = p.result[0] = 1;
  }
  return p;
}

static cut vec_cut(const clade_query *q) {
  problem p = vec_problem(q);
  int64_t panel = 2 * width_of(q), tile = tile_rows(q), places = places_of(q, &p), line = 0;
  cut best = {.cycles = INFINITY}, c = {.strip = CLADE_MAX(CLADE_MIN(clade__up(places, panel), STRIP), panel)};
  for (int i = 0; i < 3; i++) {
    c.some[0] = i ? 1 : p.kernel[0];
    c.some[1] = i < 2 ? p.kernel[1] : 1;
    if (reach(q, &p, c.strip, c.some, &line)) break;
  }
  int64_t taps = c.some[0] * c.some[1], cuts = (p.kernel[0] + c.some[0] - 1) / c.some[0];
  cuts *= (p.kernel[1] + c.some[1] - 1) / c.some[1];
  int64_t most = CLADE_MAX(CLADE_MIN((COLUMNS - tile) / taps, LINES / line), 1);
  for (int64_t down = (p.rows + 127) / 128; down <= (p.rows + panel - 1) / panel; down++)
    for (int64_t across = (p.inner + most - 1) / most; across <= p.inner && across <= 64; across++) {
      c.rows = clade__up((p.rows + down - 1) / down, panel);
      c.channels = (p.inner + across - 1) / across;
      if (c.rows * clade__up(c.channels * taps, tile) > BLOCK || c.rows * (c.strip + 8) > TURNED) continue;
      int64_t blocks = ((p.rows + c.rows - 1) / c.rows) * ((p.inner + c.channels - 1) / c.channels);
      parts_of(&c, places, blocks * cuts * p.groups);
      c.cycles = cycles_of(&p, &c, line, panel, tile, places);
      if (c.cycles < best.cycles) best = c;
    }
  return best;
}

static const char *vec_accept(const clade_query *q) {
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  return isinf(vec_cut(q).cycles) ? "the window or the groups are too large to be cut up" : NULL;
}

static double vec_cost(const clade_query *q) {
  cut c = vec_cut(q);
  return clade__cost(q->device, c.cycles * 2 * q->device->vector_f32, clade__node_bytes(q->node), 1);
}
static size_t vec_workspace(const clade_query *q) { return scratch(q, vec_cut(q).parts); }

static clade_kernel_step *vec_begin(clade_emit *e, const clade_query *q, const char *kernel, int rows, int64_t parts) {
  problem p = vec_problem(q);
  clade_kernel_step *s = begin(e, q, kernel, &p, parts);
  clade_emit_define(s, "WIDTH", width_of(q));
  clade_emit_define(s, "VECTORS", 2);
  clade_emit_define(s, "ROWS", rows);
  clade_emit_define(s, "LINES", LINES);
  clade_emit_define(s, "TURNED", TURNED);
  clade_emit_define(s, "BLOCK", BLOCK);
  clade_emit_define(s, "COLUMNS", COLUMNS);
  clade_emit_define(s, "STRIP", STRIP);
  clade_emit_define(s, "PIECES", PIECES);
  clade_emit_define(s, "TAPS", TAPS);
  return s;
}

static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  cut c = vec_cut(q);
  clade_kernel_step *s = vec_begin(e, q, "conv2d_weights_vec", tile_rows(q), c.parts);
  clade_emit_index8(s, 6, (int64_t[]){c.strip, c.strips, c.rows, c.channels, c.some[0], c.some[1]});
  size_t global = (size_t)(c.blocks * c.parts), local = 1;
  clade_emit_range(s, 1, &global, &local);
  join(e, q, c.parts);
  return CLADE_OK;
}

/* Groups of a work-item are `channels` here. */
static cut lanes_cut(const clade_query *q) {
  problem p = vec_problem(q);
  int64_t places = places_of(q, &p), line = 0, panel = 2 * width_of(q);
  cut c = {.strip = CLADE_MAX(CLADE_MIN(clade__up(places, panel), STRIP), panel), .some = {p.kernel[0], p.kernel[1]}};
  int64_t tiles = (p.kernel[0] * p.kernel[1] + lane_rows - 1) / lane_rows;
  c.channels = CLADE_MAX(CLADE_MIN(CLADE_MIN(p.groups, 32), BLOCK / (tiles * lane_rows * panel)), 1);
  bool fits = p.rows == 1 && p.inner == 1 && p.kernel[0] * p.kernel[1] <= TAPS - lane_rows &&
              reach(q, &p, c.strip, c.some, &line);
  parts_of(&c, places, (p.groups + c.channels - 1) / c.channels);
  double one = (double)(tiles * lane_rows * c.strip) / width_of(q) * 0.8 + (double)(line + c.strip) * 0.5 + 300;
  c.cycles = fits ? one * (double)(p.groups * c.strips * c.parts) : INFINITY;
  return c;
}

static const char *lanes_accept(const clade_query *q) {
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  return isinf(lanes_cut(q).cycles) ? "made for groups of one row and one channel, and small windows" : NULL;
}

static double lanes_cost(const clade_query *q) {
  return clade__cost(q->device, lanes_cut(q).cycles * 2 * q->device->vector_f32, clade__node_bytes(q->node), 1);
}
static size_t lanes_workspace(const clade_query *q) { return scratch(q, lanes_cut(q).parts); }

static clade_status lanes_emit(clade_emit *e, const clade_query *q) {
  cut c = lanes_cut(q);
  clade_kernel_step *s = vec_begin(e, q, "conv2d_weights_lanes", lane_rows, c.parts);
  clade_emit_index8(s, 7, (int64_t[]){c.strip, c.strips, 0, 0, 0, 0, c.channels});
  size_t global = (size_t)(c.blocks * c.parts), local = 1;
  clade_emit_range(s, 1, &global, &local);
  join(e, q, c.parts);
  return CLADE_OK;
}

static const clade_impl impls[] = {
    {.name = "vec", .accept = vec_accept, .cost = vec_cost, .workspace = vec_workspace, .emit = vec_emit},
    {.name = "lanes", .accept = lanes_accept, .cost = lanes_cost, .workspace = lanes_workspace, .emit = lanes_emit},
    {.name = "ref", .accept = ref_accept, .cost = ref_cost, .workspace = ref_workspace, .emit = ref_emit},
    {0},
};

const clade_op clade__op_conv2d_weights = {
    .size = sizeof(clade_op),
    .name = "conv2d_weights",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(clade__conv_attrs),
    .attrs = clade__conv_table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
};
