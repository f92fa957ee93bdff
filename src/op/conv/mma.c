/* Convolutions of bf16, and conv2d of bytes, by CPUs' units for vectors (VNNI, AVX512-BF16) or tiles (AMX), on images
 * in blocks of channels or, for a first layer, dense ones: layouts, division of the work, cost, and the gate. The
 * partition of the sums of conv2d_weights depends only on the sizes. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

#include <math.h>

#define UNITS_I8   (1 << CLADE_UNIT_VNNI | 1 << CLADE_UNIT_AMX_INT8)
#define UNITS_BF16 (1 << CLADE_UNIT_AVX512_BF16 | 1 << CLADE_UNIT_AMX_BF16)

enum { LANES = CLADE__LANES, PANEL = 32, WORD = 4, MOST_PARTS = 8, MOST_IMAGES = 32 };

typedef struct plan {
  clade__conv g;
  bool tiles;
  int64_t words, blocks, inner; /* per pixel: of a block, or of a dense image; of all channels */
  int64_t pixel, step;          /* words per pixel of a copy; words of the inner axis per instruction */
  int piece, pieces;            /* pixels of a piece, pieces of a tile */
  double tile;                  /* cycles of a tile per step */
  int64_t across, panels;       /* pieces of a line */
  int64_t strip, cuts, downs;   /* pieces of an image in a strip; strips of a phase; parts of the panels */
  int64_t images;               /* of a strip */
  int64_t items, room;          /* words of scratch memory for each item */
  double cycles;                /* of the unit that takes longest */
  bool bare;                    /* read where it lies */
} plan;

static int64_t parts(int64_t all, int64_t part) { return clade__ceil_div(all, part); }
static bool bytes(const clade_node *n) { return n->in[1].dtype == CLADE_I8; }
static int quad(const clade_node *n) { return bytes(n) ? 4 : 2; }
static bool units(const clade_query *q) { return bytes(q->node) || q->node->in[0].dtype == CLADE_BF16; }

/* ---- the unit ---- */
static const clade_unit_info *unit_of(const clade_query *q, bool tiles) {
  static const clade_unit of_bytes[] = {CLADE_UNIT_VNNI, CLADE_UNIT_AMX_INT8};
  static const clade_unit of_bf16[] = {CLADE_UNIT_AVX512_BF16, CLADE_UNIT_AMX_BF16};
  return &q->device->unit[(bytes(q->node) ? of_bytes : of_bf16)[tiles]];
}

/* As clade__conv_refuses, after the lack of a unit. */
static const char *refuses(const clade_query *q, bool tiles, unsigned needs) {
  const clade_unit_info *unit = unit_of(q, tiles);
  if (unit->used) return clade__conv_refuses(q, needs | CLADE__CONV_ONE_GROUP | CLADE__CONV_SMALL | CLADE__CONV_TAPS);
  return unit->reason ? unit->reason : "the device does not have the unit for this type";
}

/* An imitated unit has a reason, and is used where none is real. */
static bool by_tiles(const clade_query *q, int64_t words) {
  enum { LEAST = 4 };
  const clade_unit_info *vectors = unit_of(q, false), *tiles = unit_of(q, true);
  if (!tiles->used || !vectors->used) return tiles->used;
  return !tiles->reason == !vectors->reason ? words >= LEAST : !tiles->reason;
}

/* The longest part of the inner axis that an instruction can take without a rest. */
static int64_t step_of(int64_t inner) {
  int64_t step = CLADE_MAX(CLADE_MIN(inner, LANES), 1);
  while (inner % step) step--;
  return step;
}

/* Words of a line of y that an instruction for tiles takes in conv2d_weights: equal parts of it, up to a block. */
static int64_t weights_step_of(const clade__conv *p) {
  const int64_t pairs = parts(p->result[1], 2);
  return parts(pairs, parts(pairs, LANES));
}

enum { LAYOUTS, TILES };
static bool weights(const clade_query *q) { return q->node->op == &clade__op_conv2d_weights; }
static void defaults(const clade_query *q, int32_t *config) {
  const clade__conv c = clade__conv_flat(q->node);
  config[TILES] = by_tiles(q, weights(q) ? weights_step_of(&c) : step_of(parts(c.inner, quad(q->node))));
}
static bool configs(const clade_query *q, int i, int32_t *config) {
  config[LAYOUTS] = i / 2;
  config[TILES] = i % 2;
  return i < (weights(q) ? 2 : 4);
}
static const char *const params[] = {"layouts", "tiles", NULL};
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

/* ---- pieces ---- */
/* Chooses the shape of a tile that takes the least time. A product of AMX takes a cycle per pixel, and the next one
 * with the same sums waits for 52. */
static void settle_pieces(plan *p) {
  static const struct shape {
    int piece, pieces;
    double cycles; /* per step of the inner axis */
  } all[][3] = {{{14, 1, 14}, {7, 2, 14.1}, {4, 3, 12.7}}, {{16, 2, 64}, {14, 2, 56}, {7, 2, 52}}};
  double best = INFINITY;
  for (const struct shape *s = all[p->tiles]; s < all[p->tiles] + CLADE_COUNT(all[0]); s++) {
    const double across = ceil((double)p->g.grid[1] / s->piece), lines = (double)p->g.grid[0];
    const double cycles = ceil(lines * across / s->pieces) * s->cycles;
    if (cycles >= best || (p->bare && p->g.grid[1] < s->piece)) continue;
    best = cycles;
    p->piece = s->piece;
    p->pieces = s->pieces;
    p->tile = s->cycles;
  }
}

/* ---- strips ---- */
/* Source lines (axis 0) or columns (axis 1) that so many output pixels read. */
static int64_t held(const plan *p, int axis, int64_t places) {
  const clade__map_1d m = p->g.map[axis];
  const int64_t reach = (p->g.kernel[axis] - 1) * (m.delta < 0 ? -m.delta : m.delta) / m.div;
  return axis ? (CLADE_MAX(places, p->piece) + reach / m.mul + 1) * m.mul : (places - 1) * m.mul + reach + 1;
}

static int64_t room(const plan *p, int64_t lines) {
  return p->bare ? 0 : p->pixel * held(p, 0, lines) * held(p, 1, p->g.grid[1]);
}

/* Cycles of a strip on a core that issues two vector operations per cycle. Weights of a panel are read once per strip
 * if the second cache holds the panels of the strip, which then serves each tile. */
static double strip_cycles(const clade_query *q, const plan *p, int64_t pieces, int64_t panels, int64_t images) {
  const double taps = (double)p->g.taps / (double)p->g.phases;
  const double steps = taps * (double)(p->inner / p->step), slower = bytes(q->node) || p->tiles ? 1 : 1.1;
  const double tiles = (double)parts(pieces * images, p->pieces), places = p->piece * p->pieces;
  const double dots = steps * p->tile * slower + taps * (double)p->blocks * 6 + places * 14 + 60;
  const double panel = (double)(p->g.taps * p->inner) * PANEL * WORD;
  const double copied = (double)(images * room(p, parts(pieces, p->across)));
  const double copy = copied * (q->node->in[0].layout.block ? 0.4 : 6);
  const bool cached = panel * (double)panels * 2 <= (double)clade__second_cache(q->device);
  return (double)panels * (tiles * dots + panel / (cached ? 64 : 16)) + copy + 400;
}

/* Tries pieces of an image, and several images, by parts of the panels. */
static void settle_strips(const clade_query *q, plan *p) {
  const int64_t all = p->g.grid[0] * p->across, each = p->bare ? 4 * p->pieces : p->across;
  const int64_t lines = p->bare ? parts(all, each) : p->g.grid[0]; /* smallest units of a strip */
  const int64_t cuts = CLADE_MIN(lines, 4 * MOST_PARTS), most = cuts + CLADE_MIN(CLADE_MAX(p->g.n, 1), MOST_IMAGES) - 1;
  p->cycles = INFINITY;
  p->strip = p->images = p->downs = 1;
  for (int64_t downs = 1; downs <= CLADE_MIN(p->panels, MOST_PARTS); downs++)
    for (int64_t i = 1; i <= most; i++) {
      const int64_t strip = i <= cuts ? CLADE_MIN(parts(lines, i) * each, all) : all,
                    images = CLADE_MAX(i - cuts + 1, 1);
      const int64_t strips = parts(p->g.n, images) * p->g.phases * parts(all, strip) * downs;
      double one = strip_cycles(q, p, strip, parts(p->panels, downs), images);
      if (images * room(p, parts(strip, p->across)) * WORD > clade__second_cache(q->device) / 2) one *= 1.1;
      const double cycles = (double)parts(strips, clade__conv_units(q)) * one;
      if (cycles >= p->cycles) continue;
      p->cycles = cycles;
      p->strip = strip;
      p->downs = downs;
      p->images = images;
    }
  p->cuts = parts(all, p->strip);
  p->room = clade__up(p->images * room(p, parts(p->strip, p->across)), LANES);
  p->items = CLADE_MIN(parts(p->g.n, p->images) * p->g.phases * p->cuts * p->downs, 2 * clade__conv_units(q));
}

static plan plan_of(const clade_query *q) {
  const clade_node *n = q->node;
  const bool blocked = n->in[0].layout.block > 0;
  plan p = {.g = clade__conv_of(n), .tiles = q->config[TILES]};
  p.inner = parts(p.g.inner, quad(n));
  p.words = blocked ? LANES / quad(n) : p.inner;
  p.blocks = parts(p.inner, p.words);
  p.pixel = p.blocks * p.words;
  if (p.tiles && p.pixel % 256 == 0) p.pixel += LANES; /* or lines of a tile would be in few sets of the cache */
  p.step = p.tiles ? step_of(p.inner) : 1;
  p.panels = parts(p.g.rows, PANEL);
  p.bare = blocked && !p.tiles && p.g.point && n->in[0].dtype != CLADE_I8 && p.g.result[0] * p.g.result[1] >= 4;
  if (p.bare) p.g = clade__conv_flat(n);
  settle_pieces(&p);
  p.across = parts(p.g.grid[1], p.piece);
  settle_strips(q, &p);
  return p;
}

static const char *accept(const clade_query *q) {
  const clade_node *n = q->node;
  const int64_t inner = clade__conv_of(n).inner;
  CLADE__REFUSE(refuses(q, q->config[TILES], 0));
  if (q->config[LAYOUTS] != CLADE__BLOCKED)
    return inner > LANES ? "requires images of at most one block of channels" : NULL;
  return inner % quad(n) ? "the channels are not whole words" : NULL;
}

static void layouts(const clade_query *q, clade_layout *in, clade_layout *out) {
  in[1] = clade__gather_weights(q, PANEL, CLADE_PANELS);
  in[1].interleave = (uint16_t)quad(q->node);
  clade__gather_images(q, q->config[LAYOUTS], in, out);
}

static double cost(const clade_query *q) {
  return clade__conv_cost(q, plan_of(q).cycles * (double)clade__conv_units(q));
}

static size_t workspace(const clade_query *q) {
  const plan p = plan_of(q);
  return (size_t)CLADE_MAX(p.items * p.room, 1) * WORD;
}

/* A missing unit is imitated in tests only. */
static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const plan p = plan_of(q);
  clade_kernel_step *s;
  if (!p.items || !p.panels) return CLADE_OK;
  const clade__number *defines =
      CLADE__DEFINES({"INTEGER", bytes(n)}, {"TILES", p.tiles}, {"IMITATE", unit_of(q, p.tiles)->reason != NULL},
                     {"DENSE", !n->in[0].layout.block}, {"WORDS", p.words}, {"PIECE", p.piece}, {"PIECES", p.pieces},
                     {"MOST_TAPS", CLADE__MOST_TAPS});
  CLADE_TRY(clade__gather_begin(e, q, "conv2d_mma", CLADE__WIDE, defines, &s));
  clade__conv_operands(s);
  clade_emit_workspace(s, 0, WORD);
  clade__conv_problem(s, &p.g, 0, NULL);
  CLADE__EMIT8(s, p.strip, p.downs, p.items, p.room, p.bare, p.images, p.pixel, p.step);
  return clade__gather_end(s, q, p.items);
}

const clade_impl clade__gather_mma =
    CLADE__CONV_IMPL(.name = "mma", .family = CLADE_FAMILY_MMA, .devices = CLADE_ON_CPU, .needs_long_loops = true,
                     .units = units, .needs_units = UNITS_I8 | UNITS_BF16, .accept = accept, .layouts = layouts,
                     .cost = cost, .workspace = workspace, .emit = emit, .space = &space, .alternatives = 2,
                     .file = "conv2d_mma");

/* ---- conv2d_weights of bf16 ---- */
/* Bytes of copies, and steps, per pass; bytes of partial sums. */
enum { AT_ONCE = 512 << 10, STEPS = 160, PARTS_BYTES = 4 << 20 };

typedef struct sums {
  clade__conv p;
  bool tiles;
  int64_t pairs, step;                         /* of a line, as copied; per instruction */
  int64_t blocks, panels, parts, down, across; /* parts of the sum; cuts of y's and x's channels */
  int64_t images, lines, x_words, room;        /* per pass; words of x, and of both, per work-item */
  double copied;                               /* words copied per image, by all work-items */
} sums;

static sums sums_of(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  sums c = {.p = clade__conv_flat(q->node), .tiles = q->config[TILES]};
  const clade__conv *p = &c.p;
  c.step = c.tiles ? CLADE_MAX(weights_step_of(p), 1) : 1;
  c.pairs = clade__up(parts(p->result[1], 2), c.step);
  const int64_t pairs = c.pairs, reach = (p->kernel[1] - 1) * w->dilation[1];
  const int64_t held = pairs + reach / w->stride[1] / 2;
  const int64_t x_line = w->stride[1] * (p->kernel[1] > 1 ? 2 : 1) * held * LANES, y_line = pairs * PANEL;
  const int64_t cores = clade__conv_units(q), few = CLADE_MAX(p->n, 1);
  c.blocks = parts(p->inner, LANES);
  c.panels = parts(p->rows, PANEL);
  c.parts = 1;
  while (2 * c.parts <= CLADE_MIN(few, MOST_PARTS) && 2 * c.parts * p->outputs * WORD <= PARTS_BYTES) c.parts *= 2;
  const int64_t x = c.blocks * x_line * p->source[0], y = c.panels * y_line * p->result[0];
  /* A pass keeps a panel of y and a block of x in the first cache for all taps, and all copies in the second one. */
  const int64_t steps = CLADE_MAX(pairs * p->result[0], 1), copied = CLADE_MAX((x + y) * WORD, 1);
  c.images = CLADE_MAX(CLADE_MIN(CLADE_MIN(STEPS / steps, AT_ONCE / copied), parts(few, c.parts)), 1);
  c.lines = CLADE_MAX(p->result[0], 1);
  if (c.images == 1)
    c.lines = CLADE_MAX(CLADE_MIN(c.lines, CLADE_MIN(c.lines * STEPS / steps, c.lines * AT_ONCE / copied)), 1);
  c.down = CLADE_MIN(parts(2 * cores, c.parts), c.panels);
  c.across = CLADE_MIN(parts(2 * cores, c.parts * c.down), c.blocks);
  const int64_t high = CLADE_MIN((c.lines - 1) * w->stride[0] + (p->kernel[0] - 1) * w->dilation[0] + 1, p->source[0]);
  c.x_words = c.images * parts(c.blocks, c.across) * high * x_line;
  c.room = c.x_words + c.images * parts(c.panels, c.down) * c.lines * y_line;
  c.copied = (double)(x * c.down + y * c.across);
  return c;
}

static const char *weights_accept(const clade_query *q) {
  if (!units(q)) return "requires bf16";
  const clade__conv p = clade__conv_flat(q->node);
  CLADE__REFUSE(refuses(q, q->config[TILES], CLADE__CONV_SOME));
  if (p.inner % LANES || p.rows % LANES) return "requires whole blocks of channels";
  const sums c = sums_of(q);
  return (double)c.room * (double)(c.parts * c.down * c.across) > INT32_MAX / 8
             ? "its packed operands exceed the limit of its workspace"
             : NULL;
}

/* A step of a tile of 8 x 32 sums is 16 multiply-adds of words; one of 32 x 32 is four products of AMX of 16 cycles
 * each. Each pass loads and stores the sums. */
static double weights_cost(const clade_query *q) {
  const sums c = sums_of(q);
  const clade__conv *p = &c.p;
  const double steps = (double)(p->n * p->result[0]) * (double)(c.pairs / c.step);
  const double tiles = (double)(c.tiles ? parts(c.blocks, 2) : c.blocks * 2) * (double)c.panels;
  const double all = tiles * (double)p->taps;
  const double passes = (double)parts(p->n, c.images) * (double)parts(p->result[0], c.lines);
  const double lines = (double)(p->n * p->result[0]) * 8;
  double cycles = all * (steps * (c.tiles ? 64 : 10) + lines + passes * (c.tiles ? 80 : 40)) + 4000;
  cycles += c.copied * (double)p->n * (c.tiles ? 0.6 : 0.3);
  cycles += clade__weights_join_cycles(p, 2) + 2 * (double)p->outputs;
  return clade__conv_cost(q, cycles);
}

static size_t words_at(const clade_query *q, const sums *c) {
  return (size_t)clade__up((int64_t)clade__weights_scratch(q, c->parts, true), 64);
}

static size_t weights_workspace(const clade_query *q) {
  const sums c = sums_of(q);
  return words_at(q, &c) + (size_t)(c.parts * c.down * c.across * c.room) * WORD;
}

static clade_status weights_emit(clade_emit *e, const clade_query *q) {
  const sums c = sums_of(q);
  clade_kernel_step *s = clade__weights_open(e, q, "conv2d_weights_mma", 0, c.parts, true);
  clade__emit_defines(
      s, CLADE__DEFINES({"TILES", c.tiles}, {"IMITATE", unit_of(q, c.tiles)->reason != NULL}, {"MOST_LINES", STEPS}));
  clade_emit_workspace(s, words_at(q, &c), WORD);
  clade__conv_problem(s, &c.p, 0, NULL);
  CLADE__EMIT8(s, c.down, c.across, c.images, c.lines, c.room, c.x_words, clade__weights_pitch(q, c.parts, true),
               c.parts);
  clade__emit_items(s, c.parts * c.down * c.across);
  return clade__weights_join(e, q, c.parts, true, true);
}

const clade_impl clade__weights_mma =
    CLADE__CONV_IMPL(.name = "mma", .family = CLADE_FAMILY_MMA, .devices = CLADE_ON_CPU, .needs_long_loops = true,
                     .units = units, .needs_units = UNITS_BF16, .accept = weights_accept,
                     .layouts = clade__weights_blocked, .cost = weights_cost, .workspace = weights_workspace,
                     .emit = weights_emit, .space = &space, .file = "conv2d_weights_mma");
