/* clade quantize: a run's best checkpoint with layers of 8 bits, as a run of its own, and what that costs and brings.
 */
#include "cli/quantize.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "models/models.h"

enum { DATA, SCHEME, CALIBRATE, SAMPLES, BUDGET, OUTPUT, BATCH, SEED };
static const cli_option options[] = {
    [DATA] = {"data", "SET", "whose training samples calibrate, and whose test samples are answered (the run's)"},
    [SCHEME] = {"scheme", "NAME", "int8: weights and inputs of layers in 8 bits (int8)"},
    [CALIBRATE] = {"calibrate", "HOW", "what of an input is represented: minmax, percentile or mse (minmax)"},
    [SAMPLES] = {"samples", "N", "training samples that are looked at (256)"},
    [BUDGET] = {"budget", "POINTS", "keep layers in f32 until no more percentage points of accuracy are lost (none)"},
    [OUTPUT] = {"output", "DIR", "the directory of the new run"},
    [BATCH] = {"batch", "N", "images of a batch (8)"},
    [SEED] = {"seed", "N", "of the choice of samples (42)"},
    {0},
};
static const cli_args description = {
    .command = "quantize",
    .synopsis = "RUN",
    .about = "Stores a run's best checkpoint with weights of 8 bits, as a run of its own (docs/quantization.md).",
    .device_help = "where to run (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

/* ---- options ---- */
static bool take_calibration(quantize_job *job, const char *text) {
  for (int i = CLADE_CALIBRATE_MINMAX; i <= CLADE_CALIBRATE_MSE; i++)
    if (!strcmp(text, clade_calibration_name((clade_calibration)i))) {
      job->calibration = (clade_calibration)i;
      return true;
    }
  return cli_wrong(&job->args, "--calibrate %s: expected minmax, percentile or mse", text), false;
}

static bool take_budget(quantize_job *job, const char *text) {
  char *end;
  job->budget = strtod(text, &end);
  if (end != text && !*end && job->budget >= 0 && job->budget <= 100) return true;
  return cli_wrong(&job->args, "--budget %s: expected percentage points, from 0 to 100", text), false;
}

static bool take(quantize_job *job, int option, const char *value) {
  switch (option) {
  case DATA: job->data = value; return true;
  case SCHEME:
    if (!strcmp(value, "int8")) return true;
    return cli_wrong(&job->args, "--scheme %s: expected int8", value), false;
  case CALIBRATE: return take_calibration(job, value);
  case SAMPLES: return cli_number(&job->args, "samples", value, 1, 1 << 20, &job->samples);
  case BUDGET: return take_budget(job, value);
  case OUTPUT: job->output = value; return true;
  case BATCH: return cli_number(&job->args, "batch", value, 1, 1 << 16, &job->batch);
  default: return cli_number(&job->args, "seed", value, 0, INT64_MAX, &job->seed);
  }
}

static int parse(quantize_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) {
    if (next < 0) return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    if (!take(job, next, value)) return CLI_USAGE;
  }
  if (optind < argc) job->run = argv[optind++];
  if (optind < argc) return cli_wrong(&job->args, "unexpected argument '%s'", argv[optind]);
  if (!job->run) return cli_wrong(&job->args, "which RUN? Name a directory of checkpoints");
  return job->output ? CLI_DONE : cli_wrong(&job->args, "--output is missing: the run itself is not touched");
}

/* ---- the run and its data ---- */
static clade_status read_state(quantize_job *job) {
  const char *path;
  CLADE_TRY(clade_checkpoint_open(job->run, CLADE_CHECKPOINT_BEST, &job->checkpoint));
  path = clade_checkpoint_path(job->checkpoint);
  job->state = clade__json_load_text(clade_checkpoint_text(job->checkpoint));
  job->model = json_string_value(json_object_get(json_object_get(job->state, "course"), "model"));
  job->classes = json_integer_value(json_object_get(job->state, "classes"));
  job->pruned = json_is_object(json_object_get(job->state, "pruned"));
  job->normalize = json_is_object(clade__json_member(job->state, "normalize"));
  if (!job->model || job->classes < 1 || job->classes > CLADE_TRAIN_MAX_CLASSES)
    return CLADE_FAIL(CORRUPT, "%s: it does not say which model it holds", path);
  if (!model_by_name(job->model))
    return CLADE_FAIL(INVALID, "%s: it holds the model \"%.64s\" of another program; expected " MODEL_NAMES, path,
                      job->model);
  if (json_object_get(job->state, "quantization"))
    return CLADE_FAIL(INVALID, "%s: its weights are quantized already", path);
  if (!job->data) job->data = json_string_value(json_object_get(job->state, "spec"));
  return job->data ? CLADE_OK : CLADE_FAIL(INVALID, "%s does not say what it was trained on: name it by --data", path);
}

/* The set has the images and the classes that the model was made for. */
static clade_status check_data(quantize_job *job) {
  clade_dataset_info data = {.size = sizeof data};
  const json_t *shape = json_object_get(job->state, "shape");
  char text[128];
  CLADE_TRY(clade_dataset_describe(job->train, &data));
  if (data.count < 1) return CLADE_FAIL(INVALID, "--data %s: it has no training samples to calibrate by", job->data);
  bool same = json_array_size(shape) == (size_t)data.shape.rank && data.classes == job->classes;
  for (int i = 0; same && i < data.shape.rank; i++)
    same = json_integer_value(json_array_get(shape, (size_t)i)) == data.shape.dim[i];
  if (!same) {
    char *theirs = json_dumps(shape, JSON_COMPACT | JSON_ENCODE_ANY);
    const clade_status status =
        CLADE_FAIL(BAD_SHAPE, "--data %s: its images are %s of %d classes; the model in %s was trained on %s of %lld",
                   job->data, clade_shape_text(&data.shape, text, sizeof text), data.classes,
                   clade_checkpoint_path(job->checkpoint), theirs ? theirs : "others", (long long)job->classes);
    free(theirs);
    return status;
  }
  job->samples = CLADE_MIN(job->samples, data.count);
  CLADE_TRY(clade_shape_elements(&data.shape, &job->sample));
  return clade_loader_new(job->train, &job->loader, .batch = (int)job->batch, .seed = (uint64_t)job->seed,
                          .shuffle = true, .augment = {.normalize = job->normalize});
}

static clade_status build(quantize_job *job) {
  clade_dataset_info data = {.size = sizeof data};
  CLADE_TRY(clade_dataset_describe(job->train, &data));
  clade_shape shape = {.rank = data.shape.rank + 1, .dim = {job->batch}};
  for (int i = 0; i < data.shape.rank; i++) shape.dim[i + 1] = data.shape.dim[i];
  CLADE_TRY(clade_graph_new(&job->graph));
  if (job->pruned) CLADE_TRY(clade_checkpoint_shapes(job->checkpoint, job->graph));
  const clade_val x = clade_input(job->graph, "x", CLADE_F32, shape);
  clade_output(job->graph, "y", model_by_name(job->model)(job->graph, x, (int)job->classes, NULL));
  return clade_graph_status(job->graph);
}

static clade_status open_all(quantize_job *job) {
  CLADE_TRY(read_state(job));
  CLADE_TRY(clade_dataset_open(job->data, true, &job->train));
  CLADE_TRY(clade_dataset_open(job->data, false, &job->test));
  CLADE_TRY(check_data(job));
  CLADE_TRY(clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, &job->device));
  CLADE_TRY(build(job));
  CLADE_TRY(quantize_side_open(job, NULL, &job->before));
  CLADE_TRY(clade_checkpoint_apply(job->checkpoint, job->before.vars));
  return quantize_measure(job, &job->before);
}

/* ---- calibration ---- */
static clade_status check_batch(const quantize_job *job, const clade_batch *batch, int64_t rows) {
  for (int64_t i = 0; i < rows * job->sample; i++)
    if (!isfinite(batch->x[i]))
      return CLADE_FAIL(INVALID, "--data %s: training sample %lld holds NaN or infinity", job->data,
                        (long long)batch->samples[i / job->sample]);
  return CLADE_OK;
}

static clade_status calibrate(quantize_job *job) {
  CLADE_TRY(clade_quantization_new(job->graph, job->device, job->before.vars, &job->quantization,
                                   .calibration = job->calibration));
  for (int64_t seen = 0; seen < job->samples;) {
    clade_batch batch = {.size = sizeof batch};
    CLADE_TRY(clade_loader_next(job->loader, &batch));
    const int64_t rows = CLADE_MIN((int64_t)batch.n, job->samples - seen);
    CLADE_TRY(check_batch(job, &batch, rows));
    const size_t bytes = (size_t)(job->batch * job->sample) * sizeof *batch.x;
    CLADE_TRY(
        clade_quantization_observe(job->quantization, rows, job->batch, CLADE_FEEDS({"x", batch.x, bytes, NULL})));
    seen += rows;
  }
  return CLADE_OK;
}

/* ---- the new run ---- */
static clade_status save(quantize_job *job) {
  clade_checkpoint_dir *dir = NULL;
  char *layers = NULL, *text = NULL;
  clade_status status;
  CLADE_GOTO(clade_quantization_text(job->quantization, &layers));
  json_t *told = json_pack("{s:s, s:s, s:s}", "scheme", "int8", "calibrate", clade_calibration_name(job->calibration),
                           "layers", layers);
  CLADE_GOTO(cli_json_set(job->state, "quantization", told) ? CLADE_OK : CLADE_NO_MEMORY);
  json_object_del(job->state, "choices"); /* of the f32 model */
  CLADE_GOTO(clade__json_print(job->state, JSON_COMPACT | JSON_REAL_PRECISION(17), &text));
  CLADE_GOTO(clade_checkpoint_dir_open(job->output, &dir));
  CLADE_GOTO(clade_checkpoint_save(dir, job->after.vars, clade_checkpoint_step(job->checkpoint), text, .best = true));
fail:
  clade_checkpoint_dir_close(dir);
  clade_text_free(layers);
  clade__free(text);
  return status;
}

static clade_status work(quantize_job *job) {
  CLADE_TRY(open_all(job));
  CLADE_TRY(calibrate(job));
  CLADE_TRY(quantize_layers(job));
  CLADE_TRY(quantize_measure(job, &job->after));
  return save(job);
}

static void release(quantize_job *job) {
  quantize_side_close(&job->before);
  quantize_side_close(&job->after);
  clade_quantization_free(job->quantization);
  clade_loader_free(job->loader);
  clade_dataset_release(job->train);
  clade_dataset_release(job->test);
  clade_graph_release(job->graph);
  clade_device_release(job->device);
  clade_checkpoint_free(job->checkpoint);
  json_decref(job->state);
}

int cli_quantize(int argc, char **argv) {
  quantize_job job = {.args = description, .samples = 256, .batch = 8, .seed = 42, .budget = -1};
  int result = parse(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  if ((result = cli_check_new_directory("--output", job.output))) return result;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  const clade_status status = work(&job);
  result = status ? cli_failed_status(status) : quantize_report(&job);
  release(&job);
  return result;
}
