/* Mixed precision: ops of the narrow list compute in the narrow type, those of the wide list in f32, all others in
 * the type of their operands (docs/mixed-precision.md). A value built as f32 is stored in one of the two types and
 * cast once to the other if needed. Inputs, outputs and variables keep their types. */
#include <inttypes.h>

#include "op/reduce/reduce.h"
#include "pass/autocast.h"

/* A value of the built graph in each type; 0: not available. */
typedef struct versions {
  clade__id wide, narrow;
  bool is_narrow; /* stored type, which ops of neither list use */
} versions;

typedef struct caster {
  clade_dtype narrow;
  clade_autocast *rules; /* by node */
  bool *is_output;       /* by value */
  versions *at;          /* by value */
  size_t nodes, carried; /* counts of nodes that are narrow by their list, and by their operands */
} caster;

/* ---- versions of a value ---- */
static bool is_managed(const clade_graph *old, clade__id value) { return clade__type(old, value)->dtype == CLADE_F32; }

static clade_status add_cast(clade_graph *g, clade__id from, clade_dtype to, clade__id *out) {
  const clade__node *maker = &g->nodes[g->values[from].node];
  clade__eltwise_attrs attrs;
  clade__id node;
  memset(&attrs, 0, sizeof attrs); /* attributes are compared and hashed bytewise */
  attrs.program.n_in = attrs.program.n_insn = 1;
  attrs.program.in_dtype[0] = (uint8_t)clade__type(g, from)->dtype;
  attrs.program.insn[0].fn = clade__elt_by_name("cast")->number;
  attrs.program.insn[0].dtype = (uint8_t)to;
  g->device = maker->device; /* cast on the source device: narrow values are cheaper to transfer */
  CLADE_TRY(clade__node_new(g, &clade__op_eltwise, NULL, &attrs, 1, &from, &node));
  *out = g->nodes[node].first_out;
  return CLADE_OK;
}

static clade_status get_narrow(caster *c, clade_graph *g, clade__id value, clade__id *out) {
  versions *v = &c->at[value];
  if (!v->narrow) CLADE_TRY(add_cast(g, v->wide, c->narrow, &v->narrow));
  *out = v->narrow;
  return CLADE_OK;
}

static clade_status get_wide(caster *c, clade_graph *g, clade__id value, clade__id *out) {
  versions *v = &c->at[value];
  if (!v->wide) CLADE_TRY(add_cast(g, v->narrow, CLADE_F32, &v->wide));
  *out = v->wide;
  return CLADE_OK;
}

/* Records a computed value. If it has a `like` value, such as the one whose gradient it is, stores it in the same
 * type. */
static clade_status settle(caster *c, const clade_graph *old, clade_graph *g, clade__id value, clade__id made,
                           clade__id *map) {
  const clade__id like = old->values[value].like;
  versions *v = &c->at[value];
  map[value] = made;
  if (!is_managed(old, value)) return CLADE_OK;
  v->is_narrow = clade__type(g, made)->dtype == c->narrow;
  *(v->is_narrow ? &v->narrow : &v->wide) = made;
  if (like && !v->is_narrow && c->at[like].is_narrow) {
    CLADE_TRY(get_narrow(c, g, value, &made));
    v->is_narrow = true;
  }
  return c->is_output[value] ? get_wide(c, g, value, &map[value]) : CLADE_OK;
}

/* ---- elementwise programs, which contain their casts ---- */
static bool is_fill(const clade_graph *old, clade__id value) {
  const clade__node *n = &old->nodes[old->values[value].node];
  return n->op == &clade__op_constant && ((const clade__constant_attrs *)n->attrs)->pattern;
}

/* Decided by operands as large as the result. Broadcast operands such as a bias do not make it wide. */
static bool is_result_narrow(const caster *c, const clade_graph *old, const clade__node *n) {
  const clade_shape *result = &clade__type(old, n->first_out)->shape;
  int whole = 0, wide = 0, narrow = 0, wide_whole = 0;
  for (int i = 0; i < n->n_in; i++) {
    if (!is_managed(old, n->in[i]) || is_fill(old, n->in[i])) continue;
    const bool is_whole = clade_shape_equal(&clade__type(old, n->in[i])->shape, result);
    const bool is_narrow = c->at[n->in[i]].is_narrow;
    whole += is_whole;
    wide_whole += is_whole && !is_narrow;
    *(is_narrow ? &narrow : &wide) += 1;
  }
  return narrow && !(whole ? wide_whole : wide);
}

static bool all_are_narrow(const caster *c, const clade_graph *old, const clade__node *n) {
  for (int i = 0; i < n->n_in; i++)
    if (is_managed(old, n->in[i]) && !c->at[n->in[i]].is_narrow) return false;
  return true;
}

/* Changes the program's type. */
static void retype(clade__elt *p, clade_dtype to) {
  for (int i = 0; i < p->n_in; i++)
    if (p->in_dtype[i] == CLADE_F32) p->in_dtype[i] = (uint8_t)to;
  for (int i = 0; i < p->n_insn; i++)
    if (p->insn[i].dtype == CLADE_F32) p->insn[i].dtype = (uint8_t)to;
}

/* Casts the narrow operand `at` by an instruction at the beginning, unless the program is a cast itself. */
static void cast_operand(clade__elt *p, int at, clade_dtype narrow) {
  p->in_dtype[at] = (uint8_t)narrow;
  if (p->n_insn == 1 && clade__elt_by_number(p->insn[0].fn)->kind == CLADE__ELT_CAST) return;
  for (int i = p->n_insn; i > 0; i--) {
    p->insn[i] = p->insn[i - 1];
    for (int k = 0; k < 3; k++) {
      uint8_t *arg = &p->insn[i].arg[k];
      if (*arg == at)
        *arg = p->n_in;
      else if (*arg >= p->n_in)
        (*arg)++;
    }
  }
  p->insn[0] = (clade__elt_insn){.fn = clade__elt_by_name("cast")->number, .dtype = CLADE_F32, .arg = {(uint8_t)at}};
  p->n_insn++;
}

/* Unused arguments are 0, which looks like an operand, so mark those beyond the function's arity. */
static void clear_unused(clade__elt *p) {
  for (int i = 0; i < p->n_insn; i++)
    for (int k = clade__elt_by_number(p->insn[i].fn)->arity; k < 3; k++) p->insn[i].arg[k] = 0;
}

/* Computes in f32 from operands in their stored types. */
static clade_status widen(caster *c, const clade_graph *old, const clade__node *n, clade_graph *g, const clade__id *map,
                          clade__elt *p, clade__id *in) {
  for (int i = 0; i < n->n_in; i++) {
    const versions *v = &c->at[n->in[i]];
    in[i] = map[n->in[i]];
    if (!is_managed(old, n->in[i])) continue;
    if (!v->is_narrow || p->n_insn == CLADE__ELT_INSNS) {
      CLADE_TRY(get_wide(c, g, n->in[i], &in[i]));
      continue;
    }
    cast_operand(p, i, c->narrow);
    in[i] = v->narrow;
  }
  clear_unused(p);
  return CLADE_OK;
}

static clade_status all_narrow(caster *c, const clade_graph *old, const clade__node *n, clade_graph *g,
                               const clade__id *map, clade__id *in) {
  for (int i = 0; i < n->n_in; i++) {
    in[i] = map[n->in[i]];
    if (is_managed(old, n->in[i])) CLADE_TRY(get_narrow(c, g, n->in[i], &in[i]));
  }
  return CLADE_OK;
}

static clade_status eltwise(caster *c, const clade_graph *old, const clade__node *n, clade_autocast rule,
                            clade_graph *g, clade__id *map) {
  clade__eltwise_attrs attrs = *(const clade__eltwise_attrs *)n->attrs;
  clade__id in[CLADE__ELT_INPUTS], node;
  const bool is_narrow = rule == CLADE_AUTOCAST_NARROW || (rule == CLADE_AUTOCAST_CARRY && is_result_narrow(c, old, n));
  const bool by_narrow = rule == CLADE_AUTOCAST_NARROW || (is_narrow && all_are_narrow(c, old, n));
  c->carried += is_narrow;
  if (by_narrow) {
    retype(&attrs.program, c->narrow);
    CLADE_TRY(all_narrow(c, old, n, g, map, in));
  } else {
    CLADE_TRY(widen(c, old, n, g, map, &attrs.program, in));
  }
  g->device = n->device;
  CLADE_TRY(clade__node_new(g, n->op, n->name, &attrs, n->n_in, in, &node));
  const clade__id value = n->first_out, made = g->nodes[node].first_out;
  CLADE_TRY(settle(c, old, g, value, made, map));
  if (by_narrow || !is_narrow || !is_managed(old, value) || c->at[value].is_narrow) return CLADE_OK;
  clade__id cast;
  CLADE_TRY(get_narrow(c, g, value, &cast));
  c->at[value].is_narrow = true;
  return CLADE_OK;
}

/* ---- other nodes ---- */
/* A reduction reads narrow elements as they are stored, and computes in f32. */
static clade_status reduction(caster *c, const clade_graph *old, const clade__node *n, clade_graph *g, clade__id *map) {
  clade__id node;
  g->device = n->device;
  CLADE_TRY(clade__reduce_widened(g, n, c->at[n->in[0]].narrow, &node));
  return settle(c, old, g, n->first_out, g->nodes[node].first_out, map);
}

/* Operands of such ops must have one type: narrow only if all are. */
static bool comes_narrow(const caster *c, const clade_graph *old, const clade__node *n) {
  const uint64_t carried = clade__autocast_carried(n->op);
  bool any = false;
  for (int i = 0; i < n->n_in; i++) {
    if (!(carried >> i & 1) || !is_managed(old, n->in[i])) continue;
    if (!c->at[n->in[i]].is_narrow) return false;
    any = true;
  }
  return any;
}

static clade_status other(caster *c, const clade_graph *old, const clade__node *n, clade_autocast rule, clade_graph *g,
                          clade__id *map) {
  const uint64_t carried = clade__autocast_carried(n->op);
  const bool narrow = rule == CLADE_AUTOCAST_NARROW || (rule == CLADE_AUTOCAST_CARRY && comes_narrow(c, old, n));
  clade__id in[CLADE_MAX_OPERANDS], node;
  for (int i = 0; i < n->n_in; i++) {
    in[i] = map[n->in[i]];
    if (!is_managed(old, n->in[i])) continue;
    CLADE_TRY((narrow && carried >> i & 1 ? get_narrow : get_wide)(c, g, n->in[i], &in[i]));
  }
  g->device = n->device;
  CLADE_TRY(clade__node_new(g, n->op, n->name, n->attrs, n->n_in, in, &node));
  for (int i = 0; i < n->n_out; i++)
    CLADE_TRY(settle(c, old, g, n->first_out + (clade__id)i, g->nodes[node].first_out + (clade__id)i, map));
  if (n->n_out && c->at[n->first_out].is_narrow) *(rule == CLADE_AUTOCAST_NARROW ? &c->nodes : &c->carried) += 1;
  return CLADE_OK;
}

static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  caster *c = user;
  const clade__node *n = &old->nodes[node];
  if (n->op == &clade__op_eltwise) return eltwise(c, old, n, c->rules[node], g, map);
  if (n->op == &clade__op_reduce && c->rules[node] == CLADE_AUTOCAST_WIDE && c->at[n->in[0]].is_narrow)
    return reduction(c, old, n, g, map);
  if (n->n_in) return other(c, old, n, c->rules[node], g, map);
  CLADE_TRY(clade__node_copy(old, node, g, map));
  for (int i = 0; i < n->n_out; i++) {
    const clade__id value = n->first_out + (clade__id)i;
    CLADE_TRY(settle(c, old, g, value, map[value], map));
  }
  return CLADE_OK;
}

static bool casts(const clade_graph *g, const clade__node *n, clade_dtype from, clade_dtype to) {
  return clade__is_cast(n) && clade__type(g, n->in[0])->dtype == from && clade__type(g, n->first_out)->dtype == to;
}

/* Casts that ended up unused do not count. */
static clade_status tell(const clade_graph *g, const caster *c, char **out) {
  size_t narrow = 0, variables = 0, wide = 0;
  clade__text text = {0};
  uint32_t *uses;
  CLADE_TRY(clade__graph_uses(g, &uses));
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade__node *n = &g->nodes[id];
    if (!n->n_out || !uses[n->first_out]) continue;
    const bool narrows = casts(g, n, CLADE_F32, c->narrow);
    narrow += narrows;
    variables += narrows && g->nodes[g->values[n->in[0]].node].op == &clade__op_variable;
    wide += casts(g, n, c->narrow, CLADE_F32);
  }
  clade__free(uses);
  clade__text_add(&text,
                  "mixed precision: %s; %zu nodes compute in it by their lists, %zu as their operands come; %zu values "
                  "are cast to it, of which %zu are variables, and %zu to f32\n",
                  clade_dtype_name(c->narrow), c->nodes, c->carried, narrow, variables, wide);
  return clade__text_take(&text, out);
}

static clade_status check(const clade__pass_ctx *ctx) {
  const clade_dtype t = ctx->precision;
  if (t && t != CLADE_F32 && t != CLADE_BF16 && t != CLADE_F16)
    return CLADE_FAIL(DTYPE, "precision: %s; expected f32, bf16 or f16", clade_dtype_name(t));
  if (ctx->types && *ctx->types && (!t || t == CLADE_F32))
    return CLADE_FAIL(INVALID, "types: \"%.64s\": the func computes in f32 alone: give it a precision", ctx->types);
  return CLADE_OK;
}

clade_status clade__pass_autocast(clade__pass_ctx *ctx) {
  const clade_graph *g = ctx->graph;
  caster c = {.narrow = ctx->precision};
  clade_status status = CLADE_NO_MEMORY;
  CLADE_TRY(check(ctx));
  if (!ctx->precision || ctx->precision == CLADE_F32) return CLADE_OK;
  c.is_output = clade__new(g->n_values, sizeof *c.is_output);
  c.at = clade__new(g->n_values, sizeof *c.at);
  if (!c.is_output || !c.at) goto fail;
  for (size_t i = 0; i < g->outputs.count; i++) c.is_output[g->outputs.at[i].value] = true;
  CLADE_GOTO(clade__autocast_rules(ctx, &c.rules));
  CLADE_GOTO(clade__pass_rewrite(ctx, build, &c));
  CLADE_GOTO(tell(ctx->graph, &c, &ctx->casts));
fail:
  clade__free(c.rules);
  clade__free(c.is_output);
  clade__free(c.at);
  return status;
}
