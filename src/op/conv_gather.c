/* How conv2d and conv2d_data are computed: they gather from one source, by one rule for which places belong together.
 */
#include "op/conv.h"
#include "op/epilogue.h"

clade__gather clade__gather_of(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  bool forward = n->op == &clade__op_conv2d;
  const clade_shape *from = &n->in[0].shape, *to = &n->out[0].shape, *w = &n->in[1].shape;
  int64_t taps = w->dim[2] * w->dim[3], outer = w->dim[0] / a->groups;
  clade__gather p = {.n = to->dim[0],
                     .groups = a->groups,
                     .rows = to->dim[1] / a->groups,
                     .inner = from->dim[1] / a->groups,
                     .source = {from->dim[2], from->dim[3]},
                     .result = {to->dim[2], to->dim[3]},
                     .kernel = {w->dim[2], w->dim[3]},
                     .w_group = outer * w->dim[1] * taps,
                     .map = forward ? clade__window_covers : clade__window_covered_by};
  p.w_row = forward ? w->dim[1] * taps : taps;
  p.w_inner = forward ? taps : w->dim[1] * taps;
  return p;
}

clade_status clade__gather_begin(clade_emit *e, const clade_node *n, const clade__gather *p, const char *kernel,
                                 clade_kernel_step **out) {
  const clade__conv_attrs *a = n->attrs;
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  CLADE_TRY(clade__epilogue_define(s, n));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index8(
      s, 8, (int64_t[]){p->n, p->groups, p->rows, p->inner, p->source[0], p->source[1], p->result[0], p->result[1]});
  clade_emit_index8(s, 5, (int64_t[]){p->kernel[0], p->kernel[1], p->w_group, p->w_row, p->w_inner});
  clade__emit_maps(s, &a->window, p->map);
  *out = s;
  return CLADE_OK;
}

void clade__gather_end(clade_kernel_step *s, const clade_node *n) {
  const clade_shape *y = &n->out[0].shape;
  int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK] = {{0}};
  for (int i = 2; i < n->n_in; i++) { /* images, channels, pixels */
    int64_t own[CLADE_MAX_RANK] = {0};
    clade__broadcast_strides(&n->in[i].shape, y, own);
    strides[i - 2][5] = own[0];
    strides[i - 2][6] = own[1];
    strides[i - 2][7] = y->dim[3] == 1 ? own[2] : own[3];
  }
  clade__epilogue_args(s, n, strides);
}

/* ---- ref: a work-item per result ---- */
const char *clade__gather_ref_accept(const clade_query *q) {
  clade__gather p = clade__gather_of(q->node);
  double taps = (double)p.kernel[0] * ((double)p.kernel[1] * ((double)p.inner + 2) + 2);
  return clade__cut_short(q->device, taps);
}

double clade__gather_ref_cost(const clade_query *q) {
  clade__gather p = clade__gather_of(q->node);
  double results = (double)clade__product(&q->node->out[0].shape, 0, 4);
  double flops = 2 * results * (double)p.inner * (double)(p.kernel[0] * p.kernel[1]);
  return clade__cost(q->device, flops, clade__node_bytes(q->node), q->device->device_class == CLADE_CPU ? 0.02 : 0.05);
}

clade_status clade__gather_ref_emit(clade_emit *e, const clade_query *q) {
  clade__gather p = clade__gather_of(q->node);
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q->node, &p, "conv2d_gather_ref", &s));
  clade__gather_end(s, q->node);
  size_t global[3] = {(size_t)(p.result[0] * p.result[1]), (size_t)(p.groups * p.rows), (size_t)p.n};
  clade_emit_range(s, 3, global, (size_t[]){16, 1, 1});
  return CLADE_OK;
}

/* ---- vec: a work-item does a block of channels and places by a tile of vector registers ---- */
enum { VEC_BLOCK_ROWS = 96, VEC_STRIP = 256, VEC_DEPTH = 128 };

typedef struct tile {
  int width, rows;
} tile;
static tile vec_tile(const clade_query *q) { /* with 32 registers, or 16 */
  return q->device->vector_f32 >= 16 ? (tile){16, 8} : q->device->vector_f32 >= 8 ? (tile){8, 6} : (tile){8, 3};
}

/* How places of the result are cut up: phases, columns of the largest, blocks of each. */
typedef struct plan {
  int64_t phases, across, down, rows;
} plan;
static plan vec_plan(const clade_query *q, const clade__gather *p) {
  const clade__conv_attrs *a = q->node->attrs;
  int64_t div[2] = {p->map(&a->window, 0).div, p->map(&a->window, 1).div};
  int64_t lines = (p->result[0] + div[0] - 1) / div[0], wide = (p->result[1] + div[1] - 1) / div[1];
  int64_t tile = vec_tile(q).rows, items = 4 * (int64_t)CLADE_MAX(q->device->compute_units, 1u);
  plan v = {.phases = div[0] * div[1], .across = (p->n * lines * wide + VEC_STRIP - 1) / VEC_STRIP};
  int64_t columns = CLADE_MAX(v.phases * v.across * p->groups, 1), want = (items + columns - 1) / columns;
  v.rows = clade__up((p->rows + want - 1) / want, tile);
  v.rows = CLADE_MAX(CLADE_MIN(v.rows, clade__up(VEC_BLOCK_ROWS - tile + 1, tile)), tile);
  v.down = (p->rows + v.rows - 1) / v.rows;
  return v;
}

const char *clade__conv_vec_accept(const clade_query *q) {
  if (q->device->device_class != CLADE_CPU) return "made for CPUs";
  if (q->device->vector_f32 < 4) return "made for CPUs with vectors of their own";
  if (q->device->max_passes) return "the device cuts the loops of a work-item short before they are through";
  for (int i = 0; i < q->node->n_in + q->node->n_out; i++) {
    const clade_type *t = i < q->node->n_in ? &q->node->in[i] : &q->node->out[i - q->node->n_in];
    if (clade__product(&t->shape, 0, t->shape.rank) > INT32_MAX) return "made for fewer than 2^31 elements";
  }
  return NULL;
}

double clade__gather_vec_cost(const clade_query *q) {
  clade__gather p = clade__gather_of(q->node);
  plan v = vec_plan(q, &p);
  tile t = vec_tile(q);
  int64_t strip = v.across == 1 ? clade__up(p.n * p.result[0] * p.result[1], 2 * t.width) : v.across * VEC_STRIP;
  double products = (double)p.inner * (double)(p.kernel[0] * p.kernel[1]) * (double)p.groups * (double)strip;
  return clade__cost(q->device, 2 * products * (double)(clade__up(p.rows, t.rows) + 12), clade__node_bytes(q->node),
                     0.4);
}

clade_status clade__gather_vec_emit(clade_emit *e, const clade_query *q) {
  clade__gather p = clade__gather_of(q->node);
  plan v = vec_plan(q, &p);
  tile t = vec_tile(q);
  clade_kernel_step *s;
  CLADE_TRY(clade__gather_begin(e, q->node, &p, "conv2d_gather_vec", &s));
  clade_emit_define(s, "WIDTH", t.width);
  clade_emit_define(s, "ROWS", t.rows);
  clade_emit_define(s, "BLOCK_ROWS", VEC_BLOCK_ROWS);
  clade_emit_define(s, "STRIP", VEC_STRIP);
  clade_emit_define(s, "DEPTH", VEC_DEPTH);
  clade_emit_index(s, v.rows);
  clade_emit_index(s, v.across);
  clade__gather_end(s, q->node);
  size_t global = (size_t)(v.phases * v.across * v.down * p.groups), local = 1;
  clade_emit_range(s, 1, &global, &local);
  return CLADE_OK;
}
