/* Weights in blocks: 4-bit or 8-bit integers with a scale for each 32. */
#include <math.h>

#include "quant/quant.h"

void clade__block_weights_free(clade__block_weights *w) { clade__free(w->data); }

/* Measures the scales, which are at the start of blocks; false: a scale is not finite. */
static bool measure(clade_dtype type, clade__block_weights *w) {
  const size_t block = clade__dtype_row(type)->bytes;
  for (size_t at = 0; at < w->bytes; at += block) {
    float scale;
    (void)clade_convert(CLADE_F32, &scale, CLADE_F16, (const char *)w->data + at, 1);
    if (!isfinite(scale)) return false;
    scale = fabsf(scale);
    w->scale_least = at ? fminf(w->scale_least, scale) : scale;
    w->scale_most = at ? fmaxf(w->scale_most, scale) : scale;
  }
  return true;
}

clade_status clade__block_weights_new(const clade_graph *g, const clade_vars *vars, const clade__quant_layer *l,
                                      clade_dtype type, clade__block_weights *w) {
  const char *name = g->nodes[g->values[l->weight].node].name;
  const clade_type *from = clade__type(g, l->weight);
  float *floats = NULL;
  size_t bytes;
  clade_status status;
  *w = (clade__block_weights){.data = NULL};
  CLADE_GOTO(clade_shape_elements(&from->shape, &w->elements));
  CLADE_GOTO(clade_type_bytes(from, &bytes));
  CLADE_GOTO(clade_dtype_bytes(type, w->elements, &w->bytes));
  floats = clade__new((size_t)w->elements, sizeof *floats);
  w->data = clade__new(w->bytes, 1);
  CLADE_GOTO(floats && w->data ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade_vars_get(vars, name, floats, bytes));
  CLADE_GOTO(clade_convert(type, w->data, CLADE_F32, floats, (size_t)w->elements));
  for (int64_t i = 0; i < w->elements; i++)
    if (!isfinite(floats[i]))
      CLADE_GOTO(
          CLADE_FAIL(INVALID, "quantization: weight %lld of the layer \"%s\" is not finite", (long long)i, l->name));
  if (!measure(type, w))
    CLADE_GOTO(CLADE_FAIL(INVALID, "quantization: the layer \"%s\" has weights that are too large for scales in f16",
                          l->name));
fail:
  clade__free(floats);
  return status;
}
