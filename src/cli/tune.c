/* clade tune: measures implementations on a device and keeps the fastest, or moves records between files. */
#include "cli/tune.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/infer.h"
#include "program/cache.h"

enum { MODE, BUDGET, SHAPES, SET, ONLY, DTYPE, PASS, BATCH, CLASSES, STRICT, FALLBACK, AGAIN, LOOSE };
static const cli_option options[] = {
    [MODE] = {"mode", "MODE", "quick: the most promising trials within a budget; full: all trials (quick)"},
    [BUDGET] = {"budget", "SECONDS", "time for each model, product or convolution (quick: 5; full: no limit)"},
    [SHAPES] = {"shapes", "FILE", "gemm, conv: file of works, one per line: NAME key=value … (docs/bench.md)"},
    [SET] = {"set", "NAME", "gemm, conv: built-in set of clade bench (squares, resnet50)"},
    [ONLY] = {"only", "NAMES", "only these works of the set or file, comma-separated"},
    [DTYPE] = {"dtype", "NAME",
               "gemm, conv, products: f32, f16 or bf16; gemm, products: also i8, or u8 (times i8) (f32)"},
    [PASS] = {"pass", "PASS", "models: train or infer (train); conv: fwd, bwd-data or bwd-weights (all)"},
    [BATCH] = {"batch", "N", "images in a model's step (64), or of conv (1)"},
    [CLASSES] = {"classes", "N", "classes of a model (10)"},
    [STRICT] = {"strict", NULL, "tune for strict compilation, as clade train --strict"},
    [FALLBACK] = CLI_FALLBACK,
    [AGAIN] = {"again", NULL, "also measure problems that have records"},
    [LOOSE] = {"loose", NULL,
               "also measure implementations beyond an op's error bound, such as tf32; never chosen by default"},
    {0},
};
static const cli_args description = {
    .command = "tune",
    .synopsis = "MODEL|gemm|conv|MxNxK… | export FILE | merge FILE…",
    .about = "Finds the fastest implementations and parameters on this device for the steps of a model\n(" MODEL_NAMES
             "),\nfor products (gemm) and convolutions (conv) of a set or a file, or for products M x K by K x N,\n"
             "and keeps them for later compilations. export writes this device's records to a file, merge reads files.",
    .device_help = "device to measure, see docs/devices.md (unset: CLADE_DEVICE, or the best)",
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
    case SHAPES: job->bench.shapes = value; break;
    case SET: job->bench.set = value; break;
    case ONLY: job->bench.only = value; break;
    case DTYPE:
      if (!bench_take_dtype(&job->bench, value)) return CLI_USAGE;
      break;
    case PASS: job->bench.pass = value; break;
    case BATCH:
      if (!cli_number(&job->args, "batch", value, 1, 1 << 20, &job->bench.batch)) return CLI_USAGE;
      break;
    case CLASSES:
      if (!cli_number(&job->args, "classes", value, 1, CLADE_TRAIN_MAX_CLASSES, &job->classes)) return CLI_USAGE;
      break;
    case STRICT: job->strict = true; break;
    case FALLBACK: job->fallback_spec = value; break;
    case AGAIN: job->again = true; break;
    case LOOSE: job->loose = true; break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
  return wrong;
}

static clade_status tune_work_at(tune_job *job, size_t at) {
  clade_func *func = NULL;
  double begun = clade__now();
  job->at = at;
  CLADE_TRY(tune_func(job, &job->works[at], &func));
  job->compiled += clade__now() - begun;
  clade_status status = clade_tune(func, job->mode, .seconds = job->budget, .again = job->again, .loose = job->loose,
                                   .stop = &stop, .observe = tune_show, .observe_user = job);
  clade_func_release(func);
  return status;
}

/* Records are kept only in the cache, so its directory is created before anything is measured. */
static int check_kept(void) {
  clade__cache_stats cache;
  char *path = NULL;
  if (clade__cache_path(&path)) return cli_failed_status(CLADE_IO);
  const bool made = !clade__cache_make() && !clade__cache_get_stats(&cache);
  int result = CLI_DONE;
  if (!made)
    result = cli_failed_status(CLADE_IO);
  else if (!cache.writable)
    result = cli_failed("nothing would be kept: %s cannot be written", path);
  clade__free(path);
  return result;
}

static int measure(tune_job *job, int n, char **words) {
  int result = tune_check(job, n, words);
  if (!result) result = check_kept();
  if (result) return result;
  if (job->args.json && !cli_json_begin()) return CLI_FAILED;
  tune_show_begin(job);
  struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART}; /* restarts interrupted writes */
  sigaction(SIGINT, &action, NULL);
  clade_status status = tune_works(job, n, words);
  if (!status) status = clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, &job->device);
  if (!status && job->fallback_spec) status = clade_device_find(job->fallback_spec, &job->fallback);
  for (size_t i = 0; i < job->n_works && !status && !stop; i++) status = tune_work_at(job, i);
  result = status ? cli_failed_status(status) : tune_report(job);
  if (!status && stop) result = cli_failed("interrupted; what was measured is kept");
  if (!status && !stop && !result) result = tune_verdict(job);
  clade__free(job->works);
  clade_device_release(job->device);
  clade_device_release(job->fallback);
  return result;
}

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
  tune_job job = {.args = description,
                  .mode = CLADE_TUNE_QUICK,
                  .bench = {.args = description, .dtype = CLADE_F32, .chain = 1},
                  .classes = 10};
  int parsed = parse(&job, argc, argv);
  if (parsed) return parsed < 0 ? CLI_DONE : parsed;
  int n = argc - optind;
  char **words = argv + optind;
  if (n && !strcmp(words[0], "export"))
    return n != 2                                                     ? cli_wrong(&job.args, "export takes one FILE")
           : cli_check_output(&job.args, "export", words[1], 0, NULL) ? CLI_USAGE
                                                                      : export(&job, words[1]);
  if (n && !strcmp(words[0], "merge"))
    return n > 1 ? merge(&job, n - 1, words + 1) : cli_wrong(&job.args, "merge takes a FILE");
  return n ? measure(&job, n, words)
           : cli_wrong(&job.args, "nothing to tune: name a model, gemm, conv, or a product as 512x512x512");
}
