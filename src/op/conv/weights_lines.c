/* conv2d_weights on CPUs, line by line: `vec` for any window, and `lines` for few rows. Lines are copied once for all
 * taps. The partition of sums depends only on the sizes, for reproducibility. */
#include "op/conv/weights.h"

#include <math.h>

/* Sizes of the kernels' private buffers in floats; columns of a block; length of a strip; pieces of lines. */
enum { LINES = 32768, TURNED = 32768, BLOCK = 32768, COLUMNS = 512, STRIP = 256, PIECES = 512 };

typedef struct cut {
  int64_t strip, strips, parts;            /* strips of a part */
  int64_t rows, channels, some[2], blocks; /* of a block: rows, channels, lines of taps and taps per line */
  double cycles;                           /* of all work-items, plus the longest one for each core */
  double time;                             /* of the device's cores, sharing the work */
} cut;

/* Size of the copied lines for the taps that are processed at once: all, those of a line, or one. False: too large. */
static bool reach(const clade_query *q, const clade__weights *p, int64_t strip, const int64_t some[2], int64_t *line) {
  const clade__window *w = clade__conv_window(q->node);
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

static int64_t places_of(const clade_query *q, const clade__weights *p) {
  const clade__window *w = clade__conv_window(q->node);
  int64_t places = p->n;
  for (int i = 0; i < 2; i++)
    places *= clade__conv_axis_of(clade__window_covers(w, i), p->result[i], p->source[i], p->kernel[i], 0).pitch;
  return places;
}

static void parts_of(cut *c, int64_t places, int64_t parts) {
  int64_t strips = CLADE_MAX((places + c->strip - 1) / c->strip, 1);
  c->strips = (strips + parts - 1) / parts;
  c->parts = (strips + c->strips - 1) / c->strips;
}

/* ---- vec: a work-item computes a block of weights from the strips of one part ---- */
enum { BLOCK_ROWS, BLOCK_CHANNELS, PARTS, PARAMS };

/* In cycles of a core that starts two vector operations per cycle. */
static void cost_of(const clade_query *q, const clade__weights *p, int64_t line, int64_t places, cut *c) {
  double panel = 2 * clade__weights_lanes(q), tile = clade__weights_tile_rows(q), rows = (double)c->rows;
  double taps = (double)(c->some[0] * c->some[1]), columns = (double)c->channels * taps;
  double tiles = ceil(rows / panel) * ceil(columns / tile);
  double dense = (double)(p->n * p->result[0] * p->result[1]) / CLADE_MAX((double)places, 1) * (double)c->strip;
  double multiply = tiles * (dense * tile * 1.05 + 40);
  double copy = 0.9 * rows * dense + 0.6 * (double)(c->channels * line) + 1500;
  double item = (double)c->strips * (multiply + copy) + rows * columns * 1.2 + 2000;
  double items = (double)(c->blocks * c->parts), units = (double)CLADE_MAX(q->device->compute_units, 1u);
  double join = clade__weights_join_cycles(p, c->parts);
  c->cycles = items * item + CLADE__WEIGHTS_UNITS * item + join;
  c->time = ceil(items / units) * item + join / units;
}

/* False: the block exceeds the buffers. */
static bool cut_of(const clade_query *q, const clade__weights *p, const int32_t *config, cut *c) {
  int64_t panel = 2 * clade__weights_lanes(q), tile = clade__weights_tile_rows(q), places = places_of(q, p), line = 0;
  *c = (cut){.strip = CLADE_MAX(CLADE_MIN(clade__up(places, panel), STRIP), panel)};
  c->rows = config[BLOCK_ROWS];
  c->channels = config[BLOCK_CHANNELS];
  bool fits = false;
  for (int i = 0; i < 3 && !fits; i++) {
    c->some[0] = i ? 1 : p->kernel[0];
    c->some[1] = i < 2 ? p->kernel[1] : 1;
    fits = reach(q, p, c->strip, c->some, &line);
  }
  int64_t taps = c->some[0] * c->some[1], columns = clade__up(c->channels * taps, tile);
  if (!fits || columns > COLUMNS || c->channels * line > LINES || c->rows * columns > BLOCK ||
      c->rows * (c->strip + 8) > TURNED)
    return false;
  c->blocks = p->groups * ((p->rows + c->rows - 1) / c->rows) * ((p->inner + c->channels - 1) / c->channels);
  for (int i = 0; i < 2; i++) c->blocks *= (p->kernel[i] + c->some[i] - 1) / c->some[i];
  parts_of(c, places, config[PARTS]);
  cost_of(q, p, line, places, c);
  return true;
}

/* Partitions of rows, channels and sums. */
static bool nth(const clade_query *q, const clade__weights *p, int i, int32_t *config) {
  enum { DOWN = 6, ACROSS = 14, SUMS = 8 };
  static const int sums[SUMS] = {1, 2, 4, 8, 12, 16, 32, 64};
  int64_t panel = 2 * clade__weights_lanes(q), taps = CLADE_MAX(p->kernel[0] * p->kernel[1], 1);
  if (i >= DOWN * ACROSS * SUMS) return false;
  int64_t least = (p->inner + CLADE_MAX(COLUMNS / taps, 1) - 1) / CLADE_MAX(COLUMNS / taps, 1), n = i / DOWN % ACROSS;
  int64_t down = (p->rows + 127) / 128 + i % DOWN, across = least + n + least * n / 4;
  config[BLOCK_ROWS] = (int32_t)clade__up(CLADE_MAX((p->rows + down - 1) / CLADE_MAX(down, 1), 1), panel);
  config[BLOCK_CHANNELS] = (int32_t)CLADE_MAX((p->inner + across - 1) / CLADE_MAX(across, 1), 1);
  config[PARTS] = sums[i / (DOWN * ACROSS)];
  return true;
}

/* The best configuration: first over all numbers of parts, by sizes alone; then, for that number of parts, by the
 * device's cores. */
static void defaults(const clade_query *q, int32_t *config) {
  clade__weights p = clade__weights_of(q->node, true);
  int32_t own[CLADE_MAX_PARAMS];
  config[BLOCK_ROWS] = 2 * clade__weights_lanes(q);
  config[BLOCK_CHANNELS] = config[PARTS] = 1;
  if (clade__conv_vec_accept(q)) return;
  for (int shared = 0; shared < 2; shared++) {
    double best = INFINITY;
    cut c;
    for (int i = 0; nth(q, &p, i, own); i++) {
      if ((shared && own[PARTS] != config[PARTS]) || !cut_of(q, &p, own, &c)) continue;
      double now = shared ? c.time : c.cycles;
      if (now >= best) continue;
      best = now;
      memcpy(config, own, PARAMS * sizeof *config);
    }
  }
}

static bool listed(const clade_query *q, int i, int32_t *config) {
  clade__weights p = clade__weights_of(q->node, true);
  return !clade__conv_vec_accept(q) && nth(q, &p, i, config);
}

static const char *const params[] = {"rows", "channels", "parts", NULL};
const clade_space clade__weights_vec_space = {sizeof(clade_space), params, defaults, listed};

const char *clade__weights_vec_accept(const clade_query *q) {
  const char *reason = clade__conv_vec_accept(q);
  clade__weights p = clade__weights_of(q->node, true);
  cut c;
  if (reason) return reason;
  return cut_of(q, &p, q->config, &c) ? NULL : "the window or the block is too large to be cut up";
}

double clade__weights_vec_cost(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, true);
  cut c;
  if (!cut_of(q, &p, q->config, &c)) return INFINITY;
  double flops = c.time * CLADE_MAX(q->device->compute_units, 1u) * 2 * q->device->vector_f32;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), 1);
}

size_t clade__weights_vec_workspace(const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, true);
  cut c;
  return cut_of(q, &p, q->config, &c) ? clade__weights_scratch(q, c.parts, false) : SIZE_MAX;
}

clade_status clade__weights_vec_emit(clade_emit *e, const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, true);
  cut c;
  if (!cut_of(q, &p, q->config, &c)) return CLADE_FAIL(INTERNAL, "conv2d_weights: a block that was not accepted");
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_vec", &p, c.parts);
  clade_emit_define(s, "WIDTH", clade__weights_lanes(q));
  clade_emit_define(s, "VECTORS", 2);
  clade_emit_define(s, "ROWS", clade__weights_tile_rows(q));
  clade_emit_define(s, "LINES", LINES);
  clade_emit_define(s, "BLOCK", BLOCK);
  clade_emit_define(s, "PIECES", PIECES);
  clade_emit_define(s, "TURNED", TURNED);
  clade_emit_define(s, "COLUMNS", COLUMNS);
  clade_emit_index8(s, 6, (int64_t[]){c.strip, c.strips, c.rows, c.channels, c.some[0], c.some[1]});
  size_t global = (size_t)(c.blocks * c.parts), local = 1;
  clade_emit_range(s, 1, &global, &local);
  clade__weights_join(e, q, c.parts, false, false);
  return CLADE_OK;
}

/* ---- lines: a work-item processes several lines at a time, over its part of the images ---- */
enum { FEW = 8, ROWS = 6, X_LINES = 16384, Y_LINES = 12 * 1200, SUMS = 16384 };

typedef struct few {
  int64_t lines, pitch, left, units, parts, tiles, pairs; /* lines at a time; such groups of lines in a part */
  double cycles;
  bool fits;
} few;

static few few_of(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  clade__weights p = clade__weights_of(q->node, false);
  clade__map_1d down = clade__window_covers(w, 0), along = clade__window_covers(w, 1);
  int64_t taps = p.kernel[0] * p.kernel[1], reach = (p.kernel[0] - 1) * down.delta;
  few f = {.left = CLADE_MAX(-along.add, 0), .tiles = (p.rows + ROWS - 1) / ROWS, .pairs = (taps + 1) / 2};
  f.pitch = CLADE_MAX(f.left + p.source[1],
                      p.result[1] + CLADE_MAX(along.add, -f.left) + f.left + (p.kernel[1] - 1) * along.delta);
  f.lines = CLADE_MAX(CLADE_MIN((Y_LINES / 12 - 16) / CLADE_MAX(f.pitch, 1), p.result[0]), 1);
  f.fits = f.lines * f.pitch + 16 <= Y_LINES / 12 && (f.lines + reach + 1) * f.pitch + 64 <= X_LINES &&
           p.inner * f.pairs * f.tiles * ROWS * 2 * clade__weights_lanes(q) <= SUMS;
  int64_t all = p.n * ((p.result[0] + f.lines - 1) / f.lines), parts = CLADE__SUM_UNITS / CLADE_MAX(p.groups, 1);
  f.units = CLADE_MAX((all + CLADE_MAX(parts, 1) - 1) / CLADE_MAX(parts, 1), 1);
  f.parts = CLADE_MAX((all + f.units - 1) / f.units, 1);
  double places = (double)(f.lines * f.pitch), inner = (double)p.inner, tiles = (double)f.tiles;
  double multiply = inner * (double)f.pairs * tiles * (places / clade__weights_lanes(q) * ROWS * 1.1 + 40);
  double copy = ((double)p.rows + inner) * (places * 0.2 + 10 * (double)f.lines);
  double item = (double)f.units * (multiply + copy) + (double)(p.rows * p.columns * clade__weights_lanes(q)) * 2 + 8000;
  f.cycles = ((double)(p.groups * f.parts) + CLADE__WEIGHTS_UNITS) * item + clade__weights_join_cycles(&p, f.parts);
  return f;
}

const char *clade__weights_lines_accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__window *w = clade__conv_window(n);
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  if (clade__weights_of(n, false).rows > FEW) return "made for few rows";
  if (w->stride[0] != 1 || w->stride[1] != 1) return "made for step 1";
  if (n->in[0].dtype != CLADE_F32) return "made for operands of f32";
  return few_of(q).fits ? NULL : "its lines or its weights are too many for a work-item's memory";
}

double clade__weights_lines_cost(const clade_query *q) {
  return clade__cost(q->device, few_of(q).cycles * 2 * q->device->vector_f32, clade__node_bytes(q->node), 1);
}

size_t clade__weights_lines_workspace(const clade_query *q) {
  return clade__weights_scratch(q, few_of(q).parts, false);
}

clade_status clade__weights_lines_emit(clade_emit *e, const clade_query *q) {
  clade__weights p = clade__weights_of(q->node, false);
  few f = few_of(q);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_lines", &p, f.parts);
  clade_emit_define(s, "WIDTH", clade__weights_lanes(q));
  clade_emit_define(s, "ROWS", ROWS);
  clade_emit_define(s, "X_LINES", X_LINES);
  clade_emit_define(s, "Y_LINES", Y_LINES);
  clade_emit_define(s, "BLOCK", SUMS);
  clade_emit_index8(s, 4, (int64_t[]){f.lines, f.units, f.pitch, f.left});
  clade_emit_range(s, 1, &(size_t){(size_t)(p.groups * f.parts)}, &(size_t){1});
  clade__weights_join(e, q, f.parts, false, false);
  return CLADE_OK;
}
