/* clade bench scale: predicts the step of a training on many ranks from a step measured here and a model of sums. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/scale.h"
#include "comm/comm.h"
#include "models/models.h"

enum { MODEL, RANKS, LINK, BATCH, SIDE, ROUNDS };
static const cli_option options[] = {
    [MODEL] = {"model", "NAME", MODEL_NAMES},
    [RANKS] = {"ranks", "N[,N…]", "numbers of ranks to predict for"},
    [LINK] = {"link", "US,GBIT", "latency of a message in microseconds, Gbit/s in each direction (50,10)"},
    [BATCH] = {"batch", "N", "images of each rank (8; mlp, lenet5: 128)"},
    [SIDE] = {"side", "N", "height and width of images (224)"},
    [ROUNDS] = {"rounds", "N", "rounds of measurement (7)"},
    {0},
};
static const cli_args description = {
    .command = "bench scale",
    .synopsis = "",
    .about = "Predicts a training step on many ranks from a step measured here and a model of its sums.",
    .device_help = "device to measure (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

enum { MOST_COUNTS = 16 };
typedef struct command {
  scale_job scale; /* scale.link: as given by --link */
  const char *link_text;
  int ranks[MOST_COUNTS], n;
  scale_link used; /* the link with the library's polling interval */
} command;

/* ---- options ---- */
static int take_ranks(command *job, const char *text) {
  const cli_args *args = &job->scale.bench.args;
  for (const char *at = text; job->n < MOST_COUNTS;) {
    char *end;
    errno = 0;
    const long ranks = strtol(at, &end, 10);
    if (errno || end == at || (*end && *end != ',') || ranks < 1 || ranks > SCALE_MOST_RANKS)
      return cli_wrong(args, "--ranks %s: expected whole numbers from 1 to %d, with commas between", text,
                       (int)SCALE_MOST_RANKS);
    job->ranks[job->n++] = (int)ranks;
    at = end + 1;
    if (!*end) return CLI_DONE;
  }
  return cli_wrong(args, "--ranks %s: more than %d numbers", text, (int)MOST_COUNTS);
}

static int take_link(command *job, const char *text) {
  double us, gbits;
  if (!cli_link(&job->scale.bench.args, "link", text, &us, &gbits)) return CLI_USAGE;
  job->link_text = text;
  job->scale.link.latency = us * 1e-6;
  job->scale.link.bandwidth = gbits * 1e9 / 8;
  return CLI_DONE;
}

static int parse(command *job, int argc, char **argv) {
  cli_args *args = &job->scale.bench.args;
  const char *value;
  for (int next; (next = cli_next(args, argc, argv, &value)) != CLI_NEXT_END;) {
    if (next < 0) return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    if (next == RANKS  ? take_ranks(job, value)
        : next == LINK ? take_link(job, value)
                       : scale_take(&job->scale, options[next].name, value))
      return CLI_USAGE;
  }
  if (optind < argc) return cli_wrong(args, "unexpected argument '%s'", argv[optind]);
  if (!job->scale.model) return cli_wrong(args, "--model says of which model");
  if (!job->n) return cli_wrong(args, "--ranks says for how many ranks, as 8,64,512");
  return scale_work_of(&job->scale);
}

/* ---- measuring ---- */
static clade_status measure(command *job) {
  bench_job *bench = &job->scale.bench;
  CLADE_TRY(bench_open(bench, NULL));
  CLADE_TRY(scale_add_rate(&job->scale.link.add));
  CLADE_TRY(bench_model_data(&job->scale.arena, &job->scale.work));
  CLADE_TRY(scale_measure(bench, &job->scale.work, NULL, &job->scale.compute));
  job->used = job->scale.link;
  job->used.look = job->scale.compute.poll;
  job->used.latency += job->scale.compute.poll / 2; /* a message waits half an interval on average */
  return CLADE_OK;
}

static scale_step step_of(const command *job, int ranks, double wire) {
  return scale_step_of(&job->scale.compute, &job->used, ranks, wire);
}

/* A single rank neither sums nor copies. */
static double seconds_of(const command *job, int ranks, double wire) {
  return ranks == 1 ? job->scale.compute.alone : fmax(step_of(job, ranks, wire).seconds, job->scale.compute.alone);
}

/* ---- output ---- */
static void show(const command *job) {
  FILE *to = job->scale.bench.to;
  const scale_link *l = &job->scale.link;
  fprintf(to, "device %s, %s (%s)\n", job->scale.bench.info.id, job->scale.bench.info.name,
          job->scale.bench.info.platform);
  scale_show_model(to, &job->scale.work, &job->scale.compute);
  fprintf(to,
          "\nlink: %.1f us, %.2f Gbit/s in each direction, %s; the library looks for messages every %.1f us; the host "
          "adds %.2f GB/s\n",
          l->latency * 1e6, l->bandwidth * 8e-9,
          job->link_text ? "as --link says" : "assumed: --link US,GBIT says another", job->scale.compute.poll * 1e6,
          l->add * 1e-9);
  fprintf(to, "\n%8s %12s %10s %12s %12s %12s %12s %10s\n", "ranks", "step ms", "efficiency", "images/s", "sums ms",
          "exposed ms", "16 bits: ms", "efficiency");
  for (int i = 0; i < job->n; i++) {
    const int ranks = job->ranks[i];
    const scale_step s = step_of(job, ranks, 1);
    const double whole = seconds_of(job, ranks, 1), half = seconds_of(job, ranks, 0.5);
    fprintf(to, "%8d %12.3f %9.1f%% %12.0f %12.3f %12.3f %12.3f %9.1f%%\n", ranks, whole * 1e3,
            100 * job->scale.compute.alone / whole, ranks * (double)job->scale.work.batch / whole, s.reductions * 1e3,
            s.exposed * 1e3, half * 1e3, 100 * job->scale.compute.alone / half);
  }
  const double busy = bench_busy(&job->scale.bench.watcher);
  if (busy > 0.1) fprintf(stderr, "clade: other processes used %.0f %% of the processors meanwhile\n", 100 * busy);
}

static json_t *rows_json(const command *job) {
  json_t *rows = json_array();
  for (int i = 0; i < job->n; i++) {
    const int ranks = job->ranks[i];
    const scale_step s = step_of(job, ranks, 1);
    const double whole = seconds_of(job, ranks, 1), half = seconds_of(job, ranks, 0.5);
    json_array_append_new(rows, json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "ranks", ranks, "seconds", whole,
                                          "efficiency", job->scale.compute.alone / whole, "images_per_s",
                                          ranks * (double)job->scale.work.batch / whole, "sums_seconds", s.reductions,
                                          "exposed_seconds", s.exposed, "half_seconds", half, "half_efficiency",
                                          job->scale.compute.alone / half));
  }
  return rows;
}

static json_t *document(const command *job) {
  const scale_link *l = &job->scale.link;
  json_t *link =
      json_pack("{s:f, s:f, s:b, s:f, s:f}", "latency_seconds", l->latency, "bandwidth_gbs", l->bandwidth * 1e-9,
                "assumed", job->link_text == NULL, "poll_seconds", job->scale.compute.poll, "add_gbs", l->add * 1e-9);
  return json_pack("{s:o, s:s, s:o, s:o, s:o}", "machine", bench_machine_json(&job->scale.bench.watcher), "device",
                   job->scale.bench.info.id, "model", scale_model_json(&job->scale.work, &job->scale.compute), "link",
                   link, "rows", rows_json(job));
}

int bench_scale(int argc, char **argv) {
  command job = {.scale = {.bench = {.args = description, .dtype = CLADE_F32, .rounds = 7, .to = stdout},
                           .link = {50e-6, 10e9 / 8, .whole = CLADE__COMM_SHORT, .piece = CLADE__COMM_PIECE}}};
  int result = parse(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  clade_comm *comm = NULL;
  clade_status status = cli_ranks_open(&comm);
  if (comm) {
    result = clade_comm_rank(comm)
                 ? CLI_USAGE
                 : cli_wrong(&job.scale.bench.args, "it predicts from one process; started by mpirun, "
                                                    "clade bench comm --model compares with its ranks");
    clade_comm_release(comm);
    return result;
  }
  if (status != CLADE_OK) return cli_failed_status(status);
  if (job.scale.bench.args.json && !cli_json_begin()) return CLI_FAILED;
  if (job.scale.bench.args.json) job.scale.bench.to = stderr;
  status = measure(&job);
  if (status == CLADE_OK) show(&job);
  result = status != CLADE_OK          ? cli_failed_status(status)
           : job.scale.bench.args.json ? cli_json_end(document(&job))
                                       : CLI_DONE;
  scale_close(&job.scale);
  return result;
}
