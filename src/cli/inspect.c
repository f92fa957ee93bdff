/* clade inspect: lists the layers of a model with parameters, bytes, FLOPs, types, zeros and times. */
#include "cli/inspect.h"

#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "comm/wire.h"
#include "models/models.h"

enum { MODEL, CLASSES, IMAGE, BATCH, PRECISION, TYPES, TIME };
static const cli_option options[] = {
    [MODEL] = {"model", "NAME", "model, unless a run is given: " MODEL_NAMES},
    [CLASSES] = {"classes", "N", "classes of the model (10)"},
    [IMAGE] = {"image", "CxHxW", "channels, height and width of the model's images (1x28x28)"},
    [BATCH] = {"batch", "N", "images in the batch that is counted and timed (1)"},
    [PRECISION] = {"precision", "TYPE", "type in which layers compute: f32, bf16 or f16 (the run's, or f32)"},
    [TYPES] = {"types", "LIST", "exceptions to --precision for nodes, layers, functions or ops: gemm=f32,fc3=bf16"},
    [TIME] = {"time", NULL, "measure the time of each layer"},
    {0},
};
static const cli_args description = {
    .command = "inspect",
    .synopsis = "[RUN|FILE.safetensors]",
    .about = "Lists the layers of a model as fused for the device. From a run the best checkpoint is used.",
    .device_help = "device to compile for and measure on (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

static bool take_image(inspect_job *job, const char *text) {
  const char *at = text;
  job->image.rank = 3;
  for (int i = 0; i < 3; i++) {
    char *end;
    job->image.dim[i] = strtoll(at, &end, 10);
    if (end == at || job->image.dim[i] < 1 || job->image.dim[i] > 1 << 16 || *end != (i < 2 ? 'x' : 0))
      return cli_wrong(&job->args, "--image %s: expected channels, height and width, as 3x32x32", text), false;
    at = end + 1;
  }
  return job->image_given = true;
}

static bool take_precision(inspect_job *job, const char *text) {
  job->precision = clade__dtype_named(text);
  if (clade__comm_carries(job->precision)) return true;
  return cli_wrong(&job->args, "--precision %s: expected f32, bf16 or f16", text), false;
}

static bool take(inspect_job *job, int option, const char *value) {
  switch (option) {
  case MODEL: job->model_given = value; return true;
  case CLASSES:
    job->classes_given = true;
    return cli_number(&job->args, "classes", value, 1, CLADE_TRAIN_MAX_CLASSES, &job->classes);
  case IMAGE: return take_image(job, value);
  case BATCH: return cli_number(&job->args, "batch", value, 1, 1 << 16, &job->batch);
  case PRECISION: return take_precision(job, value);
  case TYPES: job->types = value; return true;
  default: return job->time = true;
  }
}

static int check(const inspect_job *job) {
  struct stat at;
  const bool run = job->source && !stat(job->source, &at) && S_ISDIR(at.st_mode);
  if (job->model_given && !model_by_name(job->model_given))
    return cli_wrong(&job->args, "--model %s: expected " MODEL_NAMES, job->model_given);
  if (run && (job->classes_given || job->image_given))
    return cli_wrong(&job->args, "--%s: a run says it itself", job->classes_given ? "classes" : "image");
  if (!run && !job->model_given)
    return cli_wrong(&job->args, job->source ? "--model is missing: only a run says which model it holds"
                                             : "which RUN or FILE? --model NAME alone shows a model without weights");
  if (job->types && (!job->precision || job->precision == CLADE_F32))
    return cli_wrong(&job->args, "--types needs --precision: f32 alone has no others");
  return CLI_DONE;
}

static int parse(inspect_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) {
    if (next < 0) return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    if (!take(job, next, value)) return CLI_USAGE;
  }
  if (optind < argc) job->source = argv[optind++];
  if (optind < argc) return cli_wrong(&job->args, "unexpected argument '%s'", argv[optind]);
  return check(job);
}

static clade_status work(inspect_job *job) {
  CLADE_TRY(inspect_open(job));
  CLADE_TRY(inspect_find(job));
  return job->time ? inspect_measure(job) : CLADE_OK;
}

int cli_inspect(int argc, char **argv) {
  inspect_job job = {.args = description, .batch = 1, .classes = 10, .image = CLADE_SHAPE(1, 28, 28)};
  int result = parse(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  const clade_status status = work(&job);
  result = status ? cli_failed_status(status) : inspect_report(&job);
  inspect_close(&job);
  return result;
}
