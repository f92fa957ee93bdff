/* Prints a graph as text, one line per node, and as Graphviz input. */
#include "ir/ir.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Shortest decimal form that reads back as the same number. */
static void add_double(clade__text *t, double value) {
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  clade__text_add(t, "%s", text);
}
static void add_float(clade__text *t, float value) {
  char text[40];
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, (double)value);
    if (strtof(text, NULL) == value) break;
  }
  clade__text_add(t, "%s", text);
}

static bool is_zero(const void *data, size_t bytes) {
  const unsigned char *c = data;
  for (size_t i = 0; i < bytes; i++)
    if (c[i]) return false;
  return true;
}

static void add_digest(clade__text *t, const void *data, size_t bytes) {
  char digest[33];
  clade__text_add(t, "#%.8s", clade__hash_text(clade__hash_bytes(data, bytes), digest));
}

static void add_element(clade__text *t, clade_attr_kind kind, const char *at) {
  union {
    bool b;
    int32_t i;
    int64_t l;
    float f;
    clade_dtype dtype;
    clade_shape shape;
  } u;
  char text[512];
  switch (kind) {
  case CLADE_ATTR_BOOL: memcpy(&u.b, at, sizeof u.b), clade__text_add(t, "%s", u.b ? "true" : "false"); break;
  case CLADE_ATTR_I32: memcpy(&u.i, at, sizeof u.i), clade__text_add(t, "%" PRId32, u.i); break;
  case CLADE_ATTR_I64: memcpy(&u.l, at, sizeof u.l), clade__text_add(t, "%" PRId64, u.l); break;
  case CLADE_ATTR_F32: memcpy(&u.f, at, sizeof u.f), add_float(t, u.f); break;
  case CLADE_ATTR_DTYPE:
    memcpy(&u.dtype, at, sizeof u.dtype), clade__text_add(t, "%s", clade_dtype_name(u.dtype));
    break;
  case CLADE_ATTR_SHAPE:
    memcpy(&u.shape, at, sizeof u.shape);
    clade__text_add(t, "%s", clade_shape_text(&u.shape, text, sizeof text));
    break;
  case CLADE_ATTR_BYTES: break;
  }
}

/* Prints a bool, number, type or shape; arrays in brackets, bytes as a digest. */
static void add_attr(clade__text *t, const clade_attr *a, const char *at) {
  uint32_t count = CLADE_MAX(a->count, 1u);
  clade__text_add(t, "%s=", a->name);
  if (a->kind == CLADE_ATTR_BYTES) {
    add_digest(t, at, count);
    return;
  }
  size_t size = clade__attr_size(a->kind);
  if (count > 1) clade__text_add(t, "[");
  for (uint32_t i = 0; i < count; i++) {
    if (i) clade__text_add(t, ", ");
    add_element(t, a->kind, at + i * size);
  }
  if (count > 1) clade__text_add(t, "]");
}

static void add_attrs(clade__text *t, const clade__node *n) {
  const char *between = " {";
  for (const clade_attr *a = n->op->attrs; a && a->name; a++) {
    const char *at = (const char *)n->attrs + a->offset;
    if (is_zero(at, CLADE_MAX(a->count, 1u) * clade__attr_size(a->kind))) continue; /* default value */
    clade__text_add(t, "%s", between);
    add_attr(t, a, at);
    between = ", ";
  }
  if (*between == ',') clade__text_add(t, "}");
}

static void add_constant(clade__text *t, const clade__constant_attrs *a, clade_dtype dtype) {
  int64_t i;
  float f;
  if (!a->pattern) {
    clade__text_add(t, " data=");
    add_digest(t, a->data, a->bytes);
  } else if (clade__is_float(dtype)) {
    if (clade_convert(CLADE_F32, &f, dtype, a->data, 1) == CLADE_OK) clade__text_add(t, " fill="), add_float(t, f);
  } else if (clade_convert(CLADE_I64, &i, dtype, a->data, 1) == CLADE_OK) {
    clade__text_add(t, " fill=%" PRId64, i);
  }
}

static void add_initial(clade__text *t, const clade__port *p) {
  static const char *const kinds[] = {"unset", "fill", "uniform", "normal", "orthogonal", "zero"};
  clade__text_add(t, "%s initial=%s", p->parameter ? " learned" : "", kinds[p->initial.kind]);
  if (p->initial.kind == CLADE_INIT_ZERO) return;
  clade__text_add(t, "("), add_double(t, p->initial.a);
  if (p->initial.kind != CLADE_INIT_FILL) clade__text_add(t, ", "), add_double(t, p->initial.b);
  clade__text_add(t, ")");
}

/* Properties that distinguish the node from others of its op. */
static void add_details(clade__text *t, const clade_graph *g, const clade__node *n) {
  size_t index;
  if (n->op == &clade__op_constant)
    add_constant(t, n->attrs, clade__type(g, n->first_out)->dtype);
  else if (n->op == &clade__op_variable &&
           clade__map_get(&g->variables.by_name, clade__hash_bytes(n->name, strlen(n->name)), &index))
    add_initial(t, &g->variables.at[index]);
  else
    add_attrs(t, n);
  if (n->device) clade__text_add(t, " @%d", n->device);
}

static void add_types(clade__text *t, const clade_graph *g, const clade__node *n) {
  char text[640];
  for (int i = 0; i < n->n_out; i++)
    clade__text_add(t, "%s%s", i ? ", " : "",
                    clade__type_text(clade__type(g, n->first_out + (clade__id)i), text, sizeof text));
}

/* %3 = gemm "fc" (%1, %2) {trans_b=true} @1 : f32[batch, 10] */
static void add_node(clade__text *t, const clade_graph *g, const clade__node *n) {
  clade__text_add(t, "  ");
  for (int i = 0; i < n->n_out; i++) clade__text_add(t, "%s%%%u", i ? ", " : "", n->first_out + (clade__id)i);
  clade__text_add(t, "%s%s", n->n_out ? " = " : "", n->op->name);
  if (*n->name) clade__text_add(t, " \"%s\"", n->name);
  for (int i = 0; i < n->n_in; i++) clade__text_add(t, "%s%%%u", i ? ", " : " (", n->in[i]);
  if (n->n_in) clade__text_add(t, ")");
  add_details(t, g, n);
  if (n->n_out) clade__text_add(t, " : ");
  add_types(t, g, n);
  clade__text_add(t, "\n");
}

static void as_text(clade__text *t, const clade_graph *g) {
  clade__text_add(t, "graph {\n");
  for (size_t i = 1; i < g->n_nodes; i++) add_node(t, g, &g->nodes[i]);
  for (size_t i = 0; i < g->outputs.count; i++)
    clade__text_add(t, "  output \"%s\" (%%%u)\n", g->outputs.at[i].name, g->outputs.at[i].value);
  clade__text_add(t, "}\n");
}

static void as_dot(clade__text *t, const clade_graph *g) {
  char type[640];
  clade__text_add(t, "digraph clade {\n  node [shape=box];\n");
  for (size_t i = 1; i < g->n_nodes; i++) {
    const clade__node *n = &g->nodes[i];
    clade__text_add(t, "  n%zu [label=\"%s%s%s", i, n->op->name, *n->name ? " " : "", n->name);
    add_details(t, g, n);
    if (n->n_out) clade__text_add(t, "\\n");
    add_types(t, g, n);
    clade__text_add(t, "\"];\n");
    for (int k = 0; k < n->n_in; k++) {
      const clade__value *v = &g->values[n->in[k]];
      clade__text_add(t, "  n%u -> n%zu [label=\"%s\"];\n", v->node, i, clade__type_text(&v->type, type, sizeof type));
    }
  }
  for (size_t i = 0; i < g->outputs.count; i++) {
    const clade__port *p = &g->outputs.at[i];
    clade__text_add(t, "  o%zu [label=\"output %s\", shape=ellipse];\n  n%u -> o%zu;\n", i, p->name,
                    g->values[p->value].node, i);
  }
  clade__text_add(t, "}\n");
}

clade_status clade_graph_print(const clade_graph *g, clade_print_format format, char **out) {
  clade__text text = {0};
  if (!g || !out) return CLADE_FAIL(INVALID, "clade_graph_print: %s is NULL", g ? "out" : "the graph");
  if (format == CLADE_PRINT_TEXT)
    as_text(&text, g);
  else if (format == CLADE_PRINT_DOT)
    as_dot(&text, g);
  else
    return CLADE_FAIL(INVALID, "clade_graph_print: there is no format %d", (int)format);
  return clade__text_take(&text, out);
}
