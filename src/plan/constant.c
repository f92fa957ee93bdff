/* Allocates and fills the buffers of a func's constants when it is planned. */
#include "plan/plan.h"

static clade_status fill_guards(clade_func *func, clade__queue *queue, clade__buffer *buffer) {
  const uint32_t ones = UINT32_MAX;
  if (!func->guard) return CLADE_OK;
  return clade__queue_fill(queue, buffer, 0, clade__buffer_bytes(buffer) & ~(size_t)3, &ones, sizeof ones,
                           (clade__wait){0}, NULL);
}

static clade_status upload(clade_func *func, const clade__cell *cell, clade__queue *queue) {
  const clade_graph *g = func->graph;
  const clade__node *node = &g->nodes[g->values[cell->value].node];
  const clade__constant_attrs *attrs = node->attrs;
  const clade__place *place = &cell->place;
  clade__buffer *buffer = func->constants[place->index];
  /* A packed copy, made later from another constant. */
  if (!place->bytes || node->op != &clade__op_constant) return CLADE_OK;
  if (attrs->pattern)
    return clade__queue_fill(queue, buffer, place->offset, place->bytes, attrs->data, attrs->pattern, (clade__wait){0},
                             NULL);
  if (attrs->bytes != place->bytes)
    return CLADE_FAIL(INTERNAL, "a constant has %zu bytes of data, its type %zu", attrs->bytes, place->bytes);
  return clade__queue_write(queue, buffer, place->offset, attrs->data, place->bytes, true, (clade__wait){0}, NULL);
}

clade_status clade__constants_upload(clade_func *func) {
  size_t n = func->constant_slabs.count;
  clade__queue *queue = NULL;
  func->constants = clade__new(n, sizeof *func->constants);
  if (!func->constants) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    clade_device *device = func->devices[func->constant_slabs.at[i].device];
    CLADE_TRY(clade__buffer_new(device, func->constant_slabs.at[i].bytes, "constants", &func->constants[i]));
    if (!(queue = clade__device_transfer_queue(device))) return CLADE_OPENCL;
    CLADE_TRY(fill_guards(func, queue, func->constants[i]));
    clade_status status = CLADE_OK;
    for (size_t c = 0; c < func->n_cells && status == CLADE_OK; c++)
      if (func->cells[c].place.space == CLADE__CONSTANT && func->cells[c].place.index == (int)i)
        status = upload(func, &func->cells[c], queue);
    clade_status finished = clade__queue_finish(queue); /* also after a failure: the source memory is freed next */
    CLADE_TRY(status);
    CLADE_TRY(finished);
  }
  return CLADE_OK;
}
