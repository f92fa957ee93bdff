/* Compute types of nodes under mixed precision: the ops' lists, and before them the user's overrides
 * "gemm=f32,fc3=bf16", each of which names a node, a layer (nodes that read its variables, and their derivatives),
 * an elementwise function or an op. */
#include "pass/autocast.h"

/* Functions whose results need the range or precision of f32; PyTorch's list. */
static const char *const wide_functions[] = {"exp",   "exp2",       "expm1", "log",      "log1p",       "log2", "pow",
                                             "rsqrt", "reciprocal", "tan",   "softplus", "log_sigmoid", "bce"};

static const clade__elt *program_of(const clade__node *n) {
  return n->op == &clade__op_eltwise ? &((const clade__eltwise_attrs *)n->attrs)->program : NULL;
}

/* ---- op lists ---- */
static bool is_wide_function(const clade__elt_row *row) {
  for (size_t i = 0; i < CLADE_COUNT(wide_functions); i++)
    if (!strcmp(row->name, wide_functions[i])) return true;
  return false;
}

/* Programs with explicit types, by a cast or by other float operands, stay unchanged. */
static bool names_types(const clade__elt *p) {
  for (int i = 0; i < p->n_in; i++)
    if (clade__is_float((clade_dtype)p->in_dtype[i]) && p->in_dtype[i] != CLADE_F32) return true;
  for (int i = 0; i < p->n_insn; i++) {
    const clade__elt_row *row = clade__elt_by_number(p->insn[i].fn);
    if (!row || row->kind == CLADE__ELT_CAST) return true;
  }
  return false;
}

static clade_autocast of_program(const clade__elt *p) {
  if (names_types(p)) return CLADE_AUTOCAST_WIDE;
  for (int i = 0; i < p->n_insn; i++)
    if (is_wide_function(clade__elt_by_number(p->insn[i].fn))) return CLADE_AUTOCAST_WIDE;
  return CLADE_AUTOCAST_CARRY;
}

/* A frame's fill value is stored as bytes of its built type. */
static bool is_filled(const clade__node *n) {
  for (const clade_attr *a = n->op->attrs; n->op == &clade__op_frame && a->name; a++)
    if (!strcmp(a->name, "fill")) {
      int64_t fill;
      memcpy(&fill, (const char *)n->attrs + a->offset, sizeof fill);
      return fill != 0;
    }
  return false;
}

static clade_autocast of_list(const clade__node *n) {
  const clade__elt *p = program_of(n);
  if (n->op == &clade__op_transfer || n->op == &clade__op_stop_gradient) return CLADE_AUTOCAST_CARRY;
  if (p) return of_program(p);
  return is_filled(n) ? CLADE_AUTOCAST_WIDE : CLADE__FIELD(n->op, autocast, CLADE_AUTOCAST_WIDE);
}

uint64_t clade__autocast_carried(const clade_op *op) {
  const uint64_t some = CLADE__FIELD(op, carries, 0);
  return some ? some : UINT64_MAX;
}

/* ---- names ---- */
static bool is_layer_of(const char *variable, const char *name, size_t n) {
  const char *dot = strrchr(variable, '.');
  return dot && (size_t)(dot - variable) == n && !strncmp(variable, name, n);
}

/* Looks through views, such as the reshape of a convolution's bias. */
static const clade__node *source_of(const clade_graph *g, clade__id value) {
  const clade__node *n = &g->nodes[g->values[value].node];
  while (n->op->flags & CLADE_OP_VIEW) n = &g->nodes[g->values[n->in[0]].node];
  return n;
}

static bool reads_layer(const clade_graph *g, const clade__node *n, const char *name, size_t length) {
  for (int i = 0; i < n->n_in; i++) {
    const clade__node *from = source_of(g, n->in[i]);
    if (from->op == &clade__op_variable && is_layer_of(from->name, name, length)) return true;
  }
  return false;
}

static bool has_function(const clade__node *n, const char *name, size_t length) {
  const clade__elt *p = program_of(n);
  for (int i = 0; p && i < p->n_insn; i++) {
    const clade__elt_row *row = clade__elt_by_number(p->insn[i].fn);
    if (row && clade__word_is(row->name, name, length)) return true;
  }
  return false;
}

/* most specific first */
typedef enum kind { NODE, LAYER, FUNCTION, OP, NOTHING } kind;

static kind named(const clade_graph *g, const clade__node *n, const char *name, size_t length) {
  const clade__node *forward = n->derives ? &g->nodes[n->derives] : n;
  if (clade__word_is(n->name, name, length) || clade__word_is(forward->name, name, length)) return NODE;
  if (of_list(n) != CLADE_AUTOCAST_WIDE && /* not an update op, which reads the layer's variables too */
      (reads_layer(g, n, name, length) || reads_layer(g, forward, name, length)))
    return LAYER;
  if (has_function(n, name, length)) return FUNCTION;
  return clade__word_is(n->op->name, name, length) ? OP : NOTHING;
}

/* ---- overrides ---- */
typedef struct word {
  const char *name, *type;
  size_t length, type_length; /* type NULL: the "=" is missing */
} word;

static const char *next(const char *at, word *w) {
  const size_t end = strcspn(at, ","), n = CLADE_MIN(strcspn(at, "="), end);
  *w = (word){at, n < end ? at + n + 1 : NULL, n, n < end ? end - n - 1 : 0};
  at += end;
  return *at ? at + 1 : at;
}

static bool is_named(const clade_graph *g, const word *w) {
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    if (n->op == &clade__op_variable ? is_layer_of(n->name, w->name, w->length)
                                     : clade__word_is(n->name, w->name, w->length))
      return true;
  }
  for (const clade__elt_row *row = clade__elt_rows; row->name; row++)
    if (clade__word_is(row->name, w->name, w->length)) return true;
  return clade__op_named(g, w->name, w->length);
}

static clade_status check_word(const clade__pass_ctx *ctx, const word *w) {
  const char *narrow = clade_dtype_name(ctx->precision);
  const int shown = (int)CLADE_MIN(w->length, (size_t)64);
  word other;
  if (!w->length || !w->type)
    return CLADE_FAIL(INVALID, "types: \"%.*s\": NAME=f32 or NAME=%s is expected", shown, w->name, narrow);
  if (!clade__word_is("f32", w->type, w->type_length) && !clade__word_is(narrow, w->type, w->type_length))
    return CLADE_FAIL(INVALID, "types: \"%.*s=%.*s\": the func computes in f32 and %s", shown, w->name,
                      (int)CLADE_MIN(w->type_length, (size_t)64), w->type, narrow);
  if (!is_named(ctx->graph, w))
    return CLADE_FAIL(NOT_FOUND,
                      "types: \"%.*s\": the graph has no node and no layer of that name, and there is no such op or "
                      "function",
                      shown, w->name);
  for (const char *at = ctx->types; at < w->name;) {
    at = next(at, &other);
    if (other.name < w->name && other.length == w->length && !strncmp(other.name, w->name, w->length))
      return CLADE_FAIL(DUPLICATE, "types: names \"%.*s\" twice", shown, w->name);
  }
  return CLADE_OK;
}

static clade_status check_words(const clade__pass_ctx *ctx) {
  word w;
  for (const char *at = ctx->types; at && *at;) {
    at = next(at, &w);
    CLADE_TRY(check_word(ctx, &w));
  }
  return CLADE_OK;
}

/* Whether overrides apply to the node: not to storage nodes or those with explicit types. */
static bool is_free(const clade__node *n) {
  const clade__elt *p = program_of(n);
  return n->n_in && n->op != &clade__op_assign && !(p && names_types(p));
}

/* Products with block-quantized operands compute in f32. */
static bool has_blocks(const clade_graph *g, const clade__node *n) {
  bool any = false;
  for (int i = 0; i < n->n_in; i++) any |= clade__has_blocks(clade__type(g, n->in[i])->dtype);
  return any;
}

static clade_autocast rule_of(const clade__pass_ctx *ctx, const clade__node *n) {
  if (has_blocks(ctx->graph, n)) return CLADE_AUTOCAST_WIDE;
  clade_autocast rule = of_list(n);
  kind best = NOTHING;
  word w;
  for (const char *at = ctx->types; at && *at && is_free(n);) {
    at = next(at, &w);
    const kind by = named(ctx->graph, n, w.name, w.length);
    if (by >= best) continue;
    best = by;
    rule = clade__word_is("f32", w.type, w.type_length) ? CLADE_AUTOCAST_WIDE : CLADE_AUTOCAST_NARROW;
  }
  return rule;
}

clade_status clade__autocast_rules(const clade__pass_ctx *ctx, clade_autocast **out) {
  const clade_graph *g = ctx->graph;
  CLADE_TRY(check_words(ctx));
  *out = clade__new(g->n_nodes, sizeof **out);
  if (!*out) return CLADE_NO_MEMORY;
  for (clade__id id = 1; id < g->n_nodes; id++) (*out)[id] = rule_of(ctx, &g->nodes[id]);
  return CLADE_OK;
}
