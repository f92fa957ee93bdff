/* Block-quantized weights of linear layers: "fc1=q4_0,fc2=q4_0" in ctx->quantization gives NAME.weight of these
 * layers that type. Products read it directly; everything else stays in f32 (docs/quantization.md). */
#include "pass/quantize.h"

static clade_dtype type_of(const char *word, size_t length) {
  clade_dtype t = CLADE_DTYPE_NONE;
  while ((t = clade__dtype_next(t)))
    if (clade__has_blocks(t) && clade__word_is(clade_dtype_name(t), word, length)) return t;
  return t;
}

/* The type of an entry "LAYER=TYPE"; NONE for other entries. */
static clade_dtype entry_type(const char *at, size_t length) {
  const char *equals = memchr(at, '=', length);
  return equals ? type_of(equals + 1, (size_t)(at + length - equals) - 1) : CLADE_DTYPE_NONE;
}

bool clade__quant_in_blocks(const char *text) { return entry_type(text, strcspn(text, ",")); }

bool clade__quant_takes_blocks(const clade_graph *g, const clade__quant_layer *l, clade_dtype type) {
  const clade_shape *s = &clade__type(g, l->weight)->shape;
  return g->nodes[l->node].op == &clade__op_gemm && s->dim[1] > 0 && s->dim[1] % clade__dtype_row(type)->elements == 0;
}

typedef struct retyper {
  clade__quant_layers layers;
  clade_dtype *types; /* by node: new type of a variable */
} retyper;

static clade_status parse_entry(retyper *r, const clade_graph *g, const char *at, size_t length) {
  const clade_dtype type = entry_type(at, length);
  const int shown = (int)CLADE_MIN(length, 80u);
  if (!type) return CLADE_FAIL(INVALID, "quantization: \"%.*s\": expected LAYER=q4_0 or LAYER=q8_0", shown, at);
  const size_t name = (size_t)((const char *)memchr(at, '=', length) - at);
  for (size_t i = 0; i < r->layers.n; i++) {
    const clade__quant_layer *l = &r->layers.at[i];
    if (!clade__word_is(l->name, at, name)) continue;
    clade_dtype *to = &r->types[g->values[l->weight].node];
    if (*to) return CLADE_FAIL(DUPLICATE, "quantization: the layer \"%s\" is listed twice", l->name);
    if (!clade__quant_takes_blocks(g, l, type))
      return CLADE_FAIL(BAD_SHAPE, "quantization: \"%.*s\": expected a linear layer with a multiple of %u inputs",
                        shown, at, clade__dtype_row(type)->elements);
    *to = type;
    return CLADE_OK;
  }
  return CLADE_FAIL(NOT_FOUND, "quantization: the graph has no layer \"%.*s\" that can be quantized",
                    (int)CLADE_MIN(name, 80u), at);
}

static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  const retyper *r = user;
  const clade__node *n = &old->nodes[node];
  if (!r->types[node]) return clade__node_copy(old, node, g, map);
  clade_type type = *clade__type(old, n->first_out);
  type.dtype = r->types[node];
  return clade__node_copy_as(old, node, n->attrs, &type, g, map);
}

clade_status clade__pass_quantize_blocks(clade__pass_ctx *ctx) {
  retyper r = {.types = NULL};
  clade_status status;
  CLADE_GOTO(clade__quant_layers_find(ctx->graph, &r.layers));
  r.types = clade__new(ctx->graph->n_nodes, sizeof *r.types);
  CLADE_GOTO(r.types ? CLADE_OK : CLADE_NO_MEMORY);
  for (const char *at = ctx->quantization; *at; at += *at == ',') {
    const size_t length = strcspn(at, ",");
    CLADE_GOTO(parse_entry(&r, ctx->graph, at, length));
    at += length;
  }
  CLADE_GOTO(clade__pass_rewrite(ctx, build, &r));
fail:
  clade__free(r.layers.at);
  clade__free(r.types);
  return status;
}
