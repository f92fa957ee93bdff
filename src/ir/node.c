/* Adding nodes: validates operands, copies attributes, infers types. */
#include "ir/ir.h"

#include <inttypes.h>
#include <stdio.h>

char *clade__type_text(const clade_type *type, char *text, size_t size) {
  char shape[512], layout[48] = "";
  if (type->layout.block)
    snprintf(layout, sizeof layout, type->layout.tile ? "{%d:%u:%u:%u}" : "{%d:%u:%u}", type->layout.axis,
             type->layout.block, type->layout.interleave, type->layout.tile);
  snprintf(text, size, "%s%s%s", clade_dtype_name(type->dtype), clade_shape_text(&type->shape, shape, sizeof shape),
           layout);
  return text;
}

clade_status clade__type_check(const clade_type *type, bool constant) {
  const clade_shape *shape = &type->shape;
  char text[512];
  size_t bytes;
  CLADE_TRY(clade_dtype_bytes(type->dtype, 0, &bytes));
  if (shape->rank < 0 || shape->rank > CLADE_MAX_RANK)
    return CLADE_FAIL(BAD_SHAPE, "a shape has 0 to %d dimensions, not %d", CLADE_MAX_RANK, shape->rank);
  for (int i = 0; i < shape->rank; i++) {
    clade_dim d = shape->dim[i];
    if (clade_dim_is_symbol(d)) {
      if (constant) return CLADE_FAIL(BAD_SHAPE, "dimension %d is \"%s\": sizes are expected", i, clade_dim_name(d));
    } else if (d == CLADE_DIM_ERROR) {
      return CLADE_FAIL(BAD_SHAPE, "dimension %d is no size: a bad name, an overflow or a negative difference", i);
    } else if (d < 0) {
      return CLADE_FAIL(BAD_SHAPE, "dimension %d of %s is negative", i, clade_shape_text(shape, text, sizeof text));
    }
  }
  return clade_shape_is_constant(shape) ? clade_type_bytes(type, &bytes) : CLADE_OK;
}

/* The op may have put its own name into the message already. */
clade_status clade__blame(clade_status status, const clade_op *op, const char *name) {
  const char *message = clade_last_error();
  size_t n = strlen(op->name);
  bool begun = strncmp(message, op->name, n) == 0 && message[n] == ':' && message[n + 1] == ' ';
  if (!*name) return begun ? status : clade__fail_in(status, "%.64s", op->name);
  return clade_fail(status, "%.64s \"%s\": %s", op->name, name, begun ? message + n + 2 : message);
}

void clade__node_view(const clade_graph *g, clade__id node, clade_type *in, clade_type *out, clade_node *view) {
  const clade__node *n = &g->nodes[node];
  for (int i = 0; i < n->n_in; i++) in[i] = g->values[n->in[i]].type;
  for (int i = 0; i < n->n_out; i++) out[i] = g->values[n->first_out + (clade__id)i].type;
  *view = (clade_node){sizeof *view, n->op, n->name, n->attrs, n->n_in, n->n_out, in, out};
}

static clade_status infer(const clade_graph *g, const clade__node *n, clade_type *out) {
  clade_type in[CLADE_MAX_OPERANDS];
  for (int i = 0; i < n->n_in; i++) in[i] = g->values[n->in[i]].type;
  clade_node view = {sizeof view, n->op, n->name, n->attrs, n->n_in, n->n_out, in, out};
  unsigned failures = clade__failures();
  clade_status status = n->op->infer(&view);
  if (status && clade__failures() == failures) clade_fail(status, "infer: %s", clade_status_text(status));
  for (int i = 0; i < n->n_out && status == CLADE_OK; i++) {
    status = clade__type_check(&out[i], false);
    if (status) clade__fail_in(status, "output %d", i);
  }
  return status ? clade__blame(status, n->op, n->name) : CLADE_OK;
}

static int outputs_of(const clade_op *op, const void *attrs, int n_in) {
  int (*outputs)(const void *, int) = CLADE__FIELD(op, outputs, NULL);
  return outputs ? outputs(attrs, n_in) : op->n_out;
}

static clade_status check_outputs(const clade_op *op, int n_out) {
  if (n_out < 0 || n_out > CLADE_MAX_OPERANDS)
    return CLADE_FAIL(INVALID, "%s: a node has at most %d outputs, not %d", op->name, CLADE_MAX_OPERANDS, n_out);
  return CLADE_OK;
}

/* Reserves space for a node and its outputs. */
static clade_status reserve(clade_graph *g, int n_out) {
  size_t values = g->n_values + (size_t)n_out;
  if (values >= UINT32_MAX || g->n_nodes >= UINT32_MAX - 1)
    return CLADE_FAIL(OVERFLOW, "a graph has fewer than 2^32 values");
  CLADE_TRY(clade__grow(&g->nodes, &g->node_capacity, g->n_nodes + 1, sizeof *g->nodes));
  return clade__grow(&g->values, &g->value_capacity, values, sizeof *g->values);
}

/* `types` of the outputs; NULL: inferred by the op. */
static clade_status add(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                        const clade__id *in, int n_out, const clade_type *types, clade__id *node) {
  clade_type out[CLADE_MAX_OPERANDS] = {0};
  clade__node n = {.op = op,
                   .name = "",
                   .n_in = n_in,
                   .n_out = n_out,
                   .device = g->device,
                   .share = g->share,
                   .derives = g->derives,
                   .impl = -1};
  CLADE_TRY(check_outputs(op, n_out));
  CLADE_TRY(reserve(g, n.n_out));
  if (name && *name && !(n.name = clade__arena_text(&g->arena, name))) return CLADE_NO_MEMORY;
  if (op->attr_bytes) {
    if (!(n.attrs = clade__arena_new(&g->arena, op->attr_bytes))) return CLADE_NO_MEMORY;
    if (attrs) memcpy(n.attrs, attrs, op->attr_bytes);
  }
  if (n_in) {
    if (!(n.in = clade__arena_new(&g->arena, (size_t)n_in * sizeof *in))) return CLADE_NO_MEMORY;
    memcpy(n.in, in, (size_t)n_in * sizeof *in);
  }
  if (types && n_out)
    memcpy(out, types, (size_t)n_out * sizeof *out);
  else if (!types)
    CLADE_TRY(infer(g, &n, out));
  clade__id id = (clade__id)g->n_nodes++;
  if (n.n_out) n.first_out = (clade__id)g->n_values;
  for (int i = 0; i < n.n_out; i++)
    g->values[g->n_values++] = (clade__value){.type = out[i], .node = id, .out = (uint16_t)i};
  g->nodes[id] = n;
  *node = id;
  return CLADE_OK;
}

clade_status clade__node_new(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                             const clade__id *in, clade__id *node) {
  if (!op->infer) return CLADE_FAIL(INVALID, "%.64s: such a node has no infer", op->name);
  return add(g, op, name, attrs, n_in, in, outputs_of(op, attrs, n_in), NULL, node);
}

clade_status clade__node_relaid(clade_graph *g, const clade__node *from, const clade__id *in, const clade_type *out,
                                clade__id *node) {
  g->device = from->device;
  return add(g, from->op, from->name, from->attrs, from->n_in, in, from->n_out, out, node);
}

clade_status clade__source_new(clade_graph *g, const clade_op *op, const char *name, const void *attrs,
                               const clade_type *type, clade__id *node) {
  return add(g, op, name, attrs, 0, NULL, 1, type, node);
}

/* ---- public builder ---- */
static size_t attr_size(clade_attr_kind kind) {
  switch (kind) {
  case CLADE_ATTR_BOOL: return sizeof(bool);
  case CLADE_ATTR_I32: return sizeof(int32_t);
  case CLADE_ATTR_I64: return sizeof(int64_t);
  case CLADE_ATTR_F32: return sizeof(float);
  case CLADE_ATTR_DTYPE: return sizeof(clade_dtype);
  case CLADE_ATTR_SHAPE: return sizeof(clade_shape);
  case CLADE_ATTR_BYTES: return 1;
  }
  return 0;
}

/* Every attribute must lie within the struct, since it is read for printing, hashing and specialization. */
static clade_status check_attrs(const clade_op *op) {
  for (const clade_attr *a = op->attrs; a && a->name; a++) {
    size_t size = attr_size(a->kind), count = CLADE_MAX(a->count, 1u);
    if (!size)
      return CLADE_FAIL(INVALID, "%s: the attribute \"%.64s\" has kind %d, which is none", op->name, a->name,
                        (int)a->kind);
    if (a->offset > op->attr_bytes || count > (op->attr_bytes - a->offset) / size)
      return CLADE_FAIL(INVALID,
                        "%s: the attribute \"%.64s\" (%zu bytes from byte %u on) lies outside of .attr_bytes, %u",
                        op->name, a->name, size * count, a->offset, op->attr_bytes);
  }
  return CLADE_OK;
}

/* The name is used in file names, messages and printed graphs. */
static clade_status check_op_name(const clade_op *op) {
  if (!op->name || !*op->name || strlen(op->name) > 64)
    return CLADE_FAIL(INVALID, "clade_node_add: an op has a name of at most 64 bytes");
  for (const char *c = op->name; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' || *c == '.' ||
          *c == '-'))
      return CLADE_FAIL(
          INVALID, "clade_node_add: the name of an op, \"%s\", holds letters, digits and _ . -, not the byte 0x%02x",
          op->name, (unsigned)(unsigned char)*c);
  return CLADE_OK;
}

/* Fields after .impls are optional. */
#define LEAST_OP CLADE__THROUGH(clade_op, impls)

static clade_status check_op(const clade_op *op, int n_out) {
  if (!op) return CLADE_FAIL(INVALID, "clade_node_add: the op is NULL");
  if (op->size < LEAST_OP)
    return CLADE_FAIL(INVALID, "clade_node_add: the op's size is %zu, at least %zu is expected: set .size", op->size,
                      LEAST_OP);
  CLADE_TRY(check_op_name(op));
  if (CLADE__FIELD(op, source, NULL) && !strchr(op->name, '.'))
    return CLADE_FAIL(INVALID, "%s: the name of an op with its own source holds a dot, as in \"acme.swirl\"", op->name);
  if (!op->infer) return CLADE_FAIL(INVALID, "%s: the op has no infer", op->name);
  CLADE_TRY(check_outputs(op, n_out));
  if (op->min_in < 0 || op->max_in > CLADE_MAX_OPERANDS)
    return CLADE_FAIL(INVALID, "%s: a node has at most %d operands", op->name, CLADE_MAX_OPERANDS);
  if (n_out == 0 && !(op->flags & CLADE_OP_EFFECT))
    return CLADE_FAIL(INVALID, "%s: an op without outputs is an effect", op->name);
  if ((op->flags & CLADE_OP_VIEW) && (op->min_in < 1 || n_out != 1))
    return CLADE_FAIL(INVALID, "%s: a view has an operand and one output", op->name);
  CLADE_TRY(clade__impls_check(op));
  return check_attrs(op);
}

static clade_status add_checked(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                                const clade_val *in, clade__id *node) {
  clade__id ids[CLADE_MAX_OPERANDS];
  if (n_in < op->min_in || n_in > op->max_in)
    return CLADE_FAIL(INVALID, "%s: %d operands, %d to %d are expected", op->name, n_in, op->min_in, op->max_in);
  if (n_in && !in) return CLADE_FAIL(INVALID, "%s: the operands are NULL", op->name);
  for (int i = 0; i < n_in; i++) {
    char what[96];
    snprintf(what, sizeof what, "%s: operand %d", op->name, i);
    CLADE_TRY(clade__graph_value(g, in[i], what, &ids[i]));
  }
  if (!name || !*name) return clade__node_new(g, op, "", attrs, n_in, ids, node);
  clade__hash key = clade__hash_bytes(name, strlen(name));
  size_t other;
  if (clade__name_check(op->name, name)) return CLADE_INVALID;
  if (clade__map_get(&g->node_names, key, &other))
    return CLADE_FAIL(DUPLICATE, "%s \"%s\": the name is another node's (%s)", op->name, name,
                      g->nodes[other].op->name);
  CLADE_TRY(clade__node_new(g, op, name, attrs, n_in, ids, node));
  return clade__map_put(&g->node_names, key, *node);
}

clade_val clade_node_add(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                         const clade_val *in, clade_val *outs) {
  int n_out = op && op->size >= LEAST_OP ? outputs_of(op, attrs, n_in) : 0;
  clade__id node = 0;
  clade_status status = clade__graph_ok(g) ? check_op(op, n_out) : CLADE_INVALID;
  if (status == CLADE_OK) status = add_checked(g, op, name, attrs, n_in, in, &node);
  /* Clear late: `outs` may alias `in`. */
  for (int i = 0; outs && i < n_out && i < CLADE_MAX_OPERANDS; i++) outs[i] = (clade_val){0};
  if (!clade__graph_ok(g)) return (clade_val){0};
  if (status) return clade__graph_fail(g, status, NULL);
  for (int i = 0; outs && i < n_out; i++) outs[i] = clade__graph_val(g, g->nodes[node].first_out + (clade__id)i);
  return clade__graph_val(g, g->nodes[node].first_out);
}
