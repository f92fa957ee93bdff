/* Enumerates the layouts of a number of ranks: data, tensor and pipeline sizes, and micro-batches. */
#include <math.h>
#include <stdlib.h>

#include "cli/plan/plan.h"

enum { MOST_STAGES = 256, MOST_INTERLEAVE = 2, MOST_MICRO_BATCHES = 1024 };

typedef struct search {
  const plan_job *job;
  plan_found *found;
  clade_comm *comm;  /* of the tensor ranks */
  clade_graph *part; /* a tensor rank's part of the model for `rows` rows */
  int tensor;
  int64_t rows;
} search;

/* Builds a rank's part of the model; keeps the last one, because several layouts share it. */
static clade_status part_of(search *s, const plan_layout *l) {
  if (s->part && s->rows == l->rows) return CLADE_OK;
  clade_graph *whole = NULL;
  clade_graph_release(s->part);
  s->part = NULL;
  s->rows = l->rows;
  clade_status status = plan_model_graph(&s->job->model, l->rows, &whole);
  if (status == CLADE_OK && s->tensor > 1)
    status = plan_part(whole, &s->job->device, &s->job->links, s->comm, &s->part);
  else if (status == CLADE_OK)
    s->part = clade_graph_retain(whole);
  clade_graph_release(whole);
  return status;
}

/* Whether tensor ranks all compute the same. */
static bool is_idle(const plan_layout *l) { return l->grid.tensor > 1 && !l->work->n_moves; }

/* Adds the layout with each kind of sharding; the passes are the same. */
static clade_status add(search *s, plan_layout *l) {
  static const clade_shard shards[] = {CLADE_SHARD_NONE, CLADE_SHARD_OPTIMIZER, CLADE_SHARD_GRADIENTS};
  plan_found *f = s->found;
  for (size_t i = 0; i < (l->grid.data > 1 ? CLADE_COUNT(shards) : 1); i++) {
    l->shard = shards[i];
    CLADE_TRY(plan_evaluate(s->job, l));
    CLADE_TRY(clade__grow(&f->layouts, &f->capacity, (size_t)f->n + 1, sizeof *f->layouts));
    f->layouts[f->n++] = *l;
  }
  return CLADE_OK;
}

static clade_status work_new(plan_found *f, plan_work **out) {
  CLADE_TRY(clade__grow(&f->works, &f->work_capacity, (size_t)f->n_works + 1, sizeof *f->works));
  *out = f->works[f->n_works] = clade__new(1, sizeof **f->works);
  f->n_works += *out != NULL;
  return *out ? CLADE_OK : CLADE_NO_MEMORY;
}

/* A model that cannot be cut this way has no such layout. */
static bool cannot(clade_status status) { return status == CLADE_INVALID || status == CLADE_UNSUPPORTED; }

static clade_status try_one(search *s, const clade__grid *grid, int64_t rows) {
  plan_layout l = {.grid = *grid, .rows = rows};
  plan_work *work = NULL;
  clade_status status = part_of(s, &l);
  if (status == CLADE_OK) status = work_new(s->found, &work);
  if (status == CLADE_OK) status = plan_work_of(s->part, grid, &s->job->device, &s->job->links, work);
  l.work = work;
  if (status == CLADE_OK && !is_idle(&l)) status = add(s, &l);
  return cannot(status) ? CLADE_OK : status;
}

static clade_status try_stages(search *s, clade__grid grid, int64_t rows) {
  const int most = grid.pipeline > 1 ? MOST_INTERLEAVE : 1;
  for (grid.interleave = 1; grid.interleave <= most; grid.interleave++) CLADE_TRY(try_one(s, &grid, rows));
  return CLADE_OK;
}

static clade_status try_rows(search *s, int64_t rows) {
  const int ranks = s->job->ranks / s->tensor;
  for (int pipeline = 1; pipeline <= CLADE_MIN(ranks, MOST_STAGES); pipeline++) {
    if (ranks % pipeline) continue;
    const int data = ranks / pipeline;
    const int64_t each = s->job->batch / data;
    if (s->job->batch % data || each % rows || each / rows > MOST_MICRO_BATCHES) continue;
    const clade__grid grid = {data, s->tensor, pipeline, (int)(each / rows), 1};
    CLADE_TRY(try_stages(s, grid, rows));
  }
  return CLADE_OK;
}

static int compare(const void *a, const void *b) {
  const plan_layout *x = a, *y = b;
  if (x->fits != y->fits) return x->fits ? -1 : 1;
  const double p = x->fits ? x->seconds : x->memory, q = y->fits ? y->seconds : y->memory;
  return p < q ? -1 : p > q;
}

static clade_status try_tensor(search *s) {
  clade_status status = plan_nobody(s->tensor, &s->comm);
  for (int64_t rows = 1; rows <= s->job->batch && status == CLADE_OK; rows++)
    if (s->job->batch % rows == 0) status = try_rows(s, rows);
  clade_graph_release(s->part);
  clade_comm_release(s->comm);
  s->part = NULL;
  s->comm = NULL;
  return status;
}

static clade_status try_all(const plan_job *job, plan_found *found) {
  search s = {.job = job, .found = found};
  clade_status status = CLADE_OK;
  *found = (plan_found){0};
  for (s.tensor = 1; s.tensor <= job->ranks && status == CLADE_OK; s.tensor++)
    if (job->ranks % s.tensor == 0) status = try_tensor(&s);
  if (found->n) qsort(found->layouts, (size_t)found->n, sizeof *found->layouts, compare);
  while (found->n_fit < found->n && found->layouts[found->n_fit].fits) found->n_fit++;
  return status;
}

/* One rank with unlimited memory. */
static clade_status try_alone(const plan_job *job, int64_t batch, plan_found *found) {
  plan_job alone = *job;
  alone.ranks = 1;
  alone.batch = batch;
  alone.memory = INFINITY;
  return try_all(&alone, found);
}

clade_status plan_alone(const plan_job *job, int64_t rows, double *seconds, double *update) {
  plan_found found;
  const clade_status status = try_alone(job, rows, &found);
  *seconds = *update = 0;
  for (int i = 0; i < found.n; i++) {
    const plan_layout *l = &found.layouts[i];
    if (l->grid.micro_batches == 1) *seconds = l->seconds, *update = l->update;
  }
  plan_found_free(&found);
  return status;
}

clade_status plan_search(const plan_job *job, plan_found *found) {
  CLADE_TRY(try_all(job, found));
  plan_found alone;
  const clade_status status = try_alone(job, job->batch, &alone);
  found->alone = alone.n ? alone.layouts[0].seconds : 0;
  plan_found_free(&alone);
  return status;
}

void plan_found_free(plan_found *found) {
  for (int i = 0; i < found->n_works; i++) {
    plan_work_free(found->works[i]);
    clade__free(found->works[i]);
  }
  clade__free(found->works);
  clade__free(found->layouts);
  *found = (plan_found){0};
}
