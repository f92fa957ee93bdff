/* conv2d_weights for 3 x 3 windows without stride by Winograd's algorithm (docs/layouts.md): tiles of x and of y's
 * gradient are transformed, multiplied tap by tap, and the sums transformed back. */
#include "op/conv/weights.h"

enum { SIDE = 4, TAPS = 36, BLOCK = 16, PIECE = 8, WIDE = 128 };
/* Workspace for both transformed operands; more tiles are processed one chunk after another. */
enum { TAKEN = 24 << 20 };

typedef struct plan {
  clade__weights p;
  int64_t rows, inner; /* rounded up to whole blocks */
  int64_t grid[2], tiles, chunk;
} plan;

static plan plan_of(const clade_query *q) {
  plan c = {.p = clade__weights_of(q->node, false)};
  c.rows = clade__up(c.p.rows, BLOCK);
  c.inner = clade__up(c.p.inner, BLOCK);
  for (int i = 0; i < 2; i++) c.grid[i] = (c.p.result[i] + SIDE - 1) / SIDE;
  c.tiles = c.p.n * c.grid[0] * c.grid[1];
  int64_t most = CLADE_MAX(TAKEN / (TAPS * (int64_t)sizeof(float) * CLADE_MAX(c.rows + c.inner, 1)), 64);
  int64_t chunks = CLADE_MAX((c.tiles + most - 1) / most, 1);
  c.chunk = (c.tiles + chunks - 1) / chunks;
  return c;
}

const char *clade__weights_winograd_accept(const clade_query *q) {
  const clade__window *w = clade__conv_window(q->node);
  const char *reason = clade__conv_vec_accept(q);
  if (reason) return reason;
  plan c = plan_of(q);
  for (int i = 0; i < 2; i++)
    if (c.p.kernel[i] != 3 || w->stride[i] != 1 || w->dilation[i] != 1) return "made for windows of 3 x 3, step 1";
  if (c.p.groups != 1) return "made for one group";
  if (q->node->in[0].dtype != CLADE_F32) return "its sums need operands of f32";
  if (c.p.outputs < 1 || c.tiles < 1) return "made for what is not empty";
  return c.rows * c.inner > 1 << 21 ? "sums of so many weights for each tap have no room" : NULL;
}

static size_t taken_bytes(const plan *c, int64_t channels) {
  return (size_t)(TAPS * channels * c->chunk) * sizeof(float);
}

size_t clade__weights_winograd_workspace(const clade_query *q) {
  plan c = plan_of(q);
  return taken_bytes(&c, c.inner + c.rows) + (size_t)(TAPS * c.rows * c.inner) * sizeof(float);
}

/* Cycles summed over all cores: products, stores and reloads, transforms, inverse transform. */
double clade__weights_winograd_cost(const clade_query *q) {
  plan c = plan_of(q);
  double width = clade__vector_width(q->device), weights = (double)(c.rows * c.inner), tiles = (double)c.tiles;
  double chunks = (double)((c.tiles + c.chunk - 1) / c.chunk);
  double multiply = TAPS * weights * (tiles / (2 * width) * 1.1 + 0.3 * chunks);
  double bytes = TAPS * 4 * (2 * tiles * (double)(c.rows + c.inner) + 2 * weights * chunks);
  double take = tiles / width * (double)(c.inner * 300 + c.rows * 200), back = weights / width * 600;
  bool cached = clade__weights_winograd_workspace(q) < CLADE_MAX(q->device->cache_bytes, 1u << 20) / 2;
  double cycles = multiply + bytes / (cached ? 16 : 5) + take + back + 30000 * chunks;
  return clade__cost(q->device, cycles * 2 * q->device->vector_f32, clade__node_bytes(q->node), 1);
}

static clade_kernel_step *begin(clade_emit *e, const clade_query *q, const char *kernel) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define(s, "OUT_SIDE", SIDE);
  clade_emit_define(s, "WIDTH", clade__vector_width(q->device));
  return s;
}

/* Transforms tiles of an operand, from `first` on. */
static void take(clade_emit *e, const clade_query *q, const plan *c, int operand, int64_t first, int64_t n, size_t to) {
  const clade__window *w = clade__conv_window(q->node);
  int64_t channels = operand ? c->rows : c->inner;
  const int64_t *plane = operand ? c->p.result : c->p.source;
  clade_kernel_step *s = begin(e, q, "conv2d_winograd_taken");
  clade_emit_define(s, "TAKEN", operand ? SIDE : SIDE + 2);
  clade_emit_in(s, operand);
  clade_emit_workspace(s, to, sizeof(float));
  clade_emit_index8(s, 8, (int64_t[]){c->p.n, channels / BLOCK, plane[0], plane[1], c->grid[0], c->grid[1], first, n});
  clade_emit_index8(s, 3, (int64_t[]){operand ? 0 : -w->pad[0], operand ? 0 : -w->pad[1], PIECE});
  clade_emit_range(s, 1, (size_t[]){(size_t)((n + PIECE - 1) / PIECE * (channels / BLOCK))}, (size_t[]){1});
}

clade_status clade__weights_winograd_emit(clade_emit *e, const clade_query *q) {
  plan c = plan_of(q);
  int width = clade__vector_width(q->device), blocks = width == 16 && c.inner % (2 * BLOCK) == 0 ? 2 : 1;
  size_t of_y = taken_bytes(&c, c.inner), sums = of_y + taken_bytes(&c, c.rows);
  size_t items = (size_t)(TAPS * ((c.rows + WIDE - 1) / WIDE) * ((c.inner + WIDE - 1) / WIDE));
  for (int64_t first = 0; first < c.tiles; first += c.chunk) {
    int64_t n = CLADE_MIN(c.chunk, c.tiles - first);
    take(e, q, &c, 0, first, n, 0);
    take(e, q, &c, 1, first, n, of_y);
    clade_kernel_step *s = begin(e, q, "conv2d_winograd_products");
    clade_emit_define(s, "BLOCKS", blocks);
    clade_emit_define(s, "ROWS", width == 16 ? 16 / blocks : width / 2); /* a block's rows in whole tiles */
    clade_emit_workspace(s, of_y, sizeof(float));
    clade_emit_workspace(s, 0, sizeof(float));
    clade_emit_workspace(s, sums, sizeof(float));
    clade_emit_index8(s, 6, (int64_t[]){c.rows, c.inner, n, WIDE, WIDE, first > 0});
    clade_emit_range(s, 1, &items, (size_t[]){1});
  }
  clade_kernel_step *s = clade_emit_kernel(e, "conv2d_winograd_back");
  clade_emit_define(s, "OUT_SIDE", SIDE);
  clade_emit_workspace(s, sums, sizeof(float));
  clade_emit_out(s, 0);
  clade_emit_index(s, c.p.rows);
  clade_emit_index(s, c.p.inner);
  clade_emit_index(s, c.rows);
  clade_emit_index(s, c.inner);
  clade__emit_flat(s, q->device, c.p.rows * (c.inner / BLOCK));
  return CLADE_OK;
}
