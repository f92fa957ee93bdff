/* For tests: detects writes outside of values, in funcs and variables made with guards. */
#include "plan/run.h"

typedef struct area { /* a buffer on the host; areas of values are set to 0xFF before the check */
  unsigned char *bytes;
  size_t n;
} area;

static clade_status fetch(clade__buffer *buffer, area *out) {
  out->n = clade__buffer_bytes(buffer);
  out->bytes = clade__new(out->n, 1);
  if (!out->bytes) return CLADE_NO_MEMORY;
  clade__queue *queue = clade__device_transfer_queue(clade__buffer_device(buffer));
  if (!queue) return CLADE_OPENCL;
  return clade__queue_read(queue, buffer, 0, out->bytes, out->n, true, (clade__wait){0}, NULL);
}

static const char *cell_name(const clade_func *func, const clade__cell *cell) {
  if (!cell || !cell->value) return "a workspace";
  const clade__node *node = &func->graph->nodes[func->graph->values[cell->value].node];
  return *node->name ? node->name : node->op->name;
}

/* The cell that begins or ends nearest to a byte. */
static const clade__cell *nearest(const clade_func *func, clade__space space, int index, size_t at) {
  const clade__cell *best = NULL;
  size_t distance = SIZE_MAX;
  for (size_t i = 0; i < func->n_cells; i++) {
    const clade__place *p = &func->cells[i].place;
    if (p->space != space || p->index != index) continue;
    size_t d = at < p->offset ? p->offset - at : at - CLADE_MIN(at, p->offset + p->bytes);
    if (d < distance) best = &func->cells[i];
    distance = CLADE_MIN(distance, d);
  }
  return best;
}

/* Variables may share a buffer, also with those that the func does not have. */
static void except_variables(const clade_vars *vars, const clade__buffer *buffer, area *a) {
  for (size_t i = 0; i < vars->n; i++)
    if (vars->at[i].buffer == buffer) memset(a->bytes + vars->at[i].offset, 0xFF, vars->at[i].bytes);
}

static clade_status inspect(const clade_run *run, clade__buffer *buffer, clade__space space, int index) {
  const clade_func *func = run->func;
  area a = {0};
  clade_status status = CLADE_OK;
  if (!buffer || (status = fetch(buffer, &a)) != CLADE_OK) goto fail;
  if (space == CLADE__VARIABLE) except_variables(run->vars, buffer, &a);
  for (size_t i = 0; i < func->n_cells && space != CLADE__VARIABLE; i++) {
    const clade__place *p = &func->cells[i].place;
    if (p->space == space && p->index == index && p->bytes) memset(a.bytes + p->offset, 0xFF, p->bytes);
  }
  for (size_t i = 0; i < (a.n & ~(size_t)3) && status == CLADE_OK; i++) {
    if (a.bytes[i] == 0xFF) continue;
    const clade__cell *cell = nearest(func, space, index, i);
    long long off = cell ? (long long)i - (long long)cell->place.offset : (long long)i;
    status =
        CLADE_FAIL(CORRUPT, "%s:%d: byte %zu was written outside every value: %lld from the start of %s (%zu bytes)",
                   clade__space_name(space), index, i, off, cell_name(func, cell), cell ? cell->place.bytes : 0);
  }
fail:
  clade__free(a.bytes);
  return status;
}

clade_status clade__run_check_guards(clade_run *run) {
  const clade_func *func = run->func;
  if (!func->guard) return CLADE_FAIL(INVALID, "the func was made without guards");
  CLADE_TRY(clade_wait(run, 0));
  for (size_t i = 0; i < func->slabs.count; i++) CLADE_TRY(inspect(run, run->arena[i], CLADE__ARENA, (int)i));
  for (size_t i = 0; i < func->constant_slabs.count; i++)
    CLADE_TRY(inspect(run, func->constants[i], CLADE__CONSTANT, (int)i));
  for (size_t i = 0; i < func->graph->variables.count; i++)
    CLADE_TRY(inspect(run, run->vars->at[run->var_index[i]].buffer, CLADE__VARIABLE, (int)i));
  for (size_t i = 0; i < func->n_packs; i++) CLADE_TRY(inspect(run, run->packs[i].buffer, CLADE__PACKED, (int)i));
  for (int s = 0; s < run->n_slots; s++) {
    for (size_t i = 0; i < func->graph->inputs.count; i++)
      CLADE_TRY(inspect(run, run->slots[s].inputs[i], CLADE__INPUT, (int)i));
    for (size_t i = 0; i < func->graph->outputs.count; i++)
      CLADE_TRY(inspect(run, run->slots[s].outputs[i], CLADE__OUTPUT, (int)i));
  }
  return CLADE_OK;
}
