/* 1 x 1 conv2d and conv2d_data without stride on CPUs, for images with blocked channels: division of work and cost. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

enum { VECTORS = 2 };
/* down: parts of the panels. tiles: per work-item. */
enum { DOWN, TILES, PARAMS };
static const char *const params[] = {"down", "tiles", NULL};

/* The accumulators take 28 of 32 registers with 16 lanes, else 12 of 16. */
static int places_of(int width) { return width == 16 ? 14 : 6; }

typedef struct problem {
  clade__conv g;
  int width, tile;
  int64_t places, panels, tiles; /* of an image; of the rows; of all images */
} problem;

static problem problem_of(const clade_query *q) {
  problem p = {.g = clade__conv_of(q->node), .width = clade__vector_width(q->device)};
  p.tile = places_of(p.width);
  p.places = p.g.result[0] * p.g.result[1];
  p.panels = clade__ceil_div(p.g.rows, VECTORS * p.width);
  p.tiles = clade__ceil_div(p.places, p.tile) * p.g.n;
  return p;
}

/* Estimated cycles until the last core finishes. A tile has latency at both ends, and its accumulators are stored and
 * reloaded. Its pixels come from a shared cache, only once if L2 holds them. The first panel of weights comes from
 * memory; the others arrive during the multiplication, unless L2 holds all of them. Cores that finish early wait for a
 * part of a work-item. */
static double cycles(const clade_query *q, const void *of, const int32_t *config, double units) {
  const problem *p = of;
  const double inner = (double)p->g.inner, panels = (double)clade__ceil_div(p->panels, config[DOWN]);
  const double tiles = (double)CLADE_MIN(config[TILES], p->tiles);
  const double l2 = (double)clade__second_cache(q->device), source = tiles * p->tile * inner * 4;
  const double panel = inner * VECTORS * p->width * 4, times = source * 2 <= l2 ? 1 : panels;
  const double weights = panel / 12 + (panels * panel * 4 <= l2 ? 0 : (panels - 1) * panel / 32);
  const double halves = ceil((double)p->places * 2 / p->tile) / 2 * (double)p->g.n / (double)CLADE_MAX(p->tiles, 1);
  const double tile = halves * p->tile * VECTORS * (inner / 2 * 1.02 + 3) + 60;
  const double item = panels * tiles * tile + times * source / 16 + weights + 1000;
  const double items = (double)config[DOWN] * ceil((double)p->tiles / (double)config[TILES]);
  return ceil(items / units) * item + 0.1 * item;
}

enum { PARTS = 24 };
static bool nth(const clade_query *q, const void *of, int i, int32_t *config) {
  const problem *p = of;
  (void)q;
  const int64_t down = i % PARTS + 1, across = i / PARTS + 1;
  if (across > 4 * PARTS) return false;
  config[DOWN] = (int32_t)CLADE_MAX(CLADE_MIN(down, p->panels), 1);
  config[TILES] = (int32_t)CLADE_MAX(clade__ceil_div(p->tiles, across), 1);
  return true;
}

static const clade__choices choices = {PARAMS, 0, nth, cycles};
static void defaults(const clade_query *q, int32_t *config) {
  const problem p = problem_of(q);
  clade__conv_choose(&choices, q, &p, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  static const int kept[] = {1, 2, 4, 8};
  const problem p = problem_of(q);
  if (i >= (int)(CLADE_COUNT(kept) * CLADE_COUNT(kept))) return false;
  return nth(q, &p, kept[i % 4] - 1 + (kept[i / 4] - 1) * PARTS, config);
}
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

static const char *accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__elt *epilogue = &((const clade__conv_attrs *)n->attrs)->epilogue;
  CLADE__REFUSE(
      clade__conv_refuses(q, CLADE__CONV_POINT | CLADE__CONV_ONE_GROUP | CLADE__CONV_F32 | CLADE__CONV_SMALL));
  const problem p = problem_of(q);
  if (p.g.inner % CLADE__LANES || p.g.rows % CLADE__LANES || !p.g.inner) return "made for whole blocks of channels";
  if (p.places < p.tile) return "made for images of at least a tile";
  if (n->out[0].dtype != CLADE_F32) return "made for results of f32";
  return epilogue->n_insn && !clade__elt_wide(epilogue) ? "made for epilogues of whole vectors" : NULL;
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  in[1] = clade__gather_panels(q, VECTORS * clade__vector_width(q->device));
  clade__gather_images(q, CLADE__BLOCKED, in, out);
}

static double cost(const clade_query *q) {
  const problem p = problem_of(q);
  const double units = (double)clade__conv_units(q);
  return clade__conv_cost(q, cycles(q, &p, q->config, units) * units);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const problem p = problem_of(q);
  const int64_t items = q->config[DOWN] * clade__ceil_div(p.tiles, q->config[TILES]);
  clade_kernel_step *s;
  if (items == 0) return CLADE_OK;
  const clade__number *defines = CLADE__DEFINES({"PLACES", p.tile}, {"VECTORS", VECTORS});
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_flat", CLADE__SIXTEEN, defines, &s));
  CLADE_TRY(clade__epilogue_define_soon(s, q->node));
  clade__conv_operands(s);
  CLADE__EMIT8(s, p.g.n, p.g.rows, p.g.inner, p.places);
  CLADE__EMIT8(s, q->config[DOWN], q->config[TILES]);
  return clade__gather_end(s, q, items);
}

const clade_impl clade__gather_flat =
    CLADE__CONV_IMPL(.name = "flat", CLADE__LONG_VEC, .needs_lanes = 8, .accept = accept, .layouts = layouts,
                     .cost = cost, .emit = emit, .space = &space, .file = "conv2d_flat");
