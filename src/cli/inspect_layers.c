/* Finds the layers of a func: its nodes that depend on an input. A node that depends on variables only, such as a
 * reorder of weights, belongs to the first layer that reads it. */
#include "base/dtype.h"
#include "cli/inspect.h"
#include "op/op.h"
#include "pass/pass.h"

/* ---- variables ---- */
/* Length of "conv1" in "conv1.weight". */
static size_t prefix_of(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

static bool has_name(const char *names, const char *name, size_t n) {
  for (const char *at = names; at && *at;) {
    const char *end = strstr(at, " + ");
    const size_t length = end ? (size_t)(end - at) : strlen(at);
    if (length == n && !strncmp(at, name, n)) return true;
    at = end ? end + 3 : NULL;
  }
  return false;
}

static clade_status add_name(inspect_layer *l, const char *name) {
  const size_t n = prefix_of(name);
  clade__text text = {0};
  char *all = NULL;
  if (has_name(l->name, name, n)) return CLADE_OK;
  clade__text_add(&text, "%s%s%.*s", l->name ? l->name : "", l->name ? " + " : "", (int)n, name);
  CLADE_TRY(clade__text_take(&text, &all));
  clade__free(l->name);
  l->name = all;
  return CLADE_OK;
}

/* Counts elements whose bytes are all 0; for floats, -0 counts too. */
static int64_t count_zeros(const unsigned char *data, size_t bytes, int64_t n, clade_dtype dtype) {
  const size_t each = n ? bytes / (size_t)n : 0;
  const unsigned char sign = clade__is_float(dtype) ? 0x7f : 0xff; /* mask of the last byte */
  int64_t zeros = 0;
  for (int64_t i = 0; i < n && each; i++) {
    const unsigned char *at = data + (size_t)i * each;
    unsigned char any = at[each - 1] & sign;
    for (size_t k = 0; k + 1 < each; k++) any |= at[k];
    zeros += !any;
  }
  return zeros;
}

static clade_status add_weights(const inspect_job *job, const clade_port_info *info, size_t bytes, int64_t n,
                                inspect_layer *l) {
  unsigned char *data = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  if (!data) return CLADE_NO_MEMORY;
  const clade_status status = clade_vars_get(job->vars, info->name, data, bytes);
  l->weights += n;
  l->zeros += status ? 0 : count_zeros(data, bytes, n, info->type.dtype);
  clade__free(data);
  return status;
}

/* Variables of the optimizer, such as ranges of --qat, are no part of the model. */
static bool is_of_training(const char *name) { return !strncmp(name, "optimizer.", 10); }

static clade_status add_variable(const inspect_job *job, const char *name, inspect_layer *l) {
  if (is_of_training(name)) return CLADE_OK;
  for (int i = 0; i < clade_vars_count(job->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    int64_t n;
    size_t bytes;
    CLADE_TRY(clade_vars_describe(job->vars, i, &info));
    if (strcmp(info.name, name) != 0) continue;
    CLADE_TRY(clade_shape_elements(&info.type.shape, &n));
    CLADE_TRY(clade_type_bytes(&info.type, &bytes));
    l->bytes += (int64_t)bytes;
    if (info.parameter) l->parameters += n;
    if (info.parameter && info.type.shape.rank > 1) CLADE_TRY(add_weights(job, &info, bytes, n, l));
    return add_name(l, name);
  }
  return CLADE_OK;
}

/* ---- nodes ---- */
typedef struct finder {
  inspect_job *job;
  const clade_graph *g;
  bool *depends; /* for each node: whether it depends on an input */
} finder;

/* Assigns to the layer the nodes and variables that are computed without an input. */
static clade_status take_behind(finder *f, clade__id value, size_t layer) {
  const clade__id id = f->g->values[value].node;
  const clade__node *n = &f->g->nodes[id];
  if (f->depends[id] || f->job->layer[id]) return CLADE_OK;
  f->job->layer[id] = layer + 1;
  if (n->op == &clade__op_variable) return add_variable(f->job, n->name, &f->job->layers[layer]);
  for (int i = 0; i < n->n_in; i++) CLADE_TRY(take_behind(f, n->in[i], layer));
  return CLADE_OK;
}

/* Type of the first operand of at least two dimensions that is computed from variables. */
static clade_dtype weight_type(const finder *f, const clade__node *n) {
  for (int i = 0; i < n->n_in; i++) {
    const clade_type *type = clade__type(f->g, n->in[i]);
    const clade__node *from = &f->g->nodes[f->g->values[n->in[i]].node];
    if (!f->depends[f->g->values[n->in[i]].node] && from->op != &clade__op_constant && type->shape.rank > 1)
      return type->dtype;
  }
  return CLADE_DTYPE_NONE;
}

static clade_status add_layer(finder *f, clade__id id) {
  const clade__node *n = &f->g->nodes[id];
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  const size_t at = f->job->n_layers++;
  inspect_layer *l = &f->job->layers[at];
  clade__node_view(f->g, id, in, out, &view);
  f->job->layer[id] = at + 1;
  *l = (inspect_layer){.op = n->op->name,
                       .impl = n->impl >= 0 ? clade__impls(n->op)[n->impl]->name : "",
                       .flops = clade__node_flops(&view),
                       .input = n->n_in ? in[0].dtype : CLADE_DTYPE_NONE,
                       .output = n->n_out ? out[0].dtype : CLADE_DTYPE_NONE,
                       .weight = weight_type(f, n)};
  for (int i = 0; i < n->n_in; i++) CLADE_TRY(take_behind(f, n->in[i], at));
  return CLADE_OK;
}

static bool depends(const finder *f, const clade__node *n) {
  bool any = n->op == &clade__op_input;
  for (int i = 0; i < n->n_in; i++) any |= f->depends[f->g->values[n->in[i]].node];
  return any;
}

clade_status inspect_find(inspect_job *job) {
  finder f = {job, job->func->graph, clade__new(job->func->graph->n_nodes, sizeof *f.depends)};
  clade_status status = CLADE_OK;
  job->layers = clade__new(f.g->n_nodes, sizeof *job->layers);
  job->layer = clade__new(f.g->n_nodes, sizeof *job->layer);
  if (!f.depends || !job->layers || !job->layer) status = CLADE_NO_MEMORY;
  for (clade__id id = 1; id < f.g->n_nodes && status == CLADE_OK; id++) {
    const clade__node *n = &f.g->nodes[id];
    f.depends[id] = depends(&f, n);
    if (f.depends[id] && clade__needs_impl(n->op)) status = add_layer(&f, id);
  }
  clade__free(f.depends);
  return status;
}

inspect_layer inspect_total(const inspect_job *job) {
  inspect_layer all = {.name = NULL};
  for (size_t i = 0; i < job->n_layers; i++) {
    const inspect_layer *l = &job->layers[i];
    all.parameters += l->parameters;
    all.bytes += l->bytes;
    all.weights += l->weights;
    all.zeros += l->zeros;
    all.flops += l->flops;
    all.seconds += l->seconds;
  }
  return all;
}
