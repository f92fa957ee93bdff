/* Rewrites a graph node by node, in order, with a map from old to new values. */
#include "ir/ir.h"

/* Shares the constant's contents instead of copying. */
static clade_status share(clade_graph *g, const clade__constant_attrs *attrs) {
  CLADE_TRY(clade__grow(&g->blobs, &g->blob_capacity, g->n_blobs + 1, sizeof *g->blobs));
  clade__ref_up(&attrs->blob->ref);
  g->blobs[g->n_blobs++] = attrs->blob;
  return CLADE_OK;
}

clade_status clade__map_outputs(const clade__node *from, const clade_graph *g, clade__id to, clade__id *map) {
  const clade__node *n = &g->nodes[to];
  if (n->n_out != from->n_out)
    return CLADE_FAIL(INVALID, "%s: .outputs says %d, and %d for the same node later", n->op->name, from->n_out,
                      n->n_out);
  for (int i = 0; i < n->n_out; i++) map[from->first_out + (clade__id)i] = n->first_out + (clade__id)i;
  return CLADE_OK;
}

clade_status clade__node_copy_as(const clade_graph *old, clade__id node, const void *attrs, const clade_type *type,
                                 clade_graph *g, clade__id *map) {
  const clade__node *n = &old->nodes[node];
  clade__id in[CLADE_MAX_OPERANDS], id = 0;
  for (int i = 0; i < n->n_in; i++) {
    in[i] = map[n->in[i]];
    if (!in[i]) return CLADE_FAIL(INTERNAL, "%s: operand %d was dropped by a rewrite", n->op->name, i);
  }
  if (n->op == &clade__op_constant) CLADE_TRY(share(g, attrs));
  int device = g->device;
  g->device = n->device;
  clade_status status = clade__is_source(n->op) ? clade__source_new(g, n->op, n->name, attrs, type, &id)
                                                : clade__node_new(g, n->op, n->name, attrs, n->n_in, in, &id);
  g->device = device;
  if (status == CLADE_OK) status = clade__map_outputs(n, g, id, map);
  for (int i = 0; status == CLADE_OK && i < n->n_out; i++)
    g->values[g->nodes[id].first_out + (clade__id)i].shard = old->values[n->first_out + (clade__id)i].shard;
  return status;
}

clade_status clade__node_copy(const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__node *n = &old->nodes[node];
  const clade_type *type = clade__is_source(n->op) ? clade__type(old, n->first_out) : NULL;
  return clade__node_copy_as(old, node, n->attrs, type, g, map);
}

clade_status clade__node_copy_marked(const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const clade__node *n = &old->nodes[node];
  CLADE_TRY(clade__node_copy(old, node, g, map));
  clade__node *copy = &g->nodes[g->n_nodes - 1];
  copy->share = n->share;
  if (n->derives && old->nodes[n->derives].n_out) copy->derives = g->values[map[old->nodes[n->derives].first_out]].node;
  for (int i = 0; i < n->n_out; i++)
    g->values[copy->first_out + (clade__id)i].like = map[old->values[n->first_out + (clade__id)i].like];
  return CLADE_OK;
}

static clade_status follow_ports(const clade__ports *from, const clade__id *map, clade_graph *g, clade__ports *to) {
  for (size_t i = 0; i < from->count; i++) {
    const clade__port *p = &from->at[i];
    if (!map[p->value]) continue;
    CLADE_TRY(clade__port_add(g, to, p->name, map[p->value], p->initial));
    to->at[to->count - 1].parameter = p->parameter;
    to->at[to->count - 1].part = p->part;
  }
  return CLADE_OK;
}

/* Updates the ports' assigned values from the assign nodes, whose operands a pass may have replaced. */
static void follow_assigns(clade_graph *g) {
  for (size_t i = 1; i < g->n_nodes; i++) {
    const clade__node *n = &g->nodes[i];
    if (n->op != &clade__op_assign) continue;
    const char *name = g->nodes[g->values[n->in[0]].node].name;
    size_t index;
    if (clade__map_get(&g->variables.by_name, clade__hash_bytes(name, strlen(name)), &index))
      g->variables.at[index].assigned = n->in[1];
  }
}

static clade_status follow(const clade_graph *old, const clade__id *map, clade_graph *g) {
  CLADE_TRY(follow_ports(&old->inputs, map, g, &g->inputs));
  CLADE_TRY(follow_ports(&old->variables, map, g, &g->variables));
  for (size_t i = 0; i < old->outputs.count; i++)
    if (!map[old->outputs.at[i].value])
      return CLADE_FAIL(INTERNAL, "output \"%s\" was dropped by a rewrite", old->outputs.at[i].name);
  CLADE_TRY(follow_ports(&old->outputs, map, g, &g->outputs));
  follow_assigns(g);
  return CLADE_OK;
}

clade_status clade__graph_append(const clade_graph *old, clade__rewrite_fn *fn, void *user, clade_graph *g,
                                 clade__id *map) {
  for (clade__id id = 1; id < old->n_nodes; id++)
    CLADE_TRY(fn ? fn(user, old, id, g, map) : clade__node_copy(old, id, g, map));
  CLADE_TRY(clade_graph_status(g)); /* fn may have used builders */
  return follow(old, map, g);
}

clade_status clade__graph_rewrite(const clade_graph *old, clade__rewrite_fn *fn, void *user, clade_graph **out) {
  clade_status status = CLADE_OK;
  clade_graph *g = NULL;
  clade__id *map = NULL;
  *out = NULL;
  CLADE_TRY(clade_graph_status(old));
  CLADE_GOTO(clade_graph_new(&g));
  CLADE_GOTO(clade__grow(&g->nodes, &g->node_capacity, old->n_nodes, sizeof *g->nodes));
  CLADE_GOTO(clade__grow(&g->values, &g->value_capacity, old->n_values, sizeof *g->values));
  map = clade__new(old->n_values, sizeof *map);
  CLADE_GOTO(map ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade__graph_append(old, fn, user, g, map));
  g->device = old->device;
  g->trains = old->trains;
  g->share = old->share;
  g->first_share = old->first_share;
  g->tensor = old->tensor;
  clade__free(map);
  *out = g;
  return CLADE_OK;
fail:
  clade__free(map);
  clade_graph_release(g);
  return status;
}

bool clade__graph_frozen(const clade_graph *g, clade__id value) {
  const clade__node *n = &g->nodes[g->values[value].node];
  size_t index;
  if (n->op == &clade__op_constant) return true;
  return n->op == &clade__op_variable &&
         clade__map_get(&g->variables.by_name, clade__hash_bytes(n->name, strlen(n->name)), &index) &&
         !g->variables.at[index].assigned;
}

clade_status clade__graph_uses(const clade_graph *g, uint32_t **uses) {
  uint32_t *n = clade__new(g->n_values, sizeof *n);
  if (!n) return CLADE_NO_MEMORY;
  for (size_t i = 1; i < g->n_nodes; i++) {
    const clade__node *node = &g->nodes[i];
    for (int k = node->op == &clade__op_assign ? 1 : 0; k < node->n_in; k++) n[node->in[k]]++;
  }
  for (size_t i = 0; i < g->outputs.count; i++) n[g->outputs.at[i].value]++;
  *uses = n;
  return CLADE_OK;
}
