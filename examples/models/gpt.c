/* A GPT language model (Radford et al., 2019): layers of causal attention and two linear layers, each after a
 * normalization and with a residual connection; the output layer shares the token embedding. */
#include "models/gpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */
static clade_status take(const char *text, const char *word, size_t n, gpt_sizes *out) {
  const struct {
    const char *name;
    int64_t *value;
  } keys[] = {{"layers", &out->layers},
              {"width", &out->width},
              {"heads", &out->heads},
              {"vocab", &out->vocab},
              {"length", &out->length}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const size_t name = strlen(keys[i].name);
    if (n <= name + 1 || strncmp(word, keys[i].name, name) != 0 || word[name] != '=') continue;
    char *end;
    const long long value = strtoll(word + name + 1, &end, 10);
    if (end != word + n || value < 1 || value > 1 << 20)
      return clade_fail(CLADE_INVALID, "%s: '%.*s': expected a whole number from 1 to %d", text, (int)n, word, 1 << 20);
    *keys[i].value = value;
    return CLADE_OK;
  }
  return clade_fail(CLADE_INVALID, "%s: '%.*s': expected layers=, width=, heads=, vocab= or length= and a number", text,
                    (int)n, word);
}

clade_status gpt_parse(const char *text, gpt_sizes *out) {
  *out = (gpt_sizes){.layers = 12, .width = 768, .heads = 12, .vocab = 50257, .length = 1024};
  if (!strcmp(text, "gpt")) return CLADE_OK;
  if (strncmp(text, "gpt:", 4) != 0) return clade_fail(CLADE_NOT_FOUND, "%s: no GPT's name", text);
  for (const char *at = text + 4;; at++) {
    const size_t n = strcspn(at, ",");
    const clade_status status = take(text, at, n, out);
    if (status != CLADE_OK) return status;
    at += n;
    if (!*at) break;
  }
  if (out->width % out->heads == 0) return CLADE_OK;
  return clade_fail(CLADE_INVALID, "%s: a width of %lld is no multiple of %lld heads", text, (long long)out->width,
                    (long long)out->heads);
}

/* ---- layers ---- */
typedef struct decoder {
  clade_graph *g;
  const gpt_sizes *sizes;
  int64_t batch, length; /* of the input */
  clade_val mask;        /* [length, length]: 0, or a large negative number where a token must not attend */
} decoder;

static clade_val linear(const decoder *d, int64_t layer, const char *what, clade_val x, int64_t out, double deviation) {
  char name[48];
  snprintf(name, sizeof name, "h%lld.%s", (long long)layer, what);
  return clade_nn_linear(d->g, name, x, .out = out, .weight_init = {CLADE_INIT_NORMAL, 0, deviation});
}

static clade_val norm(const decoder *d, int64_t layer, const char *what, clade_val x) {
  char name[48];
  snprintf(name, sizeof name, "h%lld.%s", (long long)layer, what);
  return clade_nn_layer_norm(d->g, name, x);
}

static clade_val causal_mask(clade_graph *g, int64_t length) {
  float *mask = malloc((size_t)(length * length) * sizeof *mask);
  for (int64_t i = 0; mask && i < length * length; i++) mask[i] = i % length > i / length ? -1e9f : 0;
  clade_val value = {0};
  if (mask)
    value = clade_constant(g, CLADE_F32, CLADE_SHAPE(length, length), mask);
  else
    clade_fail(CLADE_NO_MEMORY, "no memory for a mask of %lld by %lld", (long long)length, (long long)length);
  free(mask);
  return value;
}

/* [batch, length, width] to [batch, heads, length, width / heads] */
static clade_val by_heads(const decoder *d, clade_val x) {
  const int64_t heads = d->sizes->heads;
  x = clade_reshape(d->g, x, CLADE_SHAPE(d->batch, d->length, heads, d->sizes->width / heads));
  return clade_transpose(d->g, x, 4, (const int[]){0, 2, 1, 3});
}

static clade_val attention(const decoder *d, int64_t layer, clade_val x, double deviation) {
  const int64_t width = d->sizes->width;
  const float scale = 1 / sqrtf((float)(width / d->sizes->heads));
  clade_val q = by_heads(d, linear(d, layer, "query", x, width, 0.02)),
            k = by_heads(d, linear(d, layer, "key", x, width, 0.02)),
            v = by_heads(d, linear(d, layer, "value", x, width, 0.02));
  clade_val scores = clade_gemm(d->g, q, k, .trans_b = true, .alpha = scale, .bias = d->mask);
  clade_val y = clade_gemm(d->g, clade_softmax(d->g, scores, -1), v);
  y = clade_transpose(d->g, y, 4, (const int[]){0, 2, 1, 3});
  y = clade_reshape(d->g, y, CLADE_SHAPE(d->batch, d->length, width));
  return linear(d, layer, "out", y, width, deviation);
}

static clade_val mlp_of(const decoder *d, int64_t layer, clade_val x, double deviation) {
  clade_val h = clade_gelu_tanh(d->g, linear(d, layer, "up", x, 4 * d->sizes->width, 0.02));
  return linear(d, layer, "down", h, d->sizes->width, deviation);
}

/* Weights that add to the residual stream are initialized smaller the more layers there are. */
static clade_val block(const decoder *d, int64_t layer, clade_val x) {
  const double deviation = 0.02 / sqrt(2 * (double)d->sizes->layers);
  x = clade_add(d->g, x, attention(d, layer, norm(d, layer, "norm1", x), deviation));
  return clade_add(d->g, x, mlp_of(d, layer, norm(d, layer, "norm2", x), deviation));
}

clade_val gpt(clade_graph *g, clade_val tokens, const gpt_sizes *sizes) {
  const clade_initial small = {CLADE_INIT_NORMAL, 0, 0.02};
  clade_type type;
  if (clade_val_type(g, tokens, &type) != CLADE_OK) return (clade_val){0}; /* the graph keeps the error */
  const int64_t length = type.shape.dim[1];
  decoder d = {g, sizes, type.shape.dim[0], length, causal_mask(g, length)};
  clade_val table = clade_parameter(g, "tokens.weight", CLADE_F32, CLADE_SHAPE(sizes->vocab, sizes->width), small),
            places = clade_parameter(g, "places.weight", CLADE_F32, CLADE_SHAPE(sizes->length, sizes->width), small);
  places = clade_slice(g, places, CLADE_SHAPE(0, 0), CLADE_SHAPE(length, sizes->width));
  clade_val x = clade_add(g, clade_gather(g, table, tokens), places);
  for (int64_t layer = 0; layer < sizes->layers; layer++) x = block(&d, layer, x);
  return clade_gemm(g, clade_nn_layer_norm(g, "norm", x), table, .trans_b = true);
}

clade_val gpt_model(clade_graph *g, clade_val x, int classes, void *user) {
  (void)classes;
  return gpt(g, x, user);
}
