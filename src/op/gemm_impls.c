/* How a gemm is computed: `vec` on CPUs, `simt` on GPUs, `ref` anywhere. The kernels differ in how they walk; what they
 * are told is the same: extents, strides of both operands, and the epilogue. */
#include "op/epilogue.h"
#include "op/gemm.h"

enum { BATCH_AXES = 6, ROW = 6, COLUMN = 7, OPERANDS = 2 + CLADE__ELT_INPUTS };

/* Batch axes are the first six of each set; then rows and columns (of an operand as the product reads it). */
typedef struct problem {
  int64_t m, n, k, batches;
  int64_t dim[CLADE_MAX_RANK];
  int64_t stride[OPERANDS][CLADE_MAX_RANK]; /* a, b, and the epilogue's */
  double padded;                            /* multiply-adds with whole tiles */
} problem;

static problem problem_of(const clade_node *node) {
  const clade__gemm_attrs *at = node->attrs;
  const clade_shape *y = &node->out[0].shape, *a = &node->in[0].shape;
  int rank = y->rank, batch = rank - 2;
  problem p = {.m = y->dim[rank - 2], .n = y->dim[rank - 1], .k = a->dim[a->rank - (at->trans_a ? 2 : 1)]};
  int64_t dim[CLADE_MAX_RANK] = {0}, full[OPERANDS][CLADE_MAX_RANK] = {{0}};
  int64_t(*sets[OPERANDS])[CLADE_MAX_RANK];
  p.batches = clade__product(y, 0, batch);
  for (int i = 0; i < batch; i++) dim[i] = y->dim[i];
  for (int i = 0; i < node->n_in; i++) {
    const clade_shape *x = &node->in[i].shape;
    int64_t own[CLADE_MAX_RANK] = {0};
    sets[i] = &full[i];
    if (i < 2) { /* only the batch axes are broadcast */
      bool trans = i ? at->trans_b : at->trans_a;
      clade__strides(x, own);
      for (int j = 0; j < x->rank - 2; j++) full[i][j + rank - x->rank] = x->dim[j] == 1 ? 0 : own[j];
      p.stride[i][ROW] = own[x->rank - (trans ? 1 : 2)];
      p.stride[i][COLUMN] = own[x->rank - (trans ? 2 : 1)];
    } else {
      clade__broadcast_strides(x, y, full[i]);
      p.stride[i][ROW] = full[i][rank - 2];
      p.stride[i][COLUMN] = full[i][rank - 1];
    }
  }
  int axes = clade__collapse(batch, dim, node->n_in, sets);
  for (int i = 0; i < BATCH_AXES; i++) {
    int from = i - (BATCH_AXES - axes);
    p.dim[i] = from < 0 ? 1 : dim[from];
    for (int j = 0; j < node->n_in; j++) p.stride[j][i] = from < 0 ? 0 : full[j][from];
  }
  p.dim[ROW] = p.m;
  p.dim[COLUMN] = p.n;
  return p;
}

static clade_status begin(clade_emit *e, const clade_node *node, const problem *p, const char *kernel,
                          clade_kernel_step **out) {
  const clade__gemm_attrs *at = node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(node->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(node->out[0].dtype));
  CLADE_TRY(clade__epilogue_define(s, node));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index8(s, 8, p->dim);
  clade_emit_index(s, p->k);
  clade_emit_index8(s, 8, p->stride[0]);
  clade_emit_index8(s, 8, p->stride[1]);
  clade_emit_f32(s, at->alpha);
  *out = s;
  return CLADE_OK;
}

static double cost(const clade_query *q, int64_t row_tile, int64_t column_tile, double efficiency, double extra) {
  problem p = problem_of(q->node);
  double flops =
      2.0 * (double)p.batches * (double)clade__up(p.m, row_tile) * (double)clade__up(p.n, column_tile) * (double)p.k;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), efficiency) + extra;
}

static bool on_cpu(const clade_query *q) { return q->device->device_class == CLADE_CPU; }
static const char *floats_only(const clade_query *q) {
  return q->node->in[0].dtype == CLADE_I32 ? "made for floats, not for i32" : NULL;
}

/* ---- ref: a work-item per result ---- */
static const char *ref_accept(const clade_query *q) {
  return clade__cut_short(q->device, (double)problem_of(q->node).k + 1);
}
static double ref_cost(const clade_query *q) { return cost(q, 1, 1, on_cpu(q) ? 0.02 : 0.05, 0); }

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  problem p = problem_of(q->node);
  clade_kernel_step *s;
  CLADE_TRY(begin(e, q->node, &p, "gemm_forward_ref", &s));
  clade_emit_define_text(s, "ACC", q->node->in[0].dtype == CLADE_I32 ? "uint" : "float");
  clade__epilogue_args(s, q->node, &p.stride[2]);
  clade_emit_range(s, 3, (size_t[]){(size_t)p.n, (size_t)p.m, (size_t)p.batches}, (size_t[]){16, 1, 1});
  return CLADE_OK;
}

/* ---- vec: a work-item does a block of rows and columns by a tile of vector registers ---- */
enum { VEC_ROWS, VEC_BLOCK_ROWS, VEC_BLOCK_COLUMNS, VEC_DEPTH, VEC_ITEM_ROWS };
static const char *const vec_params[] = {"rows", "block_rows", "block_columns", "depth", "item_rows", NULL};

static int vec_width(const clade_query *q) {
  return q->device->vector_f32 >= 16 ? 16 : q->device->vector_f32 >= 8 ? 8 : 4; /* lanes */
}

/* Rows of a work-item: few enough for all units to be busy, whole tiles. */
static void vec_item_rows(const clade_query *q, int32_t *row) {
  problem p = problem_of(q->node);
  int64_t across = clade__up(p.n, row[VEC_BLOCK_COLUMNS]) / row[VEC_BLOCK_COLUMNS] * p.batches, tile = row[VEC_ROWS];
  int64_t want = 4 * (int64_t)CLADE_MAX(q->device->compute_units, 1u), down = across ? (want + across - 1) / across : 1;
  int64_t rows = clade__up((p.m + down - 1) / down, tile);
  row[VEC_ITEM_ROWS] = (int32_t)CLADE_MAX(CLADE_MIN(rows, row[VEC_BLOCK_ROWS] / tile * tile), tile);
}

static void vec_start(const clade_query *q, int32_t *row) {
  int width = vec_width(q);
  memcpy(row, (int32_t[]){width == 16 ? 8 : 6, 96, width == 16 ? 128 : 64, 256}, VEC_ITEM_ROWS * sizeof *row);
  vec_item_rows(q, row);
}

static bool vec_rows(const clade_query *q, int i, int32_t *row) {
  static const int32_t rows[][VEC_ITEM_ROWS] = {{6, 96, 64, 256}, {6, 96, 128, 256}, {4, 96, 64, 256},
                                                {8, 96, 64, 256}, {6, 48, 64, 256},  {6, 192, 64, 256},
                                                {6, 96, 64, 128}, {4, 96, 128, 128}, {8, 96, 128, 256}};
  if (i >= (int)CLADE_COUNT(rows)) return false;
  memcpy(row, rows[i], sizeof rows[i]);
  vec_item_rows(q, row);
  return true;
}
static const clade_space vec_space = {sizeof vec_space, vec_params, vec_start, vec_rows};

/* Through all loops of a work-item: clearing, copying both operands, multiplying, storing. */
static double vec_passes(const clade_query *q) {
  problem p = problem_of(q->node);
  const int32_t *v = q->row;
  double tile = v[VEC_ROWS], rows = v[VEC_ITEM_ROWS], columns = v[VEC_BLOCK_COLUMNS];
  double panels = columns / (2 * vec_width(q));
  double slices = (double)(clade__up(p.k, v[VEC_DEPTH]) / v[VEC_DEPTH]), k = (double)p.k + 2 * slices;
  double copy_b = k * (columns + 2 * panels) + 3 * columns * slices, copy_a = k * tile + 3 * tile * slices;
  double multiply = panels * (k + 3.0 * tile * slices);
  return rows * columns + copy_b + rows / tile * (copy_a + multiply) + rows * (columns + 2) + slices;
}

static const char *vec_accept(const clade_query *q) {
  if (!on_cpu(q)) return "made for CPUs";
  const char *reason = floats_only(q);
  return reason ? reason : clade__cut_short(q->device, vec_passes(q));
}
static double vec_cost(const clade_query *q) {
  /* a CPU without vectors of its own runs work-items as the lanes of one: blocks in private memory are slow there */
  return cost(q, q->row[VEC_ROWS], 2 * vec_width(q), q->device->vector_f32 < 4 ? 0.005 : 0.5, 1e-6);
}

static clade_status vec_emit(clade_emit *e, const clade_query *q) {
  problem p = problem_of(q->node);
  const int32_t *v = q->row;
  int64_t across = clade__up(p.n, v[VEC_BLOCK_COLUMNS]) / v[VEC_BLOCK_COLUMNS] * p.batches, rows = v[VEC_ITEM_ROWS];
  clade_kernel_step *s;
  CLADE_TRY(begin(e, q->node, &p, "gemm_forward_vec", &s));
  clade_emit_define(s, "WIDTH", vec_width(q));
  clade_emit_define(s, "ROWS", v[VEC_ROWS]);
  clade_emit_define(s, "BLOCK_ROWS", v[VEC_BLOCK_ROWS]);
  clade_emit_define(s, "BLOCK_COLUMNS", v[VEC_BLOCK_COLUMNS]);
  clade_emit_define(s, "DEPTH", v[VEC_DEPTH]);
  clade_emit_index(s, rows);
  clade__epilogue_args(s, q->node, &p.stride[2]);
  size_t global = (size_t)(across * ((p.m + rows - 1) / rows)), local = 1;
  clade_emit_range(s, 1, &global, &local);
  return CLADE_OK;
}

/* ---- simt: a work-group does a tile of 64 x 64 from local memory ---- */
enum { SIMT_TILE = 64, SIMT_GROUP = 16, SIMT_SLICE = 16 };

static const char *simt_accept(const clade_query *q) {
  double slices = (double)(problem_of(q->node).k / SIMT_SLICE + 1);
  if (q->device->max_group < SIMT_GROUP * SIMT_GROUP) return "needs groups of 256 work-items";
  if (q->device->local_bytes < 16 << 10) return "needs 16 KiB of local memory";
  const char *reason = floats_only(q);
  return reason ? reason : clade__cut_short(q->device, slices * 32);
}
static double simt_cost(const clade_query *q) {
  return cost(q, SIMT_TILE, SIMT_TILE, on_cpu(q) || q->device->software ? 0.01 : 0.3, 1e-6);
}

static clade_status simt_emit(clade_emit *e, const clade_query *q) {
  problem p = problem_of(q->node);
  clade_kernel_step *s;
  CLADE_TRY(begin(e, q->node, &p, "gemm_forward_simt", &s));
  clade__epilogue_args(s, q->node, &p.stride[2]);
  size_t global[3] = {(size_t)(clade__up(p.n, SIMT_TILE) / SIMT_TILE * SIMT_GROUP),
                      (size_t)(clade__up(p.m, SIMT_TILE) / SIMT_TILE * SIMT_GROUP), (size_t)p.batches};
  clade_emit_range(s, 3, global, (size_t[]){SIMT_GROUP, SIMT_GROUP, 1});
  return CLADE_OK;
}

const clade_impl clade__gemm_impls[] = {
    {.name = "vec", .accept = vec_accept, .cost = vec_cost, .emit = vec_emit, .space = &vec_space},
    {.name = "simt", .accept = simt_accept, .cost = simt_cost, .emit = simt_emit},
    {.name = "ref", .accept = ref_accept, .cost = ref_cost, .emit = ref_emit},
    {0},
};
