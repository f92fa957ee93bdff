/* Transformers computed in slices: heads, hidden units and vocabulary are split and, on request, the residual
 * stream's sequence; with dropout and shares of a batch. */
#include "tensor_kit.h"

/* ---- a transformer: tokens [batch, time] ---- */
typedef struct shape {
  int batch, time, width, heads, vocabulary, layers;
  bool tied, sequence; /* sequence: time is the first axis, and the residual stream is split along it */
  float dropout;
} shape;

static clade_val norm(tk_model *m, const char *layer, const char *part, clade_val x) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", layer, part);
  return clade_nn_layer_norm(m->g, name, x);
}

static clade_val linear(tk_model *m, const char *layer, const char *part, clade_val x, int64_t out) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", layer, part);
  return clade_nn_linear(m->g, name, x, .out = out);
}

static clade_val dropped(tk_model *m, const shape *s, const char *layer, const char *part, clade_val x) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", layer, part);
  return s->dropout > 0 ? clade_nn_dropout(m->g, name, x, .p = s->dropout) : x;
}

/* [batch, time, width] to [batch, heads, time, width / heads]; from [time, batch, width] if time is first. */
static clade_val by_heads(tk_model *m, const shape *s, clade_val x) {
  const int each = s->width / s->heads;
  x = clade_reshape(m->g, x,
                    s->sequence ? CLADE_SHAPE(s->time, s->batch, s->heads, each)
                                : CLADE_SHAPE(s->batch, s->time, s->heads, each));
  return clade_transpose(m->g, x, 4, s->sequence ? (const int[]){1, 2, 0, 3} : (const int[]){0, 2, 1, 3});
}

static clade_val attention(tk_model *m, const shape *s, const char *layer, clade_val x) {
  clade_graph *g = m->g;
  const int each = s->width / s->heads;
  const clade_val q = by_heads(m, s, linear(m, layer, "q", x, s->width)),
                  k = by_heads(m, s, linear(m, layer, "k", x, s->width)),
                  v = by_heads(m, s, linear(m, layer, "v", x, s->width));
  clade_val scores = clade_gemm(g, q, k, .trans_b = true, .alpha = 1 / sqrtf((float)each));
  scores = clade_softmax(g, scores, -1);
  scores = dropped(m, s, layer, "attention_dropout", scores);
  clade_val y = clade_gemm(g, scores, v);
  y = clade_transpose(g, y, 4, s->sequence ? (const int[]){2, 0, 1, 3} : (const int[]){0, 2, 1, 3});
  y = clade_reshape(g, y,
                    s->sequence ? CLADE_SHAPE(s->time, s->batch, s->width) : CLADE_SHAPE(s->batch, s->time, s->width));
  return linear(m, layer, "o", y, s->width);
}

static clade_val block(tk_model *m, const shape *s, const char *layer, clade_val x) {
  clade_graph *g = m->g;
  x = clade_add(g, x, dropped(m, s, layer, "drop1", attention(m, s, layer, norm(m, layer, "norm1", x))));
  clade_val h = clade_gelu(g, linear(m, layer, "up", norm(m, layer, "norm2", x), 4 * s->width));
  return clade_add(g, x, dropped(m, s, layer, "drop2", linear(m, layer, "down", h, s->width)));
}

static void transformer(tk_model *m, const shape *s) {
  clade_graph *g = m->g;
  const int rows = s->batch * s->time;
  const clade_shape two = s->sequence ? CLADE_SHAPE(s->time, s->batch) : CLADE_SHAPE(s->batch, s->time);
  const clade_val ids = tk_numbers(m, "ids", two, s->vocabulary), labels = tk_numbers(m, "labels", two, s->vocabulary);
  const clade_val table = clade_parameter(g, "tokens", CLADE_F32, CLADE_SHAPE(s->vocabulary, s->width),
                                          (clade_initial){CLADE_INIT_NORMAL, 0, 0.3});
  const clade_val places = clade_parameter(
      g, "places", CLADE_F32, s->sequence ? CLADE_SHAPE(s->time, 1, s->width) : CLADE_SHAPE(s->time, s->width),
      (clade_initial){CLADE_INIT_NORMAL, 0, 0.3});
  clade_val x = clade_add(g, clade_gather(g, table, ids), places);
  if (s->sequence) clade_graph_split(g, x, 0);
  for (int i = 0; i < s->layers; i++) {
    char name[32];
    snprintf(name, sizeof name, "block%d", i);
    x = block(m, s, name, x);
  }
  x = clade_reshape(g, norm(m, "head", "norm", x), CLADE_SHAPE(rows, s->width));
  const clade_val logits = s->tied ? clade_gemm(g, x, table, .trans_b = true)
                                   : clade_nn_linear(g, "head", x, .out = s->vocabulary, .no_bias = true);
  clade_output(g, "loss", clade_cross_entropy(g, logits, clade_reshape(g, labels, CLADE_SHAPE(rows))));
}

static void small(tk_model *m) { transformer(m, &(shape){2, 6, 16, 4, 31, 2, .tied = true}); }
static void dropping(tk_model *m) { transformer(m, &(shape){2, 6, 16, 4, 31, 1, .dropout = 0.3f}); }
static void by_sequence(tk_model *m) {
  transformer(m, &(shape){2, 8, 16, 4, 31, 2, .sequence = true, .dropout = 0.1f});
}

static void transformers(void **state) {
  tk_compare(*state, small, &(tk_options){.ranks = 2, .steps = 20}, NULL, NULL);
  tk_compare(*state, small, &(tk_options){.ranks = 3, .steps = 20}, NULL, NULL);
  tk_compare(*state, small, &(tk_options){.ranks = 4, .steps = 20}, NULL, NULL);
}

static void dropouts(void **state) { tk_compare(*state, dropping, &(tk_options){.ranks = 2, .steps = 5}, NULL, NULL); }
static void sequences(void **state) {
  tk_compare(*state, by_sequence, &(tk_options){.ranks = 2, .steps = 5, .dear = true}, NULL, NULL);
}

/* ---- shares of a batch ---- */
static void shares(tk_model *m) {
  clade_graph *g = m->g;
  clade_val loss[2];
  for (int i = 0; i < 2; i++) {
    clade_graph_share(g, i);
    const clade_val x = tk_floats(m, i ? "x1" : "x0", CLADE_SHAPE(6, 8));
    clade_val h = clade_nn_batch_norm(g, "norm", clade_nn_linear(g, "up", x, .out = 19));
    h = clade_nn_linear(g, "down", clade_nn_dropout(g, "drop", clade_gelu(g, h), .p = 0.2f), .out = 8);
    loss[i] = clade_mean(g, clade_square(g, h));
  }
  clade_graph_share(g, 0);
  clade_output(g, "loss", clade_add(g, loss[0], loss[1]));
}

static void micro_batches(void **state) {
  int parts;
  tk_compare(*state, shares, &(tk_options){.ranks = 2, .steps = 5}, NULL, &parts);
  assert_true(parts >= 6);
}

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(transformers), cmocka_unit_test(dropouts),
                                     cmocka_unit_test(sequences), cmocka_unit_test(micro_batches)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
