/* Text output of clade plan: the best layouts, why the first is proposed, and the command that runs it. */
#include <math.h>
#include <stdio.h>

#include "cli/plan/plan.h"

static const double GB = 1e-9, MS = 1e3;

static void show_head(const plan_job *job, const plan_found *found) {
  const scale_link *l = &job->links.link;
  printf("%s on %d ranks, %lld samples a step; %.2f GB for each\n", job->model.name, job->ranks, (long long)job->batch,
         job->memory * GB);
  printf("device: %s, %.2f TFLOP/s, %.0f GB/s\n", job->device.name, job->device.flops * 1e-12,
         job->device.bandwidth * GB);
  if (job->measured_rows)
    printf("a step of %lld samples on it: %.3f ms measured, %.3f ms estimated\n", (long long)job->measured_rows,
           job->measured * MS, job->estimated * MS);
  printf("link: %.1f us, %.2f Gbit/s", l->latency * 1e6, l->bandwidth * 8e-9);
  if (l->near_ranks)
    printf("; between the %d ranks of a node %.1f us, %.2f Gbit/s", l->near_ranks, l->near_latency * 1e6,
           l->near_bandwidth * 8e-9);
  printf("\n%d layouts were looked at, %d fit; all figures are predicted\n\n", found->n, found->n_fit);
}

static void show_row(const plan_job *job, const plan_layout *l) {
  const clade__grid *g = &l->grid;
  printf("%5d %6d %8d %6d %10d %-9s %11.3f %11.1f %5.1f%% %10.3f %10.3f %8.2f%s\n", g->data, g->tensor, g->pipeline,
         g->micro_batches, g->interleave, clade_shard_name(l->shard), l->seconds * MS, (double)job->batch / l->seconds,
         100 * l->idle, l->moves * MS, l->exposed * MS, l->memory * GB, l->fits ? "" : " (does not fit)");
}

/* The fastest layout that fits among those without tensor or pipeline parallelism, or the one that needs least
 * memory. */
static const plan_layout *without(const plan_found *found, bool tensor, bool pipeline) {
  for (int i = 0; i < found->n; i++) {
    const clade__grid *g = &found->layouts[i].grid;
    if ((!tensor || g->tensor == 1) && (!pipeline || g->pipeline == 1)) return &found->layouts[i];
  }
  return NULL;
}

static void compare(const plan_found *found, const char *what, bool tensor, bool pipeline) {
  const plan_layout *best = &found->layouts[0], *other = without(found, tensor, pipeline);
  if (!other)
    printf("  %s: no layout divides the batch\n", what);
  else if (other != best && !other->fits)
    printf("  %s: does not fit, %.2f GB at least\n", what, other->memory * GB);
  else if (other != best)
    printf("  %s: %.3f ms, %.2f times as long\n", what, other->seconds * MS, other->seconds / best->seconds);
}

static void show_why(const plan_job *job, const plan_found *found) {
  const plan_layout *l = &found->layouts[0];
  printf("\nwhy data=%d, tensor=%d, pipeline=%d, micro-batches=%d, interleave=%d, shard=%s:\n", l->grid.data,
         l->grid.tensor, l->grid.pipeline, l->grid.micro_batches, l->grid.interleave, clade_shard_name(l->shard));
  printf("  %.2f GB on the fullest rank: variables %.2f, optimizer %.2f, gradients %.2f, values of layers %.2f\n",
         l->memory * GB, l->variables * GB, l->moments * GB, l->gradients * GB, l->values * GB);
  printf("  stages wait %.1f %% of the time for each other; tensor neighbors' moves take %.3f ms of a step, sums over "
         "data ranks beyond the passes %.3f ms, the update %.3f ms\n",
         100 * l->idle, l->moves * MS, l->exposed * MS, l->update * MS);
  printf("  one rank alone would take %.3f ms: %d ranks are %.2f times as fast%s\n", found->alone * MS, job->ranks,
         found->alone / l->seconds, found->alone < l->seconds ? ", and not worth it" : "");
  compare(found, "data parallelism alone", true, true);
  if (l->grid.tensor > 1) compare(found, "the best without tensor parallelism", true, false);
  if (l->grid.pipeline > 1) compare(found, "the best without pipeline parallelism", false, true);
}

static void show_command(const plan_job *job, const plan_layout *l) {
  const clade__grid *g = &l->grid;
  if (job->model.images)
    printf("\nmpirun -np %d clade train --model %s --batch %lld", job->ranks, job->model.name, (long long)job->batch);
  else
    printf("\noptions of its training:");
  if (g->tensor * g->pipeline > 1) printf(" --parallel data=%d,tensor=%d,pipeline=%d", g->data, g->tensor, g->pipeline);
  if (g->tensor > 1) { /* the training divides layers as the plan does */
    const scale_link *link = &job->links.link;
    const bool near = g->tensor <= link->near_ranks;
    printf(" --link %g,%g --flops %g", (near ? link->near_latency : link->latency) * 1e6,
           (near ? link->near_bandwidth : link->bandwidth) * 8e-9, job->device.flops * 1e-12);
  }
  if (g->micro_batches > 1) printf(" --micro-batches %d", g->micro_batches);
  if (g->interleave > 1) printf(" --interleave %d", g->interleave);
  if (l->shard != CLADE_SHARD_NONE) printf(" --shard %s", clade_shard_name(l->shard));
  printf("\n");
}

void plan_show(const plan_job *job, const plan_found *found, int rows) {
  show_head(job, found);
  printf("%5s %6s %8s %6s %10s %-9s %11s %11s %6s %10s %10s %8s\n", "data", "tensor", "pipeline", "micro", "interleave",
         "shard", "step ms", "samples/s", "idle", "tensor ms", "sums ms", "GB");
  for (int i = 0; i < rows; i++) show_row(job, &found->layouts[i]);
  show_why(job, found);
  show_command(job, &found->layouts[0]);
}
