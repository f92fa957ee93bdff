/* A model on one rank against the same model computed in slices by several, from the same initial values. */
#ifndef TENSOR_KIT_H
#define TENSOR_KIT_H

#include <math.h>
#include <stdio.h>

#include <clade/comm.h>
#include <clade/nn.h>
#include <clade/ops.h>
#include <clade/optim.h>

#include "parallel/parallel.h"
#include "plan_kit.h"

enum { TK_MOST = 4, TK_FEEDS = 8, TK_NAMES = 160 };

/* ---- models; inputs depend on name and position only ---- */
typedef struct tk_model {
  clade_graph *g;
  clade_feed feed[TK_FEEDS];
  void *data[TK_FEEDS];
  int n;
  int number; /* of a random model */
  bool marks;
} tk_model;
typedef void tk_build(tk_model *m); /* to an output "loss" */

static inline double tk_value(const char *name, int64_t i) {
  uint64_t h = 0x9E3779B97F4A7C15u * (uint64_t)(i + 1);
  for (const char *c = name; *c; c++) h = (h ^ (uint64_t)(unsigned char)*c) * 0x100000001B3u;
  h ^= h >> 29;
  h *= 0xBF58476D1CE4E5B9u;
  h ^= h >> 32;
  return (double)(h >> 11) * 0x1p-53;
}

static inline clade_val tk_input(tk_model *m, const char *name, clade_dtype dtype, clade_shape shape, int limit) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank; i++) n *= shape.dim[i];
  float *values = calloc((size_t)n, 4);
  assert_non_null(values);
  assert_in_range(m->n, 0, TK_FEEDS - 1);
  for (int64_t i = 0; i < n; i++) {
    const double v = tk_value(name, i);
    const int32_t number = (int32_t)(v * limit);
    if (dtype == CLADE_I32)
      memcpy(&values[i], &number, 4);
    else
      values[i] = (float)(2 * v - 1);
  }
  m->data[m->n] = values;
  m->feed[m->n++] = (clade_feed){.name = name, .data = values, .bytes = (size_t)n * 4};
  return clade_input(m->g, name, dtype, shape);
}
static inline clade_val tk_floats(tk_model *m, const char *name, clade_shape shape) {
  return tk_input(m, name, CLADE_F32, shape, 0);
}
static inline clade_val tk_numbers(tk_model *m, const char *name, clade_shape shape, int limit) {
  return tk_input(m, name, CLADE_I32, shape, limit);
}

/* ---- a rank ---- */
typedef struct tk_options {
  int ranks, steps;
  double lr, clip_norm, loss_scale;
  bool dear;          /* expensive communication: splits only on request */
  bool link;          /* a link of which half a polling interval is the latency, and a slow device */
  bool plain;         /* without gradients and training */
  const char *expect; /* expected text in `explain`; NULL: any */
  int moves;          /* expected number of lines about communication; 0: any */
  int number;
  bool marks; /* random models request axes to be split */
  uint64_t memory;
  double first, last, gradients; /* tolerances; 0: 1e-5, 1e-3, 1e-4 */
} tk_options;

typedef struct tk_tensor {
  char name[TK_NAMES];
  float *v;
  int64_t n;
} tk_tensor;

typedef struct tk_outcome {
  double loss, last;
  int n;
  tk_tensor gradient[TK_NAMES], start[TK_NAMES], end[TK_NAMES];
  uint64_t sent;
  int parts; /* number of sliced variables */
} tk_outcome;

typedef struct tk_rank {
  clade_comm *comm;
  clade_device *device;
  tk_build *build;
  const tk_options *o;
  const tk_outcome *one; /* NULL: this is the reference rank */
  tk_outcome out;
  pthread_t thread;
  char failure[2048];
} tk_rank;

#define TK_TRY(r, call)                                                                                        \
  do {                                                                                                         \
    if ((call) != CLADE_OK) {                                                                                  \
      snprintf((r)->failure, sizeof(r)->failure, "rank %d, line %d: %s", clade_comm_rank((r)->comm), __LINE__, \
               clade_last_error());                                                                            \
      goto done;                                                                                               \
    }                                                                                                          \
  } while (0)
#define TK_CHECK(r, holds, ...)                                                                             \
  do {                                                                                                      \
    if (!(holds)) {                                                                                         \
      const int tk_n = snprintf((r)->failure, sizeof(r)->failure, "rank %d: ", clade_comm_rank((r)->comm)); \
      snprintf((r)->failure + tk_n, sizeof(r)->failure - (size_t)tk_n, __VA_ARGS__);                        \
      goto done;                                                                                            \
    }                                                                                                       \
  } while (0)

/* The variable's slice of a whole tensor; NULL: it is not sliced. */
static inline float *tk_part(const clade__port *port, const clade_shape *shape, const float *whole) {
  int64_t n = 1, inner = 1, outer = 1;
  for (int i = 0; i < shape->rank; i++) n *= shape->dim[i];
  float *part = malloc((size_t)(n ? n : 1) * sizeof *part);
  if (!port->part.is_part) return memcpy(part, whole, (size_t)n * sizeof *part);
  const int axis = port->part.axis;
  for (int i = 0; i < axis; i++) outer *= shape->dim[i];
  for (int i = axis + 1; i < shape->rank; i++) inner *= shape->dim[i];
  const int64_t own = shape->dim[axis] * inner, all = port->part.whole.dim[axis] * inner;
  for (int64_t i = 0; i < outer; i++)
    memcpy(part + i * own, whole + i * all + port->part.begin * inner, (size_t)own * sizeof *part);
  return part;
}

static inline const float *tk_find(const tk_tensor *t, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (!strcmp(t[i].name, name)) return t[i].v;
  return NULL;
}

static inline int64_t tk_count(const clade_type *type) {
  int64_t n = 1;
  for (int i = 0; i < type->shape.rank; i++) n *= type->shape.dim[i];
  return n;
}

/* This rank's part of the model; the caller frees `explain`. */
static inline clade_status tk_graph(tk_rank *r, tk_model *m, clade_graph **out, clade__text *explain) {
  const clade__tensor_how cheap = {.comm = r->comm, .speeds = {1e-9, 1e9, 1e-12}};
  const clade__tensor_how dear = {.comm = r->comm, .speeds = {1e9, 8e-9, 1e3}};
  clade_status status = clade_graph_new(&m->g);
  if (status != CLADE_OK) return status;
  m->number = r->o->number;
  m->marks = r->o->marks;
  clade_graph_train(m->g, true);
  r->build(m);
  status = clade_graph_new(out);
  if (status != CLADE_OK) return status;
  clade_graph_train(*out, true);
  const clade__tensor_how link = {.comm = r->comm, .speeds = {1e-9, 32, 0.04}};
  clade__tensor_how how = r->o->dear ? dear : r->o->link ? link : cheap;
  how.memory = r->o->memory;
  return clade__tensor_append(m->g, &how, *out, explain);
}

static inline void tk_model_free(tk_model *m) {
  for (int i = 0; i < m->n; i++) free(m->data[i]);
  clade_graph_release(m->g);
  *m = (tk_model){0};
}

static inline clade_val tk_loss(const clade_graph *g) {
  for (size_t i = 0; i < g->outputs.count; i++)
    if (!strcmp(g->outputs.at[i].name, "loss")) return clade__graph_val(g, g->outputs.at[i].value);
  return (clade_val){0};
}

static inline bool tk_is_float(const clade_graph *g, const clade__port *port) {
  return clade__type(g, port->value)->dtype == CLADE_F32 && strncmp(port->name, "optimizer.", 10) != 0;
}

/* Sets the reference rank's initial values, or stores them if this is it. */
static inline clade_status tk_begin(tk_rank *r, const clade_graph *g, clade_vars *vars) {
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    const clade_type *type = clade__type(g, port->value);
    const size_t bytes = (size_t)tk_count(type) * sizeof(float);
    if (!tk_is_float(g, port)) continue;
    if (r->one) {
      const float *whole = tk_find(r->one->start, r->one->n, port->name);
      if (!whole) continue;
      float *part = tk_part(port, &type->shape, whole);
      const clade_status status = clade_vars_set(vars, port->name, part, bytes);
      free(part);
      if (status != CLADE_OK) return status;
    } else if (!tk_find(r->out.start, r->out.n, port->name)) {
      tk_tensor *t = &r->out.start[r->out.n++];
      snprintf(t->name, sizeof t->name, "%s", port->name);
      t->n = tk_count(type);
      t->v = malloc(bytes);
      const clade_status status = clade_vars_get(vars, port->name, t->v, bytes);
      if (status != CLADE_OK) return status;
    }
  }
  return CLADE_OK;
}

static inline bool tk_near(const float *have, const float *want, const float *whole, int64_t n, int64_t all,
                           double bound) {
  double off = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) off += ((double)have[i] - (double)want[i]) * ((double)have[i] - (double)want[i]);
  for (int64_t i = 0; i < all; i++) norm += (double)whole[i] * (double)whole[i];
  return sqrt(off) <= bound * sqrt(norm) + 1e-7;
}

/* Compares the loss and gradients with the reference. */
static inline void tk_derive(tk_rank *r) {
  tk_model m = {0};
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  clade__text explain = {0};
  clade_val xs[TK_NAMES], dxs[TK_NAMES];
  const char *names[TK_NAMES];
  int n = 0;
  float loss = 0;
  TK_TRY(r, tk_graph(r, &m, &g, &explain));
  if (getenv("TENSOR_EXPLAIN") && clade_comm_rank(r->comm) == 0 && explain.data) fputs(explain.data, stderr);
  if (r->o->expect && r->one)
    TK_CHECK(r, strstr(explain.data, r->o->expect), "no \"%s\" in\n%s", r->o->expect, explain.data);
  if (r->o->moves && r->one) {
    int lines = 0;
    for (const char *at = strstr(explain.data, "what moves"); at && (at = strchr(at, '\n')); at++) lines++;
    TK_CHECK(r, lines == r->o->moves + 1, "other moves than %d in\n%s", r->o->moves, explain.data);
  }
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    r->out.parts += port->part.is_part;
    if (!port->parameter || !tk_is_float(g, port)) continue;
    names[n] = port->name;
    xs[n++] = clade__graph_val(g, port->value);
  }
  if (!r->o->plain) TK_TRY(r, clade_gradients(g, tk_loss(g), (clade_val){0}, n, xs, dxs));
  for (int i = 0; !r->o->plain && i < n; i++) {
    char name[TK_NAMES + 8];
    snprintf(name, sizeof name, "d:%s", names[i]);
    clade_output(g, name, dxs[i]);
  }
  TK_TRY(r, clade_compile(g, r->device, &func, .strict = true));
  TK_TRY(r, clade_vars_new(func, 1, &vars));
  TK_TRY(r, tk_begin(r, g, vars));
  TK_TRY(r, clade_run_new(func, vars, &run));
  TK_TRY(r, clade_execute(run, m.n, m.feed, &ticket));
  TK_TRY(r, clade_read(run, ticket, "loss", &loss, sizeof loss));
  r->out.loss = (double)loss;
  if (r->one)
    TK_CHECK(r, fabs(r->out.loss - r->one->loss) <= (r->o->first > 0 ? r->o->first : 1e-5) * fabs(r->one->loss),
             "the loss is %.9g, of one rank %.9g\n%s", r->out.loss, r->one->loss, explain.data);
  for (int i = 0; !r->o->plain && i < n; i++) {
    const clade__port *port = NULL;
    for (size_t k = 0; k < g->variables.count; k++)
      if (!strcmp(g->variables.at[k].name, names[i])) port = &g->variables.at[k];
    const clade_type type = *clade__type(g, port->value);
    const int64_t count = tk_count(&type);
    char name[TK_NAMES + 8];
    snprintf(name, sizeof name, "d:%s", names[i]);
    tk_tensor *t = &r->out.gradient[i];
    snprintf(t->name, sizeof t->name, "%s", names[i]);
    t->n = count;
    t->v = malloc((size_t)(count ? count : 1) * sizeof *t->v);
    TK_TRY(r, clade_read(run, ticket, name, t->v, (size_t)count * sizeof *t->v));
    if (!r->one) continue;
    const float *whole = tk_find(r->one->gradient, TK_NAMES, names[i]);
    TK_CHECK(r, whole, "the one rank has no gradient of %s", names[i]);
    float *want = tk_part(port, &type.shape, whole);
    int64_t all = 1;
    const clade_shape *shape = port->part.is_part ? &port->part.whole : &type.shape;
    for (int k = 0; k < shape->rank; k++) all *= shape->dim[k];
    const bool near = tk_near(t->v, want, whole, count, all, r->o->gradients > 0 ? r->o->gradients : 1e-4);
    free(want);
    TK_CHECK(r, near, "the gradient of %s differs\n%s", names[i], explain.data);
  }
  if (r->comm) {
    clade_comm_stats stats = {.size = sizeof stats};
    TK_TRY(r, clade_comm_get_stats(r->comm, &stats));
    r->out.sent = stats.sent_bytes;
  }
done:
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  tk_model_free(&m);
  clade__text_free(&explain);
}

/* Compares variables at the end, including running statistics. */
static inline clade_status tk_end(tk_rank *r, const clade_graph *g, clade_vars *vars) {
  int n = 0;
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    const clade_type *type = clade__type(g, port->value);
    if (!tk_is_float(g, port)) continue;
    tk_tensor *t = &r->out.end[n++];
    snprintf(t->name, sizeof t->name, "%s", port->name);
    t->n = tk_count(type);
    t->v = malloc((size_t)CLADE_MAX(t->n, 1) * sizeof *t->v);
    const clade_status status = clade_vars_get(vars, port->name, t->v, (size_t)t->n * sizeof *t->v);
    if (status != CLADE_OK) return status;
    const float *whole = r->one ? tk_find(r->one->end, TK_NAMES, port->name) : NULL;
    if (!whole) continue;
    float *want = tk_part(port, &type->shape, whole);
    const bool near = tk_near(t->v, want, want, t->n, t->n, r->o->last > 0 ? r->o->last : 1e-3);
    free(want);
    if (!near) return CLADE_FAIL(INTERNAL, "%s is another one at the end", port->name);
  }
  return CLADE_OK;
}

/* Training steps; returns the last loss. */
static inline void tk_train(tk_rank *r) {
  tk_model m = {0};
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float loss = 0;
  if (r->failure[0] || !r->o->steps) return;
  TK_TRY(r, tk_graph(r, &m, &g, NULL));
  TK_TRY(r, clade_minimize(g, tk_loss(g), .optimizer = clade_sgd(.lr = r->o->lr > 0 ? r->o->lr : 0.05),
                           .clip_norm = r->o->clip_norm, .loss_scale = r->o->loss_scale));
  TK_TRY(r, clade_compile(g, r->device, &func, .strict = true));
  TK_TRY(r, clade_vars_new(func, 1, &vars));
  TK_TRY(r, tk_begin(r, g, vars));
  TK_TRY(r, clade_run_new(func, vars, &run));
  for (int i = 0; i <= r->o->steps; i++) TK_TRY(r, clade_execute(run, m.n, m.feed, &ticket));
  TK_TRY(r, clade_read(run, ticket, "loss", &loss, sizeof loss));
  r->out.last = (double)loss;
  if (r->one)
    TK_CHECK(r, fabs(r->out.last - r->one->last) <= (r->o->last > 0 ? r->o->last : 1e-3) * fabs(r->one->last),
             "the last loss is %.9g, of one rank %.9g (the first %.9g)", r->out.last, r->one->last, r->one->loss);
done:
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  tk_model_free(&m);
}

static inline void *tk_rank_main(void *user) {
  tk_rank *r = user;
  tk_derive(r);
  tk_train(r);
  if (r->failure[0] && r->comm) clade_comm_abort(r->comm);
  return NULL;
}

static inline void tk_outcome_free(tk_outcome *o) {
  for (int i = 0; i < TK_NAMES; i++) free(o->gradient[i].v), free(o->start[i].v), free(o->end[i].v);
}

/* Returns the first rank's outcome; all ranks are compared with the reference. */
static inline void tk_compare(clade_device *device, tk_build *build, const tk_options *o, uint64_t *sent, int *parts) {
  static tk_rank one, all[TK_MOST];
  clade_comm *comms[TK_MOST];
  char failure[4096] = "";
  one = (tk_rank){.device = device, .build = build, .o = o};
  tk_rank_main(&one);
  if (one.failure[0]) fail_msg("one rank: %s", one.failure);
  OK(clade_comm_new_local(o->ranks, comms));
  for (int i = 0; i < o->ranks; i++)
    all[i] = (tk_rank){.comm = comms[i], .device = device, .build = build, .o = o, .one = &one.out};
  for (int i = 0; i < o->ranks; i++) assert_int_equal(pthread_create(&all[i].thread, NULL, tk_rank_main, &all[i]), 0);
  for (int i = 0; i < o->ranks; i++) pthread_join(all[i].thread, NULL);
  for (int i = 0; i < o->ranks; i++) {
    if (all[i].failure[0] && (!failure[0] || strstr(failure, "rank"))) {
      if (!failure[0] || strstr(failure, "abort")) snprintf(failure, sizeof failure, "%s", all[i].failure);
    }
    tk_outcome_free(&all[i].out);
    clade_comm_release(comms[i]);
  }
  if (sent) *sent = all[0].out.sent;
  if (parts) *parts = all[0].out.parts;
  tk_outcome_free(&one.out);
  if (failure[0]) fail_msg("%d ranks: %s", o->ranks, failure);
}

#endif
