/* 1 x 1 conv2d and conv2d_data without stride on CPUs, which read images in place: division of work and cost. Vectors
 * hold channels of the result if images are in blocks of channels, and places if they are dense. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

/* down: parts of the panels. tiles: per work-item. */
enum { LAYOUTS, DOWN, TILES, PARAMS };
static const char *const params[] = {"layouts", "down", "tiles", NULL};

typedef struct problem {
  clade__conv g;
  bool blocked, plain;            /* images in blocks of channels; no epilogue */
  int width, vectors, rows, tile; /* of the register tile: vectors; channels of the result; places */
  int64_t places, panels, tiles;  /* of an image; of the rows; of all images */
} problem;

/* Accumulators take 28 of 32 registers in blocks and 24 in dense images, or 12 of 16. */
static problem problem_of(const clade_query *q, const int32_t *config) {
  problem p = {.g = clade__conv_of(q->node), .width = clade__vector_width(q->device)};
  const bool large = p.width == 16;
  p.blocked = config[LAYOUTS] == CLADE__BLOCKED;
  p.plain = ((const clade__conv_attrs *)q->node->attrs)->epilogue.n_insn == 0;
  p.vectors = p.blocked ? 2 : 3;
  p.rows = p.blocked ? p.vectors * p.width : large ? 8 : 4;
  p.tile = !p.blocked ? p.vectors * p.width : large ? 14 : 6;
  p.places = p.g.result[0] * p.g.result[1];
  p.panels = clade__ceil_div(p.g.rows, p.rows);
  p.tiles = clade__ceil_div(p.places, p.tile) * p.g.n;
  return p;
}

/* Estimated cycles for `tiles` tiles of blocks. A tile has latency at both ends, and its accumulators are stored and
 * reloaded. Its pixels come from a shared cache, only once if L2 holds them. The first panel of weights comes from
 * memory; the others arrive during the multiplication, unless L2 holds all of them. */
static double blocked_cycles(const problem *p, double panels, double tiles, double panel, double l2) {
  const double inner = (double)p->g.inner, source = tiles * p->tile * inner * 4;
  const double times = source * 2 <= l2 ? 1 : panels;
  const double weights = panel / 12 + (panels * panel * 4 <= l2 ? 0 : (panels - 1) * panel / 32);
  const double halves = ceil((double)p->places * 2 / p->tile) / 2 * (double)p->g.n / (double)CLADE_MAX(p->tiles, 1);
  const double tile = halves * p->tile * p->vectors * (inner / 2 * 1.02 + 3) + 60;
  return panels * tiles * tile + times * source / 16 + weights + 1000;
}

/* The same of dense images, which end with tiles of single vectors; each tile reads the weights that exceed L2. */
static double dense_cycles(const problem *p, double panels, double tiles, double panel, double l2) {
  const int64_t vectors = clade__ceil_div(p->places, p->width);
  const double whole = (double)(vectors / p->vectors), single = (double)(vectors % p->vectors);
  const double inner = (double)p->g.inner, far = panels * panel * 2 > l2 ? panel / 32 : 0;
  const double image =
      whole * (p->rows * p->vectors / 2.0 * inner + 50 + far) + single * ((p->rows / 2.0 + 1) * inner + 30 + far);
  const double tile = image * (double)p->g.n / (double)CLADE_MAX(p->tiles, 1);
  return panels * tiles * tile + tiles * p->vectors * inner / 2 + 400;
}

/* Estimated cycles until the last core finishes. Cores that finish early wait for a part of a work-item. */
static double cycles(const clade_query *q, const void *of, const int32_t *config, double units) {
  const problem *p = of;
  const double panels = (double)clade__ceil_div(p->panels, config[DOWN]), l2 = (double)clade__second_cache(q->device);
  const double tiles = (double)CLADE_MIN(config[TILES], p->tiles), panel = (double)p->g.inner * p->rows * 4;
  const double item = (p->blocked ? blocked_cycles : dense_cycles)(p, panels, tiles, panel, l2);
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
  const problem p = problem_of(q, config);
  clade__conv_choose(&choices, q, &p, config);
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  static const int kept[] = {1, 2, 4, 8};
  const int down = i / 2 % 4, across = i / 8;
  if (across > 3) return false;
  config[LAYOUTS] = i % 2;
  const problem p = problem_of(q, config);
  return nth(q, &p, kept[down] - 1 + (kept[across] - 1) * PARTS, config);
}
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

static const char *accept(const clade_query *q) {
  enum { FEW_TILES = 4 }; /* of a dense image */
  const clade_node *n = q->node;
  const clade__elt *epilogue = &((const clade__conv_attrs *)n->attrs)->epilogue;
  CLADE__REFUSE(clade__conv_refuses(q, CLADE__CONV_POINT | CLADE__CONV_ONE_GROUP | CLADE__CONV_F32 | CLADE__CONV_SMALL |
                                           CLADE__CONV_SOME));
  const problem p = problem_of(q, q->config);
  if (p.places < (p.blocked ? 1 : FEW_TILES) * p.tile) return "requires larger images";
  if (!p.blocked) return NULL;
  if (p.width < 8) return "requires vectors of 256 bits";
  if (p.g.inner % CLADE__LANES || p.g.rows % CLADE__LANES) return "requires whole blocks of channels";
  if (n->out[0].dtype != CLADE_F32) return "requires a result of f32";
  return epilogue->n_insn && !clade__elt_wide(epilogue) ? "requires an epilogue that computes whole vectors" : NULL;
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  const problem p = problem_of(q, q->config);
  in[1] = clade__gather_panels(q, p.rows);
  clade__gather_images(q, p.blocked ? CLADE__BLOCKED : CLADE__DENSE, in, out);
}

static double cost(const clade_query *q) {
  const problem p = problem_of(q, q->config);
  const double units = (double)clade__conv_units(q);
  const double again = p.blocked || p.plain ? 0 : 3 * (double)(p.g.n * p.g.rows * p.places); /* for the epilogue */
  return clade__conv_cost(q, cycles(q, &p, q->config, units) * units + again);
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const problem p = problem_of(q, q->config);
  /* Results of whole cache lines that would not stay in the caches are stored past them. */
  const bool plain = !p.blocked && p.plain,
             past =
                 plain && p.places % 16 == 0 && clade__node_bytes(q->node) * 2 > (double)clade__last_cache(q->device);
  clade_kernel_step *s;
  /* Vectors of the next tile's pixels that each panel prefetches, so that together they prefetch the whole tile. */
  const int64_t asked = clade__ceil_div(p.vectors, p.panels / q->config[DOWN]);
  const clade__number *defines = CLADE__DEFINES({"ROWS", p.rows}, {"PLACES", p.tile}, {"VECTORS", p.vectors},
                                                {"ASKED", p.blocked ? 0 : asked}, {"PLAIN", plain}, {"PAST", past});
  CLADE_TRY(clade__gather_begin(e, q, p.blocked ? "conv2d_flat" : "conv2d_flat_dense", CLADE__WIDE, defines, &s));
  if (p.blocked) CLADE_TRY(clade__epilogue_define_soon(s, q->node));
  clade__conv_operands(s);
  CLADE__EMIT8(s, p.g.n, p.g.rows, p.g.inner, p.places);
  CLADE__EMIT8(s, q->config[DOWN], q->config[TILES]);
  return clade__gather_end(s, q, q->config[DOWN] * clade__ceil_div(p.tiles, q->config[TILES]));
}

const clade_impl clade__gather_flat =
    CLADE__CONV_IMPL(.name = "flat", CLADE__CONV_VEC, .accept = accept, .layouts = layouts, .cost = cost, .emit = emit,
                     .space = &space, .alternatives = 2, .file = "conv2d_flat");
