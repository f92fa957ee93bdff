/* conv2d_weights for 1 x 1 windows on CPUs: a product of two matrices that are contiguous along positions. */
#include "op/conv/weights.h"

#include <math.h>

enum { SPAN = 256, BLOCKED_SPAN = 128, TURNED = 65536, BLOCK = 16, PLACES_BEYOND = 8 };
enum { LAYOUTS, BLOCK_ROWS, BLOCK_LANES, PARTS, TURN, PARAMS }; /* turn: channels of y are lanes, those of x are rows */

static bool is_blocked(const clade_query *q) { return q->node->in[0].layout.block > 0; }
/* Lanes of a tile: two vectors, that is one or two blocks of channels. */

static const char *unfit(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  clade__weights p = clade__weights_of(q->node, true);
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  if (p.kernel[0] != 1 || p.kernel[1] != 1 || w->pad[0] || w->pad[1] || w->pad[2] || w->pad[3])
    return "made for windows of one place without padding";
  if (p.result[1] > 1 && w->stride[1] > 2) return "made for strides of at most 2 along the width";
  return p.n * p.outputs < 1 ? "made for what is not empty" : NULL;
}

const char *clade__weights_flat_accept(const clade_query *q) {
  const clade__weights p = clade__weights_of(q->node, true);
  const bool whole = p.groups == 1 || (p.rows % BLOCK == 0 && p.inner % BLOCK == 0);
  if (q->config[LAYOUTS] == CLADE__BLOCKED && !whole) return "groups end inside of a block of channels";
  return unfit(q);
}

void clade__weights_images(const clade_query *q, clade_layout *in, clade_layout *out) {
  if (q->config[0] == CLADE__BLOCKED) clade__weights_blocked_layouts(q, in, out);
}

void clade__weights_blocked_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)q;
  (void)out;
  in[0] = in[1] = (clade_layout){.axis = 1, .block = BLOCK};
}

/* Runs: pieces of lines, or lines that are one step apart. */
typedef struct runs {
  int64_t span, lines, strips, count;
} runs;
static runs runs_of(const clade__weights *p, bool blocked) {
  bool whole = p->result[0] == 1;
  int64_t longest = blocked ? BLOCKED_SPAN : SPAN;
  int64_t all = whole ? p->n : p->result[0], line = p->result[1], strips = (line + longest - 1) / longest;
  runs r = {.span = clade__up((line + strips - 1) / strips, 8)};
  if (strips == 1) r.span = line;
  r.strips = (line + r.span - 1) / r.span;
  int64_t most = CLADE_MAX(longest / line, 1), cuts = (all + most - 1) / most;
  r.lines = (all + cuts - 1) / cuts;
  r.count = r.strips * ((all + r.lines - 1) / r.lines) * (whole ? 1 : p->n);
  return r;
}

static int64_t parts_of(const runs *r, int64_t parts) { /* none of them is empty */
  int64_t each = (r->count + parts - 1) / parts;
  return (r->count + each - 1) / each;
}

/* Cycles of `units` cores that share the work. If units is 0: of all work-items, plus the longest one for each core. */
static double cycles_of(const clade_query *q, const clade__weights *p, const runs *r, bool blocked,
                        const int32_t *config, double units) {
  double all_rows = (double)(config[TURN] ? p->inner : p->rows),
         all_lanes = (double)(config[TURN] ? p->rows : p->inner);
  double rows = fmin(config[BLOCK_ROWS], all_rows), lanes = fmin(config[BLOCK_LANES], all_lanes);
  double tile = clade__weights_tile_rows(q), panel = clade__weights_panel(q),
         parts = (double)parts_of(r, config[PARTS]);
  double blocks = ceil(all_rows / config[BLOCK_ROWS]) * ceil(all_lanes / config[BLOCK_LANES]);
  double places = (double)r->lines * fmin((double)r->span, (double)p->result[1]);
  double multiply =
      ceil(rows / tile) * ceil(lanes / panel) * (places * tile * panel / (2 * clade__weights_lanes(q)) * 1.04 + 80);
  double copy = (blocked ? 0.2 : 0.8) * places * lanes + (blocked ? 0.1 : 0.3) * places * rows + 200;
  double item = ceil((double)r->count / parts) * (multiply + copy) + 2000;
  double join = clade__weights_join_cycles(p, (int64_t)parts) + (config[TURN] ? 20000 + 2 * (double)p->outputs : 0);
  double items = (double)p->groups * blocks * parts;
  return units > 0 ? ceil(items / units) * item + join / units : items * item + CLADE__WEIGHTS_UNITS * item + join;
}

/* Partitions of rows, lanes and sums, for both values of `turn`. */
static bool nth(const clade_query *q, bool blocked, int i, int32_t *config) {
  enum { DOWN = 5, ACROSS = 5, SUMS = 9 };
  static const int sums[SUMS] = {1, 2, 4, 6, 8, 12, 16, 32, 64};
  clade__weights p = clade__weights_of(q->node, true);
  runs r = runs_of(&p, blocked);
  if (i >= 2 * DOWN * ACROSS * SUMS) return false;
  config[TURN] = i / (DOWN * ACROSS * SUMS);
  config[PARTS] = sums[i / (DOWN * ACROSS) % SUMS];
  int64_t all = config[TURN] ? p.inner : p.rows, lanes = config[TURN] ? p.rows : p.inner,
          panel = clade__weights_panel(q);
  int64_t most = blocked ? 256 : CLADE_MAX(TURNED / (r.lines * r.span + PLACES_BEYOND) / panel * panel, panel);
  int64_t down = (all + 255) / 256 + i % DOWN, across = (lanes + most - 1) / most + i / DOWN % ACROSS;
  config[BLOCK_ROWS] = (int32_t)clade__up((all + down - 1) / down, clade__weights_tile_rows(q));
  config[BLOCK_LANES] = (int32_t)clade__up((lanes + across - 1) / across, panel);
  return true;
}

/* The best configuration with the given number of parts, or with any. The number of parts and `turn` depend only on the
 * sizes. */
static void best_of(const clade_query *q, bool blocked, bool any, double units, int32_t *config) {
  clade__weights p = clade__weights_of(q->node, true);
  runs r = runs_of(&p, blocked);
  int32_t own[PARAMS] = {config[LAYOUTS]};
  double best = INFINITY;
  for (int i = 0; nth(q, blocked, i, own); i++) {
    if (!any && (own[PARTS] != config[PARTS] || own[TURN] != config[TURN])) continue;
    double now = cycles_of(q, &p, &r, blocked, own, units);
    if (now >= best) continue;
    best = now;
    memcpy(config, own, sizeof own);
  }
}

static void defaults(const clade_query *q, int32_t *config) {
  const bool blocked = config[LAYOUTS] == CLADE__BLOCKED;
  if (unfit(q)) return;
  best_of(q, blocked, true, 0, config);
  best_of(q, blocked, false, CLADE_MAX(q->device->compute_units, 1u), config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  config[LAYOUTS] = i % 2;
  return !unfit(q) && nth(q, config[LAYOUTS] == CLADE__BLOCKED, i / 2, config);
}

static const char *const params[] = {"layouts", "rows", "lanes", "parts", "turn", NULL};
const clade_space clade__weights_flat_space = {sizeof(clade_space), params, defaults, configs};

static int64_t own_parts(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, true);
  runs r = runs_of(&p, is_blocked(q));
  return parts_of(&r, q->config[PARTS]);
}

double clade__weights_flat_cost(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, true);
  runs r = runs_of(&p, is_blocked(q));
  double units = CLADE_MAX(q->device->compute_units, 1u);
  double flops = cycles_of(q, &p, &r, is_blocked(q), q->config, units) * units * 2 * q->device->vector_f32;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), 1);
}

size_t clade__weights_flat_workspace(const clade_query *q) {
  return clade__weights_scratch(q, own_parts(q), q->config[TURN]);
}

clade_status clade__weights_flat_emit(clade_emit *e, const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  clade__weights p = clade__weights_of(q->node, true);
  bool blocked = is_blocked(q);
  runs r = runs_of(&p, blocked);
  bool turn = q->config[TURN], strided = p.result[1] > 1 && w->stride[1] == 2;
  int64_t parts = own_parts(q), x_plane = p.source[0] * p.source[1], y_plane = p.result[0] * p.result[1];
  int64_t side = blocked ? BLOCK : 1, x_blocks = (p.groups * p.inner + side - 1) / side,
          y_blocks = (p.groups * p.rows + side - 1) / side;
  const int64_t x[4] = {x_blocks * side * x_plane, side * x_plane, side * w->stride[0] * p.source[1],
                        strided ? 2 * side : side};
  const int64_t y[4] = {y_blocks * side * y_plane, side * y_plane, side * p.result[1], side};
  const int64_t *a = turn ? x : y, *b = turn ? y : x;
  int64_t all_rows = turn ? p.inner : p.rows, all_lanes = turn ? p.rows : p.inner;
  clade_kernel_step *s = clade__weights_open(e, q, "conv2d_weights_flat", !turn, parts, turn);
  clade_emit_define(s, "WIDTH", clade__weights_lanes(q));
  clade_emit_define(s, "VECTORS", 2);
  clade_emit_define(s, "ROWS", clade__weights_tile_rows(q));
  clade_emit_define(s, "BLOCKED", blocked);
  clade_emit_define(s, "TURNED", TURNED);
  clade_emit_define(s, "STRIDE", blocked ? 1 : b[3]);
  clade_emit_index8(s, 6, (int64_t[]){p.n, p.groups, all_rows, all_lanes, p.result[0], p.result[1]});
  clade_emit_index8(s, 8, (int64_t[]){a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]});
  clade_emit_index8(s, 7,
                    (int64_t[]){q->config[BLOCK_ROWS], q->config[BLOCK_LANES], r.span, r.lines,
                                (r.count + parts - 1) / parts, parts, clade__weights_pitch(q, parts, turn)});
  int64_t down = (all_rows + q->config[BLOCK_ROWS] - 1) / q->config[BLOCK_ROWS];
  int64_t across = (all_lanes + q->config[BLOCK_LANES] - 1) / q->config[BLOCK_LANES];
  size_t global = (size_t)(down * across * p.groups * parts), local = 1;
  clade_emit_range(s, 1, &global, &local);
  clade__weights_join(e, q, parts, turn, true);
  return CLADE_OK;
}
