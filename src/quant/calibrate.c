/* Calibration: ranges of layers' inputs, their scales, and the report on each layer. */
#include <math.h>

#include "quant/quantization.h"

/* ---- calibration ---- */
/* Name of the first layer with this input. */
static const char *taker(const clade_quantization *q, size_t at) {
  for (size_t i = 0; i < q->n_layers; i++)
    if (q->layers[i].tap == at) return q->layers[i].at.name;
  return "";
}

static clade_status look(clade_quantization *q, size_t at, clade_ticket ticket, int64_t rows, int64_t of_rows) {
  clade__quantized_input *t = &q->taps[at];
  const clade_shape *shape = &clade__type(q->graph, t->value)->shape;
  size_t n = t->elements;
  CLADE_TRY(clade_read(q->run, ticket, t->name, q->room, n * sizeof *q->room));
  if (of_rows && shape->rank && shape->dim[0] == of_rows) n = n / (size_t)of_rows * (size_t)rows;
  if (clade__range_add(&t->range, q->room, n)) return CLADE_OK;
  return CLADE_FAIL(INVALID, "quantization: the input of the layer \"%s\" holds NaN or infinity", taker(q, at));
}

clade_status clade_quantization_observe(clade_quantization *q, int64_t rows, int64_t of_rows, int n,
                                        const clade_feed *feeds) {
  clade_ticket ticket;
  if (!q) return CLADE_FAIL(INVALID, "clade_quantization_observe: the quantization is NULL");
  if (of_rows && (rows < 1 || rows > of_rows))
    return CLADE_FAIL(INVALID, "clade_quantization_observe: %lld rows of %lld; expected 1 to all of them",
                      (long long)rows, (long long)of_rows);
  if (q->weights) return CLADE_OK; /* inputs are not quantized */
  if (q->trained)
    return CLADE_FAIL(INVALID, "clade_quantization_observe: the ranges were trained: samples would change nothing");
  CLADE_TRY(clade_execute(q->run, n, feeds, &ticket));
  q->scaled = false;
  for (size_t i = 0; i < q->n_taps; i++) CLADE_TRY(look(q, i, ticket, rows, of_rows));
  return CLADE_OK;
}

/* ---- scales ---- */
clade_status clade__quantization_scale(clade_quantization *q) {
  if (q->scaled) return CLADE_OK;
  for (size_t i = 0; i < q->n_layers; i++) {
    clade__quantized_layer *l = &q->layers[i];
    const clade__range *range = &q->taps[l->tap].range;
    if (!range->n)
      return CLADE_FAIL(INVALID, "quantization: no samples were observed: the scales of layer \"%s\" are unknown",
                        l->at.name);
    const int levels = range->negative ? 127 : 255;
    l->input = range->negative ? CLADE_I8 : CLADE_U8;
    l->scale = (double)(float)(clade__range_limit(range, q->calibration, levels) / levels);
  }
  q->scaled = true;
  return CLADE_OK;
}

static clade_status check_layer(const clade_quantization *q, int index, const char *function) {
  if (!q) return CLADE_FAIL(INVALID, "%s: the quantization is NULL", function);
  if (index >= 0 && (size_t)index < q->n_layers) return CLADE_OK;
  return CLADE_FAIL(NOT_FOUND, "%s: layer %d of %zu", function, index, q->n_layers);
}

clade_status clade_quantization_keep(clade_quantization *q, int index, bool f32) {
  CLADE_TRY(check_layer(q, index, "clade_quantization_keep"));
  q->layers[index].f32 = f32;
  return CLADE_OK;
}

int clade_quantization_count(const clade_quantization *q) { return q ? (int)q->n_layers : 0; }

static void describe_weights(const clade__small_weights *w, double input_scale, clade_quantization_layer *info) {
  info->weights = (int64_t)(w->outputs * w->inner);
  info->scale_least = w->outputs ? (double)w->scale[0] / input_scale : 0;
  for (size_t i = 0; i < w->outputs; i++) {
    info->scale_least = fmin(info->scale_least, (double)w->scale[i] / input_scale);
    info->scale_most = fmax(info->scale_most, (double)w->scale[i] / input_scale);
  }
}

static clade_status describe_blocks(const clade_quantization *q, const clade__quantized_layer *l,
                                    clade_quantization_layer *info) {
  clade__block_weights w;
  const clade_status status = clade__block_weights_new(q->graph, q->vars, &l->at, q->weights, &w);
  info->weights = w.elements;
  info->scale_least = (double)w.scale_least;
  info->scale_most = (double)w.scale_most;
  clade__block_weights_free(&w);
  return status;
}

clade_status clade_quantization_get_layer(clade_quantization *q, int index, clade_quantization_layer *out) {
  clade__small_weights w;
  CLADE_TRY(check_layer(q, index, "clade_quantization_get_layer"));
  CLADE_TRY(clade__quantization_scale(q));
  const clade__quantized_layer *l = &q->layers[index];
  clade_quantization_layer info = {.size = sizeof info,
                                   .name = l->at.name,
                                   .op = q->graph->nodes[l->at.node].op->name,
                                   .quantized = !l->f32,
                                   .input = l->input,
                                   .input_scale = l->scale,
                                   .weight = l->f32       ? CLADE_F32
                                             : q->weights ? q->weights
                                                          : CLADE_I8};
  if (q->weights) {
    CLADE_TRY(describe_blocks(q, l, &info));
    return clade__info_give(out, &info, sizeof info, "clade_quantization_get_layer");
  }
  if (l->trained.weight) {
    describe_weights(&l->trained, l->scale, &info);
    return clade__info_give(out, &info, sizeof info, "clade_quantization_get_layer");
  }
  clade_status status = clade__small_weights_new(q->graph, q->vars, &l->at, 1, &w);
  if (status == CLADE_OK) describe_weights(&w, 1, &info);
  if (status == CLADE_OK) status = clade__info_give(out, &info, sizeof info, "clade_quantization_get_layer");
  clade__small_weights_free(&w);
  return status;
}

clade_status clade_quantization_text(clade_quantization *q, char **out) {
  clade__text text = {0};
  if (!q || !out)
    return CLADE_FAIL(INVALID, "clade_quantization_text: %s",
                      q ? "there is no place for the text (NULL)" : "the quantization is NULL");
  *out = NULL;
  CLADE_TRY(clade__quantization_scale(q));
  for (size_t i = 0; i < q->n_layers; i++) {
    const clade__quantized_layer *l = &q->layers[i];
    if (l->f32) continue;
    clade__text_add(&text, "%s%s=", text.length ? "," : "", l->at.name);
    if (q->weights)
      clade__text_add(&text, "%s", clade_dtype_name(q->weights));
    else
      clade__text_add(&text, "%s:%.9g", clade_dtype_name(l->input), l->scale);
  }
  clade__text_add(&text, "%s", "");
  return clade__text_take(&text, out);
}
