/* Places nodes on devices and inserts transfers, one per value and target device. */
#include "pass/pass.h"

typedef struct places {
  int n_devices;
  const int *device; /* by old node; NULL: as built */
  clade__id *at;     /* [new value * n_devices + device]: its copy there, or 0 */
  size_t capacity;
} places;

static clade_status room(places *p, const clade_graph *g) {
  return clade__grow(&p->at, &p->capacity, g->n_values * (size_t)p->n_devices, sizeof *p->at);
}

static clade__id *cell(places *p, clade__id value, int device) {
  return &p->at[(size_t)value * (size_t)p->n_devices + (size_t)device];
}

/* The value `v` of g on `device`. */
static clade_status on_device(places *p, clade_graph *g, clade__id v, int device, clade__id *out) {
  *out = v;
  if (g->nodes[g->values[v].node].device == device) return CLADE_OK;
  CLADE_TRY(room(p, g));
  *out = *cell(p, v, device);
  if (*out) return CLADE_OK;
  clade__id node;
  const clade__node *from = &g->nodes[g->values[v].node];
  g->device = device;
  if (from->op == &clade__op_constant) { /* rebuilt there: its data is in the graph */
    clade_type type = *clade__type(g, v);
    CLADE_TRY(clade__source_new(g, from->op, NULL, from->attrs, &type, &node));
  } else {
    CLADE_TRY(clade__node_new(g, &clade__op_transfer, NULL, &(clade__transfer_attrs){device}, 1, &v, &node));
  }
  *out = *cell(p, v, device) = g->nodes[node].first_out;
  return CLADE_OK;
}

static clade_status place(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  places *p = user;
  const clade__node *n = &old->nodes[node];
  int device = p->device ? p->device[node] : n->device;
  clade__id in[CLADE_MAX_OPERANDS], id;
  if (n->op == &clade__op_transfer) { /* a transfer built by the user can be shared */
    CLADE_TRY(on_device(p, g, map[n->in[0]], n->device, &map[n->first_out]));
    return CLADE_OK;
  }
  if (!n->n_in && device == n->device) return clade__node_copy(old, node, g, map);
  for (int i = 0; i < n->n_in; i++) CLADE_TRY(on_device(p, g, map[n->in[i]], device, &in[i]));
  g->device = device;
  CLADE_TRY(clade__node_new(g, n->op, n->name, n->attrs, n->n_in, in, &id));
  return clade__map_outputs(n, g, id, map);
}

clade_status clade__place_on(clade__pass_ctx *ctx, const int *device) {
  places p = {.n_devices = ctx->n_devices, .device = device};
  clade_status status = clade__pass_rewrite(ctx, place, &p);
  clade__free(p.at);
  return status;
}

clade_status clade__pass_place(clade__pass_ctx *ctx) { return clade__place_on(ctx, NULL); }
