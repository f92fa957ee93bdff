/* Small models with several micro-batches, trained on one rank and on pipeline stages as threads of this process. */
#ifndef PIPELINE_KIT_H
#define PIPELINE_KIT_H

#include <math.h>
#include <stdio.h>

#include <clade/nn.h>
#include <clade/train.h>

#include "comm_kit.h"
#include "parallel/parallel.h"

enum { ROWS = 4, WIDTH = 16, CLASSES = 6, TOKENS = 5, WORDS = 12, SIDE = 6, MOST_STEPS = 20 };
enum { INPUT_BYTES = 4096 }; /* the largest input has no more */

typedef clade_val model_fn(clade_graph *g, int share); /* the loss of a micro-batch */

typedef struct training {
  const char *name;
  model_fn *model;
  clade__grid grid;
  int steps;
  clade_minimize_opt how; /* without an optimizer, only the loss */
  double bound;           /* relative bound of losses against one rank; 0: exact */
  int fails;              /* the step at which the last stage aborts; 0: none */
} training;

/* ---- models ---- */
/* Index of this thread's first micro-batch among those of all ranks. */
static _Thread_local int first_number;

static inline clade_val numbered_input(clade_graph *g, const char *name, int share, clade_dtype dtype,
                                       clade_shape shape) {
  char text[32];
  snprintf(text, sizeof text, "%s%d", name, first_number + share);
  return clade_input(g, text, dtype, shape);
}

static inline clade_val mlp(clade_graph *g, int share) {
  clade_val x = numbered_input(g, "x", share, CLADE_F32, CLADE_SHAPE(ROWS, WIDTH));
  const clade_val labels = numbered_input(g, "y", share, CLADE_I32, CLADE_SHAPE(ROWS));
  for (int i = 0; i < 4; i++) {
    char name[8];
    snprintf(name, sizeof name, "fc%d", i);
    x = clade_relu(g, clade_nn_linear(g, name, x, .out = WIDTH));
  }
  return clade_cross_entropy(g, clade_nn_linear(g, "head", x, .out = CLASSES), labels);
}

static inline clade_val heads(clade_graph *g, clade_val x) {
  return clade_transpose(g, clade_reshape(g, x, CLADE_SHAPE(ROWS, TOKENS, 2, WIDTH / 2)), 4, (int[]){0, 2, 1, 3});
}

/* Keys have no bias: it has no effect, and its gradient is only rounding errors. */
static inline clade_val attention(clade_graph *g, const char *name, clade_val x) {
  char text[4][32];
  float masked[TOKENS * TOKENS];
  for (int i = 0; i < TOKENS * TOKENS; i++) masked[i] = i % TOKENS > i / TOKENS ? -1e9f : 0;
  for (int i = 0; i < 4; i++) snprintf(text[i], sizeof text[i], "%s.%c", name, "qkvo"[i]);
  const clade_val mask = clade_constant(g, CLADE_F32, CLADE_SHAPE(TOKENS, TOKENS), masked);
  const clade_val q = heads(g, clade_nn_linear(g, text[0], x, .out = WIDTH));
  const clade_val k = heads(g, clade_nn_linear(g, text[1], x, .out = WIDTH, .no_bias = true));
  const clade_val v = heads(g, clade_nn_linear(g, text[2], x, .out = WIDTH));
  const clade_val weights = clade_softmax(g, clade_gemm(g, q, k, .trans_b = true, .alpha = 0.35f, .bias = mask), -1);
  const clade_val mixed = clade_transpose(g, clade_gemm(g, weights, v), 4, (int[]){0, 2, 1, 3});
  return clade_nn_linear(g, text[3], clade_reshape(g, mixed, CLADE_SHAPE(ROWS, TOKENS, WIDTH)), .out = WIDTH);
}

/* The output layer shares the embedding's weights. */
static inline clade_val transformer(clade_graph *g, int share) {
  const clade_val ids = numbered_input(g, "ids", share, CLADE_I32, CLADE_SHAPE(ROWS, TOKENS));
  const clade_val next = numbered_input(g, "next", share, CLADE_I32, CLADE_SHAPE(ROWS, TOKENS));
  const clade_val table = clade_parameter(g, "words.weight", CLADE_F32, CLADE_SHAPE(WORDS, WIDTH),
                                          (clade_initial){CLADE_INIT_NORMAL, 0, 0.3});
  clade_val x = clade_gather(g, table, ids);
  for (int i = 0; i < 2; i++) {
    char name[4][16];
    for (int k = 0; k < 4; k++)
      snprintf(name[k], sizeof name[k], "b%d.%s", i, (const char *[]){"n1", "at", "n2", "up"}[k]);
    x = clade_add(g, x, attention(g, name[1], clade_nn_layer_norm(g, name[0], x)));
    clade_val y = clade_gelu(g, clade_nn_linear(g, name[3], clade_nn_layer_norm(g, name[2], x), .out = 2 * WIDTH));
    snprintf(name[0], sizeof name[0], "b%d.down", i);
    x = clade_add(g, x, clade_nn_linear(g, name[0], y, .out = WIDTH));
  }
  x = clade_reshape(g, clade_nn_layer_norm(g, "norm", x), CLADE_SHAPE(ROWS * TOKENS, WIDTH));
  return clade_cross_entropy(g, clade_gemm(g, x, table, .trans_b = true),
                             clade_reshape(g, next, CLADE_SHAPE(ROWS * TOKENS)));
}

static inline clade_val conv_norm(clade_graph *g, const char *name, clade_val x, int out) {
  char norm[32];
  snprintf(norm, sizeof norm, "%s.norm", name);
  return clade_nn_batch_norm(g, norm,
                             clade_nn_conv2d(g, name, x, .out = out, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true));
}

static inline clade_val resnet(clade_graph *g, int share) {
  clade_val x = numbered_input(g, "image", share, CLADE_F32, CLADE_SHAPE(ROWS, 3, SIDE, SIDE));
  const clade_val labels = numbered_input(g, "y", share, CLADE_I32, CLADE_SHAPE(ROWS));
  x = clade_relu(g, conv_norm(g, "stem", x, 8));
  for (int i = 0; i < 2; i++) {
    char name[2][16];
    for (int k = 0; k < 2; k++) snprintf(name[k], sizeof name[k], "r%d.c%d", i, k);
    const clade_val y = clade_relu(g, conv_norm(g, name[0], x, 8));
    x = clade_relu(g, clade_add(g, x, conv_norm(g, name[1], y, 8)));
  }
  x = clade_nn_dropout(g, "drop", clade_global_avg_pool2d(g, x), .p = 0.2f);
  return clade_cross_entropy(g, clade_nn_linear(g, "head", clade_flatten(g, x, 1), .out = CLASSES), labels);
}

/* A rank's micro-batches and their part of the mean loss; the batch has `all` of them. */
static inline clade_graph *forward_part(model_fn *model, int shares, int all) {
  clade_graph *g = NULL;
  if (clade_graph_new(&g) != CLADE_OK) return NULL;
  clade_graph_train(g, true);
  clade_val loss = {0};
  for (int i = 0; i < shares; i++) {
    clade_graph_share(g, i);
    const clade_val one = model(g, i);
    loss = i ? clade_add(g, loss, one) : one;
  }
  clade_graph_share(g, 0);
  clade_output(g, "loss", clade_mul(g, loss, clade_fill(g, CLADE_F32, CLADE_SCALAR, 1.0 / all)));
  return g;
}

static inline clade_graph *forward(model_fn *model, int shares) { return forward_part(model, shares, shares); }

/* ---- a training step of a stage, or of the whole model without a communicator ---- */
static inline clade_status step_graph(const training *t, clade_comm *pipeline, clade_graph **out) {
  clade_status status = CLADE_OK;
  clade_graph *whole = forward_part(t->model, t->grid.micro_batches, t->grid.data * t->grid.micro_batches);
  clade_graph *staged = NULL;
  clade_minimize_opt how = t->how;
  *out = NULL;
  how.size = sizeof how;
  if (!whole) return CLADE_NO_MEMORY;
  if (pipeline) CLADE_GOTO(clade__stages_assign(whole, &t->grid, 0, &staged, NULL));
  clade_graph *g = pipeline ? staged : whole;
  CLADE_GOTO(clade_graph_status(g));
  how.loss = clade__graph_val(g, g->outputs.at[0].value);
  if (how.optimizer.rule) CLADE_GOTO(clade_minimize_(g, &how));
  if (pipeline) CLADE_GOTO(clade__stages_cut(staged, &t->grid, pipeline, out));
  if (!pipeline) *out = clade_graph_retain(whole);
fail:
  clade_graph_release(whole);
  clade_graph_release(staged);
  return status;
}

/* Deterministic input of a step. */
static inline void draw(const char *name, int step, const clade_type *type, void *out) {
  uint32_t seed = 2654435761u * (uint32_t)(step + 1);
  int64_t n = 0;
  for (const char *c = name; *c; c++) seed = (seed ^ (uint32_t)(unsigned char)*c) * 16777619u;
  clade_shape_elements(&type->shape, &n);
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    const uint32_t bits = seed >> 16;
    if (type->dtype == CLADE_F32)
      ((float *)out)[i] = (float)bits / 32768 - 1;
    else
      ((int32_t *)out)[i] = (int32_t)(bits % (*name == 'y' ? CLASSES : WORDS));
  }
}

static inline clade_status execute(const clade_func *func, clade_run *run, int step, float *loss) {
  enum { MOST_INPUTS = 16 };
  static _Thread_local char data[MOST_INPUTS][INPUT_BYTES];
  clade_feed feed[MOST_INPUTS];
  clade_func_info info = {.size = sizeof info};
  clade_ticket ticket;
  CLADE_TRY(clade_func_get_info(func, &info));
  for (int i = 0; i < info.inputs; i++) {
    clade_port_info port = {.size = sizeof port};
    size_t bytes;
    CLADE_TRY(clade_func_input(func, i, &port));
    CLADE_TRY(clade_type_bytes(&port.type, &bytes));
    draw(port.name, step, &port.type, data[i]);
    feed[i] = (clade_feed){port.name, data[i], bytes, NULL};
  }
  CLADE_TRY(clade_execute(run, info.inputs, feed, &ticket));
  return clade_read(run, ticket, "loss", loss, sizeof *loss);
}

typedef struct outcome {
  float loss[MOST_STEPS];
  clade_vars *vars;
  uint64_t bytes; /* memory of the run */
} outcome;

/* Takes the graph. A communicator is that of all ranks of the training; NULL: there is one. */
static inline clade_status train_graph(const training *t, clade_graph *g, clade_comm *comm, clade_device *device,
                                       outcome *out) {
  clade_status status = CLADE_OK;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_func_info info = {.size = sizeof info};
  *out = (outcome){.vars = NULL};
  CLADE_GOTO(clade_compile(g, device, &func, .strict = true));
  CLADE_GOTO(clade_func_get_info(func, &info));
  out->bytes = info.live_peak_bytes;
  CLADE_GOTO(clade_vars_new(func, 7, &out->vars));
  CLADE_GOTO(clade_run_new(func, out->vars, &run));
  for (int i = 0; i < t->steps; i++) {
    if (t->fails && i == t->fails && comm && clade_comm_rank(comm) == t->grid.pipeline - 1)
      CLADE_GOTO(clade_fail(CLADE_INVALID, "this stage gives up"));
    CLADE_GOTO(execute(func, run, i, &out->loss[i]));
  }
fail:
  if (status != CLADE_OK && comm) clade_comm_abort(comm);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

static inline clade_status train(const training *t, clade_comm *pipeline, clade_device *device, outcome *out) {
  clade_graph *g = NULL;
  *out = (outcome){.vars = NULL};
  const clade_status status = step_graph(t, pipeline, &g);
  if (status == CLADE_OK) return train_graph(t, g, pipeline, device, out);
  if (pipeline) clade_comm_abort(pipeline);
  return status;
}

/* ---- all stages against one rank ---- */
static const training *current;
static outcome of_stage[MOST];

static inline void *train_stage(void *user) {
  rank *r = user;
  const clade_status status = train(current, r->comm, r->device, &of_stage[r->number]);
  const bool last = r->number == r->size - 1;
  if (status != CLADE_OK) print_message("%s, stage %d: %s\n", current->name, r->number, clade_last_error());
  r->right = status == (!current->fails ? CLADE_OK : last ? CLADE_INVALID : CLADE_CANCELED);
  return NULL;
}

/* Distance of a stage's variable from that of one rank, relative to its change by training. */
static inline double distance(const clade_vars *own, const clade_vars *all, const clade_vars *before,
                              const clade_port_info *port) {
  float have[2048], want[2048], old[2048];
  double miss = 0, way = 0;
  size_t bytes;
  OK(clade_type_bytes(&port->type, &bytes));
  assert_true(bytes <= sizeof have);
  OK(clade_vars_get(own, port->name, have, bytes));
  OK(clade_vars_get(all, port->name, want, bytes));
  OK(clade_vars_get(before, port->name, old, bytes));
  if (port->type.dtype != CLADE_F32) return memcmp(have, want, bytes) != 0;
  for (size_t i = 0; i < bytes / sizeof(float); i++) {
    miss += pow((double)have[i] - (double)want[i], 2);
    way += pow((double)want[i] - (double)old[i], 2);
  }
  return miss > 0 ? sqrt(miss / way) : 0;
}

static inline void compare_variables(const training *t, const outcome *one, const outcome *before, double bound) {
  int found = 0;
  for (int s = 0; s < t->grid.pipeline; s++)
    for (int i = 0; i < clade_vars_count(of_stage[s].vars); i++) {
      clade_port_info port = {.size = sizeof port};
      OK(clade_vars_describe(of_stage[s].vars, i, &port));
      const double d = distance(of_stage[s].vars, one->vars, before->vars, &port);
      found += port.type.shape.rank > 0;
      if (!(d <= bound)) fail_msg("%s, stage %d: variable %s is off by %g of its way", t->name, s, port.name, d);
    }
  for (int i = 0; i < clade_vars_count(one->vars); i++) {
    clade_port_info port = {.size = sizeof port};
    OK(clade_vars_describe(one->vars, i, &port));
    found -= port.type.shape.rank > 0;
  }
  assert_int_equal(found, 0); /* each is on exactly one stage */
}

static inline void compare(const training *t, clade_device *device) {
  outcome one, before;
  training none = *t;
  none.steps = 0;
  OK(train(&none, NULL, device, &before));
  OK(train(t, NULL, device, &one));
  current = t;
  run_ranks(t->grid.pipeline, device, train_stage, NULL);
  double worst = 0;
  for (int s = 0; s < t->grid.pipeline; s++)
    for (int i = 0; i < t->steps; i++) {
      const double want = (double)one.loss[i], d = fabs((double)of_stage[s].loss[i] - want) / want;
      worst = fmax(worst, d);
      if (!(d <= t->bound))
        fail_msg("%s, stage %d: loss %d is %.9g instead of %.9g", t->name, s, i, (double)of_stage[s].loss[i], want);
    }
  print_message("%s: %d stages, %d micro-batches, %d pieces each: losses from %g to %g, off by %.2g\n", t->name,
                t->grid.pipeline, t->grid.micro_batches, t->grid.interleave, (double)one.loss[0],
                (double)one.loss[t->steps - 1], worst);
  compare_variables(t, &one, &before, t->bound > 0 ? 1e-4 * t->steps : 0);
  for (int s = 0; s < t->grid.pipeline; s++) clade_vars_release(of_stage[s].vars);
  clade_vars_release(one.vars);
  clade_vars_release(before.vars);
}

#define SGD(...) \
  { .optimizer = clade_sgd(.lr = 0.1, .momentum = 0.9), __VA_ARGS__ }
#define ADAM(...) \
  { .optimizer = clade_adam(.lr = 0.01), __VA_ARGS__ }
#define GRID(P, M, V) \
  { .data = 1, .tensor = 1, .pipeline = P, .micro_batches = M, .interleave = V }

#endif
