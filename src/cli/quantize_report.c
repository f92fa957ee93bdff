/* Report of clade quantize: quantized layers, and how size, speed and accuracy changed. */
#include <stdio.h>

#include "cli/quantize.h"
#include "cli/train.h"

static const char *checked_on(const quantize_job *job) { return job->apart ? "held-out" : "calibration"; }

const char *quantize_scheme(const quantize_job *job) { return job->weights ? "int4-weights" : "int8"; }

const char *quantize_calibration(const quantize_job *job) {
  if (job->weights) return "none";
  return job->trained ? "trained" : clade_calibration_name(job->calibration);
}

static const char *layer_type(const clade_quantization_layer *l) {
  return l->weight == CLADE_I8 ? "int8" : clade_dtype_name(l->weight);
}

static json_t *layers_json(const quantize_job *job) {
  json_t *list = json_array();
  clade_quantization_layer l = {.size = sizeof l};
  for (int i = 0; clade_quantization_get_layer(job->quantization, i, &l) == CLADE_OK; i++)
    json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:s, s:f, s:f, s:f, s:I}", "name", cli_json_text(l.name),
                                          "op", l.op, "type", layer_type(&l), "input_type", clade_dtype_name(l.input),
                                          "input_scale", l.input_scale, "weight_scale_least", l.scale_least,
                                          "weight_scale_most", l.scale_most, "weights", (json_int_t)l.weights));
  return list;
}

static json_t *document(const quantize_job *job) {
  const quantize_side *b = &job->before, *a = &job->after;
  clade_device_info info = {.size = sizeof info};
  if (clade_device_get_info(job->device, &info) != CLADE_OK) return NULL;
  return json_pack("{s:o, s:o, s:s, s:o, s:s, s:s, s:I, s:o, s:s, s:I, s:f, s:o, s:f, s:f, s:I, s:I, s:I, s:f, s:f, "
                   "s:s, s:s}",
                   "run", cli_json_text(job->run), "output", cli_json_text(job->output), "model", job->model, "data",
                   cli_json_text(job->data), "scheme", quantize_scheme(job), "calibrate", quantize_calibration(job),
                   "samples", (json_int_t)job->samples, "budget",
                   job->budget < 0 ? json_null() : json_real(job->budget), "checked_on", checked_on(job), "checked",
                   (json_int_t)job->held, "checked_loss", job->loss, "layers", layers_json(job), "test_accuracy_before",
                   b->accuracy, "test_accuracy", a->accuracy, "bytes_before", (json_int_t)b->bytes, "bytes",
                   (json_int_t)a->bytes, "batch", (json_int_t)job->batch, "seconds_per_batch_before", b->seconds,
                   "seconds_per_batch", a->seconds, "device", info.id, "device_name", info.name);
}

static void print_layers(const quantize_job *job) {
  clade_quantization_layer l = {.size = sizeof l};
  puts("\ntype   input  scale         weights, scales                       layer");
  for (int i = 0; clade_quantization_get_layer(job->quantization, i, &l) == CLADE_OK; i++)
    if (l.quantized)
      printf("%-5s  %-5s  %-12.5g  %9lld, %-10.4g to %-10.4g  %s\n", layer_type(&l), clade_dtype_name(l.input),
             l.input_scale, (long long)l.weights, l.scale_least, l.scale_most, l.name);
    else
      printf("f32    f32    %-12s  %9lld  %-24s  %s\n", "", (long long)l.weights, "", l.name);
}

static void print_row(const char *name, double before, double after, int digits, const char *unit) {
  printf("%-18s %14.*f %14.*f  %s\n", name, digits, before, digits, after, unit);
}

int quantize_report(const quantize_job *job) {
  const quantize_side *b = &job->before, *a = &job->after;
  if (job->args.json) return cli_json_end(document(job));
  print_layers(job);
  printf("\n%-18s %14s %14s\n", "", "before", "after");
  print_row("test accuracy", 100 * b->accuracy, 100 * a->accuracy, 2, "%");
  print_row("bytes", (double)b->bytes, (double)a->bytes, 0, "");
  print_row("a batch", 1e3 * b->seconds, 1e3 * a->seconds, 3, "ms");
  printf("(batches of %lld", (long long)job->batch);
  if (job->weights)
    puts(")");
  else if (job->trained)
    puts("; scales as trained)");
  else
    printf("; scales by %s of %lld training samples)\n", clade_calibration_name(job->calibration),
           (long long)job->samples);
  printf("%.2f points of accuracy lost on %lld %s\n", job->loss, (long long)job->held,
         job->apart ? job->trained ? "training samples" : "other training samples"
                    : "samples of the calibration: the set has no others");
  printf("\nnext:\n  %s infer ", cli_program);
  train_print_word(stdout, job->output);
  puts(" --input x.npy --output y.npy");
  return CLI_DONE;
}
