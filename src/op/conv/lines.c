/* conv2d and conv2d_data with few output channels on CPUs, vectorized along the columns of the result: requirements,
 * division of work, cost. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

/* Sizes of the kernel's private buffers in floats; most images per work-item; most output channels. */
enum { SOURCE = 98304, WEIGHTS = 16384, IMAGES = 16, FEW = 8 };

typedef struct plan {
  clade__gather g;
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
static void tile_of(const clade_query *q, int64_t div, plan *p) {
  static const int choice[] = {7, 4, 2};
  int64_t width = clade__vector_width(q->device), line = (p->g.result[1] + div - 1) / div;
  int64_t rows = p->rows = width == 4 ? 2 : p->g.rows <= 3 ? 3 : 6, registers = width == 16 ? 31 : 15;
  double best = INFINITY;
  for (size_t i = 0; i < CLADE_COUNT(choice); i++) {
    int64_t vectors = choice[i];
    double now = step(rows, vectors) * ceil((double)line / (double)(vectors * width));
    if (rows * vectors + CLADE_MIN(rows, vectors) > registers || now >= best) continue;
    best = now;
    p->vectors = vectors;
  }
  p->columns = p->vectors * width;
}

/* Largest number of source lines that `lines` lines of the result need. */
static int64_t held(const plan *p, const clade__map_1d *m, int64_t lines) {
  int64_t reach = (p->g.kernel[0] - 1) * m->delta;
  return CLADE_MIN((lines - 1 + (reach < 0 ? -reach : reach) + m->div - 1) / m->div + 1, p->g.source[0]);
}

static plan plan_of(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  plan p = {.g = clade__gather_of(q->node), .images = 1};
  const clade__gather *g = &p.g;
  clade__map_1d down = g->map(w, 0), along = g->map(w, 1);
  tile_of(q, along.div, &p);
  int64_t reach = (g->kernel[1] - 1) * along.delta, tiles = (g->rows + p.rows - 1) / p.rows;
  int64_t units = CLADE_MAX(q->device->compute_units, 1u), grid = (g->result[1] + along.div - 1) / along.div;
  p.left = CLADE_MAX((-(along.add + CLADE_MIN(reach, 0)) + along.div - 1) / along.div, 0);
  p.pitch = p.left + CLADE_MAX(g->source[1], grid + (along.div - 1 + along.add + CLADE_MAX(reach, 0)) / along.div);
  int64_t parts = 0;
  do {
    p.lines = (CLADE_MAX(g->result[0], 1) + parts) / (parts + 1);
    parts += 1 + parts / 4;
    p.fits = g->inner * held(&p, &down, p.lines) * p.pitch + 2 * p.columns <= SOURCE;
  } while (p.lines > 1 && (!p.fits || parts * g->n * g->groups < 4 * units));
  p.fits = p.fits && tiles * p.rows * g->inner * g->kernel[0] * g->kernel[1] <= WEIGHTS;
  int64_t blocks = g->groups * ((g->result[0] + p.lines - 1) / p.lines);
  p.images = CLADE_MAX(CLADE_MIN(blocks * g->n / (8 * units), IMAGES), 1);
  p.items = blocks * ((g->n + p.images - 1) / p.images);
  for (int64_t k = 0; k < g->kernel[0]; k++) {
    int64_t at = down.add + k * down.delta, from = CLADE_MAX(-at, 0);
    p.taps += (double)CLADE_MAX(CLADE_MIN(g->result[0], g->source[0] * down.div - at) - from, 0) / (double)down.div;
  }
  return p;
}

const char *clade__gather_lines_accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__window *w = clade__conv_window(n);
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  if (clade__gather_of(n).rows > FEW) return "made for few channels of the result";
  for (int i = 0; i < 2; i++)
    if (w->stride[i] > (n->op == &clade__op_conv2d ? 1 : 2)) return "made for step 1, or 2 to the data";
  if (n->in[0].dtype != CLADE_F32) return "its sums need operands of f32";
  return plan_of(q).fits ? NULL : "its lines or its weights are too many for a work-item's memory";
}

/* In cycles of a core that starts two vector operations per cycle. */
double clade__gather_lines_cost(const clade_query *q) {
  plan p = plan_of(q);
  const clade__gather *g = &p.g;
  double tiles = ceil((double)g->rows / (double)p.rows), columns = (double)p.columns, inner = (double)g->inner;
  double phases = (double)g->map(clade__conv_window(q->node), 1).div;
  double across = ceil((double)g->result[1] / (columns * phases)), lines = (double)g->result[0];
  double products = p.taps * inner * ((double)g->kernel[1] * step(p.rows, p.vectors) * 1.1 + 4 * phases);
  double finish = lines * (double)p.rows * columns * phases * (g->result[1] >= 16 ? 1 : 4);
  double copy = inner * (double)g->source[0] * ((double)g->source[1] * 0.2 + 10);
  double weights = (double)(g->groups * g->rows * g->inner * g->kernel[0] * g->kernel[1]) * 2 + 3000;
  double all = (double)(g->n * g->groups) * (tiles * across * (products + finish) + copy) + (double)p.items * weights;
  return clade__conv_vec_cost(q, all);
}

clade_status clade__gather_lines_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  plan p = plan_of(q);
  const clade__gather *g = &p.g;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_lines");
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  clade_emit_define(s, "ROWS", p.rows);
  clade_emit_define(s, "VECTORS", p.vectors);
  clade_emit_define(s, "SOURCE", SOURCE);
  clade_emit_define(s, "WEIGHTS", WEIGHTS);
  CLADE_TRY(clade__epilogue_define(s, n));
  CLADE_TRY(clade__epilogue_define16(s, n));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade__gather_sizes(s, g);
  clade_emit_index8(s, 5, (int64_t[]){g->kernel[0], g->kernel[1], g->w_group, g->w_row, g->w_inner});
  clade__emit_maps(s, clade__conv_window(n), g->map);
  clade_emit_index8(s, 4, (int64_t[]){p.images, p.lines, p.pitch, p.left});
  clade__gather_result(s, n);
  clade_emit_range(s, 1, &(size_t){(size_t)p.items}, &(size_t){1});
  return CLADE_OK;
}
