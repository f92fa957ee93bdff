/* Quantization: the layers listed in ctx->quantization take their input in 8 bits with a scale, and multiply it by
 * weights in 8 bits (docs/quantization.md). The input's scale is folded into those of the weights:
 *
 *     y = layer(x, weight) + bias, normalized      becomes
 *     y = layer(float(quantize(x, scale)), float(NAME.weight) NAME.scale) + NAME.bias
 *
 * where weight, scale and bias are new variables. The integers pass turns this into integer arithmetic. */
#include "pass/quantize.h"

typedef struct quantizer {
  clade__quant_layers layers;
  clade__quant_entry *entries; /* by layer */
  size_t *layer;               /* by node: 1 + index of the layer that ends there; 0: none */
  bool *is_needed;             /* by node */
} quantizer;

/* ---- removing the original layers ---- */
/* Of a quantized layer, only the input is still needed. Unused variables stay, since callers see them. */
static clade_status mark(quantizer *q, const clade_graph *g) {
  uint32_t *uses;
  CLADE_TRY(clade__graph_uses(g, &uses));
  for (size_t i = 0; i < g->outputs.count; i++) q->is_needed[g->values[g->outputs.at[i].value].node] = true;
  for (clade__id id = (clade__id)g->n_nodes; id-- > 1;) {
    const clade__node *n = &g->nodes[id];
    const bool stays = n->op == &clade__op_input || (n->op->flags & CLADE_OP_EFFECT) ||
                       (n->op == &clade__op_variable && !uses[n->first_out]);
    q->is_needed[id] |= stays;
    if (!q->is_needed[id]) continue;
    if (q->layer[id])
      q->is_needed[g->values[q->layers.at[q->layer[id] - 1].x].node] = true;
    else
      for (int k = 0; k < n->n_in; k++) q->is_needed[g->values[n->in[k]].node] = true;
  }
  clade__free(uses);
  return CLADE_OK;
}

/* ---- rewriting ---- */
static clade_val new_part(clade_graph *g, const clade__quant_layer *l, const char *part, clade_dtype dtype,
                          clade_shape shape) {
  char name[CLADE__QUANT_PART];
  return clade_parameter(g, clade__quant_part(l, part, name), dtype, shape, (clade_initial){CLADE_INIT_ZERO, 0, 0});
}

static clade_status build_layer(const clade_graph *old, const clade__quant_layer *l, const clade__quant_entry *e,
                                clade_graph *g, clade__id *map) {
  const clade__node *n = &old->nodes[l->node];
  const clade_shape shape = clade__type(old, l->weight)->shape;
  const clade_dim out = shape.dim[0];
  clade__id node;
  g->device = n->device;
  const clade_val x = clade_cast(g, clade_quantize(g, clade__graph_val(g, map[l->x]), e->scale, e->input), CLADE_F32);
  const clade_val scale = new_part(g, l, CLADE__LAYER_SCALE, CLADE_F32, CLADE_SHAPE(out));
  const clade_val w = clade_dequantize(g, new_part(g, l, CLADE__LAYER_WEIGHT, CLADE_I8, shape), scale, 0);
  CLADE_TRY(clade_graph_status(g));
  CLADE_TRY(clade__node_new(g, n->op, n->name, n->attrs, 2, (clade__id[]){x.id, w.id}, &node));
  clade_val y = clade__graph_val(g, g->nodes[node].first_out);
  if (l->end != l->node) {
    clade_shape along = {.rank = n->op == &clade__op_gemm ? 1 : 3, .dim = {out, 1, 1}};
    y = clade_add(g, y, clade_reshape(g, new_part(g, l, CLADE__LAYER_BIAS, CLADE_F32, CLADE_SHAPE(out)), along));
  }
  map[old->nodes[l->end].first_out] = y.id;
  return clade_graph_status(g);
}

static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const quantizer *q = user;
  const size_t layer = q->layer[node];
  if (layer) return build_layer(old, &q->layers.at[layer - 1], &q->entries[layer - 1], g, map);
  return q->is_needed[node] ? clade__node_copy(old, node, g, map) : CLADE_OK;
}

clade_status clade__pass_quantize(clade__pass_ctx *ctx) {
  const clade_graph *g = ctx->graph;
  clade_status status;
  quantizer q = {.entries = NULL};
  if (!ctx->quantization || !*ctx->quantization) return CLADE_OK;
  if (g->trains) return CLADE_FAIL(INVALID, "quantization: the graph is one for training; expected one for inference");
  if (ctx->precision && ctx->precision != CLADE_F32)
    return CLADE_FAIL(INVALID, "quantization: .precision is %s as well; expected one of the two",
                      clade_dtype_name(ctx->precision));
  if (ctx->simulate) return clade__pass_simulate(ctx);
  if (clade__quant_in_blocks(ctx->quantization)) return clade__pass_quantize_blocks(ctx);
  CLADE_GOTO(clade__quant_layers_find(g, &q.layers));
  CLADE_GOTO(clade__quant_entries(&q.layers, ctx->quantization, &q.entries));
  q.layer = clade__new(g->n_nodes, sizeof *q.layer);
  q.is_needed = clade__new(g->n_nodes, sizeof *q.is_needed);
  CLADE_GOTO(q.layer && q.is_needed ? CLADE_OK : CLADE_NO_MEMORY);
  for (size_t i = 0; i < q.layers.n; i++)
    if (q.entries[i].input) q.layer[q.layers.at[i].end] = i + 1;
  CLADE_GOTO(mark(&q, g));
  CLADE_GOTO(clade__pass_rewrite(ctx, build, &q));
fail:
  clade__free(q.layers.at);
  clade__free(q.entries);
  clade__free(q.layer);
  clade__free(q.is_needed);
  return status;
}
