/* Creation of a quantization: finds the layers of a trained model, and compiles what calibrates them or reads their
 * weights after --qat training. */
#include <math.h>
#include <stdio.h>

#include "quant/quantization.h"

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
  for (size_t i = 0; i < found.n; i++)
    q->layers[i] = (clade__quantized_layer){.at = found.at[i], .tap = tap_of(q, found.at[i].x)};
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
      q->layers[q->n_layers++] =
          (clade__quantized_layer){.at = found.at[i], .input = entries[i].input, .scale = entries[i].scale};
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
      q->layers[q->n_layers++] = (clade__quantized_layer){.at = found.at[i], .input = CLADE_F32};
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
    clade__quantized_input *t = &q->taps[i];
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
static clade_status read_part(clade_run *run, clade_ticket ticket, const clade__quantized_layer *l, const char *part,
                              void *to, size_t bytes) {
  char name[CLADE__QUANT_PART];
  return clade_read(run, ticket, clade__quant_part(&l->at, part, name), to, bytes);
}

static clade_status read_trained(const clade_quantization *q, clade_run *run, clade_ticket ticket,
                                 clade__quantized_layer *l) {
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
