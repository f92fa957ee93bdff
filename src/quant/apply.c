/* Sets the variables of a quantized model: 8-bit weights, scales and biases, or weights in blocks. */
#include "quant/quantization.h"

static clade_status set_part(const clade__quantized_layer *l, const char *part, clade_vars *to, const void *data,
                             size_t bytes) {
  char name[CLADE__QUANT_PART];
  return clade_vars_set(to, clade__quant_part(&l->at, part, name), data, bytes);
}

static clade_status set_parts(const clade__quantized_layer *l, const clade__small_weights *w, clade_vars *to) {
  CLADE_TRY(set_part(l, CLADE__LAYER_WEIGHT, to, w->weight, w->outputs * w->inner * sizeof *w->weight));
  CLADE_TRY(set_part(l, CLADE__LAYER_SCALE, to, w->scale, w->outputs * sizeof *w->scale));
  if (l->at.end == l->at.node) return CLADE_OK;
  return set_part(l, CLADE__LAYER_BIAS, to, w->bias, w->outputs * sizeof *w->bias);
}

static clade_status set_block_layer(const clade_quantization *q, const clade__quantized_layer *l, clade_vars *to) {
  clade__block_weights w;
  clade_status status = clade__block_weights_new(q->graph, q->vars, &l->at, q->weights, &w);
  if (status == CLADE_OK) status = set_part(l, CLADE__LAYER_WEIGHT, to, w.data, w.bytes);
  clade__block_weights_free(&w);
  return status;
}

static clade_status set_layer(const clade_quantization *q, const clade__quantized_layer *l, clade_vars *to) {
  clade__small_weights w;
  if (q->weights) return set_block_layer(q, l, to);
  if (l->trained.weight) return set_parts(l, &l->trained, to);
  clade_status status = clade__small_weights_new(q->graph, q->vars, &l->at, l->scale, &w);
  if (status == CLADE_OK) status = set_parts(l, &w, to);
  clade__small_weights_free(&w);
  return status;
}

static bool is_made(const clade_quantization *q, const char *name) {
  static const char *const parts[] = {CLADE__LAYER_WEIGHT, CLADE__LAYER_SCALE, CLADE__LAYER_BIAS};
  char made[CLADE__QUANT_PART];
  for (size_t i = 0; i < q->n_layers; i++)
    for (size_t k = 0; !q->layers[i].f32 && k < (q->weights ? 1 : CLADE_COUNT(parts)); k++)
      if (!strcmp(clade__quant_part(&q->layers[i].at, parts[k], made), name)) return true;
  return false;
}

static clade_status copy(const clade_quantization *q, const clade_port_info *info, clade_vars *to) {
  size_t bytes;
  CLADE_TRY(clade_type_bytes(&info->type, &bytes));
  void *data = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  if (!data) return CLADE_NO_MEMORY;
  clade_status status = clade_vars_get(q->vars, info->name, data, bytes);
  if (status == CLADE_OK) status = clade_vars_set(to, info->name, data, bytes);
  clade__free(data);
  return status;
}

clade_status clade_quantization_apply(clade_quantization *q, clade_vars *to) {
  if (!q || !to)
    return CLADE_FAIL(INVALID, "clade_quantization_apply: the %s NULL", q ? "variables are" : "quantization is");
  CLADE_TRY(clade__quantization_scale(q));
  for (int i = 0; i < clade_vars_count(to); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(to, i, &info));
    if (!is_made(q, info.name)) CLADE_TRY(copy(q, &info, to));
  }
  for (size_t i = 0; i < q->n_layers; i++)
    if (!q->layers[i].f32) CLADE_TRY(set_layer(q, &q->layers[i], to));
  return CLADE_OK;
}
