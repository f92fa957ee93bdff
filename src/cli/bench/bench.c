/* clade bench: measures the speed of a device and of other libraries on the building blocks of networks. */
#include "cli/bench/bench.h"

#include <getopt.h>
#include <stdio.h>

enum { SHAPES, SET, ONLY, CHAIN, DTYPE, PASS, BATCH, PEERS, PEER, ROUNDS, EXPLAIN, CSV, GOOGLE };
static const cli_option options[] = {
    [SHAPES] = {"shapes", "FILE", "file of works, one per line: NAME key=value … (docs/bench.md)"},
    [SET] =
        {"set", "NAME",
         "built-in works; gemm: squares, small, networks or frozen (squares); conv: resnet50, vgg16 or mobilenetv2"},
    [ONLY] = {"only", "NAMES", "only these works of the set or file, comma-separated"},
    [CHAIN] = {"chain", "N",
               "calls in a row that are timed together (gemm: 10, squares and --shapes 1; conv: up to 10)"},
    [DTYPE] = {"dtype", "NAME",
               "f32, f16 or bf16 (model: mixed with f32); gemm and conv: also i8, u8 (times i8); gemm: q4_0 or q8_0 "
               "(f32 times these); model: also i8, quantized (f32)"},
    [PASS] = {"pass", "NAME", "conv: fwd, bwd-data or bwd-weights; model: train or infer (all)"},
    [BATCH] = {"batch", "N", "images of conv (1) and model (as in its set)"},
    [PEERS] = {"peers", NULL,
               "also measure installed libraries, in turns: OpenBLAS, CLBlast, oneDNN, PyTorch, ONNX Runtime"},
    [PEER] = {"peer", "NAME",
              "only this library: openblas, clblast, onednn, onednn_nchw, pytorch, pytorch_nhwc, onnxruntime, or for "
              "models clade_f32"},
    [ROUNDS] = {"rounds", "N", "rounds of measurement (7)"},
    [EXPLAIN] = CLI_EXPLAIN,
    [CSV] = {"csv", NULL, "print CSV to standard output and everything else to standard error"},
    [GOOGLE] = {"google", "FILE", "also write JSON in the format of Google Benchmark, for tools that compare runs"},
    {0},
};
static const cli_args description = {
    .command = "bench",
    .synopsis = "gemm|conv|op|model|all|compare|comm|scale",
    .about = "Measures the speed of the device, relative to its limits and, with --peers, to other libraries.",
    .device_help = "device to measure (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

/* Types that can be measured: floats, the 8-bit integers that products take, and weights in blocks. */
static bool measured(clade_dtype t) {
  return clade__has_blocks(t) || (clade__is_computed(t) && clade__dtype_row(t)->product &&
                                  (clade__is_float(t) || clade__dtype_row(t)->bits == 8));
}

bool bench_take_dtype(bench_job *job, const char *text) {
  const clade_dtype named = clade__dtype_named(text);
  char names[CLADE__DTYPE_NAMES];
  if (named && measured(named)) {
    job->dtype = named;
    return true;
  }
  return cli_wrong(&job->args, "--dtype %s: expected %s", text, clade__dtype_names(measured, names)), false;
}

static const bench_group *const groups[] = {&bench_gemm, &bench_conv, &bench_ops, &bench_models};

static bool among(const char *name, const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

static bool take_peer(bench_job *job, const char *text) {
  job->peer = text;
  for (size_t i = 0; i < CLADE_COUNT(groups); i++)
    if (among(text, groups[i]->peers)) return true;
  return cli_wrong(&job->args,
                   "--peer %s: expected openblas, clblast, onednn, onednn_nchw, pytorch, pytorch_nhwc, "
                   "onnxruntime or clade_f32",
                   text),
         false;
}

static int parse_options(bench_job *job, int argc, char **argv) {
  cli_args *args = &job->args;
  const char *value;
  bool ok = true;
  for (int next; ok && (next = cli_next(args, argc, argv, &value)) != CLI_NEXT_END;) switch (next) {
    case SHAPES: job->shapes = value; break;
    case SET: job->set = value; break;
    case ONLY: job->only = value; break;
    case CHAIN: ok = cli_number(args, "chain", value, 1, 1000, &job->chain); break;
    case DTYPE: ok = bench_take_dtype(job, value); break;
    case PASS: job->pass = value; break;
    case BATCH: ok = cli_number(args, "batch", value, 1, 4096, &job->batch); break;
    case PEERS: job->peers = true; break;
    case PEER: ok = take_peer(job, value); break;
    case ROUNDS: ok = cli_number(args, "rounds", value, 1, BENCH_MAX_ROUNDS / 2, &job->rounds); break;
    case EXPLAIN:
      ok = cli_explain_all(args, value, &job->explain_all);
      job->explain = true;
      break;
    case CSV: job->csv = true; break;
    case GOOGLE: job->google = value; break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
  return ok ? CLI_DONE : CLI_USAGE;
}

/* ---- running ---- */
static clade_status one(bench_job *job, const bench_shape *shape, int pass) {
  const bench_group *g = job->group;
  bench_race race = {.job = job, .row = {.chain = 1}};
  bench_row *row = &race.row;
  snprintf(row->group, sizeof row->group, "%s", g->name);
  snprintf(row->work, sizeof row->work, "%s", shape->name);
  snprintf(row->dtype, sizeof row->dtype, "%s", clade_dtype_name(job->dtype));
  snprintf(row->pass, sizeof row->pass, "%s", g->passes[pass] ? g->passes[pass] : "forward");
  bench_shape_text(shape, g->keys, row->shape, sizeof row->shape);
  clade_status status = g->measure(&race, shape, pass);
  bench_sides_free(BENCH_MAX_SIDES, race.sides);
  clade__arena_free(&race.arena);
  if (status == CLADE_OK) return bench_row_add(job, row);
  clade__free(row->why);
  const bool all_passes = *g->passes && !g->pass_of;
  return clade__fail_in(status, "%s %s%s%s", g->name, shape->name, all_passes ? ", " : "", all_passes ? row->pass : "");
}

/* Integers have no derivatives. */
static bool wanted(const bench_job *job, const char *pass) {
  if (!pass) return true;
  if (job->pass && strcmp(job->pass, pass)) return false;
  return clade__is_float(job->dtype) || !strcmp(pass, "fwd") || !strcmp(pass, "infer");
}

/* Opens the device and measures its limits, for the first group. */
static clade_status ready(bench_job *job) {
  if (job->device) return CLADE_OK;
  CLADE_TRY(bench_open(job, NULL));
  CLADE_TRY(bench_probe(job));
  bench_show_device(job);
  return CLADE_OK;
}

static clade_status measure(bench_job *job, const bench_shapes *shapes) {
  const bench_group *g = job->group;
  for (size_t i = 0; i < shapes->count && g->accept; i++) CLADE_TRY(g->accept(job, &shapes->at[i]));
  CLADE_TRY(ready(job));
  for (int first = 0; !first || (!g->pass_of && g->passes[first]); first++)
    for (size_t i = 0; i < shapes->count; i++) {
      const int pass = g->pass_of ? g->pass_of(&shapes->at[i]) : first;
      if (wanted(job, g->passes[pass])) CLADE_TRY(one(job, &shapes->at[i], pass));
    }
  return CLADE_OK;
}

static clade_status run(bench_job *job) {
  bench_shapes shapes = {0};
  clade_status status = bench_shapes_of(job, &shapes);
  if (status == CLADE_OK) status = measure(job, &shapes);
  bench_shapes_free(&shapes);
  return status;
}

static clade_status run_all(bench_job *job) {
  for (size_t i = 0; i < CLADE_COUNT(groups); i++)
    for (int set = 0; set < groups[i]->quick; set++) {
      job->group = groups[i];
      job->set = groups[i]->sets[set].name;
      CLADE_TRY(run(job));
    }
  return CLADE_OK;
}

/* ---- options ---- */
static bool has_set(const bench_group *g, const char *name) {
  const bench_set *set = g->sets;
  while (set->name && strcmp(set->name, name)) set++;
  return set->name;
}

int bench_check_options(bench_job *job) {
  const cli_args *args = &job->args;
  if (!job->what)
    return cli_wrong(args, "what is to be measured? expected gemm, conv, op, model, all, compare, comm or scale");
  job->group = NULL;
  for (size_t i = 0; i < CLADE_COUNT(groups); i++)
    if (!strcmp(groups[i]->name, job->what)) job->group = groups[i];
  const bench_group *g = job->group;
  if (!g && strcmp(job->what, "all"))
    return cli_wrong(args, "'%s' cannot be measured; expected gemm, conv, op, model, all, compare, comm or scale",
                     job->what);
  if (!g && (job->set || job->shapes || job->only || job->pass))
    return cli_wrong(args, "all has its own works: no --set, --shapes, --only or --pass");
  const char *const name = clade_dtype_name(job->dtype);
  if (clade__has_blocks(job->dtype) && g != &bench_gemm) return cli_wrong(args, "--dtype %s: only gemm has it", name);
  if (job->dtype == CLADE_I8 && g != &bench_gemm && g != &bench_conv && g != &bench_models)
    return cli_wrong(args, "--dtype %s: only gemm, conv and model have it", name);
  if (job->dtype == CLADE_U8 && g != &bench_gemm && g != &bench_conv)
    return cli_wrong(args, "--dtype %s: only gemm and conv have it", name);
  if (job->set && job->shapes) return cli_wrong(args, "--set and --shapes both say what to measure: give one");
  if (job->csv && args->json) return cli_wrong(args, "--csv and --json both want standard output: give one");
  if (!g) return CLI_DONE;
  if (job->set && !has_set(g, job->set)) return cli_wrong(args, "--set %s: %s has no such set", job->set, g->name);
  if (job->pass && !among(job->pass, g->passes))
    return cli_wrong(args, "--pass %s: %s has no such pass", job->pass, g->name);
  if (job->peer && !among(job->peer, g->peers))
    return cli_wrong(args, "--peer %s: %s has no such peer", job->peer, g->name);
  if (job->batch && !g->batch) return cli_wrong(args, "--batch: %s has no images", g->name);
  if (job->chain && !g->chain) return cli_wrong(args, "--chain: %s has no chains", g->name);
  return CLI_DONE;
}

clade_status bench_open(bench_job *job, const clade_comm *comm) {
  CLADE_TRY(cli_ranks_device(comm, &job->args, &job->device));
  job->info.size = sizeof job->info;
  CLADE_TRY(clade_device_get_info(job->device, &job->info));
  bench_watch(&job->watcher);
  return CLADE_OK;
}

int cli_bench(int argc, char **argv) {
  static const cli_command own[] = {
      {"compare", NULL, cli_compare}, {"comm", NULL, bench_comm}, {"scale", NULL, bench_scale}};
  for (size_t i = 0; i < CLADE_COUNT(own); i++)
    if (argc > 1 && !strcmp(argv[1], own[i].name)) return own[i].run(argc - 1, argv + 1);
  bench_job job = {.args = description, .dtype = CLADE_F32, .rounds = 7, .to = stdout};
  int result = parse_options(&job, argc, argv);
  if (result) return result < 0 ? CLI_DONE : result;
  if (optind < argc) job.what = argv[optind++];
  if (optind < argc) return cli_wrong(&job.args, "unexpected argument '%s'", argv[optind]);
  if ((result = bench_check_options(&job))) return result;
  if (job.google && (result = cli_check_output(&job.args, "--google", job.google, 1, &job.shapes))) return result;
  if (job.google && !cli_can_write(job.google)) return CLI_FAILED;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  if (job.args.json || job.csv) job.to = stderr;
  clade_status status = job.group ? run(&job) : run_all(&job);
  result = status == CLADE_OK ? bench_report(&job) : cli_failed_status(status);
  for (size_t i = 0; i < job.n_rows; i++) clade__free(job.rows[i].why);
  clade__free(job.rows);
  clade_device_release(job.device);
  return result;
}
