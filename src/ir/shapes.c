/* Prescribed shapes of variables, as for pruned models. */
#include "ir/ir.h"

static clade__hash key_of(const char *name) { return clade__hash_bytes(name, strlen(name)); }

clade_status clade__shapes_put(clade__shapes *shapes, const char *name, const clade_shape *shape) {
  size_t index;
  if (!clade__map_get(&shapes->by_name, key_of(name), &index)) {
    CLADE_TRY(clade__grow(&shapes->at, &shapes->capacity, shapes->n + 1, sizeof *shapes->at));
    char *copy = clade__copy_text(name);
    if (!copy) return CLADE_NO_MEMORY;
    shapes->at[index = shapes->n++].name = copy;
    CLADE_TRY(clade__map_put(&shapes->by_name, key_of(name), index));
  }
  shapes->at[index].shape = *shape;
  return CLADE_OK;
}

const clade_shape *clade__shapes_find(const clade__shapes *shapes, const char *name) {
  size_t index;
  return clade__map_get(&shapes->by_name, key_of(name), &index) ? &shapes->at[index].shape : NULL;
}

void clade__shapes_free(clade__shapes *shapes) {
  for (size_t i = 0; i < shapes->n; i++) clade__free(shapes->at[i].name);
  clade__free(shapes->at);
  clade__map_free(&shapes->by_name);
  *shapes = (clade__shapes){0};
}

void clade_graph_shape(clade_graph *g, const char *name, clade_shape shape) {
  if (!clade__graph_ok(g)) return;
  clade_status status = clade__name_check("clade_graph_shape", name);
  if (status == CLADE_OK) {
    status = clade__type_check(&(clade_type){.dtype = CLADE_F32, .shape = shape}, true);
    if (status != CLADE_OK) clade__fail_in(status, "clade_graph_shape: variable \"%s\"", name);
  }
  if (status == CLADE_OK) status = clade__shapes_put(&g->shapes, name, &shape);
  if (status != CLADE_OK) clade__graph_fail(g, status, NULL);
}

clade_status clade__graph_shaped(const clade_graph *g, const char *name, clade_shape *shape) {
  const clade_shape *told = clade__shapes_find(&g->shapes, name);
  char want[200], have[200];
  if (!told) return CLADE_OK;
  bool fits = told->rank == shape->rank;
  for (int i = 0; fits && i < told->rank; i++) fits = told->dim[i] <= shape->dim[i];
  if (!fits)
    return CLADE_FAIL(
        BAD_SHAPE,
        "the graph was told the shape %s, and the model makes it %s: as many dimensions are expected, none "
        "of them longer",
        clade_shape_text(told, have, sizeof have), clade_shape_text(shape, want, sizeof want));
  *shape = *told;
  return CLADE_OK;
}
