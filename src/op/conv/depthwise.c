/* Depthwise conv2d and conv2d_data on CPUs: division of work and cost. Sums do not depend on the division. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

/* Channels of a block; sizes of the kernel's private buffers in floats; largest number of phases; positions at a time.
 */
enum { LANES = 16, SOURCE = 32768, BLOCK = 32768, PHASES = 16, RUN = 8 };
enum { EXACT_TAPS = (1 << 24) / (255 * 128) }; /* sums of products of bytes up to 2^24 are exact in f32 */

typedef struct plan {
  clade__gather g;
  int64_t blocks, lines, columns, boxes; /* blocks, lines and columns of a work-item; tiles of an image */
  double held;                           /* source pixels that a tile copies */
  bool fits;
} plan;

bool clade__depthwise(const clade__gather *g) { return g->groups > 1 && g->rows == 1 && g->inner == 1; }

static int64_t parts(int64_t all, int64_t part) { return (all + part - 1) / CLADE_MAX(part, 1); }

/* Source pixels along an axis that `places` positions need. */
static int64_t held(const clade_query *q, const clade__gather *g, int axis, int64_t places) {
  clade__map_1d m = g->map(clade__conv_window(q->node), axis);
  int64_t reach = (g->kernel[axis] - 1) * (m.delta < 0 ? -m.delta : m.delta);
  return CLADE_MIN(((places - 1) * m.mul + reach) / m.div + 2, g->source[axis]);
}

static bool fits(const clade_query *q, plan *p, bool turned) {
  int64_t div = p->g.map(clade__conv_window(q->node), 1).div;
  p->held = (double)held(q, &p->g, 0, p->lines) * (double)held(q, &p->g, 1, p->columns);
  return (!turned || p->held * LANES <= SOURCE) && (double)(p->lines * p->columns + RUN * div) * LANES <= BLOCK;
}

static plan plan_in(const clade_query *q, bool x_blocked) {
  plan p = {.g = clade__gather_of(q->node), .blocks = 1};
  const clade__gather *g = &p.g;
  int64_t units = g->n * parts(g->groups, LANES), most = CLADE_MAX(q->device->compute_units, 1u);
  p.lines = CLADE_MAX(g->result[0], 1);
  p.columns = CLADE_MAX(g->result[1], 1);
  while (p.lines > 1 && (!fits(q, &p, !x_blocked) || parts(g->result[0], p.lines) * units < 4 * most))
    p.lines = (p.lines + 1) / 2;
  while (p.columns > 1 && !fits(q, &p, !x_blocked)) p.columns = (p.columns + 1) / 2;
  p.fits = fits(q, &p, !x_blocked);
  p.boxes = parts(g->result[0], p.lines) * parts(g->result[1], p.columns);
  if (p.boxes == 1) p.blocks = CLADE_MAX(units / (8 * most), 1);
  return p;
}

const char *clade__depthwise_accept(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  clade__gather g = clade__gather_of(q->node);
  const bool whole = clade__is_integer(q->node->in[0].dtype);
  const char *reason = whole ? clade__conv_small(q) : clade__gather_small(q);
  if (reason) return reason;
  if (!clade__depthwise(&g)) return "made for groups of one channel";
  if (whole && g.kernel[0] * g.kernel[1] > EXACT_TAPS)
    return "made for windows whose sums of bytes floats hold exactly";
  if (g.map(w, 0).div > PHASES || g.map(w, 1).div > PHASES) return "made for small steps";
  return plan_in(q, q->config[0] == CLADE__BLOCKED).fits
             ? NULL
             : "a window needs more of the source than a work-item's memory has";
}

void clade__depthwise_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  clade__gather_images(q, q->config[0], in, out);
  in[1] = (clade_layout){.axis = 0, .block = LANES};
}

/* The plan for the node's own layouts. */
static plan plan_of(const clade_query *q) { return plan_in(q, q->node->in[0].layout.block > 0); }

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* True if adjacent positions of a line share loaded pixels: windows of up to three adjacent taps, of five, and, without
 * stride, of seven. */
static bool slides(const clade__gather *g, clade__map_1d along) {
  const int64_t delta = along.delta < 0 ? -along.delta : along.delta, period = along.div / common(along.div, delta);
  const int64_t taps = (g->kernel[1] + period - 1) / period;
  if (taps > 1 && delta * period != along.div) return false;
  return along.mul == 1 ? taps <= 3 || taps == 5 || taps == 7 : along.mul == 2 && (taps == 3 || taps == 5);
}

/* In cycles of a core that starts two vector operations per cycle. Lines of the window outside of the source are
 * skipped. */
double clade__depthwise_cost(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  plan p = plan_of(q);
  const clade__gather *g = &p.g;
  bool x_blocked = q->node->in[0].layout.block > 0, y_blocked = q->node->out[0].layout.block > 0;
  double taps =
      (double)(CLADE_MIN(g->kernel[0], g->source[0]) * g->kernel[1]) / (double)(g->map(w, 0).div * g->map(w, 1).div);
  double vectors = (double)LANES / clade__vector_width(q->device), places = (double)(g->result[0] * g->result[1]);
  double lines = (double)g->result[0] * ceil((double)g->result[1] / (double)p.columns);
  double unit = places * vectors * (taps * (slides(g, g->map(w, 1)) ? 0.6 : 1.2) + (y_blocked ? 1.5 : 4)) + lines * 60 +
                (x_blocked ? 0 : p.held * (double)p.boxes * vectors * 3);
  double items = ceil((double)(g->n * parts(g->groups, LANES)) / (double)p.blocks) * (double)p.boxes;
  double item = unit * (double)p.blocks / (double)p.boxes + 600;
  double units = CLADE_MAX(q->device->compute_units, 1u);
  return clade__conv_vec_cost(q, ceil(items / units) * units * item);
}

clade_status clade__depthwise_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  plan p = plan_of(q);
  const clade__gather *g = &p.g;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_depthwise");
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "TB", clade_dtype_name(n->in[1].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade_emit_define(s, "INTEGER", clade__is_integer(n->in[0].dtype));
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  clade_emit_define(s, "X_BLOCKED", n->in[0].layout.block > 0);
  clade_emit_define(s, "Y_BLOCKED", n->out[0].layout.block > 0);
  clade_emit_define(s, "SOURCE", SOURCE);
  clade_emit_define(s, "BLOCK", BLOCK);
  clade_emit_define(s, "PHASES", PHASES);
  CLADE_TRY(clade__epilogue_define(s, n));
  CLADE_TRY(clade__epilogue_define16_whole(s, n));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade__gather_sizes(s, g);
  clade_emit_index8(s, 2, (int64_t[]){g->kernel[0], g->kernel[1]});
  clade__emit_maps(s, clade__conv_window(n), g->map);
  clade_emit_index8(s, 3, (int64_t[]){p.blocks, p.lines, p.columns});
  clade__gather_result(s, n);
  int64_t items = parts(g->n * parts(g->groups, LANES), p.blocks) * p.boxes;
  clade_emit_range(s, 1, &(size_t){(size_t)items}, &(size_t){1});
  return CLADE_OK;
}
