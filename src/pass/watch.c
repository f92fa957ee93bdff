/* Outputs that locate the first non-finite value of a graph. */
#include "pass/pass.h"

#include <stdio.h>

/* Name of a value in messages: its node's, or that of what the node works on. */
static const char *title(const clade_graph *g, const clade__node *n) {
  if (*n->name) return n->name;
  for (int i = 0; i < n->n_in; i++) {
    const clade__node *from = &g->nodes[g->values[n->in[i]].node];
    if (*from->name) return from->name;
  }
  return "";
}

/* Describes the node's operation; elementwise nodes by their last function, with ".d" for derivatives. */
static void describe(const clade_graph *g, clade__id value, char name[256]) {
  const clade__node *n = &g->nodes[g->values[value].node];
  const char *what = n->op->name, *mark = "";
  if (n->op == &clade__op_eltwise) {
    const clade__elt *p = &((const clade__eltwise_attrs *)n->attrs)->program;
    if (p->n_insn) {
      what = clade__elt_by_number(p->insn[p->n_insn - 1].fn)->name;
      mark = p->insn[p->n_insn - 1].wrt ? ".d" : "";
    }
  }
  snprintf(name, 256, "watch:%u:%.60s%s:%.150s", value, what, mark, title(g, n));
}

static bool watched(const clade_graph *g, clade__id value) {
  const clade__node *n = &g->nodes[g->values[value].node];
  clade_dtype t = clade__type(g, value)->dtype;
  bool is_float = clade__is_float(t);
  return is_float && n->op != &clade__op_constant && !(n->op->flags & CLADE_OP_VIEW);
}

/* A scalar: 0, or NaN if any element is not finite. */
static clade_val trouble(clade_graph *g, clade__id value) {
  clade_val v = clade_cast(g, clade__graph_val(g, value), CLADE_F32);
  return clade_sum(g, clade_mul(g, v, clade_fill(g, CLADE_F32, CLADE_SCALAR, 0)));
}

clade_status clade_graph_watch(clade_graph *g) {
  if (!clade__graph_ok(g)) return g && !g->sealed ? g->status : CLADE_INVALID;
  clade__id n = (clade__id)g->n_values;
  int device = g->device;
  g->device = 0;
  clade_val all = clade_fill(g, CLADE_F32, CLADE_SCALAR, 0);
  for (clade__id value = 1; value < n; value++) {
    char name[256];
    if (!watched(g, value)) continue;
    describe(g, value, name);
    g->device = g->nodes[g->values[value].node].device;
    clade_val one = trouble(g, value);
    clade_output(g, name, one);
    g->device = 0;
    all = clade_add(g, all, clade_transfer(g, one, 0));
  }
  clade_output(g, "watch", all);
  g->device = device;
  return clade_graph_status(g);
}
