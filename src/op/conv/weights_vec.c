/* conv2d_weights on CPUs for any window, line by line: a work-item computes a block of weights from the strips of one
 * part. Lines are copied once for all taps. The partition of sums depends only on the sizes, for reproducibility. */
#include "op/conv/conv.h"

#include <math.h>

/* Sizes of the kernels' private buffers in floats; columns of a block; length of a strip; pieces of lines. */
enum { LINES = 32768, TURNED = 32768, BLOCK = 32768, COLUMNS = 512, STRIP = 256, PIECES = 512 };
enum { BLOCK_ROWS, BLOCK_CHANNELS, PARTS, PARAMS }; /* parameters */
enum { NEEDS = CLADE__CONV_FLOATS | CLADE__CONV_FEW };

typedef struct cut {
  int64_t strip, strips, parts;            /* strips of a part */
  int64_t rows, channels, some[2], blocks; /* of a block: rows, channels, lines of taps and taps per line */
  double item;                             /* cycles */
} cut;

/* ---- places: positions of all images, with those between lines and planes that taps reach ---- */
static int64_t down(int64_t a, int64_t b) { return (a >= 0 ? a : a - b + 1) / b; }

/* Positions along one axis. pitch: per line; span: distance between the first and the last position that taps reach;
 * kinds: different remainders modulo the stride among taps. */
typedef struct numbered {
  int64_t pitch, span, kinds;
} numbered;
static numbered numbered_of(const clade__conv *c, int axis, int64_t taps) {
  const clade__map_1d m = c->map[axis];
  const int64_t first = down(m.add, m.mul), last = down(m.add + (taps - 1) * m.delta, m.mul), grid = c->result[axis];
  const int64_t zeros = CLADE_MIN(-first, grid + last - (c->source[axis] - 1) / m.mul - 1);
  numbered a = {.span = last - first, .kinds = 1};
  a.pitch = grid + a.span - CLADE_MAX(CLADE_MIN(zeros, a.span), 0);
  while (a.kinds < taps && a.kinds * m.delta % m.mul) a.kinds++;
  return a;
}

static int64_t pitch_of(const clade__conv *c, int axis) { return numbered_of(c, axis, c->kernel[axis]).pitch; }

/* Size of the copied lines for the taps that are processed at once: all, those of a line, or one. False: too large. */
static bool reach(const clade__conv *c, int64_t strip, const int64_t some[2], int64_t *line) {
  const int64_t pitch = pitch_of(c, 1);
  const numbered y = numbered_of(c, 0, some[0]), x = numbered_of(c, 1, some[1]);
  const int64_t kinds = y.kinds * x.kinds,
                length = clade__up(strip + (y.span + (some[0] > 1)) * pitch + x.span + 1, 32) + 16;
  *line = kinds * length;
  return some[0] * some[1] <= COLUMNS / 2 && *line <= LINES && kinds * (length / CLADE_MAX(pitch, 1) + 2) <= PIECES;
}

static int64_t places_of(const clade__conv *c) { return c->n * pitch_of(c, 0) * pitch_of(c, 1); }

/* ---- blocks ---- */
static double item_cycles(const clade_query *q, const clade__conv *p, int64_t line, int64_t places, const cut *c) {
  double panel = clade__weights_panel(q), tile = clade__weights_rows(q), rows = (double)c->rows;
  double taps = (double)(c->some[0] * c->some[1]), columns = (double)c->channels * taps;
  double tiles = ceil(rows / panel) * ceil(columns / tile);
  double dense = (double)(p->n * p->result[0] * p->result[1]) / CLADE_MAX((double)places, 1) * (double)c->strip;
  double multiply = tiles * (dense * tile * 1.05 + 40);
  double copy = 0.9 * rows * dense + 0.6 * (double)(c->channels * line) + 1500;
  return (double)c->strips * (multiply + copy) + rows * columns * 1.2 + 2000;
}

/* False: the block exceeds the buffers. */
static bool cut_of(const clade_query *q, const clade__conv *p, const int32_t *config, cut *c) {
  int64_t panel = clade__weights_panel(q), tile = clade__weights_rows(q), places = places_of(p), line = 0;
  *c = (cut){.strip = CLADE_MAX(CLADE_MIN(clade__up(places, panel), STRIP), panel)};
  c->rows = config[BLOCK_ROWS];
  c->channels = config[BLOCK_CHANNELS];
  bool fits = false;
  for (int i = 0; i < 3 && !fits; i++) {
    c->some[0] = i ? 1 : p->kernel[0];
    c->some[1] = i < 2 ? p->kernel[1] : 1;
    fits = reach(p, c->strip, c->some, &line);
  }
  int64_t taps = c->some[0] * c->some[1], columns = clade__up(c->channels * taps, tile);
  if (!fits || columns > COLUMNS || c->channels * line > LINES || c->rows * columns > BLOCK ||
      c->rows * (c->strip + 8) > TURNED)
    return false;
  c->blocks = p->groups * clade__ceil_div(p->rows, c->rows) * clade__ceil_div(p->inner, c->channels);
  for (int i = 0; i < 2; i++) c->blocks *= clade__ceil_div(p->kernel[i], c->some[i]);
  const int64_t strips = CLADE_MAX(clade__ceil_div(places, c->strip), 1);
  c->strips = clade__ceil_div(strips, config[PARTS]);
  c->parts = clade__ceil_div(strips, c->strips);
  c->item = item_cycles(q, p, line, places, c);
  return true;
}

/* Partitions of rows, channels and sums. */
static bool nth(const clade_query *q, const void *of, int i, int32_t *config) {
  const clade__conv *p = of;
  enum { DOWN = 6, ACROSS = 14, SUMS = 8 };
  static const int sums[SUMS] = {1, 2, 4, 8, 12, 16, 32, 64};
  const int64_t panel = clade__weights_panel(q), n = i / DOWN % ACROSS;
  if (i >= DOWN * ACROSS * SUMS) return false;
  const int64_t least = clade__ceil_div(p->inner, COLUMNS / p->taps), across = least + n + least * n / 4;
  const int64_t down = clade__ceil_div(p->rows, 128) + i % DOWN;
  config[BLOCK_ROWS] = (int32_t)clade__up(CLADE_MAX(clade__ceil_div(p->rows, down), 1), panel);
  config[BLOCK_CHANNELS] = (int32_t)CLADE_MAX(clade__ceil_div(p->inner, across), 1);
  config[PARTS] = sums[i / (DOWN * ACROSS)];
  return true;
}

static double cycles(const clade_query *q, const void *of, const int32_t *config, double units) {
  const clade__conv *p = of;
  cut c;
  if (!cut_of(q, p, config, &c)) return INFINITY;
  const double join = clade__weights_join_cycles(p, c.parts);
  return clade__weights_cycles((double)(c.blocks * c.parts), c.item, join, units);
}

static const clade__choices choices = {PARAMS, 1 << PARTS, nth, cycles};
static void defaults(const clade_query *q, int32_t *config) {
  const clade__conv p = clade__conv_flat(q->node);
  config[BLOCK_ROWS] = clade__weights_panel(q);
  config[BLOCK_CHANNELS] = config[PARTS] = 1;
  if (!clade__conv_refuses(q, NEEDS)) clade__conv_choose(&choices, q, &p, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  const clade__conv p = clade__conv_flat(q->node);
  return !clade__conv_refuses(q, NEEDS) && nth(q, &p, i, config);
}

static const char *const params[] = {"rows", "channels", "parts", NULL};
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

static const char *accept(const clade_query *q) {
  const clade__conv p = clade__conv_flat(q->node);
  cut c;
  CLADE__REFUSE(clade__conv_refuses(q, NEEDS));
  return cut_of(q, &p, q->config, &c) ? NULL : "the window or the block is too large to be divided";
}

static double cost(const clade_query *q) {
  const clade__conv p = clade__conv_flat(q->node);
  const double units = (double)clade__conv_units(q);
  return clade__conv_cost(q, cycles(q, &p, q->config, units) * units);
}

static size_t workspace(const clade_query *q) {
  const clade__conv p = clade__conv_flat(q->node);
  cut c;
  return cut_of(q, &p, q->config, &c) ? clade__weights_scratch(q, c.parts, false) : SIZE_MAX;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__conv p = clade__conv_flat(q->node);
  cut c;
  if (!cut_of(q, &p, q->config, &c)) return CLADE_FAIL(INTERNAL, "conv2d_weights: a block that was not accepted");
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_vec", &p, c.parts);
  clade__emit_defines(s, CLADE__DEFINES({"WIDTH", clade__weights_lanes(q)}, {"VECTORS", 2},
                                        {"ROWS", clade__weights_rows(q)}, {"LINES", LINES}, {"BLOCK", BLOCK},
                                        {"PIECES", PIECES}, {"TURNED", TURNED}, {"COLUMNS", COLUMNS}, {"STRIDE", 1}));
  CLADE__EMIT8(s, c.strip, c.strips, c.rows, c.channels, c.some[0], c.some[1], pitch_of(&p, 0), pitch_of(&p, 1));
  clade__emit_items(s, c.blocks * c.parts);
  return clade__weights_join(e, q, c.parts, false, false);
}

const clade_impl clade__weights_vec = CLADE__CONV_IMPL(.name = "vec", CLADE__CONV_VEC, .accept = accept, .cost = cost,
                                                       .workspace = workspace, .emit = emit, .space = &space);
