/* clade_parallelize: replaces the contents of a graph by this rank's part of them. */
#include <stdio.h>

#include "comm/wire.h"
#include "parallel/parallel.h"

/* Values of the old graph that the caller uses further are outputs while the new one is built, behind its own ones. */
static clade_status add_outputs(clade_graph *g, const clade__id *ids, int n) {
  for (int i = 0; i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "parallelize:%d", i);
    CLADE_TRY(clade__port_add(g, &g->outputs, name, ids[i], (clade_initial){0}));
  }
  return CLADE_OK;
}

static clade_status take_outputs(clade_graph *g, clade__id *ids, int n) {
  const size_t keeps = g->outputs.count - (size_t)n;
  for (int i = 0; i < n; i++) ids[i] = g->outputs.at[keeps + (size_t)i].value;
  clade__ports_clear(&g->outputs);
  for (size_t i = 0; i < keeps; i++) {
    const clade__port own = g->outputs.at[i];
    CLADE_TRY(clade__port_add(g, &g->outputs, own.name, own.value, own.initial));
  }
  return CLADE_OK;
}

/* All but the references and the shapes that are prescribed for variables to come. */
static void exchange(clade_graph *g, clade_graph *part) {
  const clade_graph old = *g;
  *g = *part;
  *part = old;
  part->ref = g->ref;
  g->ref = old.ref;
  part->shapes = g->shapes;
  g->shapes = old.shapes;
}

static clade_status build(clade_graph *g, const clade__tensor_how *how, clade__id *ids, int n, clade__text *explain) {
  clade_graph *part;
  CLADE_TRY(clade_graph_new(&part));
  part->trains = g->trains;
  part->first_share = g->first_share;
  part->share = g->share;
  part->device = g->device;
  part->sync = g->sync;
  clade_status status = add_outputs(g, ids, n);
  if (status == CLADE_OK) status = clade__tensor_append(g, how, part, explain);
  if (status == CLADE_OK) status = take_outputs(part, ids, n);
  if (status == CLADE_OK) exchange(g, part);
  clade_graph_release(part);
  return status;
}

static clade_status check(const clade_graph *g, const clade_parallelize_opt *o, const clade__tensor_how *how) {
  if (o->n < 0 || (o->n && !o->values))
    return CLADE_FAIL(INVALID, "clade_parallelize: .n is %d%s", o->n, o->n > 0 ? " and .values is NULL" : "");
  if (!clade__comm_carries(how->wire))
    return CLADE_FAIL(DTYPE, "clade_parallelize: .compress is %s; expected f32, bf16 or f16",
                      clade_dtype_name(o->compress));
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    if (port->part.is_part || !strcmp(port->name, "optimizer.step") || !strcmp(port->name, "optimizer.count"))
      return CLADE_FAIL(INVALID, "clade_parallelize: the graph %s: call it once, before clade_minimize",
                        port->part.is_part ? "is in parts already" : "has an optimizer");
  }
  return clade__speeds_check(&how->speeds, "clade_parallelize");
}

static clade_status parallelize(clade_graph *g, const clade_parallelize_opt *o) {
  const clade__tensor_how how = {.comm = o->comm,
                                 .wire = clade__comm_wire(o->compress),
                                 .speeds = {o->link_us, o->link_gbits, o->tflops},
                                 .memory = o->memory};
  const int n = o->n + (g->added_loss != 0); /* the loss that a model added comes last */
  clade__text explain = {0};
  CLADE_TRY(check(g, o, &how));
  if (clade_comm_size(o->comm) <= 1) return CLADE_OK;
  clade__id *ids = clade__new((size_t)CLADE_MAX(n, 1), sizeof *ids);
  clade_status status = ids ? CLADE_OK : CLADE_NO_MEMORY;
  for (int i = 0; i < o->n && status == CLADE_OK; i++)
    status = clade__graph_value(g, o->values[i], "clade_parallelize: a value", &ids[i]);
  if (status == CLADE_OK && n > o->n) ids[o->n] = g->added_loss;
  if (status == CLADE_OK) status = build(g, &how, ids, n, o->explained ? &explain : NULL);
  for (int i = 0; i < o->n && status == CLADE_OK; i++) o->values[i] = clade__graph_val(g, ids[i]);
  if (status == CLADE_OK && n > o->n) g->added_loss = ids[o->n];
  if (status == CLADE_OK && o->explained) status = clade__text_take(&explain, o->explained);
  clade__text_free(&explain);
  clade__free(ids);
  return status;
}

clade_status clade_parallelize_(clade_graph *g, const clade_parallelize_opt *given) {
  clade_parallelize_opt opt;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_parallelize"));
  if (opt.explained) *opt.explained = NULL;
  if (!clade__graph_ok(g)) return g && !g->sealed ? g->status : CLADE_INVALID;
  const clade_status status = parallelize(g, &opt);
  if (status != CLADE_OK) clade__graph_fail(g, status, NULL);
  return status;
}
