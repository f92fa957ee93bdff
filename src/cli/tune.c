/* clade tune: measures what is fast on a device and keeps it, or moves records between files. */
#include "cli/tune.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "models/models.h"

enum { MODE, BUDGET, BATCH, CLASSES, PASS, STRICT, COMPANION, AGAIN };
static const cli_option options[] = {
    [MODE] = {"mode", "MODE", "quick: the likeliest candidates within a budget; full: all of them (quick)"},
    [BUDGET] = {"budget", "SECONDS", "for each MODEL or product (quick: 5; full: as long as it takes)"},
    [BATCH] = {"batch", "N", "images of a model's step (64)"},
    [CLASSES] = {"classes", "N", "of a model (10)"},
    [PASS] = {"pass", "PASS", "of a model: train or infer (train)"},
    [STRICT] = {"strict", NULL, "for what is compiled so, as by clade train --strict"},
    [COMPANION] = CLI_COMPANION,
    [AGAIN] = {"again", NULL, "measure also what there are records of"},
    {0},
};
static const cli_args description = {
    .command = "tune",
    .synopsis = "MODEL|MxNxK… | export FILE | merge FILE…",
    .about =
        "Measures which implementations and parameters are fast on this device for the steps of a model\n(" MODEL_NAMES
        ")\nor for products of M x K by K x N, and keeps it; who runs them next gets them.\nexport writes this "
        "device's records to a file, merge takes a file's in.",
    .device_help = "where to measure; docs/devices.md tells the rule (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

static volatile int stop;
static void interrupt(int number) {
  (void)number;
  if (stop) _exit(130);
  stop = 1;
}

static int take_mode(tune_job *job, const char *text) {
  if (!strcmp(text, "quick"))
    job->mode = CLADE_TUNE_QUICK;
  else if (!strcmp(text, "full"))
    job->mode = CLADE_TUNE_FULL;
  else
    return cli_wrong(&job->args, "--mode %s: expected quick or full", text);
  return CLI_DONE;
}

static int take_pass(tune_job *job, const char *text) {
  job->infer = !strcmp(text, "infer");
  if (!job->infer && strcmp(text, "train") != 0)
    return cli_wrong(&job->args, "--pass %s: expected train or infer", text);
  return CLI_DONE;
}

static int take_budget(tune_job *job, const char *text) {
  char *end;
  job->budget = strtod(text, &end);
  if (end == text || *end || !(job->budget > 0 && job->budget <= 1e6))
    return cli_wrong(&job->args, "--budget %s: expected seconds, up to 1000000", text);
  return CLI_DONE;
}

static int parse(tune_job *job, int argc, char **argv) {
  const char *value;
  int wrong = CLI_DONE;
  for (int next; !wrong && (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) switch (next) {
    case MODE: wrong = take_mode(job, value); break;
    case BUDGET: wrong = take_budget(job, value); break;
    case BATCH:
      if (!cli_number(&job->args, "batch", value, 1, 1 << 20, &job->batch)) return CLI_USAGE;
      break;
    case CLASSES:
      if (!cli_number(&job->args, "classes", value, 1, CLADE_TRAIN_MAX_CLASSES, &job->classes)) return CLI_USAGE;
      break;
    case PASS: wrong = take_pass(job, value); break;
    case STRICT: job->strict = true; break;
    case COMPANION: job->companion_spec = value; break;
    case AGAIN: job->again = true; break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
  return wrong;
}

/* ---- measuring ---- */
static clade_status tune_target(tune_job *job, const char *target) {
  clade_func *func = NULL;
  job->target = target;
  CLADE_TRY(tune_func(job, target, &func));
  clade_status status = clade_tune(func, job->mode, .seconds = job->budget, .again = job->again, .stop = &stop,
                                   .observe = tune_show, .observe_user = job);
  clade_func_release(func);
  return status;
}

static int measure(tune_job *job, int n, char **targets) {
  for (int i = 0; i < n; i++)
    if (!tune_is_target(targets[i]))
      return cli_wrong(&job->args, "'%s' is no model (%s) and no product as 512x512x512", targets[i], MODEL_NAMES);
  if (job->args.json && !cli_json_begin()) return CLI_FAILED;
  tune_show_begin(job);
  struct sigaction action = {.sa_handler = interrupt};
  sigaction(SIGINT, &action, NULL);
  clade_status status = clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, &job->device);
  if (!status && job->companion_spec) status = clade_device_find(job->companion_spec, &job->companion);
  for (int i = 0; i < n && !status && !stop; i++) status = tune_target(job, targets[i]);
  int result = status ? cli_failed_status(status) : tune_report(job);
  if (!status && stop) result = cli_failed("interrupted; what was measured is kept");
  clade_device_release(job->device);
  clade_device_release(job->companion);
  return result;
}

/* ---- files ---- */
static int export(const tune_job *job, const char *path) {
  clade_device *device = NULL;
  if (job->args.json && !cli_json_begin()) return CLI_FAILED;
  clade_status status = clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, &device);
  if (!status) status = clade_tune_export(device, path);
  clade_device_release(device);
  if (status) return cli_failed_status(status);
  if (job->args.json) return cli_json_end(json_pack("{s:o}", "path", cli_json_text(path)));
  printf("wrote %s: set CLADE_TUNING to it, or merge it elsewhere\n", path);
  return CLI_DONE;
}

static int merge(const tune_job *job, int n, char **paths) {
  int records = 0;
  if (job->args.json && !cli_json_begin()) return CLI_FAILED;
  for (int i = 0; i < n; i++) {
    int count = 0;
    clade_status status = clade_tune_merge(paths[i], &count);
    if (status) return cli_failed_status(status);
    records += count;
  }
  if (job->args.json) return cli_json_end(json_pack("{s:i}", "records", records));
  printf("took %d records\n", records);
  return CLI_DONE;
}

int cli_tune(int argc, char **argv) {
  tune_job job = {.args = description, .mode = CLADE_TUNE_QUICK, .batch = 64, .classes = 10};
  int parsed = parse(&job, argc, argv);
  if (parsed) return parsed < 0 ? CLI_DONE : parsed;
  int n = argc - optind;
  char **words = argv + optind;
  if (n && !strcmp(words[0], "export"))
    return n == 2 ? export(&job, words[1]) : cli_wrong(&job.args, "export takes one FILE");
  if (n && !strcmp(words[0], "merge"))
    return n > 1 ? merge(&job, n - 1, words + 1) : cli_wrong(&job.args, "merge takes a FILE");
  return n ? measure(&job, n, words)
           : cli_wrong(&job.args, "nothing to tune: name a model, or a product as 512x512x512");
}
