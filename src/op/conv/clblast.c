/* conv2d by the CLBlast library, if CLADE_LIBRARIES allows it: floats, symmetric padding, no groups. */
#include "op/conv/conv.h"
#include "program/libraries.h"

static const char *accept(const clade_query *q) {
  const clade__conv_attrs *at = q->node->attrs;
  const clade__window *w = &at->window;
  int64_t elements = 1;
  if (q->node->in[0].dtype != CLADE_F32) return "requires f32";
  if (at->epilogue.n_insn || q->node->n_in > 2) return "does not support an epilogue";
  if (at->groups != 1) return "does not support groups";
  if (w->pad[0] != w->pad[2] || w->pad[1] != w->pad[3]) return "requires equal padding on both sides";
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 4; k++) elements *= q->node->in[i].shape.dim[k] != 0;
  if (!elements) return "the product is empty";
  return clade__clblast_missing();
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade__conv_attrs *at = q->node->attrs;
  const clade_shape *x = &q->node->in[0].shape, *w = &q->node->in[1].shape;
  clade__clblast_conv work = {.images = (size_t)x->dim[0], .channels = (size_t)x->dim[1], .filters = (size_t)w->dim[0]};
  for (int i = 0; i < 2; i++) {
    work.size[i] = (size_t)x->dim[2 + i];
    work.kernel[i] = (size_t)w->dim[2 + i];
    work.pad[i] = (size_t)at->window.pad[i];
    work.stride[i] = (size_t)at->window.stride[i];
    work.dilation[i] = (size_t)at->window.dilation[i];
  }
  clade_kernel_step *s = clade_emit_library(e, "CLBlastSconvgemm", &clade__clblast_convgemm, &work, sizeof work);
  clade__conv_operands(s);
  return CLADE_OK;
}

const clade_impl clade__gather_clblast =
    CLADE__CONV_IMPL(.name = "clblast", .family = CLADE_FAMILY_LIBRARY, .accept = accept, .emit = emit);
