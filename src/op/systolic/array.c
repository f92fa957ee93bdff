/* Matrix products and convolutions on the systolic array of a bundle; fpga/array.cl documents its arguments. */
#include "op/conv/conv.h"
#include "op/gemm/gemm.h"
#include "op/systolic/kernels.h"

enum { EXTRA = 3, ROW = 6, COLUMN = 7, LATENCY = 16 };
enum { TILE_COLS = CLADE__SYSTOLIC_TILE_COLS, DEPTH = CLADE__SYSTOLIC_DEPTH, LINE = CLADE__SYSTOLIC_LINE };

/* The kernel's arguments, and the indices of the operands a, source and, from `extra` on, of the program. */
typedef struct sums {
  int64_t size[8], inner[4], a[8], source[8], map[8], e[EXTRA][4];
  float alpha;
  const clade__elt *program; /* NULL: none */
  int from_a, from_source, extra;
} sums;

/* ---- limits of the array ---- */
/* Upper bounds on how many values of each digit a run of consecutive numbers (o, y, x) covers. `anywhere`: the run may
 * begin anywhere; otherwise at the start of a line. */
typedef struct span {
  int64_t o, y, x;
} span;
static int64_t parts(int64_t run, int64_t part, bool anywhere) {
  return (run + part - 1 + anywhere * (part - 1)) / part;
}
static span span_of(int64_t run, int64_t o, int64_t y, int64_t x, bool anywhere) {
  int64_t lines = CLADE_MAX(x, 1), area = CLADE_MAX(x * y, 1);
  span s = {CLADE_MIN(o, parts(run, area, anywhere)), CLADE_MIN(y, parts(run, lines, anywhere)), x};
  if (s.o * s.y <= 1 && (!anywhere || o * y <= 1)) s.x = CLADE_MIN(x, run);
  if (s.o > 1) s.y = y;
  return s;
}

/* Pixels along an axis that are read for `places` positions and `taps` taps. */
static int64_t reach(const int64_t *map, int64_t places, int64_t taps, int64_t pixels) {
  int64_t delta = map[1] < 0 ? -map[1] : map[1];
  return CLADE_MIN((CLADE_MAX(places - 1, 0) * map[0] + CLADE_MAX(taps - 1, 0) * delta) / map[3] + 1, pixels);
}

/* Pixels read for `columns` columns and `depth` steps of the inner axis. */
static int64_t pixels(const sums *p, int64_t columns, int64_t depth, bool anywhere) {
  span j = span_of(columns, p->size[3], p->size[4], p->size[5], anywhere);
  span k = span_of(depth, 1, p->inner[1], p->inner[2], anywhere);
  return j.o * reach(p->map, j.y, k.y, p->size[6]) * reach(p->map + 4, j.x, k.x, p->size[7]);
}

static const char *too_large(const sums *p) {
  return pixels(p, TILE_COLS, DEPTH, true) > LINE ? "the line buffer of its kernel is too small" : NULL;
}

/* ---- cost: closed forms of fpga/model/cycles_kernel.h ---- */
typedef struct work {
  double cycles, bytes;
} work;

/* Slices of the inner axis are loaded, packed into panels and multiplied in a pipeline, so the longest stage counts. */
static work of_tile(const sums *p, const clade_array_info *a, int64_t rows, int64_t columns) {
  int64_t down = clade__ceil_div(rows, a->rows), across = clade__ceil_div(columns, a->columns);
  int64_t area = p->inner[1] * p->inner[2], length = CLADE_MIN(area, (int64_t)DEPTH);
  double load = (double)pixels(p, columns, length, false);
  double fill = (double)(length * CLADE_MAX(down * a->rows, across * a->columns));
  double multiply = (double)(length * CLADE_MAX(down * across, (int64_t)LATENCY));
  double slices = (double)p->inner[0] * (double)area / (double)length, results = (double)rows * (double)columns;
  double inner = load + fill + multiply + CLADE_MAX(slices - 1, 0) * CLADE_MAX(load, CLADE_MAX(fill, multiply));
  double clear = (double)(a->tile_rows / a->rows * (a->tile_columns / a->columns));
  double a_bytes = (double)rows * (double)p->inner[0] * (double)area;
  return (work){(double)columns + clear + inner + results, 4 * (slices * load + a_bytes + results)};
}

static double seconds(const clade_query *q, const sums *p) {
  clade_array_info a = q->device->array;
  if (!a.rows || !a.columns) a.rows = a.columns = 8;
  if (!a.tile_rows) a.tile_rows = a.rows * a.columns;
  if (!a.tile_columns) a.tile_columns = a.rows * a.columns;
  const int64_t rows = p->size[2], columns = p->size[3] * p->size[4] * p->size[5];
  const int64_t high[] = {a.tile_rows, rows % a.tile_rows}, wide[] = {a.tile_columns, columns % a.tile_columns};
  const double down[] = {(double)(rows / high[0]), 1}, across[] = {(double)(columns / wide[0]), 1};
  work sum = {0, 0};
  if (!p->inner[1] || !p->inner[2]) return clade__systolic_seconds(q, 0, 0);
  for (int i = 0; i < 4; i++) { /* whole tiles, then the remainders below and beside them */
    if (!high[i / 2] || !wide[i % 2]) continue;
    work one = of_tile(p, &a, high[i / 2], wide[i % 2]);
    double count = (double)(p->size[0] * p->size[1]) * down[i / 2] * across[i % 2];
    sum = (work){sum.cycles + count * one.cycles, sum.bytes + count * one.bytes};
  }
  return clade__systolic_seconds(q, sum.cycles, sum.bytes);
}

static clade_status emit(clade_emit *e, const clade_query *q, const char *kernel, const sums *p) {
  static const clade__elt none = {0};
  int n = q->node->n_in - p->extra;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_in(s, p->from_a);
  clade_emit_in(s, p->from_source);
  clade_emit_out(s, 0);
  clade_emit_index8(s, 8, p->size);
  clade__systolic_int4(s, (int64_t[]){p->inner[0], p->inner[1], p->inner[2], n});
  clade_emit_index8(s, 8, p->a);
  clade_emit_index8(s, 8, p->source);
  clade_emit_index8(s, 8, p->map);
  clade_emit_f32(s, p->alpha);
  clade__systolic_program(s, p->program ? p->program : &none);
  for (int i = 0; i < EXTRA; i++) { /* placeholders for missing operands */
    clade_emit_in(s, i < n ? p->extra + i : p->from_a);
    clade__systolic_int4(s, p->e[i]);
  }
  clade__systolic_launch(s);
  return CLADE_OK;
}

/* ---- products: b is an image whose pixels are (inner axis, column) ---- */
static sums gemm(const clade_node *n) {
  clade__gemm_problem g = clade__gemm_problem_of(n);
  const clade__gemm_attrs *at = n->attrs;
  const int64_t *a = g.stride[0], *b = g.stride[1];
  sums p = {.size = {g.dim[4], g.dim[5], g.m, 1, 1, g.n, g.k, g.n},
            .inner = {1, g.k, 1},
            .a = {a[4], a[5], a[ROW], 0, a[COLUMN]},
            .source = {b[4], b[5], 0, 0, b[ROW], b[COLUMN]},
            .map = {0, 1, 0, 1, 1, 0, 0, 1},
            .alpha = at->alpha,
            .program = &at->epilogue,
            .from_source = 1,
            .extra = 2};
  for (int i = 0; i < EXTRA && 2 + i < n->n_in; i++)
    for (int k = 0; k < 4; k++) p.e[i][k] = g.stride[2 + i][4 + k];
  return p;
}

static const char *gemm_refuses(const clade_query *q) {
  const clade_node *n = q->node;
  clade__gemm_problem g = clade__gemm_problem_of(n);
  const clade__gemm_attrs *at = n->attrs;
  if (at->shape[0].rank || at->shape[1].rank) return "its kernel does not support slices";
  for (int i = 0; i < 4; i++)
    if (g.dim[i] != 1) return "its kernel supports two batch axes only";
  for (int i = 2; i < n->n_in; i++)
    if (n->in[i].dtype != CLADE_F32 && n->in[i].dtype != CLADE_I32) return "its kernel requires f32 or i32";
  return clade__systolic_refuses(&at->epilogue, 1 + EXTRA);
}

static const char *gemm_accept(const clade_query *q) {
  return q->node->in[0].dtype != CLADE_F32 || q->node->in[1].dtype != CLADE_F32 ? "requires f32" : gemm_refuses(q);
}
static const char *gemm_i8_accept(const clade_query *q) {
  return q->node->in[0].dtype != CLADE_I8 ? "requires i8 by i8" : gemm_refuses(q);
}

static double gemm_cost(const clade_query *q) {
  sums p = gemm(q->node);
  return seconds(q, &p);
}

static clade_status gemm_emit(clade_emit *e, const clade_query *q) {
  sums p = gemm(q->node);
  return emit(e, q, "array_f32", &p);
}
static clade_status gemm_i8_emit(clade_emit *e, const clade_query *q) {
  sums p = gemm(q->node);
  return emit(e, q, "array_i8", &p);
}

const clade_impl clade__systolic_gemm =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = gemm_accept, .cost = gemm_cost, .emit = gemm_emit,
                         .bundled = "array_f32");
const clade_impl clade__systolic_gemm_i8 =
    CLADE__SYSTOLIC_IMPL(.name = "systolic_i8", .accept = gemm_i8_accept, .cost = gemm_cost, .emit = gemm_i8_emit,
                         .bundled = "array_i8");

/* ---- conv2d and conv2d_data: rows are channels, columns are pixels; batches are images and groups ---- */
static void put_map(int64_t *to, clade__map_1d map) {
  to[0] = map.mul;
  to[1] = map.delta;
  to[2] = map.add;
  to[3] = map.div;
}

static sums gather(const clade_node *n) {
  const clade__conv_attrs *at = n->attrs;
  const clade_shape *y = &n->out[0].shape;
  const clade__conv g = clade__conv_flat(n);
  int64_t pixels = g.source[0] * g.source[1];
  sums p = {.size = {g.n, g.groups, g.rows, 1, g.result[0], g.result[1], g.source[0], g.source[1]},
            .inner = {g.inner, g.kernel[0], g.kernel[1]},
            .a = {0, g.w_group, g.w_row, g.w_inner, g.kernel[1], 1},
            .source = {g.groups * g.inner * pixels, g.inner * pixels, 0, pixels, g.source[1], 1},
            .alpha = 1,
            .program = &at->epilogue,
            .from_a = 1,
            .extra = 2};
  put_map(p.map, g.map[0]);
  put_map(p.map + 4, g.map[1]);
  for (int i = 0; i < EXTRA && 2 + i < n->n_in; i++) { /* broadcast along all pixels or along none */
    int64_t own[CLADE_MAX_RANK] = {0};
    clade__broadcast_strides(&n->in[2 + i].shape, y, own);
    const int64_t e[] = {own[0], own[1] * g.rows, own[1], y->dim[3] == 1 ? own[2] : own[3]};
    memcpy(p.e[i], e, sizeof e);
  }
  return p;
}

static const char *gather_accept(const clade_query *q) {
  const clade__conv_attrs *at = q->node->attrs;
  const char *reason = clade__systolic_floats(q);
  if (reason) return reason;
  sums p = gather(q->node);
  reason = clade__systolic_refuses(&at->epilogue, 1 + EXTRA);
  return reason ? reason : too_large(&p);
}

static double gather_cost(const clade_query *q) {
  sums p = gather(q->node);
  return seconds(q, &p);
}

static clade_status gather_emit(clade_emit *e, const clade_query *q) {
  sums p = gather(q->node);
  return emit(e, q, "array_f32", &p);
}

const clade_impl clade__systolic_gather =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = gather_accept, .cost = gather_cost, .emit = gather_emit,
                         .bundled = "array_f32");

/* ---- conv2d_weights: rows are channels of dy, columns are weights, the inner axis covers images and pixels ---- */
static sums weights(const clade_node *n) {
  const clade__conv g = clade__conv_flat(n);
  int64_t pixels = g.source[0] * g.source[1], results = g.result[0] * g.result[1];
  sums p = {.size = {g.groups, 1, g.rows, g.inner, g.kernel[0], g.kernel[1], g.source[0], g.source[1]},
            .inner = {g.n, g.result[0], g.result[1]},
            .a = {g.rows * results, 0, results, g.groups * g.rows * results, g.result[1], 1},
            .source = {g.inner * pixels, 0, pixels, g.groups * g.inner * pixels, g.source[1], 1},
            .alpha = 1,
            .from_a = 1,
            .extra = 2};
  for (int i = 0; i < 2; i++) {
    const clade__map_1d map = g.map[i];
    put_map(p.map + 4 * i, (clade__map_1d){map.delta, map.add, map.mul, map.div}); /* taps are columns here */
  }
  return p;
}

static const char *weights_accept(const clade_query *q) {
  const char *reason = clade__systolic_floats(q);
  if (reason) return reason;
  sums p = weights(q->node);
  return too_large(&p);
}

static double weights_cost(const clade_query *q) {
  sums p = weights(q->node);
  return seconds(q, &p);
}

static clade_status weights_emit(clade_emit *e, const clade_query *q) {
  sums p = weights(q->node);
  return emit(e, q, "array_f32", &p);
}

const clade_impl clade__systolic_weights =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = weights_accept, .cost = weights_cost, .emit = weights_emit,
                         .bundled = "array_f32");
