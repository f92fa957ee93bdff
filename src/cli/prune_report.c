/* Report of clade prune: what was removed, and how size, speed and accuracy changed. */
#include <stdio.h>

#include "cli/prune.h"

/* No kernel skips zeros: pruned weights are multiplied like others. */
static bool computes_less(const prune_job *job) { return job->structure == CLADE_PRUNE_CHANNELS; }

static json_t *layers_json(const prune_job *job) {
  json_t *list = json_array();
  clade_pruning_layer layer = {.size = sizeof layer};
  for (int i = 0; job->pruning && clade_pruning_get_layer(job->pruning, i, &layer) == CLADE_OK; i++)
    json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "name", cli_json_text(layer.name), "channels",
                                          (json_int_t)layer.channels, "removed", (json_int_t)layer.removed));
  return list;
}

/* Weights whose shape does not fit the 2:4 structure. */
static json_t *left_out_json(const prune_job *job) {
  json_t *list = json_array();
  for (int i = 0; job->structure == CLADE_PRUNE_2_4 && i < clade_vars_count(job->after.vars); i++) {
    clade_port_info info = {.size = sizeof info};
    if (clade_vars_describe(job->after.vars, i, &info) == CLADE_OK && clade__is_weight(&info) &&
        !clade__structure_fits(job->structure, &info.type))
      json_array_append_new(list, cli_json_text(info.name));
  }
  return list;
}

static json_t *document(const prune_job *job) {
  const prune_side *b = &job->before, *a = &job->after;
  const train_job *train = &job->train;
  clade_device_info info = {.size = sizeof info};
  if (clade_device_get_info(job->device, &info) != CLADE_OK) return NULL;
  return json_pack(
      "{s:o, s:o, s:s, s:o, s:s, s:f, s:s, s:i, s:o, s:o, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:i, s:f, "
      "s:f, s:b, s:s, s:s}",
      "run", cli_json_text(job->run), "output", cli_json_text(job->output), "model", train->trainer.model_name, "data",
      cli_json_text(train->data), "structure", clade_prune_structure_name(job->structure), "sparsity", job->sparsity,
      "schedule", job->cubic ? "cubic" : "one-shot", "finetune", job->finetune ? train->result.epochs : 0, "layers",
      layers_json(job), "left_out", left_out_json(job), "test_accuracy_before", b->accuracy, "test_accuracy",
      a->accuracy, "parameters_before", (json_int_t)b->parameters, "parameters", (json_int_t)a->parameters,
      "zeros_before", (json_int_t)b->zeros, "zeros", (json_int_t)a->zeros, "bytes_before", (json_int_t)b->bytes,
      "bytes", (json_int_t)a->bytes, "flops_before", b->flops, "flops", a->flops, "batch", (int)job->batch,
      "seconds_per_batch_before", b->seconds, "seconds_per_batch", a->seconds, "computes_less", computes_less(job),
      "device", info.id, "device_name", info.name);
}

static void print_row(const char *name, double before, double after, int digits, const char *unit) {
  printf("%-18s %14.*f %14.*f  %s\n", name, digits, before, digits, after, unit);
}

static void print_layers(const prune_job *job) {
  clade_pruning_layer layer = {.size = sizeof layer};
  if (!job->pruning) return;
  puts("\nchannels      before  after");
  for (int i = 0; clade_pruning_get_layer(job->pruning, i, &layer) == CLADE_OK; i++)
    printf("  %16lld %6lld  %s\n", (long long)layer.channels, (long long)(layer.channels - layer.removed), layer.name);
}

static void print_left_out(const prune_job *job) {
  json_t *list = left_out_json(job), *name;
  size_t i;
  if (json_array_size(list)) fputs("left out, as dimension 1 is not divisible by 4:", stdout);
  json_array_foreach(list, i, name) printf(" %s", json_string_value(name));
  if (json_array_size(list)) putchar('\n');
  json_decref(list);
}

int prune_report(const prune_job *job) {
  const prune_side *b = &job->before, *a = &job->after;
  if (job->args.json) return cli_json_end(document(job));
  print_layers(job);
  printf("\n%-18s %14s %14s\n", "", "before", "after");
  print_row("test accuracy", 100 * b->accuracy, 100 * a->accuracy, 2, "%");
  print_row("parameters", (double)b->parameters, (double)a->parameters, 0, "");
  print_row("zeros among them", (double)b->zeros, (double)a->zeros, 0, "");
  print_row("bytes", (double)b->bytes, (double)a->bytes, 0, "");
  print_row("a batch", 1e-6 * b->flops, 1e-6 * a->flops, 2, "MFLOP");
  print_row("", 1e3 * b->seconds, 1e3 * a->seconds, 3, "ms");
  printf("(batches of %lld; %.2f times as fast, where FLOPs are %.2f times fewer)\n", (long long)job->batch,
         b->seconds / a->seconds, b->flops / a->flops);
  print_left_out(job);
  if (!computes_less(job))
    puts("no kernel here gains from zeros: a batch takes as long as before, and noise is what differs");
  printf("\nnext:\n  %s train ", cli_program);
  train_print_word(stdout, job->output);
  printf(" --resume --epochs %d\n  %s infer ", job->train.result.epochs + 2, cli_program);
  train_print_word(stdout, job->output);
  puts(" --input x.npy --output y.npy");
  return CLI_DONE;
}
