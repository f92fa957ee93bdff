/* Three-layer perceptron of the system tests. */
#include "perceptron.h"

#include <math.h>
#include <stdlib.h>

#define TRY(expression)            \
  do {                             \
    clade_status s = (expression); \
    if (s != CLADE_OK) return s;   \
  } while (0)

static clade_status build(clade_device *device, perceptron *p) {
  TRY(clade_graph_new(&p->graph));
  clade_graph *g = p->graph;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(PERCEPTRON_BATCH, PERCEPTRON_IN));
  x = clade_relu(g, clade_nn_linear(g, "l1", x, .out = PERCEPTRON_H1));
  x = clade_relu(g, clade_nn_linear(g, "l2", x, .out = PERCEPTRON_H2));
  x = clade_softmax(g, clade_nn_linear(g, "l3", x, .out = PERCEPTRON_OUT), 1);
  clade_output(g, "p", x);
  TRY(clade_compile(g, device, &p->func));
  return clade_vars_new(p->func, 42, &p->vars);
}

clade_status perceptron_new_with(clade_device *device, const clade_run_opt *opt, perceptron *p) {
  *p = (perceptron){0};
  clade_run_opt own = *opt;
  own.out = &p->run;
  TRY(build(device, p));
  return clade_run_new_(p->func, p->vars, &own);
}

clade_status perceptron_new(clade_device *device, perceptron *p) {
  return perceptron_new_with(device, &(clade_run_opt){.size = sizeof(clade_run_opt)}, p);
}

void perceptron_free(perceptron *p) {
  clade_run_free(p->run);
  clade_vars_release(p->vars);
  clade_func_release(p->func);
  clade_graph_release(p->graph);
  *p = (perceptron){0};
}

void perceptron_input(unsigned seed, float *input) {
  uint32_t state = seed * 2654435761u + 12345u;
  for (int i = 0; i < PERCEPTRON_BATCH * PERCEPTRON_IN; i++) {
    state = state * 1664525u + 1013904223u;
    input[i] = (float)(state >> 8) * 0x1p-24f;
  }
}

clade_status perceptron_compute(perceptron *p, unsigned seed, float *output) {
  static _Thread_local float input[PERCEPTRON_BATCH * PERCEPTRON_IN];
  clade_ticket ticket;
  perceptron_input(seed, input);
  TRY(clade_execute(p->run, CLADE_FEEDS({"x", input, sizeof input, NULL}), &ticket));
  return clade_read(p->run, ticket, "p", output, sizeof(float) * PERCEPTRON_BATCH * PERCEPTRON_OUT);
}

/* y[batch, out] = x[batch, in] w[out, in]' + b */
static clade_status layer(perceptron *p, const char *weight, const char *bias, int in, int out, const double *x,
                          double *y) {
  float *w = malloc(sizeof(float) * (size_t)in * (size_t)out), *b = malloc(sizeof(float) * (size_t)out);
  clade_status s = w && b ? CLADE_OK : CLADE_NO_MEMORY;
  if (s == CLADE_OK) s = clade_vars_get(p->vars, weight, w, sizeof(float) * (size_t)in * (size_t)out);
  if (s == CLADE_OK) s = clade_vars_get(p->vars, bias, b, sizeof(float) * (size_t)out);
  for (int n = 0; s == CLADE_OK && n < PERCEPTRON_BATCH; n++)
    for (int o = 0; o < out; o++) {
      double sum = (double)b[o];
      for (int i = 0; i < in; i++) sum += x[n * in + i] * (double)w[o * in + i];
      y[n * out + o] = sum;
    }
  free(w);
  free(b);
  return s;
}

static void relu(double *x, int n) {
  for (int i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
}

clade_status perceptron_error(perceptron *p, unsigned seed, const float *output, double *error) {
  static _Thread_local float input[PERCEPTRON_BATCH * PERCEPTRON_IN];
  static _Thread_local double a[PERCEPTRON_BATCH * PERCEPTRON_IN], b[PERCEPTRON_BATCH * PERCEPTRON_IN];
  perceptron_input(seed, input);
  for (int i = 0; i < PERCEPTRON_BATCH * PERCEPTRON_IN; i++) a[i] = (double)input[i];
  TRY(layer(p, "l1.weight", "l1.bias", PERCEPTRON_IN, PERCEPTRON_H1, a, b));
  relu(b, PERCEPTRON_BATCH * PERCEPTRON_H1);
  TRY(layer(p, "l2.weight", "l2.bias", PERCEPTRON_H1, PERCEPTRON_H2, b, a));
  relu(a, PERCEPTRON_BATCH * PERCEPTRON_H2);
  TRY(layer(p, "l3.weight", "l3.bias", PERCEPTRON_H2, PERCEPTRON_OUT, a, b));
  *error = 0;
  for (int n = 0; n < PERCEPTRON_BATCH; n++) {
    double *row = b + n * PERCEPTRON_OUT, sum = 0;
    for (int o = 0; o < PERCEPTRON_OUT; o++) sum += exp(row[o]);
    for (int o = 0; o < PERCEPTRON_OUT; o++) {
      double difference = fabs(exp(row[o]) / sum - (double)output[n * PERCEPTRON_OUT + o]);
      if (!(difference <= *error)) *error = difference; /* keeps a NaN */
    }
  }
  return CLADE_OK;
}

clade_status two_devices_compute(clade_device *a, clade_device *b, float in, float *out) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float one = 1;
  clade_status s = clade_graph_new(&g);
  if (s != CLADE_OK) return s;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(1));
  clade_val unit = clade_constant(g, CLADE_F32, CLADE_SHAPE(1), &one);
  clade_graph_place(g, 1);
  clade_val twice = clade_add(g, x, x);
  clade_graph_place(g, 0);
  clade_output(g, "y", clade_add(g, twice, unit));
  s = clade_compile(g, a, &func, .n_devices = 1, .devices = &b);
  if (s == CLADE_OK) s = clade_run_new(func, NULL, &run);
  if (s == CLADE_OK) s = clade_execute(run, CLADE_FEEDS({"x", &in, sizeof in, NULL}), &ticket);
  if (s == CLADE_OK) s = clade_read(run, ticket, "y", out, sizeof *out);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  return s;
}
