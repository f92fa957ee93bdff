/* A perceptron with training, and the same computation in double on the host. */
#include "learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRY(expression)            \
  do {                             \
    clade_status s = (expression); \
    if (s != CLADE_OK) return s;   \
  } while (0)

static const char *const names[4] = {"l1.weight", "l1.bias", "l2.weight", "l2.bias"};
static const double rate = 0.5, momentum = 0.9, most = 1; /* maximum gradient norm */

static size_t count(const learner *l, int parameter) {
  const learner_size *s = &l->size;
  size_t in = (size_t)s->in, hidden = (size_t)s->hidden, out = (size_t)s->out;
  return (const size_t[]){hidden * in, hidden, out * hidden, out}[parameter];
}

static clade_status fill(learner *l) {
  size_t n = (size_t)l->size.batch * (size_t)l->size.in;
  uint32_t state = 12345;
  l->x = malloc(n * sizeof *l->x);
  l->y = malloc((size_t)l->size.batch * sizeof *l->y);
  if (!l->x || !l->y) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    l->x[i] = (float)(state >> 8) * 0x1p-24f;
  }
  for (int i = 0; i < l->size.batch; i++) l->y[i] = i % l->size.out;
  for (int i = 0; i < 4; i++) {
    l->begun[i] = malloc(count(l, i) * sizeof(float));
    if (!l->begun[i]) return CLADE_NO_MEMORY;
    TRY(clade_vars_get(l->vars, names[i], l->begun[i], count(l, i) * sizeof(float)));
  }
  return CLADE_OK;
}

clade_status learner_new(clade_device *device, learner_size size, const clade_run_opt *opt, learner *l) {
  *l = (learner){.size = size};
  clade_run_opt own = *opt;
  own.out = &l->run;
  TRY(clade_graph_new(&l->graph));
  clade_graph *g = l->graph;
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(size.batch, size.in));
  clade_val y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(size.batch));
  x = clade_relu(g, clade_nn_linear(g, "l1", x, .out = size.hidden));
  clade_val loss = clade_cross_entropy(g, clade_nn_linear(g, "l2", x, .out = size.out), y);
  clade_output(g, "loss", loss);
  TRY(clade_minimize(g, loss, .optimizer = clade_sgd(.lr = rate, .momentum = momentum), .clip_norm = most));
  TRY(clade_compile(g, device, &l->func));
  TRY(clade_vars_new(l->func, 42, &l->vars));
  TRY(fill(l));
  return clade_run_new_(l->func, l->vars, &own);
}

void learner_free(learner *l) {
  clade_run_free(l->run);
  clade_vars_release(l->vars);
  clade_func_release(l->func);
  clade_graph_release(l->graph);
  for (int i = 0; i < 4; i++) free(l->begun[i]);
  free(l->x);
  free(l->y);
  *l = (learner){0};
}

clade_status learner_step(learner *l, clade_ticket *ticket) {
  size_t batch = (size_t)l->size.batch;
  return clade_execute(l->run,
                       CLADE_FEEDS({"x", l->x, batch * (size_t)l->size.in * sizeof *l->x, NULL},
                                   {"y", l->y, batch * sizeof *l->y, NULL}),
                       ticket);
}

clade_status learner_loss(learner *l, clade_ticket ticket, float *loss) {
  return clade_read(l->run, ticket, "loss", loss, sizeof *loss);
}

/* ---- reference on the host ---- */
typedef struct host {
  double *p[4], *g[4], *m[4]; /* parameters, gradients, momentum */
} host;

/* Adds the gradients of sample `i` to h->g and returns its loss. */
static double sample(const learner *l, host *h, int i, double *a, double *z) {
  int in = l->size.in, hidden = l->size.hidden, out = l->size.out;
  const float *x = l->x + (size_t)i * (size_t)in;
  double largest = -INFINITY, sum = 0, part = 1.0 / l->size.batch;
  for (int j = 0; j < hidden; j++) {
    a[j] = h->p[1][j];
    for (int k = 0; k < in; k++) a[j] += h->p[0][j * in + k] * (double)x[k];
    a[j] = a[j] > 0 ? a[j] : 0;
  }
  for (int j = 0; j < out; j++) {
    z[j] = h->p[3][j];
    for (int k = 0; k < hidden; k++) z[j] += h->p[2][j * hidden + k] * a[k];
    largest = fmax(largest, z[j]);
  }
  for (int j = 0; j < out; j++) sum += exp(z[j] - largest);
  double loss = log(sum) + largest - z[l->y[i]];
  for (int j = 0; j < out; j++) z[j] = (exp(z[j] - largest) / sum - (j == l->y[i])) * part;
  for (int k = 0; k < hidden; k++) {
    double da = 0;
    for (int j = 0; j < out; j++) {
      da += z[j] * h->p[2][j * hidden + k];
      h->g[2][j * hidden + k] += z[j] * a[k];
    }
    if (!(a[k] > 0)) continue;
    h->g[1][k] += da;
    for (int j = 0; j < in; j++) h->g[0][k * in + j] += da * (double)x[j];
  }
  for (int j = 0; j < out; j++) h->g[3][j] += z[j];
  return loss * part;
}

static void update(const learner *l, host *h) {
  double norm = 0;
  for (int i = 0; i < 4; i++)
    for (size_t k = 0; k < count(l, i); k++) norm += h->g[i][k] * h->g[i][k];
  double scale = fmin(1, most / sqrt(norm));
  for (int i = 0; i < 4; i++)
    for (size_t k = 0; k < count(l, i); k++) {
      h->m[i][k] = momentum * h->m[i][k] + scale * h->g[i][k];
      h->p[i][k] -= rate * h->m[i][k];
    }
}

clade_status learner_expect(const learner *l, int steps, double *loss) {
  host h;
  clade_status s = CLADE_OK;
  double *a = calloc((size_t)l->size.hidden, sizeof *a), *z = calloc((size_t)l->size.out, sizeof *z);
  for (int i = 0; i < 4; i++) {
    h.p[i] = calloc(count(l, i), sizeof(double));
    h.g[i] = calloc(count(l, i), sizeof(double));
    h.m[i] = calloc(count(l, i), sizeof(double));
    if (!h.p[i] || !h.g[i] || !h.m[i] || !a || !z) s = CLADE_NO_MEMORY;
    for (size_t k = 0; s == CLADE_OK && k < count(l, i); k++) h.p[i][k] = (double)l->begun[i][k];
  }
  for (int step = 0; s == CLADE_OK && step <= steps; step++) {
    *loss = 0;
    for (int i = 0; i < 4; i++) memset(h.g[i], 0, count(l, i) * sizeof(double));
    for (int i = 0; i < l->size.batch; i++) *loss += sample(l, &h, i, a, z);
    update(l, &h);
  }
  for (int i = 0; i < 4; i++) {
    free(h.p[i]);
    free(h.g[i]);
    free(h.m[i]);
  }
  free(a);
  free(z);
  return s;
}
