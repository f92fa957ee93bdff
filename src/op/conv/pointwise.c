/* 1 x 1 conv2d and conv2d_data without stride on CPUs, dense: division of work and cost. */
#include "op/conv/conv.h"

#include <math.h>

/* rows, vectors: of the register tile. kilobytes: of an image that are copied at a time. */
enum { ROWS, VECTORS, KILOBYTES, PARAMS };
/* Limits where pixels are copied and there are many input channels: few output channels, whose lines are not
 * prefetched, and few positions; more output channels without an epilogue, if input channels are few as well. FEW_ROWS
 * is few for any number of input channels. */
enum { FEW_CHANNELS = 96, FEW_PLACES = 256, FEW_ROWS = 64 };
static const char *const params[] = {"rows", "vectors", "kilobytes", NULL};

static bool plain(const clade_query *q) { return ((const clade__conv_attrs *)q->node->attrs)->epilogue.n_insn == 0; }
static bool shallow(const clade_query *q) { return clade__conv_of(q->node).inner <= CLADE__FEW_INNER; }

/* True if a plain result is written with non-temporal stores of whole cache lines, because it would not stay in the
 * cache. */
static bool past(const clade_query *q) {
  const clade_shape *y = &q->node->out[0].shape;
  return clade__node_bytes(q->node) * 2 > (double)clade__last_cache(q->device) && y->dim[2] * y->dim[3] % 16 == 0 &&
         plain(q);
}

static void defaults(const clade_query *q, int32_t *config) {
  int64_t l2 = clade__second_cache(q->device);
  config[ROWS] = clade__vector_width(q->device) == 16 ? 8 : 4; /* 24 accumulators of 32 registers, or 12 of 16 */
  config[VECTORS] = 3;
  /* long lines of results if an image exceeds L2, else a tile that stays in L1 */
  config[KILOBYTES] = shallow(q) && clade__node_bytes(q->node) > (double)l2
                          ? (int32_t)CLADE_MAX(CLADE_MIN(l2 / 2, 1 << 20) >> 10, 64)
                          : 32;
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  static const int32_t kilobytes[] = {32, 128, 256, 512, 1024};
  if (i >= (int)CLADE_COUNT(kilobytes)) return false;
  defaults(q, config);
  config[KILOBYTES] = kilobytes[i];
  return true;
}
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

typedef struct plan {
  clade__conv g;
  int64_t places, panels;       /* of an image; of rows */
  int64_t down, across;         /* parts of the rows, and of an image's positions */
  int64_t columns, item_floats; /* positions at a time; workspace of a work-item */
  bool copies;
  double cycles; /* until the last core finishes */
} plan;

static int64_t tile_places(const clade_query *q) {
  return (int64_t)q->config[VECTORS] * clade__vector_width(q->device);
}

/* True if the pixels of a tile are copied. Without a copy, the result is stored tile by tile; if it has more lines than
 * the image, long contiguous stores are better, since each line is on another page. */
static bool copies(const clade_query *q, const clade__conv *g) {
  return clade__vector_width(q->device) != 16 || g->rows > CLADE_MAX(g->inner, FEW_ROWS) ||
         g->result[0] * g->result[1] < 4 * tile_places(q);
}

/* Estimated cycles of a work-item with the given panels of rows and vectors of positions: latency at both ends of a
 * tile, loads for a tile of a single vector, results whose lines are not prefetched, and weights that exceed L2. */
static double cycles(const clade_query *q, const plan *p, int64_t panels, int64_t vectors) {
  const double inner = (double)p->g.inner, high = q->config[ROWS], wide = q->config[VECTORS];
  const double whole = (double)(vectors / q->config[VECTORS]), single = (double)(vectors % q->config[VECTORS]);
  const double results = shallow(q) || !p->copies ? 0 : high * (double)vectors * clade__vector_width(q->device);
  double tiles = whole * (high * wide / 2 * inner + 50) + single * ((high / 2 + 1) * inner + 30);
  if ((double)panels * high * inner * 8 > (double)clade__second_cache(q->device))
    tiles += (whole + single) * high * inner / 8;
  return (double)panels * (tiles + 0.2 * results) + (double)vectors * inner * (p->copies ? 1.6 : 0.5) + 400;
}

/* Divides work into parts of whole tiles, so that sums do not depend on the division. Another core may begin late. */
static plan plan_of(const clade_query *q) {
  enum { LATE = 5000 };
  int width = clade__vector_width(q->device);
  int64_t units = clade__conv_units(q), most = 4 * units;
  plan p = {.g = clade__conv_of(q->node), .down = 1, .across = 1, .cycles = INFINITY};
  p.places = p.g.result[0] * p.g.result[1];
  p.copies = copies(q, &p.g);
  p.panels = clade__ceil_div(p.g.rows, q->config[ROWS]);
  int64_t vectors = clade__ceil_div(p.places, width), tiles = clade__ceil_div(vectors, q->config[VECTORS]);
  for (int64_t down = 1; down <= most; down++)
    for (int64_t across = 1; down * across <= most; across++) {
      int64_t items = down * across * p.g.n, turns = clade__ceil_div(items, units);
      int64_t wide = CLADE_MIN(clade__ceil_div(tiles, across) * q->config[VECTORS], vectors);
      double item = cycles(q, &p, clade__ceil_div(p.panels, down), wide);
      double time = (double)turns * item + (items > 1 ? CLADE_MIN(item, LATE) : 0);
      if (time >= p.cycles) continue;
      p.cycles = time;
      p.down = down;
      p.across = across;
    }
  const int64_t tile = tile_places(q), wide = clade__ceil_div(tiles, p.across) * tile;
  const int64_t fit = p.copies ? CLADE_MAX((int64_t)q->config[KILOBYTES] * 256 / CLADE_MAX(p.g.inner, 1), tile) : tile;
  p.columns = clade__up(clade__ceil_div(wide, clade__ceil_div(wide, fit)), tile);
  p.item_floats = p.copies ? CLADE_MAX(p.g.inner, 1) * p.columns : 0;
  return p;
}

static const char *accept(const clade_query *q) {
  const clade__conv g = clade__conv_of(q->node);
  CLADE__REFUSE(clade__gather_point_refuses(q));
  if (shallow(q)) return NULL;
  if (clade__vector_width(q->device) != 16) return "made for few inner channels, or vectors of 512 bits";
  const bool few = g.rows <= FEW_CHANNELS || (plain(q) && g.inner <= FEW_CHANNELS);
  return !copies(q, &g) || (few && g.result[0] * g.result[1] <= FEW_PLACES)
             ? NULL
             : "made for few inner channels, or for few of the result";
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  (void)out;
  in[1] = clade__gather_panels(q, q->config[ROWS]);
}

static double cost(const clade_query *q) {
  const double cycles = plan_of(q).cycles * (double)clade__conv_units(q);
  return clade__conv_cost(q, cycles + clade__conv_epilogue_cycles(q->node));
}

static size_t workspace(const clade_query *q) {
  const plan p = plan_of(q);
  return (size_t)(p.down * p.across * p.g.n * p.item_floats) * sizeof(float);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const plan p = plan_of(q);
  const int64_t items = p.down * p.across * p.g.n;
  clade_kernel_step *s;
  if (items == 0 || p.g.rows == 0 || p.places == 0) return CLADE_OK;
  /* Vectors of the next tile's pixels that each panel prefetches, so that together they prefetch the whole tile. */
  const int64_t asked = p.copies ? 0 : clade__ceil_div(q->config[VECTORS], p.panels / p.down);
  const clade__number *defines =
      CLADE__DEFINES({"ROWS", q->config[ROWS]}, {"VECTORS", q->config[VECTORS]}, {"SHALLOW", p.copies && shallow(q)},
                     {"PAST", past(q)}, {"ASKED", asked}, {"PLAIN", plain(q)});
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_pointwise", CLADE__SIXTEEN, defines, &s));
  clade__conv_operands(s);
  if (p.copies) clade_emit_workspace(s, 0, sizeof(float));
  CLADE__EMIT8(s, p.g.n, p.g.rows, p.g.inner, p.places);
  CLADE__EMIT8(s, p.down, p.across, p.columns, p.item_floats);
  return clade__gather_end(s, q, items);
}

const clade_impl clade__gather_pointwise =
    CLADE__CONV_IMPL(.name = "pointwise", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost,
                     .workspace = workspace, .emit = emit, .space = &space, .file = "conv2d_pointwise");
