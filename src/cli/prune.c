/* clade prune: prunes the best checkpoint of a run, optionally trains it further, and reports accuracy, size and
 * speed. */
#include "cli/prune.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/json.h"

enum { SPARSITY, STRUCTURE, RANK, SCHEDULE, FINETUNE, OUTPUT, BATCH };
static const cli_option options[] = {
    [SPARSITY] = {"sparsity", "X", "fraction of channels or weights to remove, below 1 (2:4: 0.5)"},
    [STRUCTURE] = {"structure", "WHAT",
                   "what to remove: channels, weights, or 2:4, two of each four weights (channels)"},
    [RANK] = {"rank", "BY", "importance of channels: l2, l1 or batch-norm (l2)"},
    [SCHEDULE] = {"schedule", "NAME",
                  "one-shot, or cubic: remove more weights before each epoch of --finetune (one-shot)"},
    [FINETUNE] = {"finetune", "EPOCHS", "epochs of training after pruning, with the run's data and options (0)"},
    [OUTPUT] = {"output", "DIR", "directory of the new run"},
    [BATCH] = {"batch", "N", "images in a timed batch (8)"},
    {0},
};
static const cli_args description = {
    .command = "prune",
    .synopsis = "RUN",
    .about = "Prunes the best checkpoint of a run and writes the result as a new run (docs/pruning.md).",
    .device_help = "device for training and measuring (unset: the run's first, CLADE_DEVICE, or the best)",
    .options = options,
};

/* ---- options ---- */
static bool take_sparsity(prune_job *job, const char *text) {
  char *end;
  job->sparsity = strtod(text, &end);
  if (end != text && !*end && job->sparsity >= 0 && job->sparsity < 1) return true;
  return cli_wrong(&job->args, "--sparsity %s: expected a fraction, from 0 to below 1", text), false;
}

/* Index of a word in a list; -1: a usage error, printed. */
static int word(const prune_job *job, const char *option, const char *text, const char *const *words, int n,
                const char *expected) {
  for (int i = 0; i < n; i++)
    if (!strcmp(text, words[i])) return i;
  cli_wrong(&job->args, "--%s %s: expected %s", option, text, expected);
  return -1;
}

static bool take(prune_job *job, int option, const char *value) {
  static const char *const ranks[] = {"l2", "l1", "batch-norm"}, *const schedules[] = {"one-shot", "cubic"},
                           *const structures[] = {"channels", "weights", "2:4"};
  int64_t epochs;
  int found;
  switch (option) {
  case SPARSITY: return take_sparsity(job, value);
  case STRUCTURE:
    found = word(job, "structure", value, structures, 3, "channels, weights or 2:4");
    job->structure = (clade_prune_structure)(CLADE_PRUNE_CHANNELS + found);
    return found >= 0;
  case RANK:
    found = word(job, "rank", value, ranks, 3, "l2, l1 or batch-norm");
    job->rank = (clade_prune_rank)found;
    return found >= 0;
  case SCHEDULE:
    found = word(job, "schedule", value, schedules, 2, "one-shot or cubic");
    job->cubic = found == 1;
    return found >= 0;
  case FINETUNE:
    if (!cli_number(&job->args, "finetune", value, 0, 1000000, &epochs)) return false;
    job->finetune = epochs ? value : NULL;
    return true;
  case OUTPUT: job->output = value; return true;
  default: return cli_number(&job->args, "batch", value, 1, 1 << 16, &job->batch);
  }
}

static int check(prune_job *job) {
  const bool two_of_four = job->structure == CLADE_PRUNE_2_4;
  if (!job->run) return cli_wrong(&job->args, "which RUN? Name a directory of checkpoints");
  if (!job->output) return cli_wrong(&job->args, "--output is missing: the run itself is not touched");
  if (two_of_four && job->sparsity < 0) job->sparsity = 0.5;
  if (two_of_four && (job->sparsity < 0.5 || job->sparsity > 0.5))
    return cli_wrong(&job->args, "--sparsity %g: --structure 2:4 is a sparsity of 0.5", job->sparsity);
  if (job->sparsity < 0) return cli_wrong(&job->args, "--sparsity is missing: how much is to go?");
  if (job->rank && job->structure != CLADE_PRUNE_CHANNELS)
    return cli_wrong(&job->args, "--rank has no effect with --structure %s: single weights go by their magnitude",
                     clade_prune_structure_name(job->structure));
  if (!job->cubic) return CLI_DONE;
  if (job->structure != CLADE_PRUNE_WEIGHTS)
    return cli_wrong(&job->args, "--schedule cubic is for --structure weights: %s go at once",
                     clade_prune_structure_name(job->structure));
  if (!job->finetune || atoi(job->finetune) < 2)
    return cli_wrong(&job->args, "--schedule cubic needs --finetune with 2 epochs or more");
  return CLI_DONE;
}

static int parse(prune_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) {
    if (next < 0) return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    if (!take(job, next, value)) return CLI_USAGE;
  }
  if (optind < argc) job->run = argv[optind++];
  if (optind < argc) return cli_wrong(&job->args, "unexpected argument '%s'", argv[optind]);
  return check(job);
}

/* ---- the run ---- */
/* Reads the run's data and training options, limited to one device and one rank. */
static int take_run(prune_job *job) {
  train_job *train = &job->train;
  clade_trainer *t = &train->trainer;
  train_job_begin(train);
  for (int i = 0; i < job->args.n_devices; i++) train->args.device[train->args.n_devices++] = job->args.device[i];
  const int result = train_of_run(train, job->run, job->finetune);
  if (result) return result;
  t->checkpoint_dir = job->output;
  t->split = NULL;
  t->split_auto = t->sync_batch_norm = false;
  t->shard = CLADE_SHARD_NONE;
  t->compress = CLADE_F32;
  t->low_rank = 0;
  t->reduce = CLADE_REDUCE_BY_CLADE;
  train->args.json = job->args.json;
  train_show_begin(train);
  train->args.json = false; /* progress is printed as text */
  return CLI_DONE;
}

static clade_status open_data(prune_job *job) {
  clade_trainer *t = &job->train.trainer;
  const char *spec = job->train.args.n_devices ? job->train.args.device[0] : NULL;
  CLADE_TRY(clade_dataset_open(job->train.data, true, &t->train));
  CLADE_TRY(clade_dataset_open(job->train.data, false, &t->test));
  CLADE_TRY(train_schedule(&job->train));
  CLADE_TRY(clade_device_find(spec, &job->device));
  if (job->train.fallback) CLADE_TRY(clade_device_find(job->train.fallback, &t->fallback));
  t->n_devices = 1;
  t->devices = &job->device;
  return CLADE_OK;
}

/* ---- pruning ---- */
/* Builds the smaller model with the remaining weights. */
static clade_status remove_channels(prune_job *job, clade_vars **out) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_status status;
  CLADE_GOTO(clade_prune_channels(job->before.graph, job->before.vars, &job->pruning, .sparsity = job->sparsity,
                                  .rank = job->rank));
  CLADE_GOTO(clade_graph_new(&g));
  CLADE_GOTO(clade_pruning_shapes(job->pruning, g));
  prune_build(job, g);
  CLADE_GOTO(clade_pruning_check(job->pruning, g));
  CLADE_GOTO(
      clade_compile(g, job->device, &func, .fallback = job->train.trainer.fallback, .place = job->train.trainer.place));
  CLADE_GOTO(clade_vars_new(func, 0, out));
  CLADE_GOTO(clade_pruning_apply(job->pruning, job->before.vars, *out));
fail:
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

/* Trains on from the remaining weights, or only writes a first checkpoint. */
static clade_status train_on(prune_job *job, const clade_vars *weights) {
  train_job *train = &job->train;
  clade_trainer *t = &train->trainer;
  t->weights = weights;
  t->pruned = job->structure;
  t->sparsity = job->sparsity;
  t->cubic = job->cubic;
  t->begin_only = !job->finetune;
  if (t->begin_only) t->observe = NULL;
  train->result.size = sizeof train->result;
  CLADE_TRY(clade_train(t, &train->result, NULL));
  return t->begin_only ? train_run_write(train, job->output) : CLADE_OK;
}

static clade_status prune(prune_job *job) {
  clade_vars *left = NULL;
  clade_status status;
  CLADE_TRY(open_data(job));
  CLADE_TRY(prune_side_open(job, job->run, &job->before));
  if (job->structure == CLADE_PRUNE_CHANNELS) CLADE_GOTO(remove_channels(job, &left));
  CLADE_GOTO(train_on(job, left ? left : job->before.vars));
  if (!job->train.result.stopped) CLADE_GOTO(prune_side_open(job, job->output, &job->after));
fail:
  clade_vars_release(left);
  return status;
}

static int finish(prune_job *job, clade_status status) {
  if (status) return cli_failed_status(status);
  if (!job->train.result.stopped) return prune_report(job);
  train_stopped(&job->train);
  return CLI_INTERRUPTED;
}

static void release(prune_job *job) {
  clade_trainer *t = &job->train.trainer;
  prune_side_close(&job->before);
  prune_side_close(&job->after);
  clade_pruning_free(job->pruning);
  clade_dataset_release(t->train);
  clade_dataset_release(t->test);
  clade_device_release(job->device);
  clade_device_release(t->fallback);
  clade_train_result_free(&job->train.result);
  json_decref(job->train.kept);
}

int cli_prune(int argc, char **argv) {
  prune_job job = {.args = description, .structure = CLADE_PRUNE_CHANNELS, .sparsity = -1, .batch = 8};
  int result = parse(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  if ((result = cli_check_new_directory("--output", job.output))) return result;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  result = take_run(&job);
  if (!result) {
    train_catch_signals();
    result = finish(&job, prune(&job));
  }
  release(&job);
  return result;
}
