/* 1 x 1 conv2d and conv2d_data without stride on CPUs, for images with blocked channels: division of work and cost. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

enum { LANES = 16, VECTORS = 2 };
/* down: parts of the panels. tiles: per work-item. */
enum { DOWN, TILES, PARAMS };
static const char *const params[] = {"down", "tiles", NULL};

/* The accumulators take 28 of 32 registers with 16 lanes, else 12 of 16. */
static int places_of(int width) { return width == 16 ? 14 : 6; }

typedef struct problem {
  clade__gather g;
  int width, tile;
  int64_t places, panels, tiles; /* of an image; of the rows; of all images */
} problem;

static problem problem_of(const clade_query *q) {
  problem p = {.g = clade__gather_of(q->node), .width = clade__vector_width(q->device)};
  p.tile = places_of(p.width);
  p.places = p.g.result[0] * p.g.result[1];
  p.panels = (p.g.rows + VECTORS * p.width - 1) / (VECTORS * p.width);
  p.tiles = (p.places + p.tile - 1) / p.tile * p.g.n;
  return p;
}

/* Estimated cycles until the last core finishes. A tile has latency at both ends, and its accumulators are stored and
 * reloaded. Its pixels come from a shared cache, only once if L2 holds them. The first panel of weights comes from
 * memory; the others arrive during the multiplication, unless L2 holds all of them. Cores that finish early wait for a
 * part of a work-item. */
static double cycles(const clade_query *q, const problem *p, const int32_t *config) {
  const double inner = (double)p->g.inner, units = CLADE_MAX(q->device->compute_units, 1u);
  const double panels = (double)((p->panels + config[DOWN] - 1) / config[DOWN]),
               tiles = (double)CLADE_MIN(config[TILES], p->tiles);
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
static bool nth(const problem *p, int i, int32_t *config) {
  const int64_t down = i % PARTS + 1, across = i / PARTS + 1;
  if (across > 4 * PARTS) return false;
  config[DOWN] = (int32_t)CLADE_MAX(CLADE_MIN(down, p->panels), 1);
  config[TILES] = (int32_t)CLADE_MAX((p->tiles + across - 1) / across, 1);
  return true;
}

static void defaults(const clade_query *q, int32_t *config) {
  const problem p = problem_of(q);
  int32_t own[PARAMS];
  double best = INFINITY;
  for (int i = 0; nth(&p, i, own); i++) {
    const double now = cycles(q, &p, own);
    if (now >= best) continue;
    best = now;
    memcpy(config, own, sizeof own);
  }
}

static bool configs(const clade_query *q, int i, int32_t *config) {
  static const int kept[] = {1, 2, 4, 8};
  const problem p = problem_of(q);
  if (i >= (int)(CLADE_COUNT(kept) * CLADE_COUNT(kept))) return false;
  return nth(&p, kept[i % 4] - 1 + (kept[i / 4] - 1) * PARTS, config);
}
const clade_space clade__gather_flat_space = {sizeof(clade_space), params, defaults, configs};

const char *clade__gather_flat_accept(const clade_query *q) {
  const clade_node *n = q->node;
  const clade__conv_attrs *a = n->attrs;
  const clade__window *w = &a->window;
  const char *reason = clade__gather_small(q);
  if (reason) return reason;
  const problem p = problem_of(q);
  for (int i = 0; i < 2; i++)
    if (p.g.kernel[i] != 1 || w->stride[i] != 1 || w->pad[i] || w->pad[2 + i])
      return "made for windows of one place, step 1, without padding";
  if (a->groups != 1) return "made for one group";
  if (p.g.inner % LANES || p.g.rows % LANES || !p.g.inner) return "made for whole blocks of channels";
  if (p.places < p.tile) return "made for images of at least a tile";
  if (n->in[0].dtype != CLADE_F32 || n->out[0].dtype != CLADE_F32) return "made for f32";
  return a->epilogue.n_insn && !clade__elt_wide(&a->epilogue) ? "made for epilogues of whole vectors" : NULL;
}

void clade__gather_flat_layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  const bool forward = q->node->op == &clade__op_conv2d;
  in[1] = (clade_layout){.axis = forward ? 0 : 1,
                         .block = (uint16_t)(VECTORS * clade__vector_width(q->device)),
                         .tile = forward ? 0 : (uint16_t)CLADE_PANELS};
  clade__gather_images(q, CLADE__BLOCKED, in, out);
}

double clade__gather_flat_cost(const clade_query *q) {
  const problem p = problem_of(q);
  return clade__conv_vec_cost(q, cycles(q, &p, q->config) * CLADE_MAX(q->device->compute_units, 1u));
}

clade_status clade__gather_flat_emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const problem p = problem_of(q);
  const int64_t items = q->config[DOWN] * ((p.tiles + q->config[TILES] - 1) / q->config[TILES]);
  if (items == 0) return CLADE_OK;
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_flat");
  CLADE_TRY(clade__epilogue_define(s, n));
  CLADE_TRY(clade__epilogue_define16(s, n));
  CLADE_TRY(clade__epilogue_define_soon(s, n));
  clade_emit_define_text(s, "T", "f32");
  clade_emit_define(s, "WIDTH", p.width);
  clade_emit_define(s, "PLACES", p.tile);
  clade_emit_define(s, "VECTORS", VECTORS);
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index8(s, 4, (int64_t[]){p.g.n, p.g.rows, p.g.inner, p.places});
  clade_emit_index8(s, 2, (int64_t[]){q->config[DOWN], q->config[TILES]});
  clade__gather_result(s, n);
  clade_emit_range(s, 1, &(size_t){(size_t)items}, &(size_t){1});
  return CLADE_OK;
}
