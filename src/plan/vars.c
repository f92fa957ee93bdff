/* Variables: memory, initial values and copies. */
#include "plan/plan.h"

enum { PIECE = 1 << 16 };

clade_vars *clade_vars_retain(clade_vars *vars) {
  if (vars) clade__ref_up(&vars->ref);
  return vars;
}

void clade_vars_release(clade_vars *vars) {
  if (!vars || !clade__ref_down(&vars->ref)) return;
  for (int i = 0; vars->spares && i < vars->n_devices; i++) clade__spare_remove(vars->devices[i], &vars->spares[i]);
  clade__free(vars->spares);
  for (size_t i = 0; i < vars->n_packed; i++) clade__buffer_release(vars->packed[i].buffer);
  clade__free(vars->packed);
  clade__map_free(&vars->packed_by);
  for (size_t i = 0; vars->at && i < vars->n; i++) {
    clade__buffer_release(vars->at[i].buffer);
    clade__free(vars->at[i].name);
  }
  clade__free(vars->at);
  clade__map_free(&vars->by_name);
  for (int i = 0; vars->devices && i < vars->n_devices; i++) clade_device_release(vars->devices[i]);
  clade__free(vars->devices);
  pthread_mutex_destroy(&vars->lock);
  clade__free(vars);
}

static clade_status vars_alloc(size_t n, int n_devices, clade_device *const *devices, clade_vars **out) {
  clade_vars *vars = clade__new(1, sizeof *vars);
  if (!vars) return CLADE_NO_MEMORY;
  clade__ref_init(&vars->ref);
  pthread_mutex_init(&vars->lock, NULL);
  vars->guard = clade__plan_guard_bytes;
  vars->at = clade__new(n, sizeof *vars->at);
  vars->devices = clade__new((size_t)n_devices, sizeof *vars->devices);
  vars->spares = clade__new((size_t)n_devices, sizeof *vars->spares);
  if (!vars->at || !vars->devices || !vars->spares) {
    clade_vars_release(vars);
    return CLADE_NO_MEMORY;
  }
  for (; vars->n_devices < n_devices; vars->n_devices++) {
    int d = vars->n_devices;
    vars->devices[d] = clade_device_retain(devices[d]);
    vars->spares[d] = (clade__spare){.drop = clade__packed_drop, .user = vars};
    clade__spare_add(vars->devices[d], &vars->spares[d]);
  }
  *out = vars;
  return CLADE_OK;
}

static clade_status queue_of(const clade_vars *vars, const clade__var *var, clade__queue **queue) {
  *queue = clade__device_transfer_queue(vars->devices[var->device]);
  return *queue ? CLADE_OK : CLADE_OPENCL;
}

/* Adds a variable without memory. It is counted only after it is complete. */
static clade_status var_new(clade_vars *vars, const char *name, const clade_type *type, int device) {
  clade__var *var = &vars->at[vars->n];
  *var = (clade__var){.type = *type, .device = device};
  CLADE_TRY(clade_type_bytes(type, &var->bytes));
  var->name = clade__copy_text(name);
  if (!var->name) return CLADE_NO_MEMORY;
  vars->n++;
  return clade__map_put(&vars->by_name, clade__hash_bytes(name, strlen(name)), vars->n - 1);
}

/* ---- memory ---- */
/* Creates a buffer for the device's variables first to end - 1, whose offsets are set. */
static clade_status slab_new(clade_vars *vars, int device, size_t first, size_t end, size_t bytes) {
  const uint32_t ones = UINT32_MAX;
  clade__buffer *buffer = NULL;
  clade__queue *queue;
  int number = 0;
  CLADE_TRY(clade__buffer_new(vars->devices[device], bytes, vars->at[first].name, &buffer));
  for (size_t i = 0; i < first; i++)
    if (vars->devices[vars->at[i].device] == vars->devices[device]) number = CLADE_MAX(number, vars->at[i].slab + 1);
  for (size_t i = first; i < end; i++) {
    clade__var *var = &vars->at[i];
    if (var->device != device) continue;
    var->buffer = clade__buffer_retain(buffer);
    var->slab = number;
  }
  clade__buffer_release(buffer);
  if (!vars->guard) return CLADE_OK;
  CLADE_TRY(queue_of(vars, &vars->at[first], &queue));
  CLADE_TRY(clade__queue_fill(queue, buffer, 0, bytes, &ones, sizeof ones, (clade__wait){0}, NULL));
  return clade__queue_finish(queue);
}

static clade_status place_device(clade_vars *vars, int device) {
  const size_t limit =
      clade__joins(vars->devices[device]) ? CLADE_MIN(clade__slab_limit(vars->devices[device]), (size_t)INT32_MAX) : 0;
  size_t bytes = 0, first = 0, room;
  for (size_t i = 0; i < vars->n; i++) {
    clade__var *var = &vars->at[i];
    if (var->device != device) continue;
    CLADE_TRY(clade__slab_room(vars->devices[device], var->bytes, vars->guard, &room));
    if (bytes && (room > limit || bytes > limit - room)) {
      CLADE_TRY(slab_new(vars, device, first, i, bytes));
      bytes = 0;
    }
    if (!bytes) first = i;
    var->offset = bytes + vars->guard;
    bytes += room;
  }
  return bytes ? slab_new(vars, device, first, vars->n, bytes) : CLADE_OK;
}

/* Gives all variables memory: a buffer each or, on devices with joined launches, shared ones, since a launch takes few
 * buffers. */
static clade_status place_all(clade_vars *vars) {
  for (int d = 0; d < vars->n_devices; d++) CLADE_TRY(place_device(vars, d));
  return CLADE_OK;
}

/* ---- initial values ---- */
typedef struct piece {
  float real[PIECE];
  int64_t whole[PIECE];
  _Alignas(64) unsigned char data[8 * PIECE];
} piece;

/* The elements of the whole variable that belong to a slice: blocks of `run` elements, `stride` apart. */
typedef struct elements {
  uint64_t run, stride, begin;
} elements;

static elements elements_of(const clade__var *var) {
  const clade__part *part = &var->part;
  elements e = {.run = 1, .stride = 1};
  if (!part->is_part) return e;
  for (int i = part->axis + 1; i < part->whole.rank; i++) e.run *= (uint64_t)part->whole.dim[i];
  e.begin = e.run * (uint64_t)part->begin;
  e.stride = e.run * (uint64_t)part->whole.dim[part->axis];
  e.run *= (uint64_t)var->type.shape.dim[part->axis];
  return e;
}

static uint64_t place_of(const elements *e, uint64_t i) { return i / e->run * e->stride + e->begin + i % e->run; }

static clade_status fill_piece(piece *p, clade_dtype dtype, const clade__initial *initial, const elements *of,
                               uint64_t first, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double value = clade__initial_at(initial, place_of(of, first + i));
    p->real[i] = (float)value;
    p->whole[i] = value >= 0x1p63 ? INT64_MAX : value <= -0x1p63 ? INT64_MIN : value == value ? (int64_t)value : 0;
    if (dtype == CLADE_BOOL) p->whole[i] = value != 0;
  }
  if (clade__is_float(dtype)) return clade_convert(dtype, p->data, CLADE_F32, p->real, n);
  return clade_convert(dtype, p->data, CLADE_I64, p->whole, n);
}

static clade_status fill_zero(clade_vars *vars, clade__var *var) {
  const unsigned char zero = 0;
  clade__queue *queue;
  CLADE_TRY(queue_of(vars, var, &queue));
  CLADE_TRY(clade__queue_fill(queue, var->buffer, var->offset, var->bytes, &zero, 1, (clade__wait){0}, NULL));
  return clade__queue_finish(queue);
}

static clade_status fill_pieces(clade_vars *vars, clade__var *var, const clade__initial *initial, piece *p) {
  const elements of = elements_of(var);
  int64_t count;
  clade__queue *queue;
  CLADE_TRY(clade_shape_elements(&var->type.shape, &count));
  CLADE_TRY(queue_of(vars, var, &queue));
  for (size_t first = 0; first < (size_t)count; first += PIECE) {
    size_t n = CLADE_MIN((size_t)PIECE, (size_t)count - first);
    size_t skipped, bytes;
    CLADE_TRY(fill_piece(p, var->type.dtype, initial, &of, first, n));
    CLADE_TRY(clade_dtype_bytes(var->type.dtype, (int64_t)first, &skipped));
    CLADE_TRY(clade_dtype_bytes(var->type.dtype, (int64_t)n, &bytes));
    CLADE_TRY(
        clade__queue_write(queue, var->buffer, var->offset + skipped, p->data, bytes, true, (clade__wait){0}, NULL));
  }
  return CLADE_OK;
}

static clade_status fill_var(clade_vars *vars, clade__var *var, const clade_initial *how, uint64_t seed, piece *p) {
  /* The key includes the name, so that adding a variable changes no other. */
  uint64_t key = clade__hash_more_text(clade__hash_bytes(&seed, sizeof seed), var->name).lo;
  clade__initial initial;
  if (!var->bytes) return CLADE_OK;
  if (how->kind == CLADE_INIT_ZERO) return fill_zero(vars, var);
  const clade_shape *whole = var->part.is_part ? &var->part.whole : &var->type.shape;
  clade_status status = clade__initial_open(how, whole, key, &initial);
  if (status == CLADE_OK) status = fill_pieces(vars, var, &initial, p);
  clade__initial_close(&initial);
  return status;
}

static clade_status fill_all(clade_vars *vars, const clade_func *func, uint64_t seed, piece *p) {
  const clade_graph *g = func->graph;
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    CLADE_TRY(var_new(vars, port->name, clade__type(g, port->value), g->nodes[g->values[port->value].node].device));
    vars->at[i].parameter = port->parameter;
    vars->at[i].part = port->part;
  }
  CLADE_TRY(place_all(vars));
  for (size_t i = 0; i < vars->n; i++) CLADE_TRY(fill_var(vars, &vars->at[i], &g->variables.at[i].initial, seed, p));
  return CLADE_OK;
}

clade_status clade_vars_new(const clade_func *func, uint64_t seed, clade_vars **out) {
  clade_vars *vars = NULL;
  clade_status status;
  if (!out) return CLADE_FAIL(INVALID, "clade_vars_new: there is no place for the variables (NULL)");
  *out = NULL;
  if (!func) return CLADE_FAIL(INVALID, "clade_vars_new: the func is NULL");
  for (int i = 0; i < func->n_devices; i++) CLADE_TRY(clade__device_check(func->devices[i], "clade_vars_new"));
  piece *p = clade__new(1, sizeof *p);
  if (!p) return CLADE_NO_MEMORY;
  CLADE_GOTO(vars_alloc(func->graph->variables.count, func->n_devices, func->devices, &vars));
  CLADE_GOTO(fill_all(vars, func, seed, p));
  *out = vars;
  vars = NULL;
fail:
  clade_vars_release(vars);
  clade__free(p);
  return status;
}

/* ---- reading and writing ---- */
int clade_vars_count(const clade_vars *vars) { return vars ? (int)vars->n : 0; }

clade_status clade_vars_describe(const clade_vars *vars, int index, clade_port_info *info) {
  clade_port_info all = {0};
  if (!vars || !info) return CLADE_FAIL(INVALID, "clade_vars_describe: %s is NULL", vars ? "info" : "vars");
  if (info->size < sizeof info->size)
    return CLADE_FAIL(INVALID, "clade_vars_describe: info->size is %zu; set it to sizeof(clade_port_info)", info->size);
  if (index < 0 || (size_t)index >= vars->n)
    return CLADE_FAIL(NOT_FOUND, "clade_vars_describe: there is no variable %d; there are %zu", index, vars->n);
  all.name = vars->at[index].name;
  all.type = vars->at[index].type;
  all.parameter = vars->at[index].parameter;
  all.size = CLADE_MIN(info->size, sizeof all);
  memcpy(info, &all, all.size);
  return CLADE_OK;
}

clade_status clade_vars_part(const clade_vars *vars, const char *name, clade_part *out) {
  clade_part all = {0};
  size_t index;
  if (!vars || !name || !out)
    return CLADE_FAIL(INVALID, "clade_vars_part: %s is NULL", !vars ? "vars" : !name ? "the name" : "out");
  if (out->size < sizeof out->size)
    return CLADE_FAIL(INVALID, "clade_vars_part: out->size is %zu; set it to sizeof(clade_part)", out->size);
  if (!clade__map_get(&vars->by_name, clade__hash_bytes(name, strlen(name)), &index))
    return CLADE_FAIL(NOT_FOUND, "clade_vars_part: there is no variable \"%s\"", name);
  const clade__var *var = &vars->at[index];
  all.is_part = var->part.is_part;
  all.axis = var->part.axis;
  all.begin = var->part.begin;
  all.whole = var->part.is_part ? var->part.whole : var->type.shape;
  all.size = CLADE_MIN(out->size, sizeof all);
  memcpy(out, &all, all.size);
  return CLADE_OK;
}

static clade_status find(const clade_vars *vars, const char *name, const void *data, size_t bytes, const char *function,
                         size_t *index) {
  if (!vars || !name || (!data && bytes))
    return CLADE_FAIL(INVALID, "%s: %s is NULL", function, !vars ? "vars" : !name ? "the name" : "the memory");
  if (!clade__map_get(&vars->by_name, clade__hash_bytes(name, strlen(name)), index))
    return CLADE_FAIL(NOT_FOUND, "%s: there is no variable \"%s\"", function, name);
  const clade__var *var = &vars->at[*index];
  if (bytes != var->bytes)
    return CLADE_FAIL(INVALID, "%s: variable %s has %zu bytes, given were %zu", function, name, var->bytes, bytes);
  return clade__device_check(vars->devices[var->device], function);
}

clade_status clade__vars_idle(const clade_vars *vars, const clade_run *self) {
  if (!vars->writer || vars->writer == self || (!vars->entering && clade__run_idle(vars->writer))) return CLADE_OK;
  return CLADE_FAIL(BUSY, "variables are being written by another run: wait for its last execution first (clade_wait)");
}

clade_status clade_vars_set(clade_vars *vars, const char *name, const void *src, size_t bytes) {
  clade__queue *queue;
  size_t index;
  CLADE_TRY(find(vars, name, src, bytes, "clade_vars_set", &index));
  clade__var *var = &vars->at[index];
  CLADE_TRY(queue_of(vars, var, &queue));
  pthread_mutex_lock(&vars->lock);
  clade_status status = clade__vars_idle(vars, NULL);
  if (status == CLADE_OK) {
    var->version++; /* also after a failure: some may be written */
    if (bytes) status = clade__queue_write(queue, var->buffer, var->offset, src, bytes, true, (clade__wait){0}, NULL);
  }
  pthread_mutex_unlock(&vars->lock);
  return status;
}

clade_status clade_vars_get(const clade_vars *given, const char *name, void *dst, size_t bytes) {
  clade_vars *vars = (clade_vars *)(uintptr_t)given; /* locked only */
  clade__queue *queue;
  size_t index;
  CLADE_TRY(find(vars, name, dst, bytes, "clade_vars_get", &index));
  const clade__var *var = &vars->at[index];
  CLADE_TRY(queue_of(vars, var, &queue));
  pthread_mutex_lock(&vars->lock);
  clade_status status = clade__vars_idle(vars, NULL);
  if (status == CLADE_OK && bytes)
    status = clade__queue_read(queue, var->buffer, var->offset, dst, bytes, true, (clade__wait){0}, NULL);
  pthread_mutex_unlock(&vars->lock);
  return status;
}

static clade_status copy_all(const clade_vars *from, clade_vars *to) {
  clade__queue *queue;
  for (size_t i = 0; i < from->n; i++) {
    const clade__var *var = &from->at[i];
    CLADE_TRY(var_new(to, var->name, &var->type, var->device));
    to->at[i].version = var->version;
    to->at[i].parameter = var->parameter;
    to->at[i].part = var->part;
  }
  CLADE_TRY(place_all(to));
  for (size_t i = 0; i < from->n; i++) {
    const clade__var *var = &from->at[i];
    if (!var->bytes) continue;
    CLADE_TRY(queue_of(from, var, &queue));
    CLADE_TRY(clade__queue_copy(queue, var->buffer, var->offset, to->at[i].buffer, to->at[i].offset, var->bytes,
                                (clade__wait){0}, NULL));
  }
  for (int d = 0; d < from->n_devices; d++)
    if ((queue = clade__device_transfer_queue(from->devices[d]))) CLADE_TRY(clade__queue_finish(queue));
  return CLADE_OK;
}

clade_status clade_vars_snapshot(const clade_vars *given, clade_vars **out) {
  clade_vars *vars = (clade_vars *)(uintptr_t)given, *copy; /* locked only */
  if (!out) return CLADE_FAIL(INVALID, "clade_vars_snapshot: there is no place for the copy (NULL)");
  *out = NULL;
  if (!vars) return CLADE_FAIL(INVALID, "clade_vars_snapshot: vars is NULL");
  for (int i = 0; i < vars->n_devices; i++) CLADE_TRY(clade__device_check(vars->devices[i], "clade_vars_snapshot"));
  CLADE_TRY(vars_alloc(vars->n, vars->n_devices, vars->devices, &copy));
  pthread_mutex_lock(&vars->lock);
  clade_status status = clade__vars_idle(vars, NULL);
  if (status == CLADE_OK) status = copy_all(vars, copy);
  pthread_mutex_unlock(&vars->lock);
  if (status == CLADE_OK)
    *out = copy;
  else
    clade_vars_release(copy);
  return status;
}

clade_status clade__vars_match(const clade_vars *vars, const clade_func *func, int *index) {
  const clade_graph *g = func->graph;
  char want[320], have[320];
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    const clade_type *type = clade__type(g, port->value);
    int device = g->nodes[g->values[port->value].node].device;
    size_t at;
    if (!clade__map_get(&vars->by_name, clade__hash_bytes(port->name, strlen(port->name)), &at))
      return CLADE_FAIL(NOT_FOUND, "variable %s: func expects it, variables do not hold it", port->name);
    if (!clade_type_equal(&vars->at[at].type, type))
      return clade_fail(vars->at[at].type.dtype == type->dtype ? CLADE_BAD_SHAPE : CLADE_DTYPE,
                        "variable %s: func expects %s, variables hold %s", port->name,
                        clade__type_text(type, want, sizeof want),
                        clade__type_text(&vars->at[at].type, have, sizeof have));
    if (vars->devices[vars->at[at].device] != func->devices[device])
      return CLADE_FAIL(INVALID, "variable %s: func expects it on its device %d (%s), variables hold it on %s",
                        port->name, device, clade__device_info(func->devices[device])->name,
                        clade__device_info(vars->devices[vars->at[at].device])->name);
    index[i] = (int)at;
  }
  return CLADE_OK;
}
