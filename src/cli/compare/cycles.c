/* Products and convolutions of a graph as works of the cycle model, and its estimates (docs/fpga.md). */
#include "cli/compare/cycles.h"
#include "op/conv/conv.h"
#include "op/dims.h"
#include "op/gemm/gemm.h"

const compare_kind *const compare_kinds[] = {&compare_model, &compare_rtl, NULL};

/* ---- works of a graph ---- */
static cycles_work product(int64_t batch, int64_t m, int64_t n, int64_t k) {
  return (cycles_work){.kind = CYCLES_GEMM, .gemm = {batch, m, n, k}};
}

static cycles_work gemm(const clade_node *n) {
  const clade_shape *a = clade__gemm_shape(n, 0), *c = &n->out[0].shape;
  int64_t rows = c->dim[c->rank - 2], columns = c->dim[c->rank - 1];
  bool turned = ((const clade__gemm_attrs *)n->attrs)->trans_a;
  return product(clade__product(c, 0, c->rank - 2), rows, columns, a->dim[a->rank - (turned ? 2 : 1)]);
}

static cycles_work forward(const clade_node *n) {
  const int64_t *x = n->in[0].shape.dim, *w = n->in[1].shape.dim, *y = n->out[0].shape.dim;
  cycles_work out = {.kind = CYCLES_CONV};
  const clade__conv_attrs *attrs = n->attrs;
  out.conv.groups = attrs->groups;
  out.conv.batch = x[0], out.conv.channels = x[1], out.conv.height = x[2], out.conv.width = x[3];
  out.conv.filters = y[1], out.conv.out_height = y[2], out.conv.out_width = y[3];
  out.conv.kernel_height = w[2], out.conv.kernel_width = w[3];
  out.conv.stride_height = attrs->window.stride[0], out.conv.stride_width = attrs->window.stride[1];
  out.conv.pad_top = attrs->window.pad[0], out.conv.pad_left = attrs->window.pad[1];
  return out;
}

/* A derivative of a convolution as a product; w: weights [out, in / groups, height, width], y: the forward result. */
static cycles_work backward(const clade_node *n, const clade_shape *w, const clade_shape *y, bool of_weights) {
  int64_t groups = ((const clade__conv_attrs *)n->attrs)->groups, out = w->dim[0] / groups;
  int64_t taps = w->dim[1] * w->dim[2] * w->dim[3], places = y->dim[0] * y->dim[2] * y->dim[3];
  return of_weights ? product(groups, out, taps, places) : product(groups, taps, places, out);
}

static bool work_of(const clade_node *n, cycles_work *out) {
  if (n->op == &clade__op_gemm)
    *out = gemm(n);
  else if (n->op == &clade__op_conv2d)
    *out = forward(n);
  else if (n->op == &clade__op_conv2d_data)
    *out = backward(n, &n->in[1].shape, &n->in[0].shape, false);
  else if (n->op == &clade__op_conv2d_weights)
    *out = backward(n, &n->out[0].shape, &n->in[1].shape, true);
  else
    return false;
  return true;
}

clade_status compare_list_of(const clade_graph *g, compare_list *out) {
  clade_type in[CLADE_MAX_OPERANDS], results[CLADE_MAX_OPERANDS];
  clade_node view;
  cycles_work w;
  *out = (compare_list){0};
  for (clade__id id = 1; id < g->n_nodes; id++) {
    clade__node_view(g, id, in, results, &view);
    if (!view.n_out || !work_of(&view, &w)) continue;
    CLADE_TRY(clade__grow(&out->work, &out->capacity, out->n + 1, sizeof *out->work));
    out->work[out->n++] = w;
  }
  return CLADE_OK;
}

/* ---- the device and its estimates ---- */
clade_status compare_cycles_open(compare_side *side, const char *path) {
  compare_cycles *own = side->own = clade__new(1, sizeof *own);
  if (!own) return CLADE_NO_MEMORY;
  CLADE_TRY(cycles_device_read(path, &own->device));
  side->name = own->device.name;
  side->element_bytes = own->device.element_bytes;
  side->bench.peak_flops = cycles_peak_gflops(&own->device) * 1e9;
  return CLADE_OK;
}

void compare_cycles_close(compare_side *side) {
  if (side->own) cycles_device_free(&compare_cycles_of(side)->device);
  clade__free(side->own);
}

clade_status compare_estimate(const compare_side *side, const compare_list *list, int64_t moved_bytes,
                              cycles_estimate *out) {
  return cycles_of(&compare_cycles_of(side)->device, &(cycles_call){list->work, list->n, moved_bytes, 0}, out);
}
