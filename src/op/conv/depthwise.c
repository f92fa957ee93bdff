/* Depthwise convolutions on CPUs, of all passes: division of work and cost. Sums of conv2d and conv2d_data do not
 * depend on the division; the partition of the sums of conv2d_weights depends only on the sizes, for reproducibility.
 */
#include "op/conv/conv.h"

#include <math.h>

/* Sizes of the kernels' private buffers in floats; largest number of phases; positions at a time. */
enum { LANES = CLADE__LANES, SOURCE = 32768, BLOCK = 32768, PHASES = 16, RUN = 8 };
enum { EXACT_TAPS = (1 << 24) / (255 * 128) }; /* sums of products of bytes up to 2^24 are exact in f32 */

static int64_t blocks_of(const clade__conv *g) { return clade__ceil_div(g->groups, LANES); }

/* ---- conv2d and conv2d_data ---- */
typedef struct plan {
  clade__conv g;
  int64_t units;                         /* blocks of channels, of all images */
  int64_t blocks, lines, columns, boxes; /* blocks, lines and columns of a work-item; tiles of an image */
  double held;                           /* source pixels that a tile copies */
  bool fits;
} plan;

/* Source pixels along an axis that `places` positions need. */
static int64_t held(const clade__conv *g, int axis, int64_t places) {
  const clade__map_1d m = g->map[axis];
  int64_t reach = (g->kernel[axis] - 1) * (m.delta < 0 ? -m.delta : m.delta);
  return CLADE_MIN(((places - 1) * m.mul + reach) / m.div + 2, g->source[axis]);
}

static bool fits(plan *p, bool turned) {
  p->held = (double)held(&p->g, 0, p->lines) * (double)held(&p->g, 1, p->columns);
  return (!turned || p->held * LANES <= SOURCE) &&
         (double)(p->lines * p->columns + RUN * p->g.map[1].div) * LANES <= BLOCK;
}

static plan plan_in(const clade_query *q, bool x_blocked) {
  plan p = {.g = clade__conv_of(q->node), .blocks = 1};
  const clade__conv *g = &p.g;
  const int64_t cores = clade__conv_units(q);
  p.units = g->n * blocks_of(g);
  p.lines = CLADE_MAX(g->result[0], 1);
  p.columns = CLADE_MAX(g->result[1], 1);
  while (p.lines > 1 && (!fits(&p, !x_blocked) || clade__ceil_div(g->result[0], p.lines) * p.units < 4 * cores))
    p.lines = (p.lines + 1) / 2;
  while (p.columns > 1 && !fits(&p, !x_blocked)) p.columns = (p.columns + 1) / 2;
  p.fits = fits(&p, !x_blocked);
  p.boxes = clade__ceil_div(g->result[0], p.lines) * clade__ceil_div(g->result[1], p.columns);
  if (p.boxes == 1) p.blocks = CLADE_MAX(p.units / (8 * cores), 1);
  return p;
}

static const char *accept(const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  const bool whole = clade__is_integer(q->node->in[0].dtype);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_DEPTHWISE | CLADE__CONV_SMALL));
  if (whole && g.taps > EXACT_TAPS) return "requires windows whose sums of bytes are exact in f32";
  if (g.map[0].div > PHASES || g.map[1].div > PHASES) return "requires small strides";
  return plan_in(q, q->config[0] == CLADE__BLOCKED).fits ? NULL
                                                         : "what a window reads exceeds a work-item's private memory";
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  clade__gather_images(q, q->config[0], in, out);
  in[1] = (clade_layout){.axis = 0, .block = LANES};
}

/* The plan for the node's own layouts. */
static plan plan_of(const clade_query *q) { return plan_in(q, q->node->in[0].layout.block > 0); }

/* True if adjacent positions of a line share loaded pixels: windows of up to three adjacent taps, of five, and, without
 * stride, of seven. */
static bool slides(const clade__conv *g) {
  const clade__map_1d along = g->map[1];
  const int64_t delta = along.delta < 0 ? -along.delta : along.delta, period = clade__map_step(along);
  const int64_t taps = clade__ceil_div(g->kernel[1], period);
  if (taps > 1 && delta * period != along.div) return false;
  return along.mul == 1 ? taps <= 3 || taps == 5 || taps == 7 : along.mul == 2 && (taps == 3 || taps == 5);
}

/* Lines of the window outside of the source are skipped. */
static double cost(const clade_query *q) {
  const plan p = plan_of(q);
  const clade__conv *g = &p.g;
  bool x_blocked = q->node->in[0].layout.block > 0, y_blocked = q->node->out[0].layout.block > 0;
  double taps =
      (double)(CLADE_MIN(g->kernel[0], g->source[0]) * g->kernel[1]) / (double)(g->map[0].div * g->map[1].div);
  double vectors = (double)LANES / clade__vector_width(q->device), places = (double)(g->result[0] * g->result[1]);
  double lines = (double)g->result[0] * ceil((double)g->result[1] / (double)p.columns);
  double unit = places * vectors * (taps * (slides(g) ? 0.6 : 1.2) + (y_blocked ? 1.5 : 4)) + lines * 60 +
                (x_blocked ? 0 : p.held * (double)p.boxes * vectors * 3);
  double items = ceil((double)p.units / (double)p.blocks) * (double)p.boxes;
  double item = unit * (double)p.blocks / (double)p.boxes + 600, cores = (double)clade__conv_units(q);
  return clade__conv_cost(q, ceil(items / cores) * cores * item);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const plan p = plan_of(q);
  const clade__conv *g = &p.g;
  clade_kernel_step *s;
  const clade__number *defines = CLADE__DEFINES(
      {"INTEGER", clade__is_integer(n->in[0].dtype)}, {"X_BLOCKED", n->in[0].layout.block > 0},
      {"Y_BLOCKED", n->out[0].layout.block > 0}, {"SOURCE", SOURCE}, {"BLOCK", BLOCK}, {"PHASES", PHASES});
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_depthwise", CLADE__WIDE, defines, &s));
  clade__conv_operands(s);
  clade__conv_problem(s, g, 0, NULL);
  CLADE__EMIT8(s, p.blocks, p.lines, p.columns);
  return clade__gather_end(s, q, clade__ceil_div(p.units, p.blocks) * p.boxes);
}

const clade_impl clade__gather_depthwise =
    CLADE__CONV_IMPL(.name = "depthwise", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost,
                     .emit = emit, .space = &clade__conv_three_layouts, .alternatives = CLADE__ALTERNATIVES,
                     .file = "conv2d_depthwise");

/* ---- conv2d_weights ---- */
/* Most taps; sizes of private buffers in floats for sums and for transposed results. */
enum { SUMMED_TAPS = 63, SUMS_ROOM = SUMMED_TAPS * 3 * LANES, RESULTS = 16384 };

static bool turned(const clade_query *q) { return !q->node->in[0].layout.block; }

/* Lines of y that a work-item transposes at a time, limited by its buffers. */
static int64_t at_once(const clade__conv *c) {
  const clade__map_1d m = c->map[0];
  int64_t source = SOURCE / LANES / CLADE_MAX(c->source[1], 1), result = RESULTS / LANES / CLADE_MAX(c->result[1], 1);
  int64_t reach = CLADE_MIN((c->kernel[0] - 1) * m.delta + 1, c->source[0]);
  if (source < reach) return 0;
  return CLADE_MIN(CLADE_MIN((source - reach) / m.mul + 1, result), CLADE_MAX(c->result[0], 1));
}

/* Estimated cycles of all work-items with `lines` lines each, plus the longest one for each core. */
static double weights_cycles(const clade_query *q, const clade__conv *c, int64_t lines) {
  double all = (double)(c->n * c->result[0]), count = ceil(all / (double)lines);
  double vectors = 16.0 / clade__vector_width(q->device), wide = (double)c->result[1];
  double nines = ceil((double)c->kernel[0] / 3) * ceil((double)c->kernel[1] / 3);
  double line = vectors * nines * (wide * 5.5 + 20);
  if (turned(q))
    line += vectors * 3 * (wide + (double)(c->source[0] * c->source[1]) / CLADE_MAX((double)c->result[0], 1));
  double own = 20 * (double)c->taps + 400, blocks = (double)blocks_of(c);
  return blocks * (all * line + count * own) + CLADE__WEIGHTS_UNITS * ((double)lines * line + own) +
         clade__weights_join_cycles(c, (int64_t)count);
}

typedef struct sums {
  clade__conv c;
  int64_t lines, parts; /* lines of a part */
  double cycles;
} sums;

static sums sums_of(const clade_query *q) {
  sums s = {.c = clade__conv_of(q->node)};
  const int64_t all = s.lines = CLADE_MAX(s.c.n * s.c.result[0], 1);
  s.cycles = weights_cycles(q, &s.c, all);
  for (int64_t lines = (all + 1) / 2; lines > 1; lines = (lines + 1) / 2) {
    const double now = weights_cycles(q, &s.c, lines);
    if (now >= s.cycles) continue;
    s.cycles = now;
    s.lines = lines;
  }
  s.parts = clade__ceil_div(all, s.lines);
  return s;
}

static const char *weights_accept(const clade_query *q) {
  const clade__conv c = clade__conv_of(q->node);
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_DEPTHWISE | CLADE__CONV_FLOATS | CLADE__CONV_FEW));
  if (c.taps > SUMMED_TAPS) return "requires small windows";
  return q->config[0] == CLADE__BLOCKED || at_once(&c) ? NULL : "a window's lines exceed a work-item's private memory";
}

static double weights_cost(const clade_query *q) { return clade__conv_cost(q, sums_of(q).cycles); }
static size_t weights_workspace(const clade_query *q) { return clade__weights_scratch(q, sums_of(q).parts, false); }

static clade_status weights_emit(clade_emit *e, const clade_query *q) {
  const sums all = sums_of(q);
  const int64_t lines = turned(q) ? at_once(&all.c) : CLADE_MAX(all.c.result[0], 1);
  clade_kernel_step *s = clade__weights_begin(e, q, "conv2d_weights_depthwise", &all.c, all.parts);
  clade__emit_defines(s, CLADE__DEFINES({"WIDTH", clade__vector_width(q->device)}, {"X_BLOCKED", !turned(q)},
                                        {"SUMS_ROOM", SUMS_ROOM}, {"SOURCE", SOURCE}, {"BLOCK", RESULTS}));
  CLADE__EMIT8(s, all.lines, lines);
  clade__emit_items(s, blocks_of(&all.c) * all.parts);
  return clade__weights_join(e, q, all.parts, false, false);
}

const clade_impl clade__weights_depthwise =
    CLADE__CONV_IMPL(.name = "depthwise", CLADE__CONV_VEC, .accept = weights_accept, .layouts = clade__weights_images,
                     .cost = weights_cost, .workspace = weights_workspace, .emit = weights_emit,
                     .space = &clade__conv_two_layouts, .alternatives = 2, .file = "conv2d_depthwise");
