/* Builders of the graph's own nodes: inputs, variables, constants, outputs, assignments and transfers. */
#include "ir/ir.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { MAX_NAME = 255 };

clade_status clade__name_check(const char *what, const char *name) {
  if (!name) return CLADE_FAIL(INVALID, "%s: the name is NULL", what);
  size_t n = strlen(name);
  if (n == 0) return CLADE_FAIL(INVALID, "%s: the name is empty", what);
  if (n > MAX_NAME)
    return CLADE_FAIL(INVALID, "%s \"%.32s…\": a name has at most %d bytes, this one has %zu", what, name, MAX_NAME, n);
  for (const char *c = name; *c; c++) {
    bool ok = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("_./-:@", *c);
    if (!ok)
      return CLADE_FAIL(INVALID, "%s \"%s\": a name holds letters, digits and _ . / - : @, not the byte 0x%02x", what,
                        name, (unsigned)(unsigned char)*c);
  }
  return CLADE_OK;
}

/* `what "name"`, for messages. */
static const char *title(char text[320], const char *what, const char *name) {
  snprintf(text, 320, "%s \"%s\"", what, name);
  return text;
}

/* ---- ports ---- */
clade_status clade__port_add(clade_graph *g, clade__ports *ports, const char *name, clade__id value,
                             clade_initial initial) {
  CLADE_TRY(clade__grow(&ports->at, &ports->capacity, ports->count + 1, sizeof *ports->at));
  char *copy = clade__arena_text(&g->arena, name);
  if (!copy) return CLADE_NO_MEMORY;
  CLADE_TRY(clade__map_put(&ports->by_name, clade__hash_bytes(name, strlen(name)), ports->count));
  ports->at[ports->count++] = (clade__port){.name = copy, .value = value, .initial = initial};
  return CLADE_OK;
}

void clade__ports_clear(clade__ports *ports) {
  clade__map_free(&ports->by_name);
  ports->by_name = (clade__map){0};
  ports->count = 0;
}

static clade_status check_port(const clade__ports *ports, const char *what, const char *name) {
  size_t other;
  CLADE_TRY(clade__name_check(what, name));
  if (clade__map_get(&ports->by_name, clade__hash_bytes(name, strlen(name)), &other))
    return CLADE_FAIL(DUPLICATE, "%s \"%s\": another %s has this name", what, name, what);
  return CLADE_OK;
}

/* Adds an input or a variable: a node and its port. */
static clade_val add_port(clade_graph *g, clade__ports *ports, const clade_op *op, const char *name,
                          const clade_type *type, clade_initial initial) {
  char what[320];
  clade__id node = 0;
  clade_status status = check_port(ports, op->name, name);
  if (status) return clade__graph_fail(g, status, NULL);
  title(what, op->name, name);
  status = clade__type_check(type, op == &clade__op_variable);
  if (status == CLADE_OK) status = clade__source_new(g, op, name, NULL, type, &node);
  if (status == CLADE_OK) status = clade__port_add(g, ports, name, g->nodes[node].first_out, initial);
  return status ? clade__graph_fail(g, status, what) : clade__graph_val(g, g->nodes[node].first_out);
}

clade_val clade_input(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape) {
  if (!clade__graph_ok(g)) return (clade_val){0};
  return add_port(g, &g->inputs, &clade__op_input, name, &(clade_type){.dtype = dtype, .shape = shape},
                  (clade_initial){0});
}

static clade_status check_initial(clade_dtype dtype, const clade_shape *shape, clade_initial initial) {
  bool random = initial.kind != CLADE_INIT_ZERO && initial.kind != CLADE_INIT_FILL;
  if ((unsigned)initial.kind > CLADE_INIT_ZERO)
    return CLADE_FAIL(INVALID, "%d is no kind of initial value", (int)initial.kind);
  bool whole = initial.kind == CLADE_INIT_UNIFORM && dtype == CLADE_I64; /* counters initialized by the seed */
  if (random && !whole && !clade__is_float(dtype))
    return CLADE_FAIL(DTYPE, "random initial values are floats, not %s", clade_dtype_name(dtype));
  if (random && !(isfinite(initial.a) && isfinite(initial.b)))
    return CLADE_FAIL(INVALID, "random initial values of %g and %g", initial.a, initial.b);
  if (initial.kind == CLADE_INIT_UNIFORM && initial.a > initial.b)
    return CLADE_FAIL(INVALID, "initial values from %g up to %g", initial.a, initial.b);
  if (initial.kind == CLADE_INIT_NORMAL && initial.b < 0)
    return CLADE_FAIL(INVALID, "initial values of deviation %g", initial.b);
  if (initial.kind == CLADE_INIT_ORTHOGONAL && shape->rank < 2)
    return CLADE_FAIL(BAD_SHAPE, "orthogonal initial values need two dimensions, not %d", shape->rank);
  return CLADE_OK;
}

/* Index of the variable with this value, or the number of variables. */
static size_t variable_of(const clade_graph *g, clade__id value) {
  const clade__node *n = &g->nodes[g->values[value].node];
  size_t index = g->variables.count;
  if (n->op == &clade__op_variable)
    clade__map_get(&g->variables.by_name, clade__hash_bytes(n->name, strlen(n->name)), &index);
  return index;
}

/* In a share other than the first: the variable made by an earlier share, invalid if there is none. */
static clade_val shared_variable(clade_graph *g, const char *name, const clade_type *type) {
  char want[640], have[640];
  size_t index;
  if (g->share == g->first_share ||
      !clade__map_get(&g->variables.by_name, clade__hash_bytes(name, strlen(name)), &index))
    return (clade_val){0};
  clade__id value = g->variables.at[index].value;
  if (clade_type_equal(clade__type(g, value), type)) return clade__graph_val(g, value);
  return clade__graph_fail(g,
                           CLADE_FAIL(DUPLICATE, "variable \"%s\": %s here, %s in an earlier share", name,
                                      clade__type_text(type, want, sizeof want),
                                      clade__type_text(clade__type(g, value), have, sizeof have)),
                           NULL);
}

clade_val clade_variable(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape,
                         clade_initial initial) {
  char what[320];
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade__name_check("variable", name);
  if (status) return clade__graph_fail(g, status, NULL);
  if (initial.kind == CLADE_INIT_UNSET) initial.kind = CLADE_INIT_ZERO;
  status = check_initial(dtype, &shape, initial);
  if (status == CLADE_OK) status = clade__graph_shaped(g, name, &shape);
  if (status) return clade__graph_fail(g, status, title(what, "variable", name));
  clade_type type = {.dtype = dtype, .shape = shape};
  clade_val shared = shared_variable(g, name, &type);
  if (clade_val_ok(shared) || !clade__graph_ok(g)) return shared;
  return add_port(g, &g->variables, &clade__op_variable, name, &type, initial);
}

clade_val clade_parameter(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape,
                          clade_initial initial) {
  static const char state[] = "optimizer.";
  if (clade__graph_ok(g) && name && strncmp(name, state, sizeof state - 1) == 0)
    return clade__graph_fail(
        g, CLADE_FAIL(INVALID, "parameter \"%s\": names that begin with %s are those of optimizers", name, state),
        NULL);
  clade_val v = clade_variable(g, name, dtype, shape, initial);
  if (clade_val_ok(v)) g->variables.at[variable_of(g, v.id)].parameter = true;
  return v;
}

void clade_output(clade_graph *g, const char *name, clade_val value) {
  char what[320];
  clade__id id;
  if (!clade__graph_ok(g)) return;
  clade_status status = check_port(&g->outputs, "output", name);
  if (status) {
    clade__graph_fail(g, status, NULL);
    return;
  }
  status = clade__graph_value(g, value, title(what, "output", name), &id);
  if (status == CLADE_OK) status = clade__port_add(g, &g->outputs, name, id, (clade_initial){0});
  if (status) clade__graph_fail(g, status, what);
}

static clade_status assign(clade_graph *g, clade_val variable, clade_val value) {
  clade__id in[2], node;
  CLADE_TRY(clade__graph_value(g, variable, "assign: the variable", &in[0]));
  size_t index = variable_of(g, in[0]);
  const clade__node *n = &g->nodes[g->values[in[0]].node];
  if (index == g->variables.count)
    return CLADE_FAIL(INVALID, "assign: value %u is not a variable but %s \"%s\"", in[0], n->op->name, n->name);
  const char *name = g->variables.at[index].name;
  if (g->variables.at[index].assigned)
    return CLADE_FAIL(DUPLICATE, "assign \"%s\": the variable is assigned already, and can be once", name);
  char what[320];
  CLADE_TRY(clade__graph_value(g, value, title(what, "assign", name), &in[1]));
  int device = g->device;
  g->device = g->nodes[g->values[in[0]].node].device; /* the variable's device */
  clade_status status = clade__node_new(g, &clade__op_assign, name, NULL, 2, in, &node);
  g->device = device;
  if (status) return status;
  g->variables.at[index].assigned = in[1];
  return CLADE_OK;
}

void clade_assign(clade_graph *g, clade_val variable, clade_val value) {
  if (!clade__graph_ok(g) || g->share != g->first_share) return;
  clade_status status = assign(g, variable, value);
  if (status) clade__graph_fail(g, status, NULL);
}

void clade__store_like(clade_graph *g, clade_val value, clade_val like) {
  if (clade_val_ok(value) && clade_val_ok(like)) g->values[value.id].like = like.id;
}

/* Removes a node without outputs and renumbers those behind it. */
static void take_out(clade_graph *g, clade__id node) {
  memmove(&g->nodes[node], &g->nodes[node + 1], (--g->n_nodes - node) * sizeof *g->nodes);
  for (clade__id id = 1; id < g->n_nodes; id++) g->nodes[id].derives -= g->nodes[id].derives > node;
  for (clade__id value = 1; value < g->n_values; value++) g->values[value].node -= g->values[value].node > node;
}

clade_status clade__reassign(clade_graph *g, clade_val variable, clade_val value) {
  if (!clade__graph_ok(g)) return g->status;
  for (clade__id id = (clade__id)g->n_nodes; id-- > 1;)
    if (g->nodes[id].op == &clade__op_assign && g->nodes[id].in[0] == variable.id) {
      take_out(g, id);
      break;
    }
  const size_t index = variable_of(g, variable.id);
  if (index < g->variables.count) g->variables.at[index].assigned = 0;
  const clade_status status = assign(g, variable, value);
  if (status) clade__graph_fail(g, status, NULL);
  return status;
}

/* ---- constants ---- */
static clade_status add_blob(clade_graph *g, const void *data, size_t bytes, clade__constant_attrs *attrs) {
  CLADE_TRY(clade__grow(&g->blobs, &g->blob_capacity, g->n_blobs + 1, sizeof *g->blobs));
  size_t whole;
  if (!clade__add(sizeof(clade__blob), bytes, &whole)) return CLADE_FAIL(OVERFLOW, "%zu bytes", bytes);
  clade__blob *blob = clade__new(whole, 1);
  if (!blob) return CLADE_NO_MEMORY;
  clade__ref_init(&blob->ref);
  blob->bytes = bytes;
  if (bytes) memcpy(blob->data, data, bytes);
  g->blobs[g->n_blobs++] = blob;
  attrs->blob = blob;
  attrs->data = blob->data;
  attrs->bytes = bytes;
  return CLADE_OK;
}

static clade_val add_constant(clade_graph *g, const char *what, const clade_type *type, const void *data, size_t bytes,
                              size_t pattern) {
  clade__constant_attrs attrs = {.pattern = pattern};
  clade__id node;
  clade_status status = add_blob(g, data, bytes, &attrs);
  if (status == CLADE_OK) status = clade__source_new(g, &clade__op_constant, NULL, &attrs, type, &node);
  return status ? clade__graph_fail(g, status, what) : clade__graph_val(g, g->nodes[node].first_out);
}

clade_val clade_constant(clade_graph *g, clade_dtype dtype, clade_shape shape, const void *data) {
  clade_type type = {.dtype = dtype, .shape = shape};
  size_t bytes = 0;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade__type_check(&type, true);
  if (status == CLADE_OK) status = clade_type_bytes(&type, &bytes);
  if (status == CLADE_OK && bytes && !data) status = CLADE_FAIL(INVALID, "data is NULL, %zu bytes are expected", bytes);
  if (status) return clade__graph_fail(g, status, "constant");
  return add_constant(g, "constant", &type, data, bytes, 0);
}

/* One element of a fill. Integers must be exact: rounding would hide a mistake. */
static clade_status element(clade_dtype dtype, double value, unsigned char out[16]) {
  float f = (float)value;
  if (clade__is_float(dtype)) return clade_convert(dtype, out, CLADE_F32, &f, 1);
  const double low = (double)clade__dtype_low(dtype), high = (double)clade__dtype_high(dtype);
  if (!(value >= low && value <= high && value < 0x1p63) || value != rint(value))
    return CLADE_FAIL(INVALID, "%.17g is no value of %s", value, clade_dtype_name(dtype));
  const int64_t i = (int64_t)value;
  return clade_convert(dtype, out, CLADE_I64, &i, 1);
}

clade_val clade_fill(clade_graph *g, clade_dtype dtype, clade_shape shape, double value) {
  clade_type type = {.dtype = dtype, .shape = shape};
  unsigned char data[16] = {0};
  size_t bytes = 0;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade__type_check(&type, false);
  if (status == CLADE_OK) status = clade__dtype_element(dtype, &bytes);
  if (status == CLADE_OK) status = element(dtype, value, data);
  return status ? clade__graph_fail(g, status, "fill") : add_constant(g, "fill", &type, data, bytes, bytes);
}

clade_val clade_stop_gradient(clade_graph *g, clade_val x) {
  return clade_node_add(g, &clade__op_stop_gradient, NULL, NULL, 1, &x, NULL);
}

/* ---- devices ---- */
clade_val clade_transfer(clade_graph *g, clade_val x, int index) {
  clade__id in;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade__graph_value(g, x, "transfer", &in);
  if (status == CLADE_OK && index < 0) status = CLADE_FAIL(INVALID, "transfer: index is %d; expected 0 or more", index);
  if (status) return clade__graph_fail(g, status, NULL);
  if (g->nodes[g->values[in].node].device == index) return x;
  int device = g->device;
  g->device = index;
  clade_val y = clade_node_add(g, &clade__op_transfer, NULL, &(clade__transfer_attrs){index}, 1, &x, NULL);
  g->device = device;
  return y;
}
