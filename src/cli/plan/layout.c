/* Estimates a step in a layout: the schedule of passes, all-reduces over data ranks after the last backward passes,
 * the update, and memory. */
#include <math.h>

#include "cli/plan/plan.h"
#include "train/task.h"

/* Sums are formed in pairs, (0 + 1) + (2 + 3): before micro-batch m there is one sum for each bit that is set in m. */
int plan_gradient_sums(int micro_batches) {
  int most = 1;
  for (int m = 1; m < micro_batches; m++) {
    int sums = 0;
    for (int bit = m; bit; bit &= bit - 1) sums++;
    most = CLADE_MAX(most, sums);
  }
  return most;
}

static scale_link data_link(const plan_job *job, const plan_layout *layout) {
  return plan_link(&job->links, layout->grid.tensor * layout->grid.pipeline);
}

/* A reduce-scatter transfers half of the bytes of an all-reduce. */
static double wire_of(const plan_layout *l) { return l->shard == CLADE_SHARD_GRADIENTS ? 0.5 : 1; }

/* Seconds for which the all-reduces of a stage occupy its link. */
static double sums_of(const plan_job *job, const plan_layout *l, int stage) {
  scale_link link = data_link(job, l);
  link.latency = link.near_latency = link.look = 0;
  link.add = INFINITY;
  double bytes = 0;
  for (int i = stage; i < l->work->n_pieces; i += l->grid.pipeline) bytes += l->work->pieces[i].parameters;
  return scale_reduction(&link, l->grid.data, bytes, wire_of(l));
}

/* The step refers to `pieces` [stages * interleave] and `sums` [stages]. */
static schedule_step schedule_of(const plan_job *job, const plan_layout *layout, schedule_piece *pieces, double *sums) {
  const clade__grid *grid = &layout->grid;
  const scale_link link = plan_link(&job->links, grid->tensor), data = data_link(job, layout);
  for (int i = 0; i < layout->work->n_pieces; i++) {
    const plan_piece *p = &layout->work->pieces[i];
    pieces[i] = (schedule_piece){p->forward.compute + p->forward.moves, p->backward.compute + p->backward.moves};
  }
  for (int i = 0; i < grid->pipeline; i++) sums[i] = sums_of(job, layout, i);
  return (schedule_step){.stages = grid->pipeline,
                         .interleave = grid->interleave,
                         .micro_batches = grid->micro_batches,
                         .pieces = pieces,
                         .n_messages = layout->work->n_messages,
                         .messages = layout->work->messages,
                         .stages_per_node = CLADE_MAX(1, link.near_ranks),
                         .near = {link.near_latency, link.near_bandwidth},
                         .far = {link.latency, link.bandwidth},
                         .sums = grid->data > 1 ? sums : NULL,
                         .sums_are_near = grid->data <= data.near_ranks};
}

typedef struct stage {
  const plan_job *job;
  plan_layout *layout;
  const schedule_last *last; /* for each piece */
  int number;
  double parameters, owned, moments; /* bytes; owned: of the parameters that the fullest rank updates */
  double end;                        /* of its last pass */
  double lent;                       /* seconds by which messages delayed the all-reduces */
} stage;

static bool shards(const stage *s) { return s->layout->shard != CLADE_SHARD_NONE; }

/* Gradients become ready in the course of the last backward pass of their piece, those of the last layers first. */
static clade_status buckets_of(const stage *s, scale_bucket **out, int *n) {
  const clade__grid *grid = &s->layout->grid;
  size_t capacity = 0;
  *out = NULL;
  *n = 0;
  for (int v = grid->interleave - 1; v >= 0; v--) {
    const int piece = v * grid->pipeline + s->number;
    const schedule_last *last = &s->last[piece];
    const double bytes = s->layout->work->pieces[piece].parameters, bucket = CLADE__BUCKET;
    for (double done = 0; done < bytes;) {
      const double now = fmin(bucket, bytes - done);
      CLADE_TRY(clade__grow(out, &capacity, (size_t)*n + 1, sizeof **out));
      done += now;
      (*out)[(*n)++] = (scale_bucket){now, last->begin + (last->end - last->begin) * done / bytes};
      if (done >= bytes) (*out)[*n - 1].ready = fmax(last->end, last->arrived);
    }
  }
  return CLADE_OK;
}

/* End of the all-reduces over data ranks. */
static clade_status summed(const stage *s, const scale_link *link, double *end) {
  scale_bucket *buckets = NULL;
  int n = 0;
  clade_status status = buckets_of(s, &buckets, &n);
  if (status == CLADE_OK)
    *end = fmax(s->end, scale_predict(link, s->layout->grid.data, wire_of(s->layout), n, buckets, s->lent).seconds);
  clade__free(buckets);
  return status;
}

static void add_memory(const stage *s) {
  plan_layout *l = s->layout;
  const int micro_batches = l->grid.micro_batches;
  double others = 0, lent = 0, values = 0, passing = 0;
  for (int v = 0; v < l->grid.interleave; v++) {
    const int at = v * l->grid.pipeline + s->number;
    const plan_piece *p = &l->work->pieces[at];
    others += p->others + p->lent;
    lent += p->lent;
    values += p->kept * s->last[at].in_flight;
    passing = fmax(passing, p->passing);
  }
  const double summed = l->shard == CLADE_SHARD_GRADIENTS ? s->owned : s->parameters;
  const double gradients =
      micro_batches > 1 ? (s->parameters + lent) * plan_gradient_sums(micro_batches) : summed + lent;
  const double all = s->parameters + others + s->moments + gradients + values + passing;
  if (all <= l->memory) return;
  l->memory = all;
  l->variables = s->parameters + others;
  l->moments = s->moments;
  l->gradients = gradients;
  l->values = values + passing;
}

/* Adds the bytes of a piece's parameters to the ranks that own them. */
static clade_status deal(const plan_piece *p, int ranks, double *load) {
  int *owners = clade__new((size_t)CLADE_MAX(p->n_sizes, 1), sizeof *owners);
  clade_status status = owners ? clade__shard_owners(p->n_sizes, p->sizes, ranks, owners) : CLADE_NO_MEMORY;
  for (int i = 0; i < p->n_sizes && status == CLADE_OK; i++) load[owners[i]] += (double)p->sizes[i];
  clade__free(owners);
  return status;
}

/* A parameter has one owner, as in a training. */
static clade_status find_owned(stage *s) {
  const plan_layout *l = s->layout;
  s->owned = s->parameters;
  if (!shards(s)) return CLADE_OK;
  double *load = clade__new((size_t)l->grid.data, sizeof *load);
  clade_status status = load ? CLADE_OK : CLADE_NO_MEMORY;
  for (int v = 0; v < l->grid.interleave && status == CLADE_OK; v++)
    status = deal(&l->work->pieces[v * l->grid.pipeline + s->number], l->grid.data, load);
  s->owned = 0;
  for (int i = 0; i < l->grid.data && status == CLADE_OK; i++) s->owned = fmax(s->owned, load[i]);
  clade__free(load);
  return status;
}

static clade_status add_stage(stage *s) {
  plan_layout *l = s->layout;
  const scale_link link = data_link(s->job, l);
  double moves = 0, end = s->end;
  for (int v = 0; v < l->grid.interleave; v++) {
    const plan_piece *p = &l->work->pieces[v * l->grid.pipeline + s->number];
    s->parameters += p->parameters;
    moves += p->forward.moves + p->backward.moves;
  }
  CLADE_TRY(find_owned(s));
  s->moments = s->owned * s->job->moments;
  if (l->grid.data > 1) CLADE_TRY(summed(s, &link, &end));
  /* reads weights, gradients and moments; writes weights and moments */
  const double update = (3 * s->owned + 2 * s->moments) / s->job->device.bandwidth;
  const double gather = shards(s) ? scale_half(&link, l->grid.data, s->owned * l->grid.data, 1, false) : 0;
  const double exposed = end - s->end + gather;
  l->seconds = fmax(l->seconds, end + update + gather);
  l->exposed = fmax(l->exposed, exposed);
  l->update = fmax(l->update, update);
  l->moves = fmax(l->moves, moves * l->grid.micro_batches);
  add_memory(s);
  return CLADE_OK;
}

clade_status plan_evaluate(const plan_job *job, plan_layout *layout) {
  const int stages = layout->grid.pipeline, n = layout->work->n_pieces;
  schedule_piece *pieces = clade__new((size_t)n, sizeof *pieces);
  schedule_last *last = clade__new((size_t)n, sizeof *last);
  schedule_played *played = clade__new((size_t)stages, sizeof *played);
  double *sums = clade__new((size_t)stages, sizeof *sums);
  double passes = 0, busy = 0;
  clade_status status = pieces && last && played && sums ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) {
    const schedule_step step = schedule_of(job, layout, pieces, sums);
    if (!schedule_play(&step, played, last, &passes)) status = CLADE_NO_MEMORY;
  }
  layout->seconds = layout->exposed = layout->update = layout->moves = layout->memory = 0;
  for (int i = 0; i < stages && status == CLADE_OK; i++) {
    stage s = {job, layout, last, i, .end = played[i].end, .lent = played[i].lent};
    busy += played[i].busy;
    status = add_stage(&s);
  }
  layout->fits = layout->memory <= job->memory;
  layout->idle = passes > 0 ? 1 - busy / (passes * stages) : 0;
  clade__free(pieces);
  clade__free(last);
  clade__free(played);
  clade__free(sums);
  return status;
}
