/* conv2d_weights of bf16 by CPUs' units for vectors (AVX512-BF16) or tiles (AMX): partition of the sum, which depends
 * only on the sizes, division of the work, and cost. */
#include "op/conv/conv.h"

enum { BLOCK = CLADE__LANES, PANEL = 32, WORD = 4, MOST_PARTS = 8 };
/* Bytes of copies, and steps, per pass; bytes of partial sums. */
enum { AT_ONCE = 512 << 10, STEPS = 160, PARTS_BYTES = 4 << 20 };

typedef struct plan {
  clade__conv p;
  bool tiles;
  int64_t pairs, step;                         /* of a line, as copied; per instruction */
  int64_t blocks, panels, parts, down, across; /* parts of the sum; cuts of y's and x's channels */
  int64_t images, lines, x_words, room;        /* per pass; words of x, and of both, per work-item */
  double copied;                               /* words copied per image, by all work-items */
} plan;

static int64_t parts_of(int64_t all, int64_t part) { return clade__ceil_div(all, part); }

/* Words of a line of y that an instruction for tiles takes: equal parts of it, up to a block. */
static int64_t step_of(const clade__conv *p) {
  const int64_t pairs = parts_of(p->result[1], 2);
  return parts_of(pairs, parts_of(pairs, BLOCK));
}

enum { TILES };
static void defaults(const clade_query *q, int32_t *config) {
  const clade__conv p = clade__conv_flat(q->node);
  config[TILES] = clade__conv_by_tiles(q, step_of(&p));
}
static bool configs(const clade_query *q, int i, int32_t *config) {
  (void)q;
  config[TILES] = i;
  return i < 2;
}
static const char *const params[] = {"tiles", NULL};
static const clade_space space = {sizeof(clade_space), params, defaults, configs};

static plan plan_of(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  plan c = {.p = clade__conv_flat(q->node), .tiles = q->config[TILES]};
  const clade__conv *p = &c.p;
  c.step = c.tiles ? CLADE_MAX(step_of(p), 1) : 1;
  c.pairs = clade__up(parts_of(p->result[1], 2), c.step);
  const int64_t pairs = c.pairs, reach = (p->kernel[1] - 1) * w->dilation[1];
  const int64_t held = pairs + reach / w->stride[1] / 2;
  const int64_t x_line = w->stride[1] * (p->kernel[1] > 1 ? 2 : 1) * held * BLOCK, y_line = pairs * PANEL;
  const int64_t units = clade__conv_units(q), few = CLADE_MAX(p->n, 1);
  c.blocks = parts_of(p->inner, BLOCK);
  c.panels = parts_of(p->rows, PANEL);
  c.parts = 1;
  while (2 * c.parts <= CLADE_MIN(few, MOST_PARTS) && 2 * c.parts * p->outputs * WORD <= PARTS_BYTES) c.parts *= 2;
  const int64_t x = c.blocks * x_line * p->source[0], y = c.panels * y_line * p->result[0];
  /* A pass keeps a panel of y and a block of x in the first cache for all taps, and all copies in the second one. */
  const int64_t steps = CLADE_MAX(pairs * p->result[0], 1), bytes = CLADE_MAX((x + y) * WORD, 1);
  c.images = CLADE_MAX(CLADE_MIN(CLADE_MIN(STEPS / steps, AT_ONCE / bytes), parts_of(few, c.parts)), 1);
  c.lines = CLADE_MAX(p->result[0], 1);
  if (c.images == 1)
    c.lines = CLADE_MAX(CLADE_MIN(c.lines, CLADE_MIN(c.lines * STEPS / steps, c.lines * AT_ONCE / bytes)), 1);
  c.down = CLADE_MIN(parts_of(2 * units, c.parts), c.panels);
  c.across = CLADE_MIN(parts_of(2 * units, c.parts * c.down), c.blocks);
  const int64_t high = CLADE_MIN((c.lines - 1) * w->stride[0] + (p->kernel[0] - 1) * w->dilation[0] + 1, p->source[0]);
  c.x_words = c.images * parts_of(c.blocks, c.across) * high * x_line;
  c.room = c.x_words + c.images * parts_of(c.panels, c.down) * c.lines * y_line;
  c.copied = (double)(x * c.down + y * c.across);
  return c;
}

static bool units(const clade_query *q) { return q->node->in[0].dtype == CLADE_BF16; }

static const char *accept(const clade_query *q) {
  if (!units(q)) return "made for bf16";
  const clade__conv p = clade__conv_flat(q->node);
  const char *lacks = clade__conv_lacks_unit(q, q->config[TILES]);
  const char *reason =
      clade__conv_refuses(q, CLADE__CONV_ONE_GROUP | CLADE__CONV_SMALL | CLADE__CONV_TAPS | CLADE__CONV_SOME);
  if (lacks || reason) return lacks ? lacks : reason;
  if (p.inner % BLOCK || p.rows % BLOCK) return "made for whole blocks of channels";
  const plan c = plan_of(q);
  return (double)c.room * (double)(c.parts * c.down * c.across) > INT32_MAX / 8 ? "its copies have no room" : NULL;
}

/* A step of a tile of 8 x 32 sums is 16 multiply-adds of words; one of 32 x 32 is four products of AMX of 16 cycles
 * each. Each pass loads and stores the sums. */
static double cost(const clade_query *q) {
  const plan c = plan_of(q);
  const clade__conv *p = &c.p;
  const double steps = (double)(p->n * p->result[0]) * (double)(c.pairs / c.step);
  const double tiles = (double)(c.tiles ? parts_of(c.blocks, 2) : c.blocks * 2) * (double)c.panels;
  const double sums = tiles * (double)p->taps;
  const double passes = (double)parts_of(p->n, c.images) * (double)parts_of(p->result[0], c.lines);
  const double lines = (double)(p->n * p->result[0]) * 8;
  double cycles = sums * (steps * (c.tiles ? 64 : 10) + lines + passes * (c.tiles ? 80 : 40)) + 4000;
  cycles += c.copied * (double)p->n * (c.tiles ? 0.6 : 0.3);
  cycles += clade__weights_join_cycles(p, 2) + 2 * (double)p->outputs;
  return clade__conv_cost(q, cycles);
}

static size_t words_at(const clade_query *q, const plan *c) {
  return (size_t)clade__up((int64_t)clade__weights_scratch(q, c->parts, true), 64);
}

static size_t workspace(const clade_query *q) {
  const plan c = plan_of(q);
  return words_at(q, &c) + (size_t)(c.parts * c.down * c.across * c.room) * WORD;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const plan c = plan_of(q);
  const int64_t items = c.parts * c.down * c.across;
  clade_kernel_step *s = clade__weights_open(e, q, "conv2d_weights_mma", 0, c.parts, true);
  clade__emit_defines(s, CLADE__DEFINES({"TILES", c.tiles}, {"IMITATE", clade__conv_unit(q, c.tiles)->reason != NULL}));
  clade_emit_workspace(s, words_at(q, &c), WORD);
  clade__conv_sizes(s, &c.p);
  CLADE__EMIT8(s, c.p.kernel[0], c.p.kernel[1]);
  clade__conv_maps(s, &c.p);
  CLADE__EMIT8(s, c.down, c.across, c.images, c.lines, c.room, c.x_words, clade__weights_pitch(q, c.parts, true),
               c.parts);
  clade__emit_items(s, items);
  return clade__weights_join(e, q, c.parts, true, true);
}

const clade_impl clade__weights_mma =
    CLADE__CONV_IMPL(.name = "mma", .family = CLADE_FAMILY_MMA, .devices = CLADE_ON_CPU, .needs_long_loops = true,
                     .units = units, .needs_units = CLADE__UNITS_BF16, .accept = accept,
                     .layouts = clade__weights_blocked, .cost = cost, .workspace = workspace, .emit = emit,
                     .space = &space, .file = "conv2d_weights_mma");
