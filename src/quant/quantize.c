/* Quantization of a trained model: calibrates ranges in f32, or takes them from --qat training, then gives layers
 * scales and 8-bit weights. */
#include <math.h>
#include <stdio.h>

#include "quant/quant.h"

typedef struct layer {
  clade__quant_layer at;
  size_t tap;
  bool f32; /* the layer stays in f32 */
  clade_dtype input;
  double scale;
  clade__small_weights trained; /* .weight NULL: not trained for 8 bits */
} layer;

/* The input of one or more layers, an output of the calibration graph. */
typedef struct tap {
  clade__id value;
  char name[32];
  size_t elements;
  clade__range range;
} tap;

struct clade_quantization {
  clade_graph *graph;
  clade_vars *vars;
  clade_func *func;
  clade_run *run;
  clade_calibration calibration;
  clade_dtype weights; /* type with shared blocks; unset: layers compute in 8 bits */
  bool scaled, trained;
  layer *layers;
  size_t n_layers, n_taps;
  tap *taps;
  float *room; /* buffer for the largest one */
};

static const char *const calibrations[] = {"minmax", "percentile", "mse"};
const char *clade_calibration_name(clade_calibration calibration) {
  return (unsigned)calibration < CLADE_COUNT(calibrations) ? calibrations[calibration] : "?";
}

void clade_quantization_free(clade_quantization *q) {
  if (!q) return;
  clade_run_free(q->run);
  clade_func_release(q->func);
  clade_vars_release(q->vars);
  clade_graph_release(q->graph);
  for (size_t i = 0; i < q->n_layers; i++) clade__small_weights_free(&q->layers[i].trained);
  clade__free(q->layers);
  clade__free(q->taps);
  clade__free(q->room);
  clade__free(q);
}

/* ---- creation ---- */
static size_t tap_of(clade_quantization *q, clade__id value) {
  size_t i = 0;
  while (i < q->n_taps && q->taps[i].value != value) i++;
  if (i < q->n_taps) return i;
  q->taps[i].value = value;
  snprintf(q->taps[i].name, sizeof q->taps[i].name, "clade.input.%zu", i);
  q->n_taps++;
  return i;
}

static clade_status find_layers(const clade_graph *g, clade__quant_layers *found) {
  CLADE_TRY(clade__quant_layers_find(g, found));
  if (found->n) return CLADE_OK;
  return CLADE_FAIL(NOT_FOUND, "quantization: the graph has no convolution or linear layer of f32 whose weight "
                               "is a variable of its own");
}

static clade_status take_layers(clade_quantization *q) {
  clade__quant_layers found;
  clade_status status;
  CLADE_GOTO(find_layers(q->graph, &found));
  q->layers = clade__new(found.n, sizeof *q->layers);
  q->taps = clade__new(found.n, sizeof *q->taps);
  CLADE_GOTO(q->layers && q->taps ? CLADE_OK : CLADE_NO_MEMORY);
  q->n_layers = found.n;
  for (size_t i = 0; i < found.n; i++) q->layers[i] = (layer){.at = found.at[i], .tap = tap_of(q, found.at[i].x)};
fail:
  clade__free(found.at);
  return status;
}

/* Takes the layers that the text lists, with the types of their inputs. */
static clade_status take_trained_layers(clade_quantization *q, const char *text) {
  clade__quant_layers found;
  clade__quant_entry *entries = NULL;
  clade_status status;
  CLADE_GOTO(find_layers(q->graph, &found));
  CLADE_GOTO(clade__quant_entries(&found, text, &entries));
  q->layers = clade__new(found.n, sizeof *q->layers);
  CLADE_GOTO(q->layers ? CLADE_OK : CLADE_NO_MEMORY);
  for (size_t i = 0; i < found.n; i++)
    if (entries[i].input)
      q->layers[q->n_layers++] = (layer){.at = found.at[i], .input = entries[i].input, .scale = entries[i].scale};
  if (!q->n_layers) status = CLADE_FAIL(INVALID, "quantization: .trained lists no layer");
fail:
  clade__free(found.at);
  clade__free(entries);
  return status;
}

/* Takes the layers whose weights can be in blocks. */
static clade_status take_block_layers(clade_quantization *q) {
  clade__quant_layers found;
  clade_status status;
  CLADE_GOTO(find_layers(q->graph, &found));
  q->layers = clade__new(found.n, sizeof *q->layers);
  CLADE_GOTO(q->layers ? CLADE_OK : CLADE_NO_MEMORY);
  for (size_t i = 0; i < found.n; i++)
    if (clade__quant_takes_blocks(q->graph, &found.at[i], q->weights))
      q->layers[q->n_layers++] = (layer){.at = found.at[i], .input = CLADE_F32};
  if (!q->n_layers)
    status = CLADE_FAIL(NOT_FOUND, "quantization: the graph has no linear layer of f32 with a multiple of 32 inputs "
                                   "whose weight is a variable of its own");
  q->scaled = true;
fail:
  clade__free(found.at);
  return status;
}

/* Copies the graph and adds the inputs of all layers to its outputs. */
static clade_status watched(clade_quantization *q, clade_graph **out) {
  size_t most = 1;
  CLADE_TRY(clade__graph_rewrite(q->graph, NULL, NULL, out));
  for (size_t i = 0; i < q->n_taps; i++) {
    tap *t = &q->taps[i];
    int64_t elements;
    CLADE_TRY(clade_shape_elements(&clade__type(q->graph, t->value)->shape, &elements));
    t->elements = (size_t)elements;
    most = CLADE_MAX(most, t->elements);
    clade_output(*out, t->name, clade__graph_val(*out, t->value)); /* a plain copy keeps the numbers of values */
  }
  q->room = clade__new(most, sizeof *q->room);
  return q->room ? clade_graph_status(*out) : CLADE_NO_MEMORY;
}

static clade_status watch(clade_quantization *q, clade_device *device) {
  clade_graph *g = NULL;
  clade_status status;
  CLADE_GOTO(take_layers(q));
  CLADE_GOTO(watched(q, &g));
  CLADE_GOTO(clade_compile(g, device, &q->func));
  CLADE_GOTO(clade_run_new(q->func, q->vars, &q->run));
fail:
  clade_graph_release(g);
  return status;
}

/* ---- layers of --qat training ---- */
static clade_status read_part(clade_run *run, clade_ticket ticket, const layer *l, const char *part, void *to,
                              size_t bytes) {
  char name[CLADE__QUANT_PART];
  return clade_read(run, ticket, clade__quant_part(&l->at, part, name), to, bytes);
}

static clade_status read_trained(const clade_quantization *q, clade_run *run, clade_ticket ticket, layer *l) {
  clade__small_weights *w = &l->trained;
  float scale;
  CLADE_TRY(clade__small_weights_room(q->graph, &l->at, w));
  CLADE_TRY(read_part(run, ticket, l, CLADE__LAYER_WEIGHT, w->weight, w->outputs * w->inner * sizeof *w->weight));
  CLADE_TRY(read_part(run, ticket, l, CLADE__LAYER_SCALE, w->scale, w->outputs * sizeof *w->scale));
  CLADE_TRY(read_part(run, ticket, l, CLADE__LAYER_INPUT_SCALE, &scale, sizeof scale));
  if (l->at.end != l->at.node)
    CLADE_TRY(read_part(run, ticket, l, CLADE__LAYER_BIAS, w->bias, w->outputs * sizeof *w->bias));
  l->scale = (double)scale;
  bool finite = isfinite(scale);
  for (size_t i = 0; i < w->outputs; i++) finite &= isfinite(w->scale[i]) && isfinite(w->bias[i]);
  if (finite) return CLADE_OK;
  return CLADE_FAIL(INVALID, "quantization: weights of the layer \"%s\", or its input's range, are not finite",
                    l->at.name);
}

/* Computes the weights on the device by the same nodes as a test during training, so that the bits are the same. */
static clade_status take_trained(clade_quantization *q, clade_device *device, const char *text) {
  clade_graph *g = NULL;
  clade_ticket ticket;
  clade_status status;
  CLADE_GOTO(take_trained_layers(q, text));
  CLADE_GOTO(clade_graph_new(&g));
  for (size_t i = 0; i < q->n_layers; i++) {
    const clade__quant_entry entry = {q->layers[i].input, q->layers[i].scale};
    CLADE_GOTO(clade__simulate_layer(q->graph, &q->layers[i].at, &entry, g));
  }
  CLADE_GOTO(clade_compile(g, device, &q->func));
  CLADE_GOTO(clade_run_new(q->func, q->vars, &q->run));
  CLADE_GOTO(clade_execute(q->run, 0, NULL, &ticket));
  for (size_t i = 0; i < q->n_layers; i++) CLADE_GOTO(read_trained(q, q->run, ticket, &q->layers[i]));
  q->scaled = q->trained = true;
fail:
  clade_graph_release(g);
  return status;
}

static clade_status check(const clade_graph *g, clade_calibration calibration) {
  CLADE_TRY(clade_graph_status(g));
  if ((unsigned)calibration >= CLADE_COUNT(calibrations))
    return CLADE_FAIL(INVALID, "quantization: .calibration is %d, which is none", (int)calibration);
  if (g->trains) return CLADE_FAIL(INVALID, "quantization: the graph is one for training; expected one for inference");
  for (clade__id v = 1; v < g->n_values; v++)
    if (!clade_shape_is_constant(&clade__type(g, v)->shape))
      return CLADE_FAIL(BAD_SHAPE, "quantization: the graph has a symbol among its dimensions; expected sizes");
  return CLADE_OK;
}

clade_status clade_quantization_new_(clade_graph *graph, clade_device *device, clade_vars *vars,
                                     const clade_quantization_opt *given) {
  clade_quantization_opt opt;
  clade_status status;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_quantization_new"));
  if (!opt.out) return CLADE_FAIL(INVALID, "clade_quantization_new: there is no place for the quantization (NULL)");
  *opt.out = NULL;
  if (!graph || !device || !vars)
    return CLADE_FAIL(INVALID, "clade_quantization_new: the %s NULL",
                      !graph    ? "graph is"
                      : !device ? "device is"
                                : "variables are");
  CLADE_TRY(check(graph, opt.calibration));
  if (opt.weights && !clade__has_blocks(opt.weights))
    return CLADE_FAIL(DTYPE, "quantization: .weights is %s; expected q4_0 or q8_0", clade_dtype_name(opt.weights));
  if (opt.weights && opt.trained)
    return CLADE_FAIL(INVALID, "quantization: .weights and .trained; expected one of them");
  clade_quantization *q = clade__new(1, sizeof *q);
  if (!q) return CLADE_NO_MEMORY;
  q->graph = clade_graph_retain(graph);
  q->vars = clade_vars_retain(vars);
  q->calibration = opt.calibration;
  q->weights = opt.weights;
  CLADE_GOTO(q->weights ? take_block_layers(q) : opt.trained ? take_trained(q, device, opt.trained) : watch(q, device));
  *opt.out = q;
  return CLADE_OK;
fail:
  clade_quantization_free(q);
  return status;
}

/* ---- calibration ---- */
/* Name of the first layer with this input. */
static const char *taker(const clade_quantization *q, size_t at) {
  for (size_t i = 0; i < q->n_layers; i++)
    if (q->layers[i].tap == at) return q->layers[i].at.name;
  return "";
}

static clade_status look(clade_quantization *q, size_t at, clade_ticket ticket, int64_t rows, int64_t of_rows) {
  tap *t = &q->taps[at];
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
static clade_status scale(clade_quantization *q) {
  if (q->scaled) return CLADE_OK;
  for (size_t i = 0; i < q->n_layers; i++) {
    layer *l = &q->layers[i];
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

static clade_status describe_blocks(const clade_quantization *q, const layer *l, clade_quantization_layer *info) {
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
  CLADE_TRY(scale(q));
  const layer *l = &q->layers[index];
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
  CLADE_TRY(scale(q));
  for (size_t i = 0; i < q->n_layers; i++) {
    const layer *l = &q->layers[i];
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

/* ---- variables ---- */
static clade_status set_part(const layer *l, const char *part, clade_vars *to, const void *data, size_t bytes) {
  char name[CLADE__QUANT_PART];
  return clade_vars_set(to, clade__quant_part(&l->at, part, name), data, bytes);
}

static clade_status set_parts(const layer *l, const clade__small_weights *w, clade_vars *to) {
  CLADE_TRY(set_part(l, CLADE__LAYER_WEIGHT, to, w->weight, w->outputs * w->inner * sizeof *w->weight));
  CLADE_TRY(set_part(l, CLADE__LAYER_SCALE, to, w->scale, w->outputs * sizeof *w->scale));
  if (l->at.end == l->at.node) return CLADE_OK;
  return set_part(l, CLADE__LAYER_BIAS, to, w->bias, w->outputs * sizeof *w->bias);
}

static clade_status set_block_layer(const clade_quantization *q, const layer *l, clade_vars *to) {
  clade__block_weights w;
  clade_status status = clade__block_weights_new(q->graph, q->vars, &l->at, q->weights, &w);
  if (status == CLADE_OK) status = set_part(l, CLADE__LAYER_WEIGHT, to, w.data, w.bytes);
  clade__block_weights_free(&w);
  return status;
}

static clade_status set_layer(const clade_quantization *q, const layer *l, clade_vars *to) {
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
  CLADE_TRY(scale(q));
  for (int i = 0; i < clade_vars_count(to); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(to, i, &info));
    if (!is_made(q, info.name)) CLADE_TRY(copy(q, &info, to));
  }
  for (size_t i = 0; i < q->n_layers; i++)
    if (!q->layers[i].f32) CLADE_TRY(set_layer(q, &q->layers[i], to));
  return CLADE_OK;
}
