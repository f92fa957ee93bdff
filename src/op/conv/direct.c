/* Direct conv2d and conv2d_data on CPUs, vectorized along output channels: layouts, division of work, cost. */
#include "op/conv/conv.h"

#include <math.h>

/* Sizes of the kernel's private buffers in floats, and of its index tables. */
enum { LANES = CLADE__LANES, SOURCE = 57344, WEIGHTS = 32768, BLOCK = 32768, MOST_PLACES = 400, MOST_TAPS = 128 };
/* Parameters. layouts: an alternative; images, lines, columns, channels: the block of results of a work-item; places,
 * vectors: the register tile; depth: input channels at a time. */
enum { LAYOUTS, IMAGES, LINES, COLUMNS, CHANNELS, PLACES, VECTORS, DEPTH, PARAMS };
enum { ALL, LINE, ONE }; /* taps at a time */

/* ---- the problem ---- */
/* Taps of the largest phase and, along each axis, what is copied of the source: every `unit`-th pixel, where
 * neighboring positions are `apart` and neighboring taps `next` copied pixels from each other. */
typedef struct problem {
  clade__conv g;
  int64_t taps[2], unit[2], apart[2], next[2], some[2]; /* taps at a time */
  double mean_taps;                                     /* of a phase */
  double reached;                                       /* fraction of all products that tiles do not skip */
  int kind;
  bool x_blocked, y_blocked, packed;
} problem;

static int width_of(const clade_query *q) { return clade__vector_width(q->device); }
/* Positions per register tile. With 16 lanes, more than ten would run out of registers for addresses. */
static int tile_places(int width) { return width == 16 ? 10 : width == 8 ? 6 : 3; }

static int64_t held(const problem *p, int axis, int64_t places) {
  return (places - 1) * p->apart[axis] + (p->some[axis] - 1) * p->next[axis] + 1;
}

/* Taps that are summed at a time. Depends only on the problem, since it determines the summation order. */
static void settle_taps(problem *p) {
  int64_t inner = CLADE_MIN(p->g.inner, LANES);
  for (p->kind = ALL;; p->kind++) {
    p->some[0] = p->kind == ALL ? p->taps[0] : 1;
    p->some[1] = p->kind == ONE ? 1 : p->taps[1];
    for (int i = 0; i < 2; i++) {
      const clade__map_1d m = p->g.map[i];
      const int64_t move = clade__map_step(m) * (m.delta < 0 ? -m.delta : m.delta) / m.div;
      p->unit[i] = p->some[i] > 1 ? clade__gcd(m.mul, move) : m.mul;
      p->apart[i] = m.mul / p->unit[i];
      p->next[i] = move / p->unit[i];
    }
    const int64_t taps = p->some[0] * p->some[1];
    const double source = (double)held(p, 0, 1) * (double)held(p, 1, 16) * (double)inner;
    if (p->kind == ONE || (taps <= MOST_TAPS && taps * inner * 32 <= WEIGHTS && source <= SOURCE / 4)) return;
  }
}

/* Fraction of the products that tiles of `places` positions compute. A tile skips a tap if all of its positions are so
 * near an edge that the tap lies in the padding. Computed per axis: tiles continue over lines, and adjacent taps are
 * skipped together. */
static double reached(const problem *p, int places) {
  enum { WIDEST = 256 };
  double part = 1;
  for (int i = 0; i < 2; i++) {
    const clade__map_1d m = p->g.map[i];
    const int64_t size = p->g.source[i], result = p->g.result[i], each = i ? 1 : p->g.result[1];
    double missed = 0;
    if (m.div > 1 || result < 1 || p->g.kernel[i] > WIDEST || (i && p->next[1] == 1)) continue;
    for (int64_t k = 0; k < p->g.kernel[i]; k++) {
      const int64_t at = m.add + k * m.delta; /* of the first position; then positions before and behind the source */
      const int64_t before = CLADE_MIN(at < 0 ? (m.mul - 1 - at) / m.mul : 0, result);
      const int64_t behind = CLADE_MIN(result - (size > at ? (size - 1 - at) / m.mul + 1 : 0), result);
      missed += (double)CLADE_MAX(before * each - places, 0) + (double)CLADE_MAX(behind * each - places, 0);
    }
    part *= 1 - CLADE_MIN(missed / (double)(result * each * p->g.kernel[i]), 1);
  }
  return part;
}

static problem problem_of(const clade_query *q) {
  const clade_node *n = q->node;
  problem p = {.g = clade__conv_flat(n), .mean_taps = 1};
  for (int i = 0; i < 2; i++) {
    const clade__map_1d m = p.g.map[i];
    p.taps[i] = clade__ceil_div(p.g.kernel[i], clade__map_step(m));
    p.mean_taps *= (double)p.g.kernel[i] / (double)m.div;
  }
  p.x_blocked = n->in[0].layout.block > 0;
  p.y_blocked = n->out[0].layout.block > 0;
  p.packed = n->in[1].layout.block > 0;
  settle_taps(&p);
  p.reached = reached(&p, tile_places(width_of(q)));
  return p;
}

/* ---- blocks of results ---- */
static int64_t depth_of(const clade_query *q, const problem *p, int panel) {
  uint64_t l1 = q->device->l1_bytes ? CLADE_MIN(q->device->l1_bytes, 65536u) : 32768;
  int64_t room = SOURCE / (held(p, 0, 1) * held(p, 1, 16)); /* for at least sixteen positions */
  int64_t most = CLADE_MAX(CLADE_MIN((int64_t)(l1 / 2) / (4 * panel * p->some[0] * p->some[1]), room * 6 / 10), 1);
  int64_t parts = CLADE_MAX((p->g.inner + most / 4) / most, 1);
  return clade__up(CLADE_MAX(clade__ceil_div(p->g.inner, parts), 1), LANES);
}

static double held_of(const problem *p, const int32_t *config) {
  return (double)config[IMAGES] * (double)held(p, 0, config[LINES]) * (double)held(p, 1, config[COLUMNS]);
}

/* Reduces the block until the kernel's buffers hold it. */
static void fit(const problem *p, int width, int32_t *config) {
  int64_t panel = config[VECTORS] * width, depth = CLADE_MIN((int64_t)config[DEPTH], p->g.inner);
  const int64_t total[] = {p->g.n, p->g.grid[0], p->g.grid[1]};
  for (int i = IMAGES; i <= COLUMNS; i++)
    while (config[i] > 1 && (held_of(p, config) * (double)depth > SOURCE ||
                             (int64_t)config[IMAGES] * config[LINES] * config[COLUMNS] > MOST_PLACES - 16)) {
      const int64_t all = total[i - IMAGES], parts = clade__ceil_div(all, config[i]) + 1;
      int64_t part = clade__ceil_div(all, parts);
      if (i == COLUMNS && part > 4 * config[PLACES] && clade__up(part, config[PLACES]) < config[i])
        part = clade__up(part, config[PLACES]);
      config[i] = (int32_t)CLADE_MIN(part, config[i] - 1);
    }
  int64_t places = clade__up((int64_t)config[IMAGES] * config[LINES] * config[COLUMNS], config[PLACES]);
  int64_t channels = config[CHANNELS];
  if (p->kind != ALL || p->g.inner > config[DEPTH]) channels = CLADE_MIN(channels, BLOCK / places / panel * panel);
  config[CHANNELS] = (int32_t)clade__up(CLADE_MAX(channels, 1), panel);
}

/* Estimated cycles; a core starts two vector operations per cycle. */
static double cycles(const clade_query *q, const void *of, const int32_t *config, double units) {
  const problem *p = of;
  const clade__conv *g = &p->g;
  int width = width_of(q);
  double panel = config[VECTORS] * width, places = (double)config[IMAGES] * config[LINES] * config[COLUMNS];
  double tiles = ceil(places / config[PLACES]);
  double panels = ceil((double)CLADE_MIN(config[CHANNELS], g->rows) / panel);
  double inner = (double)g->inner, depth = inner * p->mean_taps, l2 = (double)CLADE_MAX(q->device->l2_bytes, 1u << 18);
  double at_once = p->kind == ALL ? 1 : p->kind == LINE ? (double)p->taps[0] : p->mean_taps;
  double passes = ceil(inner / config[DEPTH]) * at_once;
  double step = CLADE_MAX(config[PLACES] * config[VECTORS], config[PLACES] + config[VECTORS]) / 2.0 * 1.04;
  double multiply = tiles * panels * (depth * step * p->reached + passes * 45);
  double load = p->packed ? 1.5 : 1.5 * width;
  if (p->packed && (double)g->rows * depth * 4 > l2 / 2) load += width * 4 / 10.0;
  double weights = panels * depth * config[VECTORS] * load;
  double element = p->x_blocked && inner >= LANES ? 0.2 : inner >= 8 && p->unit[1] <= 2 ? 0.5 : 1.5;
  double source = held_of(p, config) * inner * at_once * element;
  double finish = places * panels * panel * (p->y_blocked ? 0.25 : p->g.phases > 1 ? 2 : 0.6);
  double item = multiply + weights + source + finish + 3000;
  double items = ceil((double)g->n / config[IMAGES]) * ceil((double)p->g.grid[0] / config[LINES]) *
                 ceil((double)p->g.grid[1] / config[COLUMNS]) * ceil((double)g->rows / config[CHANNELS]) *
                 (double)(g->groups * g->phases);
  return ceil(items / units) * item;
}

/* ---- parameters ---- */
enum { SHAPES = 20, SPLITS = 8 };
static bool nth(const clade_query *q, const void *of, int i, int32_t *config) {
  const problem *p = of;
  static const int splits[SPLITS] = {1, 2, 3, 4, 6, 8, 12, 16};
  int width = width_of(q), a = i % SHAPES, b = i / SHAPES, vectors = width == 4 ? 4 : 2;
  int64_t panel = vectors * width, panels = clade__ceil_div(p->g.rows, panel), most = MOST_PLACES - 16;
  if (b >= SPLITS || (b && splits[b] > panels)) return false;
  int64_t n = CLADE_MAX(p->g.n, 1), y = CLADE_MAX(p->g.grid[0], 1), x = CLADE_MAX(p->g.grid[1], 1);
  int64_t box[] = {1, y, x};
  if (y * x <= most / 2 && a < SHAPES / 2) { /* several images */
    box[0] = CLADE_MIN((n + a) / (a + 1), most / (y * x));
  } else if (x > most) { /* part of a line */
    int64_t parts = clade__ceil_div(x, most);
    parts += a + parts * a / 8;
    box[1] = 1;
    box[2] = clade__up(clade__ceil_div(x, parts), tile_places(width));
  } else {
    int64_t parts = clade__ceil_div(y * x, most);
    parts += a + parts * a / 8;
    box[1] = clade__ceil_div(y, parts);
  }
  config[IMAGES] = (int32_t)box[0];
  config[LINES] = (int32_t)box[1];
  config[COLUMNS] = (int32_t)box[2];
  config[CHANNELS] = (int32_t)CLADE_MIN(clade__ceil_div(panels, splits[b]) * panel, INT32_MAX / 2);
  config[PLACES] = tile_places(width);
  config[VECTORS] = vectors;
  config[DEPTH] = (int32_t)CLADE_MIN(depth_of(q, p, (int)panel), INT32_MAX / 2);
  fit(p, width, config);
  return true;
}

/* The problem as it will be in an alternative's layouts. */
static problem problem_in(const clade_query *q, int alternative) {
  problem p = problem_of(q);
  p.x_blocked = alternative == CLADE__BLOCKED;
  p.y_blocked = alternative != CLADE__DENSE;
  p.packed = true;
  return p;
}

static const clade__choices choices = {PARAMS, 0, nth, cycles};
static void defaults(const clade_query *q, int32_t *config) {
  const problem p = problem_in(q, config[LAYOUTS]);
  clade__conv_choose(&choices, q, &p, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  config[LAYOUTS] = i % CLADE__ALTERNATIVES;
  const problem p = problem_in(q, config[LAYOUTS]);
  return nth(q, &p, i / CLADE__ALTERNATIVES, config);
}

static const char *const params[] = {"layouts", "images",  "lines", "columns", "channels",
                                     "places",  "vectors", "depth", NULL};
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

static const char *accept(const clade_query *q) {
  const unsigned blocks = q->config[LAYOUTS] == CLADE__DENSE ? 0 : CLADE__CONV_BLOCKS;
  return clade__conv_refuses(q, blocks | CLADE__CONV_JOINED | CLADE__CONV_FLOATS | CLADE__CONV_SMALL);
}

/* Weights in panels, if the rows of a group are whole panels; panels are consecutive, so that what is copied next is
 * contiguous. */
static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  const clade__conv g = clade__conv_of(q->node);
  const int panel = q->config[VECTORS] * width_of(q);
  if (!g.forward || g.groups == 1 || g.rows % panel == 0) in[1] = clade__gather_panels(q, panel);
  clade__gather_images(q, q->config[LAYOUTS], in, out);
}

/* ---- steps ---- */
static double cost(const clade_query *q) {
  const problem p = problem_of(q);
  return clade__conv_cost(q, cycles(q, &p, q->config, (double)clade__conv_units(q)) * q->device->compute_units);
}

/* Strides of the weights: group, panel, row, inner channel, tap. */
static void weights_strides(const problem *p, int64_t panel, int64_t *s) {
  const clade__conv *g = &p->g;
  const int64_t panels = clade__ceil_div(g->rows, panel), slice = g->taps * panel, all = g->inner * slice;
  const int64_t dense[] = {g->w_group, panel * g->w_row, g->w_row, g->w_inner, 1};
  const int64_t packed[] = {g->forward ? panels * all : all, g->forward ? all : g->groups * all, 1, slice, panel};
  memcpy(s, p->packed ? packed : dense, sizeof dense);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const int32_t *config = q->config;
  const problem p = problem_of(q);
  const clade__conv *g = &p.g;
  clade_kernel_step *s;
  const clade__number *defines =
      CLADE__DEFINES({"PLACES", config[PLACES]}, {"VECTORS", config[VECTORS]}, {"SOURCE", SOURCE}, {"WEIGHTS", WEIGHTS},
                     {"BLOCK", BLOCK}, {"MOST_PLACES", MOST_PLACES}, {"MOST_TAPS", MOST_TAPS});
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_gather_direct", CLADE__WIDE, defines, &s));
  clade__conv_operands(s);
  int64_t numbers[6] = {[5] = p.unit[0]};
  weights_strides(&p, config[VECTORS] * width_of(q), numbers);
  clade__conv_problem(s, g, 6, numbers);
  const int64_t boxes = clade__ceil_div(g->n, config[IMAGES]) * clade__ceil_div(p.g.grid[0], config[LINES]) *
                        clade__ceil_div(p.g.grid[1], config[COLUMNS]);
  const int64_t cuts = clade__ceil_div(g->rows, config[CHANNELS]);
  /* Either images or weights are read repeatedly, by all work-items: the one with fewer bytes. */
  const bool turns = boxes * g->rows * g->taps < cuts * g->n * g->source[0] * g->source[1];
  CLADE__EMIT8(s, config[IMAGES], config[LINES], config[COLUMNS], config[CHANNELS], config[DEPTH], p.kind,
               p.x_blocked + 2 * p.y_blocked + 4 * p.packed + 8 * turns, p.unit[1]);
  return clade__gather_end(s, q, boxes * cuts * g->groups * g->phases);
}

const clade_impl clade__gather_direct =
    CLADE__CONV_IMPL(.name = "direct", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost,
                     .emit = emit, .space = &space, .alternatives = CLADE__ALTERNATIVES);
