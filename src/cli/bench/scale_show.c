/* Output about a model's step, shared by `clade bench comm` and `clade bench scale`. */
#include <stdio.h>

#include "cli/bench/scale.h"

void scale_show_model(FILE *to, const bench_model_work *w, const scale_compute *c) {
  fprintf(to,
          "\n%s, %lld images of %lld x %lld for each rank: %.3f ms a step alone, %.3f ms with gradients copied to the "
          "host and back; %.2f MB of gradients in %d %s\n",
          w->model, (long long)w->batch, (long long)w->side, (long long)w->side, c->alone * 1e3, c->staged * 1e3,
          c->bytes * 1e-6, c->n, c->n == 1 ? "bucket" : "buckets");
  fprintf(to, "%6s %12s %12s\n", "bucket", "MB", "ready ms");
  for (int i = 0; i < c->n; i++)
    fprintf(to, "%6d %12.3f %12.3f\n", i, c->buckets[i].bytes * 1e-6, c->buckets[i].ready * 1e3);
  fprintf(to, "after the last sum: %.3f ms\n", c->rest * 1e3);
}

json_t *scale_model_json(const bench_model_work *w, const scale_compute *c) {
  json_t *buckets = json_array();
  for (int i = 0; i < c->n; i++)
    json_array_append_new(buckets, json_pack("{s:I, s:f}", "bytes", (json_int_t)c->buckets[i].bytes, "ready_seconds",
                                             c->buckets[i].ready));
  return json_pack("{s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:o}", "name", w->model, "batch", (json_int_t)w->batch, "side",
                   (json_int_t)w->side, "gradient_bytes", (json_int_t)c->bytes, "alone_seconds", c->alone,
                   "staged_seconds", c->staged, "rest_seconds", c->rest, "buckets", buckets);
}
