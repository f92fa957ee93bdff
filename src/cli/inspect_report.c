/* Report of clade inspect: a line for each layer, and the sums. */
#include <stdio.h>

#include "cli/inspect.h"

static double fraction(double part, double all) { return all > 0 ? part / all : 0; }

static json_t *type_json(clade_dtype type) { return type ? json_string(clade_dtype_name(type)) : json_null(); }

static json_t *seconds_json(const inspect_job *job, double seconds) {
  return job->time ? json_real(seconds) : json_null();
}

static json_t *layers_json(const inspect_job *job, const inspect_layer *all) {
  json_t *list = json_array();
  for (size_t i = 0; i < job->n_layers; i++) {
    const inspect_layer *l = &job->layers[i];
    json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:I, s:I, s:f, s:o, s:o, s:o, s:f, s:o, s:o}", "name",
                                          l->name ? cli_json_text(l->name) : json_null(), "op", l->op, "impl", l->impl,
                                          "parameters", (json_int_t)l->parameters, "bytes", (json_int_t)l->bytes,
                                          "flops", l->flops, "input_type", type_json(l->input), "weight_type",
                                          type_json(l->weight), "output_type", type_json(l->output), "sparsity",
                                          fraction((double)l->zeros, (double)l->weights), "seconds",
                                          seconds_json(job, l->seconds), "time_share",
                                          seconds_json(job, fraction(l->seconds, all->seconds))));
  }
  return list;
}

static json_t *image_json(const inspect_job *job) {
  json_t *list = json_array();
  for (int i = 0; i < job->image.rank; i++) json_array_append_new(list, json_integer(job->image.dim[i]));
  return list;
}

static json_t *document(const inspect_job *job) {
  const inspect_layer all = inspect_total(job);
  clade_device_info info = {.size = sizeof info};
  if (clade_device_get_info(job->device, &info) != CLADE_OK) return NULL;
  return json_pack("{s:o, s:s, s:I, s:o, s:I, s:s, s:b, s:b, s:o, s:I, s:I, s:f, s:f, s:o, s:s, s:s}", "source",
                   job->source ? cli_json_text(job->source) : json_null(), "model", job->model, "classes",
                   (json_int_t)job->classes, "image", image_json(job), "batch", (json_int_t)job->batch, "precision",
                   clade_dtype_name(job->precision ? job->precision : CLADE_F32), "quantized",
                   job->quantization != NULL, "pruned", job->pruned, "layers", layers_json(job, &all), "parameters",
                   (json_int_t)all.parameters, "bytes", (json_int_t)all.bytes, "flops", all.flops, "sparsity",
                   fraction((double)all.zeros, (double)all.weights), "seconds", seconds_json(job, all.seconds),
                   "device", info.id, "device_name", info.name);
}

static void print_types(const inspect_layer *l) {
  char text[48];
  if (l->weight)
    snprintf(text, sizeof text, "%s x %s > %s", clade_dtype_name(l->input), clade_dtype_name(l->weight),
             clade_dtype_name(l->output));
  else
    snprintf(text, sizeof text, "%s > %s", clade_dtype_name(l->input), clade_dtype_name(l->output));
  printf("  %-18s", text);
}

static void print_numbers(const inspect_job *job, const inspect_layer *l, const inspect_layer *all) {
  printf("%12lld %12lld %10.3f ", (long long)l->parameters, (long long)l->bytes, 1e-6 * l->flops);
  if (l->weights)
    printf("%7.1f", 100 * fraction((double)l->zeros, (double)l->weights));
  else
    printf("%7s", "");
  if (job->time) printf(" %9.3f %6.1f", 1e3 * l->seconds, 100 * fraction(l->seconds, all->seconds));
}

static void print_layers(const inspect_job *job) {
  const inspect_layer all = inspect_total(job);
  printf("%12s %12s %10s %7s%s  %-18s  %-12s %s\n", "parameters", "bytes", "MFLOP", "zeros %",
         job->time ? "        ms      %" : "", "types", "op", "layer");
  for (size_t i = 0; i < job->n_layers; i++) {
    const inspect_layer *l = &job->layers[i];
    print_numbers(job, l, &all);
    print_types(l);
    if (l->name)
      printf("  %-12s %s\n", l->op, l->name);
    else
      printf("  %s\n", l->op);
  }
  print_numbers(job, &all, &all);
  puts("  all");
}

int inspect_report(const inspect_job *job) {
  char shape[128];
  clade_device_info info = {.size = sizeof info};
  if (job->args.json) return cli_json_end(document(job));
  if (clade_device_get_info(job->device, &info) != CLADE_OK) return cli_failed_status(CLADE_INVALID);
  printf("%s%s%s: images %s, %lld classes, a batch of %lld, in %s%s%s, on %s\n\n", job->model,
         job->source ? " of " : "", job->source ? job->source : "", clade_shape_text(&job->image, shape, sizeof shape),
         (long long)job->classes, (long long)job->batch, clade_dtype_name(job->precision ? job->precision : CLADE_F32),
         job->quantization ? ", quantized" : "", job->pruned ? ", pruned" : "", info.name);
  print_layers(job);
  return CLI_DONE;
}
