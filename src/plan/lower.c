/* Lowering: turns a graph with selected implementations into steps, and cells that they read and write. Independent
 * of the placement of cells. */
#include "plan/plan.h"

clade_status clade__cell_new(clade_func *func, clade__id value, int device, size_t bytes, int32_t *out) {
  if (func->n_cells >= INT32_MAX) return CLADE_FAIL(OVERFLOW, "a func has at most %d values", INT32_MAX);
  CLADE_TRY(clade__grow(&func->cells, &func->cell_capacity, func->n_cells + 1, sizeof *func->cells));
  *out = (int32_t)func->n_cells++;
  func->cells[*out] =
      (clade__cell){.value = value, .birth = UINT32_MAX, .taken = -1, .place = {.device = device, .bytes = bytes}};
  return CLADE_OK;
}

static clade_status step_new(clade_func *func, clade__fstep_kind kind, clade__id node, uint32_t time, size_t operands,
                             clade__fstep **out) {
  CLADE_TRY(clade__grow(&func->steps, &func->step_capacity, func->n_steps + 1, sizeof *func->steps));
  clade__fstep *step = &func->steps[func->n_steps];
  *step = (clade__fstep){.kind = kind, .node = node, .time = time, .n_operands = (int)operands};
  step->operand = clade__arena_new(&func->arena, operands * sizeof *step->operand);
  if (!step->operand) return CLADE_NO_MEMORY;
  func->n_steps++;
  *out = step;
  return CLADE_OK;
}

/* Extends the cell's lifetime to the step. */
static void touch(clade_func *func, clade__fstep *step, size_t i, int32_t cell, bool write) {
  clade__cell *c = &func->cells[cell];
  step->operand[i] = (clade__operand){.cell = cell, .read = !write, .write = write};
  c->birth = CLADE_MIN(c->birth, step->time);
  c->death = CLADE_MAX(c->death, step->time);
}

clade_status clade__copy_step(clade_func *func, int32_t from, int32_t to, clade__id node, bool first) {
  clade__fstep *step;
  uint32_t time = first ? 0 : (uint32_t)func->n_steps + 1;
  int source = func->cells[from].place.device, device = func->cells[to].place.device;
  CLADE_TRY(step_new(func, source == device ? CLADE__FSTEP_COPY : CLADE__FSTEP_HOST, node, time, 2, &step));
  step->source_device = source;
  step->device = device;
  touch(func, step, 0, from, false);
  touch(func, step, 1, to, true);
  return CLADE_OK;
}

/* State while a node is lowered. */
typedef struct lowering {
  clade_func *func;
  clade__id id;
  const clade__node *node;
  int32_t workspace;
} lowering;

static int32_t operand_cell(const lowering *l, const clade__arg *arg) {
  switch (arg->kind) {
  case CLADE__ARG_IN: return l->func->cell_of[l->node->in[arg->operand]];
  case CLADE__ARG_OUT: return l->func->cell_of[l->node->first_out + (clade__id)arg->operand];
  case CLADE__ARG_WORKSPACE: return l->workspace;
  case CLADE__ARG_BYTES:
  case CLADE__ARG_LOCAL: break;
  }
  return -1;
}

static clade_status launch_step(const lowering *l, clade_kernel_step *launch, bool wide) {
  clade_func *func = l->func;
  clade__fstep *step;
  clade__fstep_kind kind = launch->kind == CLADE__STEP_LIBRARY ? CLADE__FSTEP_LIBRARY
                           : launch->kind == CLADE__STEP_HOST  ? CLADE__FSTEP_HOST
                                                               : CLADE__FSTEP_KERNEL;
  CLADE_TRY(step_new(func, kind, l->id, (uint32_t)func->n_steps + 1, launch->n_args, &step));
  step->device = step->source_device = l->node->device;
  step->launch = launch;
  step->wide = wide;
  for (size_t i = 0; i < launch->n_args; i++) {
    const clade__arg *arg = &launch->args[i];
    int32_t cell = operand_cell(l, arg);
    step->operand[i].cell = cell;
    if (cell >= 0) {
      touch(func, step, i, cell, arg->kind != CLADE__ARG_IN);
      step->operand[i].read |= arg->kind == CLADE__ARG_WORKSPACE;
    } else if (arg->kind == CLADE__ARG_WORKSPACE) {
      return CLADE_FAIL(INVALID, "%s: %s takes a workspace, but the implementation asks for none", l->node->op->name,
                        launch->kernel);
    }
  }
  launch->emit = NULL; /* valid during emission only */
  return CLADE_OK;
}

static clade_status take_steps(const lowering *l, const clade_emit *emit) {
  for (clade_kernel_step *s = emit->first; s; s = s->next) {
    if (s->dropped) continue;
    if (s->kind != CLADE__STEP_COPY)
      CLADE_TRY(launch_step(l, s, emit->wide));
    else
      CLADE_TRY(clade__copy_step(l->func, l->func->cell_of[l->node->in[s->in]],
                                 l->func->cell_of[l->node->first_out + (clade__id)s->out], l->id, false));
  }
  return CLADE_OK;
}

/* A view shares its operand's memory, so it must not be larger. */
static clade_status lower_view(const lowering *l) {
  const clade__node *node = l->node;
  const clade_graph *g = l->func->graph;
  size_t from, to;
  CLADE_TRY(clade_type_bytes(clade__type(g, node->in[0]), &from));
  CLADE_TRY(clade_type_bytes(clade__type(g, node->first_out), &to));
  if (from != to) return CLADE_FAIL(BAD_SHAPE, "%s: a view of %zu bytes cannot have %zu", node->op->name, from, to);
  l->func->cell_of[node->first_out] = l->func->cell_of[node->in[0]];
  return CLADE_OK;
}

/* A bundle's kernels are compiled already: defines and the width of offsets cannot be chosen. */
static clade_status check_bundled(const clade_impl *impl, const clade_emit *emit) {
  for (clade_kernel_step *s = emit->first; s; s = s->next) {
    if (s->kind != CLADE__STEP_KERNEL) continue;
    if (strcmp(s->kernel, impl->bundled) != 0 || s->n_defines > 1)
      return CLADE_FAIL(INVALID, "%s: kernel %s with %zu parameters; kernel %s of a bundle was expected, with none",
                        impl->name, s->kernel, s->n_defines - 1, impl->bundled);
    if (emit->wide)
      return CLADE_FAIL(UNSUPPORTED, "%s: kernel %s of a bundle takes no value of 2^31 elements or more", impl->name,
                        s->kernel);
    s->n_defines = 0; /* INDEX64 */
  }
  return CLADE_OK;
}

static clade_status emit_node(lowering *l, const clade_impl *impl, const clade_query *query) {
  clade_func *func = l->func;
  clade_emit emit;
  l->workspace = -1;
  size_t bytes = impl->workspace ? impl->workspace(query) : 0;
  if (bytes) CLADE_TRY(clade__cell_new(func, 0, l->node->device, bytes, &l->workspace));
  if (l->workspace >= 0) func->cells[l->workspace].place.space = CLADE__ARENA;
  clade__emit_begin(&emit, &func->arena, query);
  unsigned failures = clade__failures();
  clade_status status = impl->emit(&emit, query);
  if (status != CLADE_OK && clade__failures() == failures)
    return clade_fail(status, "%s: the emit of %s: %s", l->node->op->name, impl->name, clade_status_text(status));
  CLADE_TRY(status);
  CLADE_TRY(clade__emit_end(&emit));
  if (impl->bundled) CLADE_TRY(check_bundled(impl, &emit));
  return take_steps(l, &emit);
}

static const clade_impl *implementation(const clade__node *node) {
  return node->impl >= 0 && node->impl < clade__impls_count(node->op) ? clade__impls(node->op)[node->impl] : NULL;
}

/* Creates the cells of a node's outputs. *elements: at least one is not empty. */
static clade_status output_cells(lowering *l, clade__space space, int index, int device, bool *elements) {
  const clade__node *node = l->node;
  *elements = false;
  for (int i = 0; i < node->n_out; i++) {
    clade__id value = node->first_out + (clade__id)i;
    size_t bytes;
    int32_t cell = -1;
    CLADE_TRY(clade_type_bytes(clade__type(l->func->graph, value), &bytes));
    CLADE_TRY(clade__cell_new(l->func, value, device, bytes, &cell));
    l->func->cells[cell].place.space = space;
    l->func->cells[cell].place.index = index;
    l->func->cell_of[value] = cell;
    *elements |= bytes > 0;
  }
  return CLADE_OK;
}

static clade_status lower_op(lowering *l) {
  const clade__node *node = l->node;
  clade_func *func = l->func;
  clade_type in[CLADE_MAX_OPERANDS], out[CLADE_MAX_OPERANDS];
  clade_node view;
  bool elements;
  if (node->op->flags & CLADE_OP_VIEW) return lower_view(l);
  CLADE_TRY(output_cells(l, CLADE__ARENA, 0, node->device, &elements));
  if (!elements && node->n_out && !(node->op->flags & CLADE_OP_EFFECT)) return CLADE_OK; /* nothing to compute */
  const clade_impl *impl = implementation(node);
  if (!impl) return CLADE_FAIL(INTERNAL, "%s: no implementation was selected", node->op->name);
  if (!impl->emit) return CLADE_FAIL(INVALID, "%s: the implementation %s has no emit", node->op->name, impl->name);
  clade__node_view(func->graph, l->id, in, out, &view);
  clade_query query = {sizeof query, &view, clade__device_info(func->devices[node->device]), node->config};
  return emit_node(l, impl, &query);
}

static bool is_output(const clade_graph *g, clade__id value) {
  for (size_t i = 0; i < g->outputs.count; i++)
    if (g->outputs.at[i].value == value) return true;
  return false;
}

/* The variable behind a value or its packed copy; -1: a constant; CHANGES: computed by executions. */
enum { CHANGES = -2 };
static int kept_of(const clade_func *func, clade__id value) {
  const clade__node *from = &func->graph->nodes[func->graph->values[value].node];
  const int32_t cell = func->cell_of[value];
  if (cell < 0) return CHANGES; /* empty */
  const clade__place *place = &func->cells[cell].place;
  if (clade__graph_frozen(func->graph, value)) return from->op == &clade__op_variable ? place->index : -1;
  if (place->space == CLADE__PACKED) return func->packs[place->index].variable;
  return place->space == CLADE__CONSTANT ? -1 : CHANGES;
}

/* If a reorder, a cast or a transfer has a source that is constant across executions, its single step is moved out
 * of the executions and becomes a pack. */
static clade_status keep(lowering *l, size_t steps) {
  clade_func *func = l->func;
  const clade__node *node = l->node;
  clade__cell *cell = &func->cells[func->cell_of[node->first_out]];
  const int variable = kept_of(func, node->in[0]);
  if (variable == CHANGES || is_output(func->graph, node->first_out)) return CLADE_OK;
  if (func->n_steps != steps + 1 || l->workspace >= 0) return CLADE_OK;
  if (func->steps[steps].kind != CLADE__FSTEP_KERNEL && func->steps[steps].kind != CLADE__FSTEP_HOST) return CLADE_OK;
  CLADE_TRY(clade__grow(&func->packs, &func->pack_capacity, func->n_packs + 1, sizeof *func->packs));
  cell->place.space = variable >= 0 ? CLADE__PACKED : CLADE__CONSTANT;
  cell->place.index = (int)func->n_packs;
  func->packs[func->n_packs++] = (clade__fpack){.variable = variable,
                                                .cell = func->cell_of[node->first_out],
                                                .layout = clade__type(func->graph, node->first_out)->layout,
                                                .dtype = clade__type(func->graph, node->first_out)->dtype,
                                                .step = func->steps[--func->n_steps]};
  return CLADE_OK;
}

static clade_status lower_conversion(lowering *l) {
  size_t steps = l->func->n_steps;
  CLADE_TRY(lower_op(l));
  return keep(l, steps);
}

static clade_status lower_transfer(lowering *l) {
  const clade__transfer_attrs *attrs = l->node->attrs;
  clade_func *func = l->func;
  size_t steps = func->n_steps;
  bool elements;
  int device = attrs->device;
  if (device < 0 || device >= func->n_devices)
    return CLADE_FAIL(INVALID, "transfer: device %d, but the func has %d", device, func->n_devices);
  int32_t from = func->cell_of[l->node->in[0]];
  if (func->cells[from].place.device == device) {
    func->cell_of[l->node->first_out] = from;
    return CLADE_OK;
  }
  CLADE_TRY(output_cells(l, CLADE__ARENA, 0, device, &elements));
  if (!elements) return CLADE_OK;
  CLADE_TRY(clade__copy_step(func, from, func->cell_of[l->node->first_out], l->id, false));
  return keep(l, steps);
}

/* Before an input's or variable's node is lowered, its cell_of encodes the port's number. */
static int32_t mark(size_t port) { return -2 - (int32_t)port; }
static clade_status lower_port(lowering *l, clade__space space) {
  bool elements;
  int32_t port = -2 - l->func->cell_of[l->node->first_out];
  if (port < 0) return CLADE_FAIL(INTERNAL, "%s: a node without its port", l->node->op->name);
  return output_cells(l, space, port, l->node->device, &elements);
}

static clade_status lower_node(lowering *l) {
  const clade_op *op = l->node->op;
  bool elements;
  if (op == &clade__op_input) return lower_port(l, CLADE__INPUT);
  if (op == &clade__op_variable) return lower_port(l, CLADE__VARIABLE);
  if (op == &clade__op_constant) return output_cells(l, CLADE__CONSTANT, 0, l->node->device, &elements);
  if (op == &clade__op_transfer) return lower_transfer(l);
  if (op == &clade__op_assign) return CLADE_OK; /* recorded in the variable's port */
  return op == &clade__op_pack || clade__is_cast(l->node) ? lower_conversion(l) : lower_op(l);
}

/* ---- devices with several programs ---- */
static int program_of(const clade_func *func, int device, const char *kernel) {
  return clade__program_of(clade__device_info(func->devices[device]), kernel);
}

static clade_status check_devices(const clade_func *func) {
  for (clade__id id = 1; id < func->graph->n_nodes; id++) {
    const clade__node *n = &func->graph->nodes[id];
    if (n->device < 0 || n->device >= func->n_devices)
      return CLADE_FAIL(INVALID, "%s: placed on device %d, but the func has %d", n->op->name, n->device,
                        func->n_devices);
  }
  return CLADE_OK;
}

static clade_status find_order(const clade_func *func, clade__id *order) {
  const clade_graph *g = func->graph;
  int *program = clade__new(g->n_nodes, sizeof *program), most = CLADE__ANY_PROGRAM, changes;
  if (!program) return CLADE_NO_MEMORY;
  for (clade__id id = 1; id < g->n_nodes; id++) {
    const clade_impl *impl = implementation(&g->nodes[id]);
    program[id] = impl && impl->bundled ? program_of(func, g->nodes[id].device, impl->bundled) : CLADE__ANY_PROGRAM;
    most = CLADE_MAX(most, program[id]);
  }
  bool *joins = clade__new((size_t)func->n_devices, sizeof *joins);
  for (int d = 0; joins && d < func->n_devices; d++) joins[d] = clade__joins(func->devices[d]);
  clade_status status = !joins      ? CLADE_NO_MEMORY
                        : most >= 0 ? clade__order(g, func->n_devices, program, order, &changes)
                                    : clade__early(g, joins, order);
  clade__free(joins);
  clade__free(program);
  return status;
}

static clade_status find_programming(clade_func *func) {
  func->programming = clade__new((size_t)func->n_devices, sizeof *func->programming);
  if (!func->programming) return CLADE_NO_MEMORY;
  for (int d = 0; d < func->n_devices; d++) func->programming[d].first = func->programming[d].last = CLADE__ANY_PROGRAM;
  for (size_t i = 0; i < func->n_steps; i++) {
    const clade__fstep *step = &func->steps[i];
    clade__programming *t = &func->programming[step->device];
    int program =
        step->kind == CLADE__FSTEP_KERNEL ? program_of(func, step->device, step->launch->kernel) : CLADE__ANY_PROGRAM;
    if (program == CLADE__ANY_PROGRAM) continue;
    if (t->first == CLADE__ANY_PROGRAM) t->first = t->last = program;
    t->changes += program != t->last;
    t->last = program;
  }
  return CLADE_OK;
}

static clade_status lower_all(clade_func *func, const clade__id *order) {
  for (size_t i = 0; i + 1 < func->graph->n_nodes; i++) {
    lowering l = {func, order[i], &func->graph->nodes[order[i]], -1};
    clade_status status = lower_node(&l);
    if (status != CLADE_OK) return clade__blame(status, l.node->op, l.node->name);
  }
  return CLADE_OK;
}

clade_status clade__lower(clade_func *func) {
  clade_graph *g = func->graph;
  func->cell_of = clade__new(g->n_values + 1, sizeof *func->cell_of);
  if (!func->cell_of) return CLADE_NO_MEMORY;
  for (size_t i = 0; i <= g->n_values; i++) func->cell_of[i] = -1;
  for (size_t i = 0; i < g->inputs.count; i++) func->cell_of[g->inputs.at[i].value] = mark(i);
  for (size_t i = 0; i < g->variables.count; i++) func->cell_of[g->variables.at[i].value] = mark(i);
  /* usually one cell per value and one step per node */
  CLADE_TRY(clade__grow(&func->cells, &func->cell_capacity, g->n_values, sizeof *func->cells));
  CLADE_TRY(clade__grow(&func->steps, &func->step_capacity, g->n_nodes, sizeof *func->steps));
  CLADE_TRY(check_devices(func));
  clade__id *order = clade__new(g->n_nodes, sizeof *order);
  clade_status status = order ? find_order(func, order) : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = lower_all(func, order);
  clade__free(order);
  return status == CLADE_OK ? find_programming(func) : status;
}
