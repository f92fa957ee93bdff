/* conv2d_weights for 1 x 1 windows on CPUs: a product of two matrices that are contiguous along positions. */
#include "op/conv/conv.h"

#include <math.h>

enum { SPAN = 256, BLOCKED_SPAN = 128, TURNED = 65536, BLOCK = CLADE__LANES, PLACES_BEYOND = 8 };
enum { LAYOUTS, BLOCK_ROWS, BLOCK_LANES, PARTS, TURN, PARAMS }; /* turn: channels of y are lanes, those of x are rows */

static bool is_blocked(const clade_query *q) { return q->node->in[0].layout.block > 0; }

static const char *unfit(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  const clade__conv c = clade__conv_flat(q->node);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_FLOATS | CLADE__CONV_FEW | CLADE__CONV_SOME));
  if (c.taps != 1 || w->pad[0] || w->pad[1] || w->pad[2] || w->pad[3]) return "requires 1 x 1 windows without padding";
  return c.result[1] > 1 && w->stride[1] > 2 ? "requires strides of at most 2 along the width" : NULL;
}

static const char *accept(const clade_query *q) {
  if (q->config[LAYOUTS] == CLADE__BLOCKED) CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_BLOCKS));
  return unfit(q);
}

/* Runs: pieces of lines, or lines that are one step apart. */
typedef struct runs {
  int64_t span, lines, strips, count;
} runs;
static runs runs_of(const clade__conv *p, bool blocked) {
  bool whole = p->result[0] == 1;
  int64_t longest = blocked ? BLOCKED_SPAN : SPAN;
  int64_t all = whole ? p->n : p->result[0], line = p->result[1], strips = clade__ceil_div(line, longest);
  runs r = {.span = clade__up(clade__ceil_div(line, strips), 8)};
  if (strips == 1) r.span = line;
  r.strips = clade__ceil_div(line, r.span);
  r.lines = clade__ceil_div(all, clade__ceil_div(all, longest / line));
  r.count = r.strips * clade__ceil_div(all, r.lines) * (whole ? 1 : p->n);
  return r;
}

static int64_t parts_of(const runs *r, int64_t parts) { /* none of them is empty */
  return clade__ceil_div(r->count, clade__ceil_div(r->count, parts));
}

typedef struct problem {
  clade__conv c;
  runs r;
  bool blocked;
} problem;
static problem problem_of(const clade_query *q, bool blocked) {
  problem p = {.c = clade__conv_flat(q->node), .blocked = blocked};
  p.r = runs_of(&p.c, blocked);
  return p;
}

static double cycles(const clade_query *q, const void *of, const int32_t *config, double units) {
  const problem *whole = of;
  const clade__conv *p = &whole->c;
  const runs *r = &whole->r;
  const bool blocked = whole->blocked;
  double all_rows = (double)(config[TURN] ? p->inner : p->rows),
         all_lanes = (double)(config[TURN] ? p->rows : p->inner);
  double rows = fmin(config[BLOCK_ROWS], all_rows), lanes = fmin(config[BLOCK_LANES], all_lanes);
  double tile = clade__weights_rows(q), panel = clade__weights_panel(q), parts = (double)parts_of(r, config[PARTS]);
  double blocks = ceil(all_rows / config[BLOCK_ROWS]) * ceil(all_lanes / config[BLOCK_LANES]);
  double places = (double)r->lines * fmin((double)r->span, (double)p->result[1]);
  double multiply =
      ceil(rows / tile) * ceil(lanes / panel) * (places * tile * panel / (2 * clade__weights_lanes(q)) * 1.04 + 80);
  double copy = (blocked ? 0.2 : 0.8) * places * lanes + (blocked ? 0.1 : 0.3) * places * rows + 200;
  double item = ceil((double)r->count / parts) * (multiply + copy) + 2000;
  double join = clade__weights_join_cycles(p, (int64_t)parts) + (config[TURN] ? 20000 + 2 * (double)p->outputs : 0);
  return clade__weights_cycles((double)p->groups * blocks * parts, item, join, units);
}

/* Partitions of rows, lanes and sums, for both values of `turn`. */
static bool nth(const clade_query *q, const void *of, int i, int32_t *config) {
  enum { DOWN = 5, ACROSS = 5, SUMS = 9 };
  static const int sums[SUMS] = {1, 2, 4, 6, 8, 12, 16, 32, 64};
  const problem *p = of;
  if (i >= 2 * DOWN * ACROSS * SUMS) return false;
  config[TURN] = i / (DOWN * ACROSS * SUMS);
  config[PARTS] = sums[i / (DOWN * ACROSS) % SUMS];
  const int64_t rows = config[TURN] ? p->c.inner : p->c.rows, lanes = config[TURN] ? p->c.rows : p->c.inner;
  const int64_t panel = clade__weights_panel(q), places = p->r.lines * p->r.span + PLACES_BEYOND;
  const int64_t most = p->blocked ? 256 : CLADE_MAX(TURNED / places / panel * panel, panel);
  const int64_t down = clade__ceil_div(rows, 256) + i % DOWN, across = clade__ceil_div(lanes, most) + i / DOWN % ACROSS;
  config[BLOCK_ROWS] = (int32_t)clade__up(clade__ceil_div(rows, down), clade__weights_rows(q));
  config[BLOCK_LANES] = (int32_t)clade__up(clade__ceil_div(lanes, across), panel);
  return true;
}

/* The number of parts and `turn` depend only on the sizes. */
static const clade__choices choices = {PARAMS, 1 << PARTS | 1 << TURN, nth, cycles};
static void defaults(const clade_query *q, int32_t *config) {
  if (unfit(q)) return;
  const problem p = problem_of(q, config[LAYOUTS] == CLADE__BLOCKED);
  clade__conv_choose(&choices, q, &p, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  config[LAYOUTS] = i % 2;
  if (unfit(q)) return false;
  const problem p = problem_of(q, config[LAYOUTS] == CLADE__BLOCKED);
  return nth(q, &p, i / 2, config);
}

static const char *const params[] = {"layouts", "rows", "lanes", "parts", "turn", NULL};
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

static double cost(const clade_query *q) {
  const problem p = problem_of(q, is_blocked(q));
  const double units = (double)clade__conv_units(q);
  return clade__conv_cost(q, cycles(q, &p, q->config, units) * units);
}

static size_t workspace(const clade_query *q) {
  const problem p = problem_of(q, is_blocked(q));
  return clade__weights_scratch(q, parts_of(&p.r, q->config[PARTS]), q->config[TURN]);
}

/* Strides of x or y: images; channels or blocks of them; lines; pixels. */
typedef struct image {
  int64_t channels, stride[4];
} image;
static image image_of(const clade__conv *c, int64_t side, bool is_x, const clade__window *w) {
  const int64_t channels = is_x ? c->inner : c->rows, *size = is_x ? c->source : c->result;
  const int64_t plane = size[0] * size[1], lines = is_x ? w->stride[0] : 1;
  const bool strided = is_x && c->result[1] > 1 && w->stride[1] == 2;
  return (image){
      channels,
      {clade__up(c->groups * channels, side) * plane, side * plane, side * lines * size[1], strided ? 2 * side : side}};
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const bool blocked = is_blocked(q), turn = q->config[TURN];
  const problem p = problem_of(q, blocked);
  const clade__conv *c = &p.c;
  const int32_t *config = q->config;
  const int64_t parts = parts_of(&p.r, config[PARTS]), side = blocked ? BLOCK : 1;
  const image a = image_of(c, side, turn, clade__conv_window(q->node)); /* rows */
  const image b = image_of(c, side, !turn, clade__conv_window(q->node));
  clade_kernel_step *s = clade__weights_open(e, q, "conv2d_weights_flat", !turn, parts, turn);
  clade__emit_defines(s, CLADE__DEFINES({"WIDTH", clade__weights_lanes(q)}, {"VECTORS", 2},
                                        {"ROWS", clade__weights_rows(q)}, {"BLOCKED", blocked}, {"TURNED", TURNED},
                                        {"STRIDE", blocked ? 1 : b.stride[3]}));
  CLADE__EMIT8(s, c->n, c->groups, a.channels, b.channels, c->result[0], c->result[1]);
  CLADE__EMIT8(s, a.stride[0], a.stride[1], a.stride[2], a.stride[3], b.stride[0], b.stride[1], b.stride[2],
               b.stride[3]);
  CLADE__EMIT8(s, config[BLOCK_ROWS], config[BLOCK_LANES], p.r.span, p.r.lines, clade__ceil_div(p.r.count, parts),
               parts, clade__weights_pitch(q, parts, turn));
  clade__emit_items(s, clade__ceil_div(a.channels, config[BLOCK_ROWS]) *
                           clade__ceil_div(b.channels, config[BLOCK_LANES]) * c->groups * parts);
  return clade__weights_join(e, q, parts, turn, true);
}

const clade_impl clade__weights_flat =
    CLADE__CONV_IMPL(.name = "flat", CLADE__CONV_VEC, .accept = accept, .layouts = clade__weights_images, .cost = cost,
                     .workspace = workspace, .emit = emit, .space = &space, .alternatives = 2);
