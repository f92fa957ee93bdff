/* The memory plan: in-place reuse, and offsets of cells in the arena and among constants. */
#include "plan/plan.h"

size_t clade__plan_guard_bytes, clade__plan_slab_bytes;
bool clade__plan_only;

enum { LEAST_ALIGNMENT = 64 };

size_t clade__slab_limit(const clade_device *device) {
  uint64_t limit = clade__device_info(device)->max_buffer_bytes;
  if (clade__plan_slab_bytes) limit = CLADE_MIN(limit, (uint64_t)clade__plan_slab_bytes);
  return limit > SIZE_MAX / 2 ? SIZE_MAX / 2 : (size_t)limit;
}

clade_status clade__slab_room(const clade_device *device, size_t bytes, size_t guard, size_t *room) {
  const size_t wanted = CLADE_MAX(bytes, (size_t)1);
  const size_t alignment = CLADE_MAX((size_t)clade__device_info(device)->alignment, (size_t)LEAST_ALIGNMENT);
  if (!clade__round_up(wanted, alignment, room) || !clade__add(*room, 2 * guard, room))
    return CLADE_FAIL(OVERFLOW, "a value of %zu bytes overflows with its alignment", wanted);
  return CLADE_OK;
}

static size_t slab_limit(const clade_func *func, int device) { return clade__slab_limit(func->devices[device]); }

static clade_status room_of(const clade_func *func, const clade__cell *cell, size_t *bytes) {
  return clade__slab_room(func->devices[cell->place.device], cell->place.bytes, func->guard, bytes);
}

/* Whether an earlier output of the same node has taken over the cell. */
static bool is_taken(const clade_func *func, clade__id value, int32_t cell) {
  for (clade__id v = value - func->graph->values[value].out; v < value; v++)
    if (func->cells[func->cell_of[v]].taken == cell) return true;
  return false;
}

/* An input that dies where this cell is first written and has the same size; a larger one would stay allocated
 * during this cell's life. */
static int32_t taker(const clade_func *func, const clade__cell *cell) {
  const clade__value *value = &func->graph->values[cell->value];
  const clade__node *node = &func->graph->nodes[value->node];
  if (!node->op->in_place || !cell->place.bytes) return -1;
  for (int i = 0; i < node->n_in; i++) {
    int32_t c = func->cell_of[node->in[i]];
    if (c >= 0 && func->cells[c].taken >= 0) c = func->cells[c].taken;
    if (c < 0 || cell == &func->cells[c]) continue;
    const clade__cell *in = &func->cells[c];
    if (in->place.space == CLADE__ARENA && in->place.device == cell->place.device && in->death == cell->birth &&
        in->birth < cell->birth && in->place.bytes == cell->place.bytes && !is_taken(func, cell->value, c) &&
        clade__may_take(func, cell->value, c))
      return c;
  }
  return -1;
}

/* In order of birth, so that chains of reuse resolve to the first cell. */
static void take_over(clade_func *func) {
  for (size_t i = 0; i < func->n_cells; i++) {
    clade__cell *cell = &func->cells[i];
    if (cell->place.space != CLADE__ARENA || !cell->value) continue;
    cell->taken = taker(func, cell);
    if (cell->taken >= 0) {
      clade__cell *owner = &func->cells[cell->taken];
      owner->death = CLADE_MAX(owner->death, cell->death);
    }
  }
}

static clade_status slab_new(clade__slabs *slabs, int device, size_t bytes) {
  CLADE_TRY(clade__grow(&slabs->at, &slabs->capacity, slabs->count + 1, sizeof *slabs->at));
  slabs->at[slabs->count++] = (clade__slab){device, bytes};
  return CLADE_OK;
}

static bool wants_arena(const clade__cell *cell, int device) {
  return cell->place.space == CLADE__ARENA && cell->place.device == device && cell->taken < 0 &&
         cell->birth != UINT32_MAX; /* it is used by a step */
}

static clade_status intervals_of(clade_func *func, int device, clade__interval *at, size_t *n) {
  uint32_t end = (uint32_t)func->n_steps + 1;
  *n = 0;
  for (size_t i = 0; i < func->n_cells; i++) {
    const clade__cell *cell = &func->cells[i];
    if (!wants_arena(cell, device)) continue;
    clade__interval *interval = &at[(*n)++];
    *interval = (clade__interval){.birth = cell->birth, .death = func->guard ? end : cell->death};
    CLADE_TRY(room_of(func, cell, &interval->bytes));
  }
  return CLADE_OK;
}

/* Plans the arena of a device. `at` has room for all cells. */
static clade_status plan_device(clade_func *func, int device, clade__interval *at) {
  uint32_t end = (uint32_t)func->n_steps + 1;
  size_t n, n_slabs, first = func->slabs.count, *sizes;
  uint64_t bound;
  CLADE_TRY(intervals_of(func, device, at, &n));
  CLADE_TRY(clade__pack_bound(n, at, end, &bound));
  func->live_peak += bound;
  CLADE_TRY(clade__pack(n, at, end, slab_limit(func, device), &sizes, &n_slabs));
  clade_status status = CLADE_OK;
  for (size_t i = 0; i < n_slabs && status == CLADE_OK; i++) status = slab_new(&func->slabs, device, sizes[i]);
  clade__free(sizes);
  CLADE_TRY(status);
  n = 0;
  for (size_t i = 0; i < func->n_cells; i++) {
    clade__cell *cell = &func->cells[i];
    if (!wants_arena(cell, device)) continue;
    cell->place.index = (int)(first + at[n].slab);
    cell->place.offset = at[n++].offset + func->guard;
  }
  return CLADE_OK;
}

/* Constants are placed one after the other, since they live as long as the func. */
static clade_status plan_constants(clade_func *func, int device) {
  clade__slab *slab = NULL;
  for (size_t i = 0; i < func->n_cells; i++) {
    clade__cell *cell = &func->cells[i];
    size_t bytes;
    if (cell->place.space != CLADE__CONSTANT || cell->place.device != device) continue;
    CLADE_TRY(room_of(func, cell, &bytes));
    if (bytes > slab_limit(func, device))
      return CLADE_FAIL(DEVICE_MEMORY, "a constant of %zu bytes is larger than the device's largest buffer, %zu", bytes,
                        slab_limit(func, device));
    size_t full = CLADE_MIN(slab_limit(func, device), (size_t)INT32_MAX); /* offsets are usually 32-bit */
    if (!slab || bytes > full || slab->bytes > full - bytes) {
      CLADE_TRY(slab_new(&func->constant_slabs, device, 0));
      slab = &func->constant_slabs.at[func->constant_slabs.count - 1];
    }
    cell->place.index = (int)func->constant_slabs.count - 1;
    cell->place.offset = slab->bytes + func->guard;
    slab->bytes += bytes;
  }
  return CLADE_OK;
}

/* Places values with their own buffers behind the guard. */
static void place_alone(clade_func *func) {
  for (size_t i = 0; i < func->n_cells; i++) {
    clade__place *place = &func->cells[i].place;
    if (place->space == CLADE__INPUT || place->space == CLADE__OUTPUT || place->space == CLADE__VARIABLE ||
        place->space == CLADE__PACKED)
      place->offset = func->guard;
  }
}

static void place_step(const clade_func *func, clade__fstep *step) {
  for (int i = 0; i < step->n_operands; i++) {
    if (step->operand[i].cell < 0) continue;
    step->operand[i].place = func->cells[step->operand[i].cell].place;
    clade__space space = step->operand[i].place.space;
    step->per_slot |= space == CLADE__INPUT || space == CLADE__OUTPUT;
  }
}

static void place_operands(clade_func *func) {
  for (size_t i = 0; i < func->n_cells; i++) {
    clade__cell *cell = &func->cells[i];
    if (cell->taken < 0) continue;
    size_t bytes = cell->place.bytes;
    cell->place = func->cells[cell->taken].place;
    cell->place.bytes = bytes;
  }
  for (size_t s = 0; s < func->n_steps; s++) place_step(func, &func->steps[s]);
  for (size_t i = 0; i < func->n_packs; i++) place_step(func, &func->packs[i].step);
}

clade_status clade__memory_plan(clade_func *func) {
  CLADE_TRY(clade__hosts_plan(func));
  clade__interval *at = clade__new(func->n_cells, sizeof *at);
  if (!at) return CLADE_NO_MEMORY;
  clade_status status = CLADE_OK;
  take_over(func);
  for (int d = 0; d < func->n_devices && status == CLADE_OK; d++) {
    status = plan_device(func, d, at);
    if (status == CLADE_OK) status = plan_constants(func, d);
  }
  clade__free(at);
  CLADE_TRY(status);
  place_alone(func);
  place_operands(func);
  return CLADE_OK;
}
