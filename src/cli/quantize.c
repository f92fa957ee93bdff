/* clade quantize: makes a new run from a run's best checkpoint with layers quantized to 8 or 4 bits, and reports
 * size, speed and accuracy. */
#include "cli/quantize.h"

#include <getopt.h>
#include <stdlib.h>

#include "base/json.h"

enum { DATA, SCHEME, CALIBRATE, SAMPLES, BUDGET, OUTPUT, BATCH, SEED };
static const cli_option options[] = {
    [DATA] = {"data", "SET", "set for calibration (training samples) and accuracy (test samples) (the run's)"},
    [SCHEME] = {"scheme", "NAME", "int8: weights and inputs of layers; int4-weights: weights of linear layers (int8)"},
    [CALIBRATE] = {"calibrate", "HOW", "range of layer inputs: minmax, percentile or mse (minmax)"},
    [SAMPLES] = {"samples", "N", "training samples for calibration (256)"},
    [BUDGET] = {"budget", "POINTS",
                "largest loss of accuracy in percentage points; keeps layers in f32 to meet it (none)"},
    [OUTPUT] = {"output", "DIR", "directory of the new run"},
    [BATCH] = {"batch", "N", "images in a batch (8)"},
    [SEED] = {"seed", "N", "seed of the choice of samples (42)"},
    {0},
};
static const cli_args description = {
    .command = "quantize",
    .synopsis = "RUN",
    .about = "Quantizes the best checkpoint of a run to 8 or 4 bits and writes a new run (docs/quantization.md).",
    .device_help = "device to run on (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

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
    job->weights = strcmp(value, "int4-weights") ? CLADE_DTYPE_NONE : CLADE_Q4_0;
    if (job->weights || !strcmp(value, "int8")) return true;
    return cli_wrong(&job->args, "--scheme %s: expected int8 or int4-weights", value), false;
  case CALIBRATE: job->calibrates = true; return take_calibration(job, value);
  case SAMPLES: job->calibrates = true; return cli_number(&job->args, "samples", value, 1, 1 << 20, &job->samples);
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
  if (job->weights && job->calibrates)
    return cli_wrong(&job->args, "--calibrate and --samples are of --scheme int8: int4-weights looks at no inputs");
  if (job->weights) job->samples = 0;
  return job->output ? CLI_DONE : cli_wrong(&job->args, "--output is missing: the run itself is not touched");
}

static clade_status save(quantize_job *job) {
  clade_checkpoint_dir *dir = NULL;
  char *layers = NULL, *text = NULL;
  clade_status status;
  CLADE_GOTO(clade_quantization_text(job->quantization, &layers));
  json_t *told = json_pack("{s:s, s:s, s:s}", "scheme", quantize_scheme(job), "calibrate", quantize_calibration(job),
                           "layers", layers);
  CLADE_GOTO(cli_json_set(job->state, "quantization", told) ? CLADE_OK : CLADE_NO_MEMORY);
  json_object_del(job->state, "choices"); /* implementations chosen for the f32 model */
  json_object_del(job->state, "qat");
  CLADE_GOTO(clade__json_print(job->state, JSON_COMPACT | JSON_REAL_PRECISION(17), &text));
  CLADE_GOTO(clade_checkpoint_dir_open(job->output, &dir));
  CLADE_GOTO(clade_checkpoint_save(dir, job->after.vars, clade_checkpoint_step(job->checkpoint), text, .best = true));
fail:
  clade_checkpoint_dir_close(dir);
  clade_text_free(layers);
  clade__free(text);
  return status;
}

/* Ranges from a --qat training need no samples, unless --calibrate asks for some. */
static clade_status find_ranges(quantize_job *job) {
  if (!job->trained) return quantize_calibrate(job);
  quantize_side side = {0};
  clade_status status =
      clade_compile(job->graph, job->device, &side.func, .quantization = job->trained, .simulate = true);
  if (status == CLADE_OK) status = clade_vars_new(side.func, 0, &side.vars);
  if (status == CLADE_OK) status = clade_checkpoint_apply(job->checkpoint, side.vars);
  if (status == CLADE_OK)
    status = clade_quantization_new(job->graph, job->device, side.vars, &job->quantization, .trained = job->trained);
  quantize_side_close(&side);
  return status;
}

static clade_status work(quantize_job *job) {
  CLADE_TRY(quantize_open(job));
  if (job->calibrates || job->weights) job->trained = NULL;
  if (job->trained) job->samples = 0;
  CLADE_TRY(quantize_measure(job, &job->before));
  CLADE_TRY(find_ranges(job));
  CLADE_TRY(quantize_layers(job));
  CLADE_TRY(quantize_measure(job, &job->after));
  return save(job);
}

int cli_quantize(int argc, char **argv) {
  quantize_job job = {.args = description, .samples = 256, .batch = 8, .seed = 42, .budget = -1};
  int result = parse(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  if ((result = cli_check_new_directory("--output", job.output))) return result;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  const clade_status status = work(&job);
  result = status ? cli_failed_status(status) : quantize_report(&job);
  quantize_close(&job);
  return result;
}
