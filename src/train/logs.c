/* Logs of a training: scalars of steps and epochs, and histograms of weights and gradients after each epoch. A log
 * that cannot be written is reported once and given up; the training goes on. */
#include <stdio.h>

#include <clade/nn.h>

#include "train/internal.h"

static void give_up(clade__training *tr) {
  clade__log(CLADE_LOG_WARNING, "%s; the training goes on without logs", clade_last_error());
  clade_events_close(tr->events);
  tr->events = NULL;
  tr->incomplete = true;
}

static void scalar(clade__training *tr, const char *tag, double value) {
  if (tr->events && clade_events_scalar(tr->events, tr->at, tag, value) != CLADE_OK) give_up(tr);
}

void clade__train_log(clade__training *tr, const clade_train_event *event) {
  if (event->kind == CLADE_TRAIN_STEP) {
    scalar(tr, "train/loss", event->loss);
    if (tr->adds) scalar(tr, "train/added_loss", event->added_loss);
    scalar(tr, "train/accuracy", event->accuracy);
    scalar(tr, "train/learning_rate", event->learning_rate);
    if (clade__train_scales(tr)) scalar(tr, "train/loss_scale", event->loss_scale);
    if (clade__train_scales(tr)) scalar(tr, "train/skipped_steps", (double)event->skipped);
  } else if (event->kind == CLADE_TRAIN_EPOCH) {
    scalar(tr, "test/loss", event->test_loss);
    scalar(tr, "test/accuracy", event->test_accuracy);
    scalar(tr, "train/images_per_s", event->images_per_s);
  }
}

/* ---- gradients: a func without assignments, run on the last batch of the epoch, or on a micro-batch of it ---- */
/* The graph is built as share 1 of a batch: it finds the variables and never assigns them. */
static clade_status build_gradients(clade__training *tr) {
  clade_graph *g = NULL;
  clade_status status;
  size_t n = (size_t)clade_vars_count(tr->vars), n_parameters = 0;
  clade_val *parameter = clade__new(n, sizeof *parameter), *gradient = clade__new(n, sizeof *gradient);
  clade_port_info *port = clade__new(n, sizeof *port);
  CLADE_GOTO(clade_graph_new(&g));
  CLADE_GOTO(parameter && gradient && port ? CLADE_OK : CLADE_NO_MEMORY);
  clade_graph_train(g, true);
  clade_graph_share(g, 1);
  clade_val loss = clade__train_loss(tr, g, clade__train_micro_rows(tr, 0), tr->t.smoothing).loss;
  for (size_t i = 0; i < n; i++) {
    clade_port_info *p = &port[n_parameters];
    p->size = sizeof *p;
    CLADE_GOTO(clade_vars_describe(tr->vars, (int)i, p));
    if (p->parameter)
      parameter[n_parameters++] = clade_parameter(g, p->name, p->type.dtype, p->type.shape, (clade_initial){0});
  }
  CLADE_GOTO(clade_gradients(g, loss, (clade_val){0}, (int)n_parameters, parameter, gradient));
  for (size_t i = 0; i < n_parameters; i++) clade_output(g, port[i].name, clade_cast(g, gradient[i], CLADE_F32));
  CLADE_GOTO(clade_compile(g, tr->device, &tr->gradient_func, .fallback = tr->t.fallback, .place = tr->t.place,
                           .prefer = tr->t.prefer, .strict = tr->t.strict));
  CLADE_GOTO(clade_run_new(tr->gradient_func, tr->vars, &tr->gradient_run, .slots = 1));
fail:
  clade_graph_release(g);
  clade__free(parameter);
  clade__free(gradient);
  clade__free(port);
  return status;
}

static clade_status histogram(clade__training *tr, const char *kind, const char *name, const float *values, size_t n) {
  char tag[320];
  snprintf(tag, sizeof tag, "%s/%s", kind, name);
  return clade_events_histogram(tr->events, tr->at, tag, values, n);
}

static clade_status parameter_histograms(clade__training *tr, clade_ticket ticket, const clade_port_info *port) {
  int64_t n;
  size_t bytes;
  CLADE_TRY(clade_shape_elements(&port->type.shape, &n));
  CLADE_TRY(clade_type_bytes(&port->type, &bytes));
  size_t floats = CLADE_MAX((size_t)n, (size_t)1);
  void *stored = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  float *values = clade__new(floats, sizeof *values);
  clade_status status = CLADE_NO_MEMORY;
  if (!stored || !values) goto fail;
  CLADE_GOTO(clade_vars_get(tr->vars, port->name, stored, bytes));
  CLADE_GOTO(clade_convert(CLADE_F32, values, port->type.dtype, stored, (size_t)n));
  CLADE_GOTO(histogram(tr, "weights", port->name, values, (size_t)n));
  CLADE_GOTO(clade_read(tr->gradient_run, ticket, port->name, values, (size_t)n * sizeof *values));
  CLADE_GOTO(histogram(tr, "gradients", port->name, values, (size_t)n));
fail:
  clade__free(stored);
  clade__free(values);
  return status;
}

static clade_status histograms(clade__training *tr) {
  const size_t rows = (size_t)clade__train_micro_rows(tr, 0); /* a larger batch would exceed the memory of a step */
  clade_ticket ticket;
  if (!tr->gradient_run) CLADE_TRY(build_gradients(tr));
  CLADE_TRY(clade_execute(tr->gradient_run,
                          CLADE_FEEDS({"x", tr->batch.x, rows * tr->sample * sizeof *tr->batch.x, NULL},
                                      {"y", tr->batch.y, rows * sizeof *tr->batch.y, NULL}),
                          &ticket));
  for (int i = 0; i < clade_vars_count(tr->vars); i++) {
    clade_port_info port = {.size = sizeof port};
    CLADE_TRY(clade_vars_describe(tr->vars, i, &port));
    if (port.parameter) CLADE_TRY(parameter_histograms(tr, ticket, &port));
  }
  return CLADE_OK;
}

void clade__train_log_histograms(clade__training *tr) {
  if (clade__train_is_cut(tr)) return; /* rank 0 does not have all layers */
  if (tr->events && histograms(tr) != CLADE_OK) give_up(tr);
}

clade_status clade__train_open_logs(clade__training *tr) {
  return tr->t.log_dir ? clade_events_open(tr->t.log_dir, tr->at ? tr->at + 1 : 0, &tr->events) : CLADE_OK;
}

void clade__train_close_logs(clade__training *tr) {
  clade_run_free(tr->gradient_run);
  clade_func_release(tr->gradient_func);
  clade_events_close(tr->events);
}
