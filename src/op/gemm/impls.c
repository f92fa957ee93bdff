/* Table of gemm's implementations, and the problem description that all of them take: dimensions, strides, epilogue. */
#include "op/elt/epilogue.h"
#include "op/gemm/gemm.h"
#include "op/product.h"
#include "op/systolic.h"
#include "op/move/view.h"

enum { BATCH_AXES = 6, ROW = 6, COLUMN = 7, OPERANDS = CLADE__GEMM_OPERANDS };
typedef clade__gemm_problem problem;

/* Batch strides of an operand in panels. */
static void apart(const clade_type *t, int64_t *stride) {
  const clade_shape *s = &t->shape;
  int64_t wide = s->dim[t->layout.axis], deep = s->dim[2 * s->rank - 3 - t->layout.axis];
  int64_t padded = clade__up(wide, t->layout.block) * clade__up(deep, CLADE_MAX(t->layout.interleave, 1));
  for (int i = 0; i < CLADE_MAX_RANK && wide * deep > 0; i++) stride[i] = stride[i] / (wide * deep) * padded;
}

problem clade__gemm_problem_of(const clade_node *node) {
  const clade__gemm_attrs *at = node->attrs;
  const clade_shape *y = &node->out[0].shape, *a = clade__gemm_shape(node, 0);
  int rank = y->rank, batch = rank - 2;
  problem p = {.m = y->dim[rank - 2], .n = y->dim[rank - 1], .k = a->dim[a->rank - (at->trans_a ? 2 : 1)]};
  int64_t dim[CLADE_MAX_RANK] = {0}, full[OPERANDS][CLADE_MAX_RANK] = {{0}};
  int64_t(*sets[OPERANDS])[CLADE_MAX_RANK];
  p.batches = clade__product(y, 0, batch);
  for (int i = 0; i < batch; i++) dim[i] = y->dim[i];
  for (int i = 0; i < node->n_in; i++) {
    const clade_shape *x = i < 2 ? clade__gemm_shape(node, i) : &node->in[i].shape;
    int64_t own[CLADE_MAX_RANK] = {0};
    sets[i] = &full[i];
    if (i < 2) { /* only batch axes are broadcast */
      bool trans = i ? at->trans_b : at->trans_a;
      if (at->shape[i].rank)
        memcpy(own, at->stride[i], sizeof own);
      else
        clade__strides(x, own);
      for (int j = 0; j < x->rank - 2; j++) full[i][j + rank - x->rank] = x->dim[j] == 1 ? 0 : own[j];
      if (node->in[i].layout.block) apart(&node->in[i], full[i]);
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

static void swap(int64_t *x, int64_t *y) {
  int64_t z = *x;
  *x = *y;
  *y = z;
}

problem clade__gemm_lying(const clade_node *node, bool *swapped) {
  problem p = clade__gemm_problem_of(node);
  *swapped = p.n < p.m;
  if (!*swapped) return p;
  swap(&p.m, &p.n);
  swap(&p.dim[ROW], &p.dim[COLUMN]);
  for (int i = 0; i < CLADE_MAX_RANK; i++) swap(&p.stride[0][i], &p.stride[1][i]);
  for (int i = 0; i < node->n_in; i++) swap(&p.stride[i][ROW], &p.stride[i][COLUMN]);
  return p;
}

const clade__gemm_places clade__gemm_own = {{0, NULL}, {1, NULL}, {0, NULL}};
const clade__gemm_places clade__gemm_swapped = {{1, NULL}, {0, NULL}, {0, NULL}};

static void operand(clade_kernel_step *s, const clade__gemm_attrs *attrs, clade__gemm_place from) {
  if (from.scratch)
    clade_emit_workspace(s, *from.scratch, sizeof(float));
  else if (attrs->offset[from.operand])
    clade__emit_in_at(s, from.operand, attrs->offset[from.operand]);
  else
    clade__emit_in_blocks(s, from.operand);
}

void clade__gemm_result(clade_kernel_step *s, const clade__gemm_places *at) {
  if (at->y.scratch)
    clade_emit_workspace(s, *at->y.scratch, sizeof(float));
  else
    clade_emit_out(s, 0);
}

clade_status clade__gemm_begin(clade_emit *e, const clade_node *node, const problem *p, const char *kernel,
                               const clade__gemm_places *at, clade_kernel_step **out) {
  const clade__gemm_attrs *attrs = node->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(node->in[0].dtype));
  clade_emit_define_text(s, "TB", clade_dtype_name(node->in[1].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(node->out[0].dtype));
  CLADE_TRY(clade__epilogue_define(s, node));
  operand(s, attrs, at->a);
  operand(s, attrs, at->b);
  clade__gemm_result(s, at);
  clade_emit_index8(s, 8, p->dim);
  clade_emit_index(s, p->k);
  clade_emit_index8(s, 8, p->stride[0]);
  clade_emit_index8(s, 8, p->stride[1]);
  clade_emit_f32(s, attrs->alpha);
  *out = s;
  return CLADE_OK;
}

double clade__gemm_bytes(const clade_query *q) {
  clade_node n = *q->node;
  clade_type in[CLADE_MAX_OPERANDS];
  clade__gemm_attrs room;
  memcpy(in, n.in, (size_t)n.n_in * sizeof *in);
  (void)clade__view_forgotten(n.op, n.attrs, in, &room);
  for (int i = 0; i < 2; i++) /* broadcast matrices are read once */
    if (clade__product(&in[i].shape, 0, in[i].shape.rank) > clade__product(&n.in[i].shape, 0, n.in[i].shape.rank))
      in[i] = n.in[i];
  n.in = in;
  return clade__node_bytes(&n);
}

static double cost(const clade_query *q, int64_t row_tile, int64_t column_tile, double efficiency, double extra) {
  problem p = clade__gemm_problem_of(q->node);
  double flops =
      2.0 * (double)p.batches * (double)clade__up(p.m, row_tile) * (double)clade__up(p.n, column_tile) * (double)p.k;
  return clade__cost(q->device, flops, clade__gemm_bytes(q), efficiency) + extra;
}

const char *clade__gemm_panels_refuse(const clade_query *q, int64_t columns, int interleave) {
  problem p = clade__gemm_problem_of(q->node);
  if (((const clade__gemm_attrs *)q->node->attrs)->shape[1].rank) return "b is a slice of another value";
  double padded = (double)clade__up(p.n, columns) * (double)clade__up(p.k, interleave) * (double)p.batches;
  return padded > INT32_MAX / 2 ? "requires fewer than 2^30 elements, padding included" : NULL;
}
void clade__gemm_panels(const clade_query *q, int64_t columns, int interleave, clade_layout *in) {
  const clade__gemm_attrs *at = q->node->attrs;
  in[1] = (clade_layout){.axis = (int16_t)(q->node->in[1].shape.rank - (at->trans_b ? 2 : 1)),
                         .block = (uint16_t)columns,
                         .interleave = (uint16_t)interleave,
                         .tile = CLADE_PANELS};
}

const char *clade__gemm_floats(const clade_query *q) {
  if (clade__has_blocks(q->node->in[1].dtype)) return "does not support block types";
  return clade__gemm_integer(q->node->in[0].dtype) ? "requires floats" : NULL;
}

/* ---- ref: one work-item per result ---- */
static const char *ref_accept(const clade_query *q) {
  return clade__cut_short(q->device, (double)clade__gemm_problem_of(q->node).k + 1);
}
static double ref_cost(const clade_query *q) {
  return cost(q, 1, 1, q->device->device_class == CLADE_CPU ? 0.02 : 0.05, 0);
}

static clade_status ref_emit(clade_emit *e, const clade_query *q) {
  problem p = clade__gemm_problem_of(q->node);
  clade_kernel_step *s;
  CLADE_TRY(clade__gemm_begin(e, q->node, &p, "gemm_forward_ref", &clade__gemm_own, &s));
  clade_emit_define_text(s, "ACC", clade__gemm_integer(q->node->in[0].dtype) ? "uint" : "float");
  clade__epilogue_args(s, q->node, &p.stride[2]);
  clade_emit_range(s, 3, (size_t[]){(size_t)p.n, (size_t)p.m, (size_t)p.batches}, (size_t[]){16, 1, 1});
  return CLADE_OK;
}

#define UNITS(CLASS, ASK, MASK) .family = CLADE_FAMILY_MMA, .devices = CLASS, .units = ASK, .needs_units = MASK
#define TILE_UNITS              UNITS(CLADE_ON_CPU, clade__gemm_mma_units, 1 << CLADE_UNIT_AMX_INT8 | 1 << CLADE_UNIT_AMX_BF16)
#define VECTOR_UNITS            UNITS(CLADE_ON_CPU, clade__gemm_mma_units, 1 << CLADE_UNIT_VNNI | 1 << CLADE_UNIT_AVX512_BF16)
/* Fields that an implementation shares with its variant for b in panels. */
#define MMA(IMPL, SPACE)                                                                                        \
  .cost = clade__gemm_##IMPL##_cost, .workspace = clade__gemm_mma_workspace, .emit = clade__gemm_##IMPL##_emit, \
  .space = &clade__gemm_##SPACE##_space, .file = "gemm_mma"
#define VEC .cost = clade__gemm_vec_cost, .workspace = clade__gemm_vec_workspace, .emit = clade__gemm_vec_emit
#define LOOSE(WAY)                                                                                            \
  .cost = clade__gemm_loose_cost, .workspace = clade__gemm_tiles_workspace, .emit = clade__gemm_##WAY##_emit, \
  .space = &clade__gemm_##WAY##_space, .loose = true
const clade_impl *const clade__gemm_impls[] = {
    CLADE_IMPL(.name = "mma_tile", TILE_UNITS, .accept = clade__gemm_mma_tile_accept, MMA(mma_tile, mma_tile)),
    CLADE_IMPL(.name = "mma", VECTOR_UNITS, .accept = clade__gemm_mma_accept, MMA(mma, mma)),
    CLADE_IMPL(.name = "vec", CLADE__LONG_VEC, .accept = clade__gemm_vec_accept, .space = &clade__gemm_vec_space, VEC),
    CLADE_IMPL(.name = "mma_tile_panels", TILE_UNITS, .accept = clade__gemm_mma_tile_panels_accept,
               .layouts = clade__gemm_mma_panels_layouts, MMA(mma_tile, mma_tile)),
    CLADE_IMPL(.name = "mma_panels", VECTOR_UNITS, .accept = clade__gemm_mma_panels_accept,
               .layouts = clade__gemm_mma_panels_layouts, MMA(mma, mma_panels)),
    CLADE_IMPL(.name = "mma_panels_bare", VECTOR_UNITS, .accept = clade__gemm_mma_bare_accept,
               .layouts = clade__gemm_mma_panels_layouts, .cost = clade__gemm_mma_bare_cost,
               .emit = clade__gemm_mma_bare_emit, .file = "gemm_mma"),
    CLADE_IMPL(.name = "vec_panels", CLADE__LONG_VEC, .accept = clade__gemm_vec_panels_accept,
               .layouts = clade__gemm_vec_panels_layouts, .space = &clade__gemm_vec_panels_space, VEC),
    CLADE_IMPL(.name = "vec_bare", CLADE__LONG_VEC, .accept = clade__gemm_bare_accept, .cost = clade__gemm_bare_cost,
               .emit = clade__gemm_bare_emit),
    CLADE_IMPL(.name = "dot", CLADE__LONG_VEC, .accept = clade__gemm_dot_accept, .cost = clade__gemm_dot_cost,
               .workspace = clade__gemm_dot_workspace, .emit = clade__gemm_dot_emit, .file = "gemm_dot"),
    CLADE_IMPL(.name = "few", .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU,
               .needs_local = CLADE__GEMM_FEW_LOCAL, .accept = clade__gemm_few_accept, .cost = clade__gemm_few_cost,
               .workspace = clade__gemm_few_workspace, .emit = clade__gemm_few_emit, .file = "gemm_few"),
    CLADE_IMPL(.name = "vec_blocks", CLADE__LONG_VEC, .accept = clade__gemm_blocks_accept,
               .cost = clade__gemm_blocks_cost, .workspace = clade__gemm_blocks_workspace,
               .emit = clade__gemm_blocks_emit, .file = "gemm_blocks"),
    CLADE__PRODUCT_WARPGROUP(gemm),
    CLADE__PRODUCT_WARP(gemm),
    CLADE_IMPL(.name = "mma_warpgroup_loose", CLADE__WARPGROUPS, .accept = clade__gemm_warpgroup_loose_accept,
               LOOSE(warpgroup)),
    CLADE_IMPL(.name = "mma_warp_loose", CLADE__WARPS, .accept = clade__gemm_warp_loose_accept, LOOSE(warp)),
    CLADE__PRODUCT_SIMT(gemm),
    CLADE_IMPL(.name = "clblast", .family = CLADE_FAMILY_LIBRARY, .accept = clade__gemm_clblast_accept,
               .emit = clade__gemm_clblast_emit),
    CLADE__SYSTOLIC(gemm)    /* with its comma */
    CLADE__SYSTOLIC(gemm_i8) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = ref_accept, .cost = ref_cost, .emit = ref_emit),
    NULL,
};
