/* Finds the quantizable layers of a graph. */
#include <stdio.h>

#include "op/conv/conv.h"
#include "pass/quantize.h"

char *clade__quant_part(const clade__quant_layer *layer, const char *part, char text[CLADE__QUANT_PART]) {
  snprintf(text, CLADE__QUANT_PART, "%s%s", layer->name, part);
  return text;
}

typedef struct finder {
  const clade_graph *g;
  uint32_t *uses;
  clade__id *user; /* by value: one of its users */
} finder;

static const clade__node *maker(const clade_graph *g, clade__id value) { return &g->nodes[g->values[value].node]; }

/* The value's only user; 0: none or several. */
static clade__id sole_user(const finder *f, clade__id value) { return f->uses[value] == 1 ? f->user[value] : 0; }

/* The operands of a node that computes exactly this function. */
static bool computes(const clade_graph *g, const clade__node *n, const char *name, clade__id *a, clade__id *b) {
  if (n->op != &clade__op_eltwise) return false;
  const clade__elt *p = &((const clade__eltwise_attrs *)n->attrs)->program;
  if (p->n_insn != 1 || p->insn[0].wrt || p->insn[0].fn != clade__elt_by_name(name)->number) return false;
  if (clade__type(g, n->first_out)->dtype != CLADE_F32) return false;
  *a = n->in[p->insn[0].arg[0]];
  if (b) *b = n->in[p->insn[0].arg[1]];
  return true;
}

/* Looks through a reshape. */
static clade__id reshaped(const clade_graph *g, clade__id value) {
  const clade__node *n = maker(g, value);
  return n->op == &clade__op_reshape ? n->in[0] : value;
}

/* A variable with one number per channel that is not assigned; 0: none. */
static clade__id channels(const clade_graph *g, clade__id value, clade_dim count) {
  const clade_type *type = clade__type(g, value);
  return maker(g, value)->op == &clade__op_variable && clade__graph_frozen(g, value) && type->dtype == CLADE_F32 &&
                 type->shape.rank == 1 && type->shape.dim[0] == count
             ? value
             : 0;
}

static void take_bias(const finder *f, clade__quant_layer *l, clade_dim count) {
  const clade__id y = f->g->nodes[l->end].first_out, next = sole_user(f, y);
  clade__id a, b;
  if (!next || !computes(f->g, &f->g->nodes[next], "add", &a, &b) || a != y) return;
  const clade__id bias = channels(f->g, reshaped(f->g, b), count);
  if (!bias || f->uses[bias] != 1) return;
  l->bias = bias;
  l->end = next;
}

/* Matches weight / sqrt(var + eps). */
static bool take_slope(const clade_graph *g, clade__id value, clade_dim count, clade__id *norm, double *eps) {
  clade__id weight, root, sum, var, small;
  float number;
  if (!computes(g, maker(g, reshaped(g, value)), "mul", &weight, &root)) return false;
  if (!computes(g, maker(g, root), "rsqrt", &sum, NULL)) return false;
  if (!computes(g, maker(g, sum), "add", &var, &small)) return false;
  const clade__node *fill = maker(g, small);
  if (fill->op != &clade__op_constant) return false;
  const clade__constant_attrs *attrs = fill->attrs;
  if (attrs->pattern != sizeof number) return false;
  memcpy(&number, attrs->data, sizeof number);
  *eps = (double)number;
  norm[CLADE__NORM_WEIGHT] = channels(g, weight, count);
  norm[CLADE__NORM_VAR] = channels(g, var, count);
  return norm[CLADE__NORM_WEIGHT] && norm[CLADE__NORM_VAR];
}

/* Matches (y - mean) slope + bias, as built by clade_nn_batch_norm. */
static void take_norm(const finder *f, clade__quant_layer *l, clade_dim count) {
  const clade_graph *g = f->g;
  clade__id norm[CLADE__NORM_PARTS], y = g->nodes[l->end].first_out, node = l->end, a, b;
  double eps = 0;
  static const char *const chain[] = {"sub", "mul", "add"};
  node = sole_user(f, y);
  if (node && computes(g, &g->nodes[node], "cast", &a, NULL)) y = g->nodes[node].first_out; /* a cast from f32 to f32 */
  for (int i = 0; i < 3; i++) {
    node = sole_user(f, y);
    if (!node || !computes(g, &g->nodes[node], chain[i], &a, &b) || a != y) return;
    if (i == 1) {
      if (!take_slope(g, b, count, norm, &eps)) return;
    } else if (!(norm[i ? CLADE__NORM_BIAS : CLADE__NORM_MEAN] = channels(g, reshaped(g, b), count))) {
      return;
    }
    y = g->nodes[node].first_out;
  }
  memcpy(l->norm, norm, sizeof norm);
  l->eps = eps;
  l->end = node;
}

/* Whether a variable other than `own` has the name of a new part of the layer. */
static bool is_taken(const clade_graph *g, const clade__quant_layer *l, const char *part, clade__id own) {
  char name[CLADE__QUANT_PART];
  size_t index;
  clade__quant_part(l, part, name);
  return clade__map_get(&g->variables.by_name, clade__hash_bytes(name, strlen(name)), &index) &&
         g->variables.at[index].value != own;
}

static bool is_product(const clade_graph *g, const clade__node *n) {
  if (n->op != &clade__op_gemm || n->n_in != 2) return false;
  const clade__gemm_attrs *a = n->attrs;
  return !a->trans_a && a->trans_b && !a->epilogue.n_insn && !a->shape[0].rank && !a->shape[1].rank && a->alpha >= 1 &&
         a->alpha <= 1 && clade__type(g, n->in[0])->shape.rank == 2 && clade__type(g, n->in[1])->shape.rank == 2;
}

static bool is_convolution(const clade__node *n) {
  return n->op == &clade__op_conv2d && n->n_in == 2 && !((const clade__conv_attrs *)n->attrs)->epilogue.n_insn;
}

static bool find(const finder *f, clade__id node, clade__quant_layer *l) {
  static const char suffix[] = CLADE__LAYER_WEIGHT;
  const clade_graph *g = f->g;
  const clade__node *n = &g->nodes[node];
  if (!is_product(g, n) && !is_convolution(n)) return false;
  const clade__node *w = maker(g, n->in[1]);
  const size_t length = strlen(w->name), end = sizeof suffix - 1;
  if (w->op != &clade__op_variable || !clade__graph_frozen(g, n->in[1]) || f->uses[n->in[1]] != 1) return false;
  if (clade__type(g, n->in[0])->dtype != CLADE_F32 || length <= end || length >= CLADE__LAYER_NAME ||
      strcmp(w->name + length - end, suffix) != 0)
    return false;
  *l = (clade__quant_layer){.node = node, .end = node, .x = n->in[0], .weight = n->in[1]};
  memcpy(l->name, w->name, length - end);
  const clade_dim count = clade__type(g, l->weight)->shape.dim[0];
  take_bias(f, l, count);
  take_norm(f, l, count);
  return !is_taken(g, l, CLADE__LAYER_SCALE, 0) && !is_taken(g, l, CLADE__LAYER_BIAS, l->bias);
}

clade_status clade__quant_layers_find(const clade_graph *g, clade__quant_layers *out) {
  finder f = {.g = g};
  clade__quant_layer layer;
  clade_status status;
  *out = (clade__quant_layers){0};
  CLADE_GOTO(clade__graph_uses(g, &f.uses));
  f.user = clade__new(g->n_values, sizeof *f.user);
  CLADE_GOTO(f.user ? CLADE_OK : CLADE_NO_MEMORY);
  for (clade__id id = 1; id < g->n_nodes; id++)
    for (int i = 0; i < g->nodes[id].n_in; i++) f.user[g->nodes[id].in[i]] = id;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    if (!find(&f, id, &layer)) continue;
    CLADE_GOTO(clade__grow(&out->at, &out->capacity, out->n + 1, sizeof *out->at));
    out->at[out->n++] = layer;
  }
fail:
  clade__free(f.uses);
  clade__free(f.user);
  return status;
}
