/* clade infer: a model's forward pass. --demo mlp is a perceptron whose result is compared with a C reference. */
#include "cli/cli.h"

#include <getopt.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <time.h>

#include "cli/reference.h"

enum { WARM_RUNS = 5 };

typedef struct infer_job {
  cli_args args;
  const char *demo, *trace;
  int64_t batch, seed;
  bool explain;
  double begun; /* seconds on the monotonic clock */
  /* held */
  clade_device *device;
  clade_graph *graph;
  clade_func *generic, *func;
  clade_vars *vars;
  clade_run *run;
  float *x, *p, *again;
  size_t x_bytes, p_bytes;
  /* found */
  clade_device_info info;
  double first, seconds;
  reference_result reference;
  char sha[65];
} infer_job;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static clade_status prepare(infer_job *job) {
  job->x_bytes = (size_t)job->batch * MLP_IN * sizeof(float);
  job->p_bytes = (size_t)job->batch * MLP_OUT * sizeof(float);
  job->x = clade__new(job->x_bytes, 1);
  job->p = clade__new(job->p_bytes, 1);
  job->again = clade__new(job->p_bytes, 1);
  if (!job->x || !job->p || !job->again) return CLADE_NO_MEMORY;
  mlp_images((uint64_t)job->seed, job->batch, job->x);
  CLADE_TRY(clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, &job->device));
  job->info.size = sizeof job->info;
  CLADE_TRY(clade_device_get_info(job->device, &job->info));
  CLADE_TRY(mlp_graph(&job->graph));
  CLADE_TRY(clade_compile(job->graph, job->device, &job->generic));
  CLADE_TRY(clade_func_specialise(job->generic, CLADE_DIMS({"batch", job->batch}), &job->func));
  CLADE_TRY(clade_vars_new(job->func, (uint64_t)job->seed, &job->vars));
  return clade_run_new(job->func, job->vars, &job->run, .profile = job->trace != NULL);
}

static clade_status execute(infer_job *job, float *p) {
  clade_ticket ticket;
  CLADE_TRY(clade_execute(job->run, CLADE_FEEDS({"x", job->x, job->x_bytes, NULL}), &ticket));
  return clade_read(job->run, ticket, "p", p, job->p_bytes);
}

static clade_status check(infer_job *job) {
  CLADE_TRY(reference_check(job->vars, job->batch, job->x, job->p, &job->reference));
  if (!job->reference.within)
    return CLADE_FAIL(INTERNAL,
                      "the output is wrong: it differs by up to %g from the reference in double, where %g is allowed; "
                      "`clade doctor` checks the device",
                      job->reference.max_error, job->reference.bound);
  return CLADE_OK;
}

/* `seconds` is the fastest of a few executions after the first. All must give the same bits. */
static clade_status measure(infer_job *job) {
  for (int i = 0; i < WARM_RUNS; ++i) {
    double start = now();
    CLADE_TRY(execute(job, job->again));
    double seconds = now() - start;
    if (!i || seconds < job->seconds) job->seconds = seconds;
    if (memcmp(job->p, job->again, job->p_bytes))
      return CLADE_FAIL(INTERNAL, "execution %d gave other bits than the first one", i + 2);
  }
  return CLADE_OK;
}

static clade_status digest(infer_job *job) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!EVP_Digest(job->p, job->p_bytes, hash, &length, EVP_sha256(), NULL) || length != 32)
    return CLADE_FAIL(INTERNAL, "libcrypto cannot compute SHA-256");
  for (unsigned i = 0; i < length; ++i) snprintf(job->sha + 2 * i, 3, "%02x", hash[i]);
  return CLADE_OK;
}

static clade_status explain(const infer_job *job, FILE *to) {
  char *text;
  CLADE_TRY(clade_func_explain(job->func, &text));
  fputs(text, to);
  clade_text_free(text);
  return CLADE_OK;
}

static clade_status work(infer_job *job) {
  CLADE_TRY(prepare(job));
  CLADE_TRY(execute(job, job->p));
  job->first = now() - job->begun;
  CLADE_TRY(check(job));
  CLADE_TRY(measure(job));
  CLADE_TRY(digest(job));
  if (job->trace) CLADE_TRY(clade_run_trace(job->run, job->trace));
  return job->explain ? explain(job, job->args.json ? stderr : stdout) : CLADE_OK;
}

static json_t *impls_json(const clade_func *func) {
  json_t *list = json_array();
  int n = 0;
  clade_impl_info info = {.size = sizeof info};
  if (clade_func_impl_count(func, &n)) return list;
  for (int i = 0; i < n && !clade_func_impl(func, i, &info); ++i)
    json_array_append_new(
        list, json_pack("{s:o, s:s, s:s}", "node", cli_json_text(info.node), "op", info.op, "impl", info.impl));
  return list;
}

static int report(const infer_job *job) {
  if (!job->args.json) {
    printf("%s (%s): batch %lld in %.6f s, first result after %.3f s\n", job->info.name, job->info.platform,
           (long long)job->batch, job->seconds, job->first);
    printf("right: differs by at most %.3g from the reference in double (allowed %.3g)\nsha256 %s\n",
           job->reference.max_error, job->reference.bound, job->sha);
    return CLI_DONE;
  }
  json_t *device = json_pack("{s:s, s:o, s:o, s:o}", "id", job->info.id, "name", cli_json_text(job->info.name),
                             "platform", cli_json_text(job->info.platform), "driver", cli_json_text(job->info.driver));
  return cli_json_end(json_pack("{s:s, s:s, s:o, s:I, s:I, s:f, s:f, s:o, s:f, s:f}", "demo", job->demo,
                                "output_sha256", job->sha, "device", device, "batch", (json_int_t)job->batch, "seed",
                                (json_int_t)job->seed, "seconds", job->seconds, "first_result_seconds", job->first,
                                "impls", impls_json(job->func), "max_error", job->reference.max_error, "error_bound",
                                job->reference.bound));
}

static void release(infer_job *job) {
  clade_run_free(job->run);
  clade_vars_release(job->vars);
  clade_func_release(job->func);
  clade_func_release(job->generic);
  clade_graph_release(job->graph);
  clade_device_release(job->device);
  clade__free(job->x);
  clade__free(job->p);
  clade__free(job->again);
}

enum { DEMO, BATCH, SEED, EXPLAIN, TRACE };
static const cli_option options[] = {
    [DEMO] = {"demo", "NAME", "the model: mlp, a perceptron of three layers with random weights"},
    [BATCH] = {"batch", "N", "rows of the input (64)"},
    [SEED] = {"seed", "N", "of weights and input (42)"},
    [EXPLAIN] = {"explain", NULL, "print which implementation each node got, which refused and why"},
    [TRACE] = {"trace", "FILE", "write the steps' times as a Chrome trace"},
    {0},
};
static const cli_args description = {
    .command = "infer",
    .synopsis = "",
    .about = "Runs a model's forward pass on a device and compares the result with a reference in C.",
    .device_help = "where to run; docs/devices.md tells the rule (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

static int parse(infer_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) switch (next) {
    case DEMO: job->demo = value; break;
    case BATCH:
      if (!cli_number(&job->args, "batch", value, 1, 1 << 20, &job->batch)) return CLI_USAGE;
      break;
    case SEED:
      if (!cli_number(&job->args, "seed", value, 0, INT64_MAX, &job->seed)) return CLI_USAGE;
      break;
    case EXPLAIN: job->explain = true; break;
    case TRACE: job->trace = value; break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
  if (optind < argc) return cli_wrong(&job->args, "unexpected argument '%s'", argv[optind]);
  if (!job->demo) return cli_wrong(&job->args, "--demo is missing: --demo mlp is there");
  if (strcmp(job->demo, "mlp")) return cli_wrong(&job->args, "--demo %s: only mlp is there", job->demo);
  return CLI_DONE;
}

int cli_infer(int argc, char **argv) {
  infer_job job = {.args = description, .batch = 64, .seed = 42, .begun = now()};
  int parsed = parse(&job, argc, argv);
  if (parsed) return parsed < 0 ? CLI_DONE : parsed;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  clade_status status = work(&job);
  int result = status ? cli_failed_status(status) : report(&job);
  release(&job);
  return result;
}
