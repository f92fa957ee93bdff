/* A lane with several queues: kernels that a bundle's manifest assigns to different queues can run concurrently. An
 * execution begins on the lane's own queue with its inputs and ends there; commands on other queues wait for the
 * beginning, and the end waits for them. Otherwise a command waits for the last command of each other queue that
 * accesses the same memory, if one of them writes, or that needs another program of the device. */
#include "plan/run.h"

bool clade__places_overlap(const clade__place *a, const clade__place *b) {
  return a->space == b->space && a->index == b->index && a->offset < b->offset + b->bytes &&
         b->offset < a->offset + a->bytes;
}

static bool conflict(const clade__fstep *a, const clade__fstep *b) {
  for (int i = 0; i < a->n_operands; i++)
    for (int k = 0; k < b->n_operands; k++) {
      const clade__operand *x = &a->operand[i], *y = &b->operand[k];
      if (x->cell >= 0 && y->cell >= 0 && (x->write || y->write) && clade__places_overlap(&x->place, &y->place))
        return true;
    }
  return false;
}

static const clade__program_kernel *kernel_of(const clade_run *run, const clade__cmd *cmd) {
  return cmd->kind == CLADE__CMD_LAUNCH ? &run->func->kernels[run->func->steps[cmd->step].request] : NULL;
}

/* A device holds one program at a time. */
static bool reprograms(const clade_run *run, const clade__cmd *a, const clade__cmd *b) {
  const clade__program_kernel *x = kernel_of(run, a), *y = kernel_of(run, b);
  return x && y && x->program != y->program;
}

static int queue_of(const clade_run *run, const clade__cmd *cmd) {
  const clade__program_kernel *kernel = kernel_of(run, cmd);
  return kernel ? kernel->queue : 0;
}

static clade_status spread_new(clade_run *run, clade__lane *lane, int n) {
  size_t cells;
  clade__spread *s = lane->spread = clade__new(1, sizeof *s);
  if (!s) return CLADE_NO_MEMORY;
  s->n = n;
  if (!clade__mul(lane->n_cmds, (size_t)n, &cells)) return CLADE_FAIL(OVERFLOW, "%d queues of a run", n);
  s->queues = clade__new((size_t)n, sizeof *s->queues);
  s->turns = clade__new(lane->n_cmds, sizeof *s->turns);
  s->after = clade__new(cells, sizeof *s->after);
  s->marks = clade__new(lane->n_cmds, sizeof *s->marks);
  s->waits = clade__new((size_t)n, sizeof *s->waits);
  if (!s->queues || !s->turns || !s->after || !s->marks || !s->waits) return CLADE_NO_MEMORY;
  for (size_t i = lane->n_feeds; i < lane->n_cmds; i++) {
    int q = s->turns[i].queue = queue_of(run, &lane->cmds[0][i]);
    if (!q || s->queues[q]) continue;
    CLADE_TRY(clade__queue_new(lane->device, run->profile, &s->queues[q]));
    s->turns[i].first = true;
  }
  return CLADE_OK;
}

clade_status clade__lane_spread(clade_run *run, clade__lane *lane) {
  int n = 1;
  for (size_t i = lane->n_feeds; i < lane->n_cmds; i++) n = CLADE_MAX(n, 1 + queue_of(run, &lane->cmds[0][i]));
  if (n == 1) return CLADE_OK;
  CLADE_TRY(spread_new(run, lane, n));
  clade__spread *s = lane->spread;
  const clade__fstep *steps = run->func->steps;
  const clade__cmd *cmds = lane->cmds[0];
  for (size_t i = lane->n_feeds; i < lane->n_cmds; i++)
    for (size_t k = i; k-- > lane->n_feeds;) {
      size_t *after = &s->after[i * (size_t)n + (size_t)s->turns[k].queue];
      if (s->turns[k].queue == s->turns[i].queue || *after) continue;
      if (!conflict(&steps[cmds[i].step], &steps[cmds[k].step]) && !reprograms(run, &cmds[i], &cmds[k])) continue;
      *after = k + 1;
      s->turns[k].awaited = true;
    }
  return CLADE_OK;
}

static void drop(cl_event *event) {
  clade__event_release(*event);
  *event = NULL;
}

static void drop_marks(clade__lane *lane) {
  for (size_t i = 0; i < lane->n_cmds; i++) drop(&lane->spread->marks[i]);
  drop(&lane->spread->begun);
}

void clade__lane_unspread(clade__lane *lane) {
  clade__spread *s = lane->spread;
  if (!s) return;
  for (int q = 0; s->queues && q < s->n; q++) clade__queue_free(s->queues[q]);
  if (s->marks) drop_marks(lane);
  clade__free(s->queues);
  clade__free(s->turns);
  clade__free(s->after);
  clade__free(s->marks);
  clade__free(s->waits);
  clade__free(s);
  lane->spread = NULL;
}

/* ---- enqueueing ---- */
clade__queue *clade__lane_queue(const clade__lane *lane, size_t i) {
  const clade__spread *s = lane->spread;
  return s && s->turns[i].queue ? s->queues[s->turns[i].queue] : lane->queue;
}

static clade_status begin(const clade__lane *lane, clade__wait uploads) {
  if (lane->spread->begun) return CLADE_OK;
  return clade__queue_marker(lane->queue, uploads, &lane->spread->begun);
}

clade_status clade__lane_wait(clade__lane *lane, size_t i, clade__wait uploads, clade__wait *out) {
  clade__spread *s = lane->spread;
  *out = (clade__wait){0};
  if (i < lane->n_feeds) return CLADE_OK;
  if (!s) {
    if (i == lane->n_feeds) *out = uploads; /* the following commands are ordered after it */
    return CLADE_OK;
  }
  CLADE_TRY(begin(lane, uploads));
  cl_uint n = 0;
  if (s->turns[i].first) s->waits[n++] = s->begun;
  for (int q = 0; q < s->n; q++) {
    size_t after = s->after[i * (size_t)s->n + (size_t)q];
    if (after) s->waits[n++] = s->marks[after - 1];
  }
  *out = (clade__wait){n, s->waits};
  return CLADE_OK;
}

cl_event *clade__lane_mark(const clade__lane *lane, size_t i) {
  return lane->spread && lane->spread->turns[i].awaited ? &lane->spread->marks[i] : NULL;
}

clade_status clade__lane_join(clade__lane *lane, clade__wait uploads, cl_event *done) {
  clade__spread *s = lane->spread;
  clade_status status = begin(lane, uploads); /* if `begin` itself failed */
  cl_uint n = 0;
  for (int q = 1; q < s->n && status == CLADE_OK; q++)
    if (s->queues[q]) status = clade__queue_marker(s->queues[q], (clade__wait){0}, &s->waits[n++]);
  if (status == CLADE_OK) status = clade__queue_marker(lane->queue, (clade__wait){n, s->waits}, done);
  while (n) drop(&s->waits[--n]);
  drop_marks(lane);
  return status;
}

clade_status clade__lane_flush(const clade__lane *lane) {
  clade_status status = clade__queue_flush(lane->queue);
  for (int q = 1; lane->spread && q < lane->spread->n && status == CLADE_OK; q++)
    if (lane->spread->queues[q]) status = clade__queue_flush(lane->spread->queues[q]);
  return status;
}

void clade__lane_finish(const clade__lane *lane) {
  for (int q = 1; lane->spread && q < lane->spread->n; q++)
    if (lane->spread->queues[q]) (void)clade__queue_finish(lane->spread->queues[q]);
}
