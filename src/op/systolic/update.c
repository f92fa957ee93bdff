/* Steps of optimizers by the kernel of fpga/update.cl, one launch for each tensor. */
#include "op/update/update.h"

#include "op/systolic/kernels.h"

enum { SCALARS = CLADE__UPDATE_SCALARS };

static const char *accept(const clade_query *q) {
  const clade_node *n = q->node;
  if (((const clade__update_attrs *)n->attrs)->rule & CLADE__UPDATE_SKIPS)
    return "its kernel does not support skipped steps";
  return n->in[SCALARS].dtype == CLADE_F32 && n->in[SCALARS + 1].dtype == CLADE_F32
             ? NULL
             : "its kernel requires tensors of f32";
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  const clade_node *n = q->node;
  const clade__update_attrs *a = n->attrs;
  const int states = clade__update_states(a->rule);
  for (int k = 0, gradient = SCALARS; gradient < n->n_in; k++, gradient += 1 + states) {
    const clade_shape *shape = &n->in[gradient].shape;
    bool decays = a->decays >> k & 1;
    const float numbers[] = {a->clip, decays ? a->l2 : 0, decays ? a->decay : 0, a->p, a->q, a->r, a->log1, a->log2};
    clade_kernel_step *s = clade_emit_kernel(e, "update");
    for (int i = 0; i < SCALARS; i++) clade_emit_in(s, i);
    clade_emit_in(s, gradient);
    for (int i = 0; i < 3; i++) { /* states that the rule does not have are not accessed */
      int state = i < states ? i : 0;
      clade_emit_in(s, gradient + 1 + state);
      clade_emit_out(s, k * states + state);
    }
    clade_emit_index(s, clade__product(shape, 0, shape->rank));
    clade_emit_i32(s, a->rule);
    clade__emit_bytes(s, numbers, sizeof numbers);
    clade__systolic_launch(s);
  }
  return CLADE_OK;
}

const clade_impl clade__systolic_update =
    CLADE__SYSTOLIC_IMPL(.name = "systolic", .accept = accept, .cost = clade__systolic_elements, .emit = emit,
                         .bundled = "update");
