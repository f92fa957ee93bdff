/* clade plan: proposes a layout of a training over ranks (data, tensor and pipeline parallelism, micro-batches,
 * sharding) by a model of step times and memory (docs/scale.md). */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/plan/plan.h"
#include "comm/comm.h"
#include "models/models.h"

enum { MODEL, RANKS, MEMORY, BATCH, SIDE, LINK, NODE, NODE_LINK, OPTIMIZER, FLOPS, BANDWIDTH, ADD, LIST, MEASURE };
static const cli_option options[] = {
    [MODEL] = {"model", "NAME", PLAN_MODELS},
    [RANKS] = {"ranks", "N", "number of ranks"},
    [MEMORY] = {"memory", "GB", "memory of each rank's device (the device's)"},
    [BATCH] = {"batch", "N", "samples in a step of all ranks (8 for each rank)"},
    [SIDE] = {"side", "N", "height and width of images (224)"},
    [LINK] = {"link", "US,GBIT", "link between ranks: latency in microseconds, Gbit/s in each direction (50,10)"},
    [NODE] = {"node", "N", "consecutive ranks that share a node (1)"},
    [NODE_LINK] = {"node-link", "US,GBIT", "link between ranks of a node (5,200)"},
    [OPTIMIZER] = {"optimizer", "NAME", "adam, adamw, rmsprop or sgd, for the memory of its state (adam)"},
    [FLOPS] = {"flops", "T", "TFLOP/s of a device that is not here (unset: the estimates of --device)"},
    [BANDWIDTH] = {"bandwidth", "GBS",
                   "with --flops: its memory bandwidth in GB/s (a byte for each hundred operations)"},
    [ADD] = {"add", "GBS", "GB/s of f32 that a rank's host adds up in sums (7)"},
    [LIST] = {"list", "N", "number of layouts to print (8)"},
    [MEASURE] = {"measure", NULL, "measure a step of one rank's samples on the device, and scale estimates by it"},
    {0},
};
static const cli_args description = {
    .command = "plan",
    .synopsis = "",
    .about = "Proposes a layout of a training over ranks: data, tensor and pipeline parallelism, micro-batches,\n"
             "sharding. Times and memory are predicted, and without --measure nothing runs (docs/parallel.md).",
    .device_help = "device with the assumed speed and memory (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

typedef struct command {
  cli_args args;
  plan_job job;
  const char *model, *optimizer;
  int64_t side, node, list;
  double flops, bandwidth;
  bool measure;
  clade_device *device;
  clade_device_info info;
  clade__pass_ctx estimates;
} command;

/* ---- options ---- */
static int positive(const cli_args *args, int option, const char *text, double unit, double *out) {
  char *end;
  const double value = strtod(text, &end);
  if (end == text || *end || !(value > 0 && value < 1e9))
    return cli_wrong(args, "--%s %s: expected a positive number", options[option].name, text);
  *out = value * unit;
  return CLI_DONE;
}

static int link_of(const cli_args *args, int option, const char *text, double *latency, double *bandwidth) {
  double us, gbits;
  if (!cli_link(args, options[option].name, text, &us, &gbits)) return CLI_USAGE;
  *latency = us * 1e-6;
  *bandwidth = gbits * 1e9 / 8;
  return CLI_DONE;
}

static int optimizer_of(const cli_args *args, const char *name, int *moments) {
  static const struct {
    const char *name;
    int moments;
  } all[] = {{"adam", 2}, {"adamw", 2}, {"rmsprop", 1}, {"sgd", 0}};
  for (size_t i = 0; i < CLADE_COUNT(all); i++) {
    if (strcmp(all[i].name, name) != 0) continue;
    *moments = all[i].moments;
    return CLI_DONE;
  }
  return cli_wrong(args, "--optimizer %s: expected adam, adamw, rmsprop or sgd", name);
}

static int whole(const cli_args *args, int option, const char *text, int64_t high, int64_t *out) {
  return cli_number(args, options[option].name, text, 1, high, out) ? CLI_DONE : CLI_USAGE;
}

static int take(command *c, int option, const char *value) {
  cli_args *args = &c->args;
  plan_job *job = &c->job;
  scale_link *link = &job->links.link;
  int64_t ranks = 0;
  int wrong = CLI_DONE;
  switch (option) {
  case MODEL: c->model = value; break;
  case RANKS:
    wrong = whole(args, RANKS, value, 1 << 16, &ranks);
    job->ranks = (int)ranks;
    break;
  case MEMORY: wrong = positive(args, MEMORY, value, 1e9, &job->memory); break;
  case BATCH: wrong = whole(args, BATCH, value, 1 << 20, &job->batch); break;
  case SIDE: wrong = whole(args, SIDE, value, 4096, &c->side); break;
  case LINK: wrong = link_of(args, LINK, value, &link->latency, &link->bandwidth); break;
  case NODE: wrong = whole(args, NODE, value, 1 << 16, &c->node); break;
  case NODE_LINK: wrong = link_of(args, NODE_LINK, value, &link->near_latency, &link->near_bandwidth); break;
  case OPTIMIZER: wrong = optimizer_of(args, value, &job->moments); break;
  case FLOPS: wrong = positive(args, FLOPS, value, 1e12, &c->flops); break;
  case BANDWIDTH: wrong = positive(args, BANDWIDTH, value, 1e9, &c->bandwidth); break;
  case ADD: wrong = positive(args, ADD, value, 1e9, &link->add); break;
  case MEASURE: c->measure = true; break;
  case LIST: wrong = whole(args, LIST, value, 1 << 20, &c->list); break;
  default: return option == CLI_NEXT_HELP ? -1 : CLI_USAGE;
  }
  return wrong;
}

static int check(command *c) {
  cli_args *args = &c->args;
  if (!c->model) return cli_wrong(args, "--model says of which model");
  if (!c->job.ranks) return cli_wrong(args, "--ranks says for how many ranks, as 64");
  if (c->bandwidth > 0 && !(c->flops > 0)) return cli_wrong(args, "--bandwidth: of a device that --flops describes");
  if (c->flops > 0 && c->measure) return cli_wrong(args, "--measure: the device of --flops is not here");
  if (c->flops > 0 && args->n_devices) return cli_wrong(args, "--flops: --device names one that is here");
  if (c->flops > 0 && !(c->job.memory > 0)) return cli_wrong(args, "--memory says what a device with --flops has");
  if (!c->job.batch) c->job.batch = (int64_t)8 * c->job.ranks;
  c->job.links.link.near_ranks = c->node > 1 ? (int)c->node : 0;
  const clade_status status = plan_model_of(c->model, c->side, &c->job.model);
  if (status == CLADE_NOT_FOUND) return cli_wrong(args, "--model %s: expected " PLAN_MODELS, c->model);
  return status == CLADE_OK ? CLI_DONE : cli_wrong(args, "%s", clade_last_error());
}

static int parse(command *c, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&c->args, argc, argv, &value)) != CLI_NEXT_END;) {
    const int wrong = take(c, next, value);
    if (wrong) return wrong;
  }
  if (optind < argc) return cli_wrong(&c->args, "unexpected argument '%s'", argv[optind]);
  return check(c);
}

/* ---- device ---- */
static void describe(command *c) {
  c->job.device = (plan_device){.name = "as --flops says",
                                .flops = c->flops,
                                .bandwidth = c->bandwidth > 0 ? c->bandwidth : c->flops / 100,
                                .scale = 1};
}

static clade_status open_device(command *c) {
  c->info.size = sizeof c->info;
  CLADE_TRY(clade_device_find(c->args.n_devices ? c->args.device[0] : NULL, &c->device));
  CLADE_TRY(clade_device_ask_profile(c->device, CLADE_PROFILE_KEPT, NULL));
  CLADE_TRY(clade_device_get_info(c->device, &c->info));
  const clade__class_speed expected = clade__class_speed_of(&c->info);
  const double flops = c->info.peak_gflops[CLADE_F32], bytes = c->info.bandwidth_gbps;
  c->estimates = (clade__pass_ctx){.n_devices = 1, .devices = &c->info, .fallback = -1};
  c->job.device = (plan_device){.name = c->info.name,
                                .flops = flops > 0 ? flops * 1e9 : expected.flops,
                                .bandwidth = bytes > 0 ? bytes * 1e9 : expected.bytes,
                                .estimates = &c->estimates,
                                .scale = 1};
  if (!(c->job.memory > 0)) c->job.memory = (double)c->info.budget_bytes;
  return CLADE_OK;
}

/* The update's time is by bandwidth, and is not scaled. It can exceed the step's if the variables stay in a cache. */
static clade_status measure(command *c) {
  plan_job *job = &c->job;
  double update;
  job->measured_rows = CLADE_MAX(job->batch / job->ranks, (int64_t)1);
  CLADE_TRY(plan_alone(job, job->measured_rows, &job->estimated, &update));
  CLADE_TRY(plan_measure(job, c->device, job->measured_rows, &job->measured));
  const double nodes = job->measured - update;
  job->device.scale = nodes > 0 ? nodes / (job->estimated - update) : job->measured / job->estimated;
  return CLADE_OK;
}

/* ---- output ---- */
static int tell(command *c, const plan_found *found) {
  const plan_job *job = &c->job;
  const int rows = (int)CLADE_MIN(c->list, (int64_t)found->n);
  if (!found->n)
    return cli_failed("no layout: a batch of %lld cannot be shared by %d ranks", (long long)job->batch, job->ranks);
  if (!found->n_fit)
    return cli_failed("no layout of %s on %d ranks fits %.2f GB: the least is %.2f GB a rank, with data=%d, tensor=%d, "
                      "pipeline=%d, %d micro-batches, shard %s; more ranks or a smaller batch need less",
                      job->model.name, job->ranks, job->memory * 1e-9, found->layouts[0].memory * 1e-9,
                      found->layouts[0].grid.data, found->layouts[0].grid.tensor, found->layouts[0].grid.pipeline,
                      found->layouts[0].grid.micro_batches, clade_shard_name(found->layouts[0].shard));
  if (c->args.json) return cli_json_end(plan_json(job, found, rows));
  plan_show(job, found, rows);
  return CLI_DONE;
}

int cli_plan(int argc, char **argv) {
  command c = {
      .args = description,
      .node = 1,
      .list = 8,
      .job = {.moments = 2,
              .links.link = {50e-6, 10e9 / 8, 7e9, CLADE__COMM_SHORT, CLADE__COMM_PIECE,
                             .look = CLADE__COMM_POLL_US * 1e-6, .near_latency = 5e-6, .near_bandwidth = 200e9 / 8}}};
  plan_found found = {0};
  int result = parse(&c, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  if (c.args.json && !cli_json_begin()) return CLI_FAILED;
  clade_status status = CLADE_OK;
  if (c.flops > 0)
    describe(&c);
  else
    status = open_device(&c);
  if (status == CLADE_OK && c.measure) status = measure(&c);
  if (status == CLADE_OK) status = plan_search(&c.job, &found);
  result = status == CLADE_OK ? tell(&c, &found) : cli_failed_status(status);
  plan_found_free(&found);
  clade_device_release(c.device);
  return result;
}
