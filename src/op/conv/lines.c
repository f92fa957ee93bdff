/* Convolutions with few output channels on CPUs, vectorized along columns: requirements, division of work, cost. */
#include "op/conv/conv.h"

#include <math.h>

enum { FEW = 8 }; /* output channels, at most */

/* ---- conv2d and conv2d_data ---- */
/* Sizes of the kernel's private buffers in floats; most images per work-item. */
enum { SOURCE = 98304, WEIGHTS = 16384, IMAGES = 16 };

typedef struct plan {
  clade__conv g;
  int64_t rows, vectors, columns;     /* of the register tile */
  int64_t images, lines, pitch, left; /* of a work-item; line pitch of its copy, and zeros before each line */
  int64_t items;
  double taps; /* lines of taps that are not in the padding, over all lines of an image */
  bool fits;
} plan;

/* Cycles of a tile's step: the largest of multiply-adds, loads, and the latency of an accumulator. */
static double step(int64_t rows, int64_t vectors) {
  return (double)CLADE_MAX(CLADE_MAX(rows * vectors, rows + vectors), 8) / 2;
}

/* Three or six channels, by as many vectors as the remaining registers hold, or fewer if a line ends. */
static void tile_of(const clade_query *q, plan *p) {
  const int64_t width = clade__vector_width(q->device), rows = width == 4 ? 2 : p->g.rows <= 3 ? 3 : 6;
  double best = INFINITY;
  p->rows = rows;
  for (int64_t vectors = 7; vectors > 1; vectors = (vectors + 1) / 2) {
    const double now = step(rows, vectors) * ceil((double)p->g.grid[1] / (double)(vectors * width));
    if (rows * vectors + CLADE_MIN(rows, vectors) > (width == 16 ? 31 : 15) || now >= best) continue;
    best = now;
    p->vectors = vectors;
    p->columns = vectors * width;
  }
}

/* Largest number of source lines that `lines` lines of the result need. */
static int64_t held(const plan *p, int64_t lines) {
  const clade__map_1d *m = &p->g.map[0];
  int64_t reach = (p->g.kernel[0] - 1) * m->delta;
  return CLADE_MIN(clade__ceil_div(lines - 1 + (reach < 0 ? -reach : reach), m->div) + 1, p->g.source[0]);
}

/* Line pitch of a copy in which all columns exist that taps reach, and the zeros before each line. */
static int64_t pitch_of(const clade__conv *g, int64_t *left) {
  const clade__map_1d m = g->map[1];
  const int64_t last = m.add + CLADE_MAX((g->kernel[1] - 1) * m.delta, 0);
  *left = CLADE_MAX((m.div - 1 - clade__map_first(m, g->kernel[1])) / m.div, 0);
  return *left + CLADE_MAX(g->source[1], g->grid[1] + (m.div - 1 + last) / m.div);
}

static plan plan_of(const clade_query *q) {
  plan p = {.g = clade__conv_of(q->node)};
  const clade__conv *g = &p.g;
  const clade__map_1d down = g->map[0];
  const int64_t units = clade__conv_units(q);
  tile_of(q, &p);
  p.pitch = pitch_of(g, &p.left);
  int64_t parts = 0;
  do {
    p.lines = (CLADE_MAX(g->result[0], 1) + parts) / (parts + 1);
    parts += 1 + parts / 4;
    p.fits = g->inner * held(&p, p.lines) * p.pitch + 2 * p.columns <= SOURCE;
  } while (p.lines > 1 && (!p.fits || parts * g->n * g->groups < 4 * units));
  p.fits = p.fits && clade__up(g->rows, p.rows) * g->columns <= WEIGHTS;
  int64_t blocks = g->groups * clade__ceil_div(g->result[0], p.lines);
  p.images = CLADE_MAX(CLADE_MIN(blocks * g->n / (8 * units), IMAGES), 1);
  p.items = blocks * clade__ceil_div(g->n, p.images);
  for (int64_t k = 0; k < g->kernel[0]; k++) {
    int64_t at = down.add + k * down.delta, from = CLADE_MAX(-at, 0);
    p.taps += (double)CLADE_MAX(CLADE_MIN(g->result[0], g->source[0] * down.div - at) - from, 0) / (double)down.div;
  }
  return p;
}

static const char *accept(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  const clade__conv g = clade__conv_of(q->node);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_F32 | CLADE__CONV_FEW));
  if (g.rows > FEW) return "requires few output channels";
  if (CLADE_MAX(w->stride[0], w->stride[1]) > (g.forward ? 1 : 2))
    return "requires stride 1, or stride 2 in conv2d_data";
  return plan_of(q).fits ? NULL : "its lines or weights exceed a work-item's private memory";
}

static double cost(const clade_query *q) {
  plan p = plan_of(q);
  const clade__conv *g = &p.g;
  double tiles = ceil((double)g->rows / (double)p.rows), columns = (double)p.columns, inner = (double)g->inner;
  double phases = (double)g->map[1].div;
  double across = ceil((double)g->result[1] / (columns * phases)), lines = (double)g->result[0];
  double products = p.taps * inner * ((double)g->kernel[1] * step(p.rows, p.vectors) * 1.1 + 4 * phases);
  double finish = lines * (double)p.rows * columns * phases * (g->result[1] >= 16 ? 1 : 4);
  double copy = inner * (double)g->source[0] * ((double)g->source[1] * 0.2 + 10);
  double weights = (double)g->outputs * 2 + 3000;
  double all = (double)(g->n * g->groups) * (tiles * across * (products + finish) + copy) + (double)p.items * weights;
  return clade__conv_cost(q, all);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const plan p = plan_of(q);
  const clade__conv *g = &p.g;
  clade_kernel_step *s;
  const clade__number *defines =
      CLADE__DEFINES({"ROWS", p.rows}, {"VECTORS", p.vectors}, {"SOURCE", SOURCE}, {"WEIGHTS", WEIGHTS});
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_lines", CLADE__WIDE, defines, &s));
  clade__conv_operands(s);
  clade__conv_problem(s, g, 3, (int64_t[]){g->w_group, g->w_row, g->w_inner});
  CLADE__EMIT8(s, p.images, p.lines, p.pitch, p.left);
  return clade__gather_end(s, q, p.items);
}

const clade_impl clade__gather_lines = CLADE__CONV_IMPL(.name = "lines", CLADE__CONV_VEC, .accept = accept,
                                                        .cost = cost, .emit = emit, .file = "conv2d_lines");

/* ---- conv2d_weights: a work-item processes several lines at a time, over its part of the images ---- */
enum { ROWS = 6, X_LINES = 16384, Y_LINES = 12 * 1200, SUMS = 16384 };

typedef struct few {
  int64_t lines, pitch, left, units, parts, tiles, pairs; /* lines at a time; such groups of lines in a part */
  double cycles;
  bool fits;
} few;

static few few_of(const clade_query *q) {
  const clade__conv p = clade__conv_of(q->node);
  const int64_t reach = (p.kernel[0] - 1) * p.map[0].delta;
  few f = {.tiles = clade__ceil_div(p.rows, ROWS), .pairs = (p.taps + 1) / 2};
  f.pitch = pitch_of(&p, &f.left);
  f.lines = CLADE_MAX(CLADE_MIN((Y_LINES / 12 - 16) / CLADE_MAX(f.pitch, 1), p.result[0]), 1);
  f.fits = f.lines * f.pitch + 16 <= Y_LINES / 12 && (f.lines + reach + 1) * f.pitch + 64 <= X_LINES &&
           p.inner * f.pairs * f.tiles * ROWS * 2 * clade__weights_lanes(q) <= SUMS;
  const int64_t all = p.n * clade__ceil_div(p.result[0], f.lines);
  f.units = CLADE_MAX(clade__ceil_div(all, CLADE__SUM_UNITS / CLADE_MAX(p.groups, 1)), 1);
  f.parts = CLADE_MAX(clade__ceil_div(all, f.units), 1);
  double places = (double)(f.lines * f.pitch), inner = (double)p.inner, tiles = (double)f.tiles;
  double multiply = inner * (double)f.pairs * tiles * (places / clade__weights_lanes(q) * ROWS * 1.1 + 40);
  double copy = ((double)p.rows + inner) * (places * 0.2 + 10 * (double)f.lines);
  double item = (double)f.units * (multiply + copy) + (double)(p.rows * p.columns * clade__weights_lanes(q)) * 2 + 8000;
  f.cycles = ((double)(p.groups * f.parts) + CLADE__WEIGHTS_UNITS) * item + clade__weights_join_cycles(&p, f.parts);
  return f;
}

static const char *weights_accept(const clade_query *q) {
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_STEPS_1 | CLADE__CONV_F32 | CLADE__CONV_FEW));
  if (clade__conv_of(q->node).rows > FEW) return "requires few output channels";
  return few_of(q).fits ? NULL : "its lines or weights exceed a work-item's private memory";
}

static double weights_cost(const clade_query *q) { return clade__conv_cost(q, few_of(q).cycles); }

static size_t weights_workspace(const clade_query *q) { return clade__weights_scratch(q, few_of(q).parts, false); }

static clade_status weights_emit(clade_emit *e, const clade_query *q) {
  const clade__conv p = clade__conv_of(q->node);
  const few f = few_of(q);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_lines", &p, f.parts);
  clade__emit_defines(s, CLADE__DEFINES({"WIDTH", clade__weights_lanes(q)}, {"ROWS", ROWS}, {"X_LINES", X_LINES},
                                        {"Y_LINES", Y_LINES}, {"BLOCK", SUMS}));
  CLADE__EMIT8(s, f.lines, f.units, f.pitch, f.left);
  clade__emit_items(s, p.groups * f.parts);
  return clade__weights_join(e, q, f.parts, false, false);
}

const clade_impl clade__weights_lines =
    CLADE__CONV_IMPL(.name = "lines", CLADE__CONV_VEC, .accept = weights_accept, .cost = weights_cost,
                     .workspace = weights_workspace, .emit = weights_emit, .file = "conv2d_lines");
