/* The options of clade train and their translation for the trainer. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "cli/train_options.h"
#include "comm/wire.h"
#include "models/models.h"

static const cli_option options[] = {
    [MODEL] = {"model", "NAME", MODEL_NAMES " (lenet5)"},
    [DATA] = {"data", "SET", "digits, fashion-mnist, mnist:DIR, cifar10:DIR, cifar100:DIR or npy:DIR (digits)"},
    [EPOCHS] = {"epochs", "N", "passes over the training images (3)"},
    [BATCH] = {"batch", "N", "images in a step (64)"},
    [LR] = {"lr", "X", "learning rate (0.001)"},
    [OPTIMIZER] = {"optimizer", "NAME", "sgd, adam, adamw or rmsprop (adam)"},
    [MOMENTUM] = {"momentum", "X", "momentum of sgd and rmsprop (0.9 and 0)"},
    [SCHEDULE] = {"schedule", "NAME", "learning rate schedule: constant, step, cosine or one-cycle (constant)"},
    [WARMUP] = {"warmup", "N", "steps in which the learning rate rises to its value (0)"},
    [WEIGHT_DECAY] = {"weight-decay", "X", "except on biases and normalizations; adamw decouples it (0; adamw: 0.01)"},
    [CLIP_NORM] = {"clip-norm", "X", "largest norm of all gradients; 0: no limit (0)"},
    [CLIP_VALUE] = {"clip-value", "X", "largest magnitude of a gradient's element; 0: no limit (0)"},
    [SMOOTHING] = {"smoothing", "X", "label smoothing (0)"},
    [AUGMENT] = {"augment", "LIST",
                 "comma-separated: shift=N, crop=N, rotate=DEGREES, cutout=N, flip, normalize (none)"},
    [SEED] = {"seed", "N", "seed of weights, order of images and augmentation (42)"},
    [THREADS] = {"threads", "N", "threads of the data loader (1)"},
    [SPLIT] = {"split", "A:B", "shares of the batch for the devices or ranks; auto: by measured speed (equal shares)"},
    [FALLBACK] = CLI_FALLBACK,
    [PLACE] = CLI_PLACE,
    [CHECKPOINT_DIR] = {"checkpoint-dir", "DIR", "directory of checkpoints and options, as RUN (none)"},
    [CHECKPOINT_STEPS] = {"checkpoint-steps", "N", "also write a checkpoint every N steps"},
    [KEEP] = {"keep", "N", "checkpoints to keep besides the best (3)"},
    [RESUME] = {"resume", NULL, "continue from the newest checkpoint with the run's options; without one start anew"},
    [OVERWRITE] = {"overwrite", NULL, "start anew and replace the checkpoints that are there"},
    [LOG_DIR] = {"log-dir", "DIR", "directory of TensorBoard's event file and a CSV file (none)"},
    [TRACE] = {"trace", "FILE", "write a Chrome trace of some steps"},
    [TRACE_STEPS] = {"trace-steps", "A:B", "steps of the trace (2:6)"},
    [DETECT_ANOMALY] = {"detect-anomaly", NULL, "find the node that computed a NaN or an infinity (slow)"},
    [TUNE] = {"tune", "MODE", "tune the model's steps first: off, quick or full (off)"},
    [STRICT] = {"strict", NULL, "exclude convolution algorithms with larger errors (docs/layouts.md)"},
    [TIMEOUT] = {"timeout", "SECONDS", "longest wait for another rank; 0: no limit (60)"},
    [SHARD] = {"shard", "WHAT",
               "what is sharded over ranks: none, optimizer (its state) or gradients (as well) (none)"},
    [COMPRESS] = {"compress", "HOW", "compression of gradients between ranks: f32, bf16, f16 or powersgd:RANK (f32)"},
    [SYNC_BATCH_NORM] = {"sync-batch-norm", NULL, "batch statistics over all ranks instead of each rank's part"},
    [REDUCE] = {"reduce", "BY", "all-reduce of gradients: clade (the same bits as one process) or mpi (clade)"},
    [PRECISION] = {"precision", "TYPE",
                   "type in which layers compute: f32, bf16, f16, or auto: bf16 if its step is faster (f32)"},
    [TYPES] = {"types", "LIST", "exceptions to --precision for nodes, layers, functions or ops: gemm=f32,fc3=bf16"},
    [QAT] = {"qat", NULL, "quantization-aware training from RUN's best checkpoint, with its options"},
    [FREEZE_RANGES] = {"freeze-ranges", "N", "with --qat: freeze the ranges of inputs from epoch N on (never)"},
    [PARALLEL] = {"parallel", "LIST", "layout of ranks, comma-separated: data=N, tensor=N, pipeline=N (data)"},
    [MICRO_BATCHES] = {"micro-batches", "N", "micro-batches in a step of each rank (1)"},
    [INTERLEAVE] = {"interleave", "N", "with --parallel pipeline=N: pieces of the model on each stage (1)"},
    [MEMORY] = {"memory", "MIB", "with --parallel tensor=N: memory for a rank's parts of layers (no limit)"},
    [LINK] =
        {"link", "US,GBIT",
         "with --parallel tensor=N: latency in microseconds and Gbit/s between ranks, by which layers are divided; "
         "auto: measured, as is the device (10,80)"},
    [FLOPS] = {"flops", "T", "with --parallel tensor=N: TFLOP/s of a rank's device, by which layers are divided (1)"},
    [EXPLAIN] = {"explain", NULL, "print how --parallel cuts layers and stages"},
    {0},
};
_Static_assert(CLADE_COUNT(options) <= TRAIN_MAX_OPTIONS, "train_job.value has a place for each");
const cli_args train_description = {
    .command = "train",
    .synopsis = "[RUN]",
    .about = "Trains a model on images, with a test after each epoch.",
    .device_help = "device to train on; several share the batch, or serve one rank each",
    .many_devices = true,
    .options = options,
};

/* Parses a number within [low, high]. false: a usage error, printed. */
static bool real(const cli_args *args, const char *option, const char *text, double low, double high, double *out) {
  char *end;
  errno = 0;
  double number = strtod(text, &end);
  if (errno || end == text || *end || !(number >= low && number <= high)) {
    cli_wrong(args, "--%s %s: expected a number from %g to %g", option, text, low, high);
    return false;
  }
  *out = number;
  return true;
}

static bool count(train_job *job, int option, const char *text, int64_t low, int64_t high, int *out) {
  int64_t number;
  if (!cli_number(&job->args, options[option].name, text, low, high, &number)) return false;
  *out = (int)number;
  return true;
}

/* "2:6" */
static bool take_trace_steps(train_job *job, const char *text) {
  char *end;
  clade_trainer *t = &job->trainer;
  t->trace_from = strtoll(text, &end, 10);
  t->trace_to = *end == ':' ? strtoll(end + 1, &end, 10) : t->trace_from;
  if (!*end && t->trace_from > 0 && t->trace_to >= t->trace_from) return true;
  return cli_wrong(&job->args, "--trace-steps %s: expected the first and the last step, like 2:6", text), false;
}

static bool take_tune(train_job *job, const char *text) {
  static const char *const modes[] = {"off", "quick", "full"};
  for (size_t i = 0; i < CLADE_COUNT(modes); ++i)
    if (!strcmp(modes[i], text)) return job->trainer.tune = (clade_tune_mode)i, true;
  return cli_wrong(&job->args, "--tune %s: expected off, quick or full", text), false;
}

static bool take_compress(train_job *job, const char *text) {
  static const char low_rank[] = "powersgd:";
  if (!strncmp(text, low_rank, sizeof low_rank - 1))
    return count(job, COMPRESS, text + sizeof low_rank - 1, 1, 1024, &job->trainer.low_rank);
  job->trainer.compress = clade__dtype_named(text);
  if (clade__comm_carries(job->trainer.compress)) return true;
  return cli_wrong(&job->args, "--compress %s: expected f32, bf16, f16 or powersgd:RANK", text), false;
}

static bool take_precision(train_job *job, const char *text) {
  clade_trainer *t = &job->trainer;
  t->precision_auto = !strcmp(text, "auto");
  t->precision = t->precision_auto ? CLADE_DTYPE_NONE : clade__dtype_named(text);
  if (t->precision_auto || clade__comm_carries(t->precision)) return true;
  return cli_wrong(&job->args, "--precision %s: expected f32, bf16, f16 or auto", text), false;
}

static bool take_reduce(train_job *job, const char *text) {
  job->trainer.reduce = strcmp(text, "mpi") ? CLADE_REDUCE_BY_CLADE : CLADE_REDUCE_BY_CARRIER;
  if (!strcmp(text, "mpi") || !strcmp(text, "clade")) return true;
  return cli_wrong(&job->args, "--reduce %s: expected clade or mpi", text), false;
}

/* "data=2,tensor=2,pipeline=2" */
static bool take_parallel(train_job *job, const char *text) {
  const struct {
    const char *name;
    int *number;
  } parts[] = {{"data", &job->data_ranks}, {"tensor", &job->trainer.tensor}, {"pipeline", &job->trainer.pipeline}};
  for (const char *at = text;;) {
    const size_t length = strcspn(at, "=");
    size_t i = 0;
    char *end = NULL;
    while (i < CLADE_COUNT(parts) && (strlen(parts[i].name) != length || strncmp(parts[i].name, at, length))) i++;
    if (i == CLADE_COUNT(parts) || !at[length] || *parts[i].number) break;
    const long number = strtol(at + length + 1, &end, 10);
    if (end == at + length + 1 || number < 1 || number > 1 << 20 || (*end && *end != ',')) break;
    *parts[i].number = (int)number;
    if (!*end) return true;
    at = end + 1;
  }
  cli_wrong(&job->args, "--parallel %s: expected a list like data=2,tensor=2,pipeline=2, each once and from 1 on",
            text);
  return false;
}

static bool take_shard(train_job *job, const char *text) {
  for (clade_shard shard = CLADE_SHARD_NONE; shard <= CLADE_SHARD_GRADIENTS; shard++)
    if (!strcmp(clade_shard_name(shard), text)) return job->trainer.shard = shard, true;
  return cli_wrong(&job->args, "--shard %s: expected none, optimizer or gradients", text), false;
}

static bool take(train_job *job, int option, const char *value) {
  clade_trainer *t = &job->trainer;
  const char *name = options[option].name;
  int64_t number;
  switch (option) {
  case MODEL: t->model_name = value; return true;
  case DATA: job->data = value; return true;
  case EPOCHS: return count(job, option, value, 1, 1000000, &t->epochs);
  case BATCH: return count(job, option, value, 1, 1 << 20, &t->batch);
  case LR: return real(&job->args, name, value, 0, 1e30, &job->lr);
  case OPTIMIZER: job->optimizer = value; return true;
  case MOMENTUM: return real(&job->args, name, value, 0, 1, &job->momentum);
  case SCHEDULE: job->schedule = value; return true;
  case WARMUP: return cli_number(&job->args, name, value, 0, INT32_MAX, &job->warmup);
  case WEIGHT_DECAY: return real(&job->args, name, value, 0, 1e6, &job->weight_decay);
  case CLIP_NORM: return real(&job->args, name, value, 0, 1e30, &t->clip_norm);
  case CLIP_VALUE: return real(&job->args, name, value, 0, 1e30, &t->clip_value);
  case SMOOTHING: return real(&job->args, name, value, 0, 1, &t->smoothing);
  case AUGMENT: job->augment_text = value; return true;
  case SEED:
    if (!cli_number(&job->args, name, value, 0, INT64_MAX, &number)) return false;
    t->seed = (uint64_t)number;
    return true;
  case THREADS: return count(job, option, value, 1, 256, &t->threads);
  case FALLBACK: job->fallback = value; return true;
  case PLACE: t->place = value; return true;
  case SPLIT: job->split_text = value; return true;
  case CHECKPOINT_DIR: t->checkpoint_dir = value; return true;
  case CHECKPOINT_STEPS: return cli_number(&job->args, name, value, 1, INT32_MAX, &t->checkpoint_steps);
  case KEEP: return count(job, option, value, 1, 1000000, &t->keep);
  case RESUME: t->resume = true; return true;
  case OVERWRITE: t->overwrite = true; return true;
  case LOG_DIR: t->log_dir = value; return true;
  case TRACE: t->trace = value; return true;
  case TRACE_STEPS: return take_trace_steps(job, value);
  case TUNE: return take_tune(job, value);
  case STRICT: t->strict = true; return true;
  case SHARD: return take_shard(job, value);
  case SYNC_BATCH_NORM: t->sync_batch_norm = true; return true;
  case COMPRESS: return take_compress(job, value);
  case REDUCE: return take_reduce(job, value);
  case PRECISION: return take_precision(job, value);
  case TYPES: t->types = value; return true;
  case QAT: return job->qat = true;
  case FREEZE_RANGES: return count(job, option, value, 1, 1000000, &t->freeze_ranges);
  case PARALLEL: return take_parallel(job, value);
  case MICRO_BATCHES: return count(job, option, value, 1, 1 << 20, &t->micro_batches);
  case INTERLEAVE: return count(job, option, value, 1, 1 << 10, &t->interleave);
  case MEMORY:
    if (!cli_number(&job->args, name, value, 1, INT32_MAX, &number)) return false;
    t->parallel_memory = (uint64_t)number << 20;
    return true;
  case LINK:
    t->link_auto = !strcmp(value, "auto");
    return t->link_auto || cli_link(&job->args, name, value, &t->link_us, &t->link_gbits);
  case FLOPS: return real(&job->args, name, value, 1e-6, 1e9, &t->tflops);
  case EXPLAIN: return job->explain = true;
  case TIMEOUT: return real(&job->args, name, value, 0, 1e9, &job->timeout);
  default: t->detect_anomaly = true; return true;
  }
}

/* Refuses options that have no effect without another option. */
static bool all_take_effect(const train_job *job) {
  const clade_trainer *t = &job->trainer;
  const bool narrow = t->precision_auto || (t->precision && t->precision != CLADE_F32);
  const struct {
    bool given;
    const char *name, *needs;
    const void *there;
  } rows[] = {
      {t->checkpoint_steps, "checkpoint-steps", "checkpoint-dir: without it none is written", t->checkpoint_dir},
      {t->keep, "keep", "checkpoint-dir: without it none is written", t->checkpoint_dir},
      {t->trace_from, "trace-steps", "trace: the file that they are written to", t->trace},
      {t->freeze_ranges, "freeze-ranges", "qat: without it there are none", job->qat ? job : NULL},
      {t->types, "types", "precision: f32 alone has no others", narrow ? job : NULL},
      {t->interleave > 1, "interleave", "parallel pipeline=N: without it there are no stages",
       t->pipeline > 1 ? job : NULL},
      {t->parallel_memory, "memory", "parallel tensor=N: without it no layer has parts", t->tensor > 1 ? job : NULL},
      {job->value[LINK], "link", "parallel tensor=N: without it no layer has parts", t->tensor > 1 ? job : NULL},
      {t->tflops > 0, "flops", "parallel tensor=N: without it no layer has parts", t->tensor > 1 ? job : NULL},
      {job->explain, "explain", "parallel: without it nothing is cut", job->value[PARALLEL]}};
  for (size_t i = 0; i < CLADE_COUNT(rows); ++i)
    if (rows[i].given && !rows[i].there)
      return cli_wrong(&job->args, "--%s needs --%s", rows[i].name, rows[i].needs), false;
  return true;
}

/* --qat trains on one device in f32: drops contrary options of the source run, and its log directory. */
static void drop_options(train_job *job, int given_devices) {
  static const int dropped[] = {LOG_DIR,       SPLIT,      SHARD,     COMPRESS, SYNC_BATCH_NORM,
                                REDUCE,        TIMEOUT,    PRECISION, TYPES,    PARALLEL,
                                MICRO_BATCHES, INTERLEAVE, MEMORY,    LINK,     FLOPS};
  for (size_t i = 0; i < CLADE_COUNT(dropped); i++)
    if (job->from_run[dropped[i]]) job->value[dropped[i]] = NULL;
  if (!given_devices) job->args.n_devices = CLADE_MIN(job->args.n_devices, 1);
}

static bool is_same_directory(const char *a, const char *b) {
  struct stat one, other;
  return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* With --qat, RUN is the source. */
static int take_source(train_job *job, int argc, char **argv) {
  const char *directory = job->value[CHECKPOINT_DIR];
  const int given = job->args.n_devices;
  if (optind == argc) return cli_wrong(&job->args, "--qat needs RUN: a run whose weights it goes on from");
  job->source = argv[optind++];
  if (optind < argc) return cli_wrong(&job->args, "unexpected argument '%s'", argv[optind]);
  if (!directory) return cli_wrong(&job->args, "--qat needs --checkpoint-dir: %s itself is not touched", job->source);
  if (is_same_directory(job->source, directory))
    return cli_wrong(&job->args, "--checkpoint-dir %s is RUN itself, which --qat does not touch", directory);
  const clade_status status = train_run_read(job, job->source);
  if (status) return cli_failed_status(status);
  if (!job->kept)
    return cli_failed("%s has no run.json: only runs of `clade train` know their data and options", job->source);
  drop_options(job, given);
  return CLI_DONE;
}

static bool fits_qat(const train_job *job) {
  const clade_trainer *t = &job->trainer;
  if (!job->qat) return true;
  if (job->args.n_devices > 1)
    return cli_wrong(&job->args, "--qat trains on one device, and %d are given", job->args.n_devices), false;
  if (!t->precision_auto && (!t->precision || t->precision == CLADE_F32)) return true;
  return cli_wrong(&job->args, "--precision %s: --qat trains in f32", job->value[PRECISION]), false;
}

/* RUN is short for --checkpoint-dir RUN. With --resume, options come from its run.json. */
static int take_directory(train_job *job, int argc, char **argv) {
  const char **directory = &job->value[CHECKPOINT_DIR];
  if (job->value[QAT] && !job->value[RESUME]) return take_source(job, argc, argv);
  if (optind < argc) {
    if (*directory) return cli_wrong(&job->args, "'%s' and --checkpoint-dir %s: name one", argv[optind], *directory);
    *directory = argv[optind++];
  }
  if (optind < argc) return cli_wrong(&job->args, "unexpected argument '%s'", argv[optind]);
  if (!job->value[RESUME]) return CLI_DONE;
  if (!*directory) return cli_wrong(&job->args, "--resume needs RUN or --checkpoint-dir: where should it look?");
  if (job->value[OVERWRITE]) return cli_wrong(&job->args, "--resume goes on with what --overwrite replaces: give one");
  clade_status status = train_run_read(job, *directory);
  return status ? cli_failed_status(status) : CLI_DONE;
}

static int take_all(train_job *job) {
  if (!job->value[MODEL]) job->value[MODEL] = job->trainer.model_name;
  if (!job->value[DATA]) job->value[DATA] = job->data;
  for (int i = 0; options[i].name; ++i)
    if (job->value[i] && !take(job, i, job->value[i])) {
      if (job->from_run[i])
        cli_failed("that --%s is the run's, in %s/run.json: give another", options[i].name,
                   job->source ? job->source : job->value[CHECKPOINT_DIR]);
      return CLI_USAGE;
    }
  return CLI_DONE;
}

static int understand(train_job *job) {
  const int result = take_all(job);
  if (result) return result;
  job->trainer.model = model_by_name(job->trainer.model_name);
  if (!job->trainer.model) return cli_wrong(&job->args, "--model %s: expected " MODEL_NAMES, job->trainer.model_name);
  if (!all_take_effect(job) || !fits_qat(job)) return CLI_USAGE;
  if (job->split_text && !(train_take_split(job) && train_fits_devices(job))) return CLI_USAGE;
  if (job->augment_text && !train_take_augment(job)) return CLI_USAGE;
  return train_take_optimizer(job) && train_knows_schedule(job) ? CLI_DONE : CLI_USAGE;
}

int train_of_run(train_job *job, const char *run, const char *epochs) {
  clade_status status = train_run_read(job, run);
  if (status != CLADE_OK) return cli_failed_status(status);
  if (!job->kept) return cli_failed("%s has no run.json: only runs of `clade train` know their data and options", run);
  if (epochs) job->value[EPOCHS] = epochs;
  if (epochs) job->from_run[EPOCHS] = false;
  job->value[LOG_DIR] = NULL;
  job->value[CHECKPOINT_DIR] = run; /* for messages and checks */
  return understand(job);
}

int train_parse(train_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) {
    if (next < 0) return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    job->value[next] = value ? value : "";
  }
  const int result = take_directory(job, argc, argv);
  return result ? result : understand(job);
}
