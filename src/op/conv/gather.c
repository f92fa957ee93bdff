/* Common form of conv2d and conv2d_data: each result gathers from one source by an index map. Also the reference
 * implementation. */
#include "op/conv/conv.h"
#include "op/elt/epilogue.h"

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

void clade__gather_sizes(clade_kernel_step *s, const clade__gather *g) {
  clade_emit_index8(
      s, 8, (int64_t[]){g->n, g->groups, g->rows, g->inner, g->source[0], g->source[1], g->result[0], g->result[1]});
}

clade_status clade__gather_begin(clade_emit *e, const clade_node *n, const clade__gather *p, const char *kernel,
                                 clade_kernel_step **out) {
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  clade_emit_define_text(s, "T", clade_dtype_name(n->in[0].dtype));
  clade_emit_define_text(s, "OUT", clade_dtype_name(n->out[0].dtype));
  CLADE_TRY(clade__epilogue_define(s, n));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade__gather_sizes(s, p);
  *out = s;
  return CLADE_OK;
}

void clade__gather_strides(const clade_node *n, int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK]) {
  const clade_shape *y = &n->out[0].shape;
  for (int i = 2; i < n->n_in; i++) {
    const int64_t block = n->in[i].layout.block; /* all channels, padded, if they are last */
    int64_t own[CLADE_MAX_RANK] = {0}, *to = strides[i - 2];
    clade__broadcast_strides(&n->in[i].shape, y, own);
    to[5] = block && own[0] ? block * y->dim[2] * y->dim[3] : own[0];
    to[6] = block ? 1 : own[1];
    to[7] = block ? block : y->dim[3] == 1 ? own[2] : own[3];
  }
}

void clade__gather_epilogue(clade_kernel_step *s, const clade_node *n) {
  int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK] = {{0}};
  clade__gather_strides(n, strides);
  clade__epilogue_args(s, n, strides);
}

/* ---- ref: one work-item per result ---- */
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
  clade_emit_define_text(s, "TB", clade_dtype_name(q->node->in[1].dtype));
  clade_emit_index8(s, 5, (int64_t[]){p.kernel[0], p.kernel[1], p.w_group, p.w_row, p.w_inner});
  clade__emit_maps(s, clade__conv_window(q->node), p.map);
  clade__gather_epilogue(s, q->node);
  size_t global[3] = {(size_t)(p.result[0] * p.result[1]), (size_t)(p.groups * p.rows), (size_t)p.n};
  clade_emit_range(s, 3, global, (size_t[]){16, 1, 1});
  return CLADE_OK;
}
