/* A graph's creation and destruction, its sticky error, and access to its values. */
#include "ir/ir.h"

#include <stdio.h>

static atomic_uint serials;

clade_status clade_graph_new(clade_graph **out) {
  if (!out) return CLADE_FAIL(INVALID, "clade_graph_new: out is NULL");
  *out = NULL;
  clade_graph *g = clade__new(1, sizeof *g);
  if (!g) return CLADE_NO_MEMORY;
  clade__ref_init(&g->ref);
  do g->serial = atomic_fetch_add(&serials, 1) + 1;
  while (g->serial == 0);
  g->n_nodes = g->n_values = 1; /* number 0 means none */
  clade_status status = CLADE_OK;
  CLADE_GOTO(clade__grow(&g->nodes, &g->node_capacity, 1, sizeof *g->nodes));
  CLADE_GOTO(clade__grow(&g->values, &g->value_capacity, 1, sizeof *g->values));
  *out = g;
  return CLADE_OK;
fail:
  clade_graph_release(g);
  return status;
}

clade_graph *clade_graph_retain(clade_graph *graph) {
  if (graph) clade__ref_up(&graph->ref);
  return graph;
}

static void free_ports(clade__ports *ports) {
  clade__free(ports->at);
  clade__map_free(&ports->by_name);
}

void clade_graph_release(clade_graph *g) {
  if (!g || !clade__ref_down(&g->ref)) return;
  for (size_t i = 0; i < g->n_blobs; i++)
    if (clade__ref_down(&g->blobs[i]->ref)) clade__free(g->blobs[i]);
  clade__free(g->blobs);
  free_ports(&g->inputs);
  free_ports(&g->outputs);
  free_ports(&g->variables);
  clade__map_free(&g->node_names);
  clade__shapes_free(&g->shapes);
  clade__free(g->nodes);
  clade__free(g->values);
  clade__free(g->message);
  clade__arena_free(&g->arena);
  clade__free(g);
}

clade_status clade_graph_status(const clade_graph *g) {
  if (!g) return CLADE_FAIL(INVALID, "clade_graph_status: the graph is NULL");
  return g->status ? clade__fail_again(g->status, clade_graph_message(g)) : CLADE_OK;
}

const char *clade_graph_message(const clade_graph *g) {
  if (!g || g->status == CLADE_OK) return "";
  return g->message ? g->message : clade_status_text(g->status); /* message allocation failed */
}

clade_val clade__graph_fail(clade_graph *g, clade_status status, const char *what) {
  size_t n = what ? strlen(what) : 0;
  if (what && strncmp(clade_last_error(), what, n) != 0) clade__fail_in(status, "%s", what);
  if (g && !g->sealed && g->status == CLADE_OK) {
    char message[4096]; /* copy first: a failing allocation overwrites the message */
    snprintf(message, sizeof message, "%s", clade_last_error());
    g->status = status;
    g->message = clade__copy_text(message);
    clade__fail_again(status, message);
  }
  return (clade_val){0};
}

bool clade__graph_ok(clade_graph *g) {
  if (!g)
    CLADE_FAIL(INVALID, "the graph is NULL");
  else if (g->sealed)
    CLADE_FAIL(INVALID, "the graph was compiled and cannot change any more: build another one");
  else if (g->status != CLADE_OK)
    clade__fail_again(g->status, clade_graph_message(g));
  else
    return true;
  return false;
}

clade_status clade__graph_value(const clade_graph *g, clade_val v, const char *what, clade__id *id) {
  const char *colon = what && *what ? ": " : "";
  if (!what) what = "";
  if (!v.graph && !v.id) return CLADE_FAIL(INVALID, "%s%sno value is given", what, colon);
  if (v.graph != g->serial) return CLADE_FAIL(INVALID, "%s%svalue %u belongs to another graph", what, colon, v.id);
  if (!v.id || v.id >= g->n_values) return CLADE_FAIL(INVALID, "%s%sthere is no value %u", what, colon, v.id);
  *id = v.id;
  return CLADE_OK;
}

clade_val clade__graph_val(const clade_graph *g, clade__id id) { return (clade_val){id ? g->serial : 0, id}; }

bool clade_val_ok(clade_val value) { return value.graph && value.id; }

clade_status clade_val_type(const clade_graph *g, clade_val value, clade_type *type) {
  clade__id id = 0;
  if (!g || !type) return CLADE_FAIL(INVALID, "clade_val_type: %s is NULL", g ? "type" : "the graph");
  CLADE_TRY(clade__graph_value(g, value, "", &id));
  *type = *clade__type(g, id);
  return CLADE_OK;
}

void clade_graph_place(clade_graph *g, int index) {
  if (!clade__graph_ok(g)) return;
  if (index < 0)
    clade__graph_fail(g, CLADE_FAIL(INVALID, "device %d: the first one is 0", index), "clade_graph_place");
  else
    g->device = index;
}

void clade__graph_only_share(clade_graph *g, int index) {
  if (clade__graph_ok(g)) g->share = g->first_share = index;
}

void clade_graph_share(clade_graph *g, int index) {
  if (!clade__graph_ok(g)) return;
  if (index < 0)
    clade__graph_fail(g, CLADE_FAIL(INVALID, "share %d: the first one is 0", index), "clade_graph_share");
  else
    g->share = index;
}

void clade_graph_split(clade_graph *g, clade_val value, int axis) {
  clade__id id = 0;
  char text[640];
  if (!clade__graph_ok(g)) return;
  if (clade__graph_value(g, value, "clade_graph_split: the value", &id) != CLADE_OK) {
    clade__graph_fail(g, CLADE_INVALID, NULL);
    return;
  }
  const clade_type *type = clade__type(g, id);
  const int rank = type->shape.rank, at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    clade__graph_fail(g,
                      CLADE_FAIL(INVALID, "clade_graph_split: the value is %s, which has no axis %d",
                                 clade__type_text(type, text, sizeof text), axis),
                      NULL);
  else
    g->values[id].shard |= (uint8_t)(1u << at);
}

void clade_graph_train(clade_graph *g, bool train) {
  if (clade__graph_ok(g)) g->trains = train;
}

bool clade_graph_trains(const clade_graph *g) { return g && g->trains; }

void clade_text_free(char *text) { clade__free(text); }
