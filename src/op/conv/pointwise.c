/* 1 x 1 conv2d and conv2d_data without stride on CPUs, dense: division of work and cost. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

/* rows, vectors: of the register tile. kilobytes: of an image that are copied at a time. */
enum { ROWS, VECTORS, KILOBYTES, PARAMS };
/* Limits where pixels are copied and there are many input channels: few output channels, whose lines are not
 * prefetched, and few positions; more output channels without an epilogue, if input channels are few as well. FEW_ROWS
 * is few for any number of input channels. */
enum { FEW_CHANNELS = 96, FEW_PLACES = 256, FEW_ROWS = 64 };
static const char *const params[] = {"rows", "vectors", "kilobytes", NULL};

static bool plain(const clade_query *q) { return ((const clade__conv_attrs *)q->node->attrs)->epilogue.n_insn == 0; }
static bool shallow(const clade_query *q) { return clade__gather_of(q->node).inner <= CLADE__FEW_INNER; }

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
const clade_space clade__gather_pointwise_space = {sizeof(clade_space), params, defaults, configs};

typedef struct plan {
  clade__gather g;
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
static bool copies(const clade_query *q, const clade__gather *g) {
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
  int64_t units = CLADE_MAX(q->device->compute_units, 1u), most = 4 * units;
  plan p = {.g = clade__gather_of(q->node), .down = 1, .across = 1, .cycles = INFINITY};
  p.places = p.g.result[0] * p.g.result[1];
  p.copies = copies(q, &p.g);
  p.panels = (p.g.rows + q->config[ROWS] - 1) / q->config[ROWS];
  int64_t vectors = (p.places + width - 1) / width;
  int64_t tiles = (vectors + q->config[VECTORS] - 1) / q->config[VECTORS];
  for (int64_t down = 1; down <= most; down++)
    for (int64_t across = 1; down * across <= most; across++) {
      int64_t items = down * across * p.g.n, turns = (items + units - 1) / units;
      int64_t wide = CLADE_MIN((tiles + across - 1) / across * q->config[VECTORS], vectors);
      double item = cycles(q, &p, (p.panels + down - 1) / down, wide);
      double time = (double)turns * item + (items > 1 ? CLADE_MIN(item, LATE) : 0);
      if (time >= p.cycles) continue;
      p.cycles = time;
      p.down = down;
      p.across = across;
    }
  const int64_t tile = tile_places(q), wide = (tiles + p.across - 1) / p.across * tile;
  const int64_t fit = p.copies ? CLADE_MAX((int64_t)q->config[KILOBYTES] * 256 / CLADE_MAX(p.g.inner, 1), tile) : tile;
  const int64_t parts = CLADE_MAX((wide + fit - 1) / fit, 1);
  p.columns = clade__up((wide + parts - 1) / parts, tile);
  p.item_floats = p.copies ? CLADE_MAX(p.g.inner, 1) * p.columns : 0;
  return p;
}

/* Vectors of the next tile's pixels that each panel prefetches, so that together they prefetch the whole tile. */
static int64_t asked(const clade_query *q, const plan *p) {
  const int64_t panels = CLADE_MAX(p->panels / p->down, 1);
  return p->copies ? 0 : (q->config[VECTORS] + panels - 1) / panels;
}

const char *clade__gather_pointwise_accept(const clade_query *q) {
  const char *reason = clade__gather_point_accept(q);
  if (reason) return reason;
  clade__gather g = clade__gather_of(q->node);
  if (shallow(q)) return NULL;
  if (clade__vector_width(q->device) != 16) return "made for few inner channels, or vectors of 512 bits";
  const bool few = g.rows <= FEW_CHANNELS || (plain(q) && g.inner <= FEW_CHANNELS);
  return !copies(q, &g) || (few && g.result[0] * g.result[1] <= FEW_PLACES)
             ? NULL
             : "made for few inner channels, or for few of the result";
}

void clade__gather_pointwise_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  const bool forward = q->node->op == &clade__op_conv2d;
  (void)out;
  in[1] = (clade_layout){
      .axis = forward ? 0 : 1, .block = (uint16_t)q->config[ROWS], .tile = forward ? 0 : (uint16_t)CLADE_PANELS};
}

double clade__gather_pointwise_cost(const clade_query *q) {
  double cycles = plan_of(q).cycles * CLADE_MAX(q->device->compute_units, 1u);
  return clade__conv_vec_cost(q, cycles + clade__conv_epilogue_cycles(q->node));
}

size_t clade__gather_pointwise_workspace(const clade_query *q) {
  plan p = plan_of(q);
  return (size_t)(p.down * p.across * p.g.n * p.item_floats) * sizeof(float);
}

clade_status clade__gather_pointwise_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  plan p = plan_of(q);
  int64_t items = p.down * p.across * p.g.n;
  if (items == 0 || p.g.rows == 0 || p.places == 0) return CLADE_OK;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_pointwise");
  CLADE_TRY(clade__epilogue_define(s, n));
  CLADE_TRY(clade__epilogue_define16(s, n));
  clade_emit_define_text(s, "T", "f32");
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  clade_emit_define(s, "ROWS", q->config[ROWS]);
  clade_emit_define(s, "VECTORS", q->config[VECTORS]);
  clade_emit_define(s, "SHALLOW", p.copies && shallow(q));
  clade_emit_define(s, "PAST", past(q));
  clade_emit_define(s, "ASKED", asked(q, &p));
  clade_emit_define(s, "PLAIN", plain(q));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  if (p.copies) clade_emit_workspace(s, 0, sizeof(float));
  clade_emit_index8(s, 4, (int64_t[]){p.g.n, p.g.rows, p.g.inner, p.places});
  clade_emit_index8(s, 4, (int64_t[]){p.down, p.across, p.columns, p.item_floats});
  clade__gather_result(s, n);
  clade_emit_range(s, 1, &(size_t){(size_t)items}, &(size_t){1});
  return CLADE_OK;
}
