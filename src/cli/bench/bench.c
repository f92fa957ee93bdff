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

static bool take_peer(bench_job *job, const char *text) {
  static const char *const names[] = {"openblas", "clblast",      "onednn",      "onednn_nchw",
                                      "pytorch",  "pytorch_nhwc", "onnxruntime", "clade_f32"};
  job->peer = text;
  for (size_t i = 0; i < CLADE_COUNT(names); i++)
    if (!strcmp(names[i], text)) return true;
  return cli_wrong(&job->args,
                   "--peer %s: expected openblas, clblast, onednn, onednn_nchw, pytorch, pytorch_nhwc, "
                   "onnxruntime or clade_f32",
                   text),
         false;
}

static int parse_options(bench_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) switch (next) {
    case SHAPES: job->shapes = value; break;
    case SET: job->set = value; break;
    case ONLY: job->only = value; break;
    case CHAIN:
      if (!cli_number(&job->args, "chain", value, 1, 1000, &job->chain)) return CLI_USAGE;
      break;
    case DTYPE:
      if (!bench_take_dtype(job, value)) return CLI_USAGE;
      break;
    case PASS: job->pass = value; break;
    case BATCH:
      if (!cli_number(&job->args, "batch", value, 1, 4096, &job->batch)) return CLI_USAGE;
      break;
    case PEERS: job->peers = true; break;
    case PEER:
      if (!take_peer(job, value)) return CLI_USAGE;
      break;
    case ROUNDS:
      if (!cli_number(&job->args, "rounds", value, 1, BENCH_MAX_ROUNDS / 2, &job->rounds)) return CLI_USAGE;
      break;
    case EXPLAIN:
      if (!cli_explain_all(&job->args, value, &job->explain_all)) return CLI_USAGE;
      job->explain = true;
      break;
    case CSV: job->csv = true; break;
    case GOOGLE: job->google = value; break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
  return CLI_DONE;
}

static const struct {
  const char *name;
  clade_status (*run)(bench_job *job);
  int quick;                                  /* number of leading sets that `bench all` runs */
  const char *sets[5], *passes[4], *peers[6]; /* NULL: end */
  bool batch, chain;                          /* whether --batch and --chain apply */
} works[] = {{"gemm",
              bench_gemm,
              3,
              {"squares", "small", "networks", "frozen"},
              {NULL},
              {"openblas", "clblast", "onednn", "pytorch"},
              .chain = true},
             {"conv",
              bench_conv,
              1,
              {"resnet50", "vgg16", "mobilenetv2"},
              {"fwd", "bwd-data", "bwd-weights"},
              {"onednn", "onednn_nchw", "pytorch", "pytorch_nhwc"},
              .batch = true,
              .chain = true},
             {"op", bench_ops, 1, {"64mib"}, {NULL}, {"pytorch"}, .batch = false},
             {"model",
              bench_models,
              1,
              {"networks"},
              {"train", "infer"},
              {"pytorch", "pytorch_nhwc", "onnxruntime", "onednn", "clade_f32"},
              .batch = true}};
enum { ALL = CLADE_COUNT(works) };

static clade_status run(bench_job *job, size_t work) {
  if (work < ALL) return works[work].run(job);
  for (size_t i = 0; i < ALL; i++)
    for (int set = 0; set < works[i].quick; set++) {
      job->set = works[i].sets[set];
      CLADE_TRY(works[i].run(job));
    }
  return CLADE_OK;
}

static bool among(const char *name, const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

int bench_check(const bench_job *job, size_t *work) {
  if (!job->what)
    return cli_wrong(&job->args, "what is to be measured? expected gemm, conv, op, model, all, compare, comm or scale");
  for (*work = 0; *work < ALL && strcmp(works[*work].name, job->what);) ++*work;
  if (*work == ALL && strcmp(job->what, "all"))
    return cli_wrong(&job->args, "'%s' cannot be measured; expected gemm, conv, op, model, all, compare, comm or scale",
                     job->what);
  if (*work == ALL && (job->set || job->shapes || job->only || job->pass))
    return cli_wrong(&job->args, "all has its own works: no --set, --shapes, --only or --pass");
  const bool gemm = !strcmp(job->what, "gemm"), conv = !strcmp(job->what, "conv"), model = !strcmp(job->what, "model");
  const char *const name = clade_dtype_name(job->dtype);
  if (clade__has_blocks(job->dtype) && !gemm) return cli_wrong(&job->args, "--dtype %s: only gemm has it", name);
  if (job->dtype == CLADE_I8 && !gemm && !conv && !model)
    return cli_wrong(&job->args, "--dtype %s: only gemm, conv and model have it", name);
  if (job->dtype == CLADE_U8 && !gemm && !conv)
    return cli_wrong(&job->args, "--dtype %s: only gemm and conv have it", name);
  if (job->set && job->shapes) return cli_wrong(&job->args, "--set and --shapes both say what to measure: give one");
  if (job->csv && job->args.json) return cli_wrong(&job->args, "--csv and --json both want standard output: give one");
  if (*work == ALL) return CLI_DONE;
  if (job->set && !among(job->set, works[*work].sets))
    return cli_wrong(&job->args, "--set %s: %s has no such set", job->set, job->what);
  if (job->pass && !among(job->pass, works[*work].passes))
    return cli_wrong(&job->args, "--pass %s: %s has no such pass", job->pass, job->what);
  if (job->peer && !among(job->peer, works[*work].peers))
    return cli_wrong(&job->args, "--peer %s: %s has no such peer", job->peer, job->what);
  if (job->batch && !works[*work].batch) return cli_wrong(&job->args, "--batch: %s has no images", job->what);
  if (job->chain && !works[*work].chain) return cli_wrong(&job->args, "--chain: %s has no chains", job->what);
  return CLI_DONE;
}

clade_status bench_open(bench_job *job, const clade_comm *comm) {
  CLADE_TRY(cli_ranks_device(comm, &job->args, &job->device));
  job->info.size = sizeof job->info;
  CLADE_TRY(clade_device_get_info(job->device, &job->info));
  bench_watch(&job->watcher);
  return CLADE_OK;
}

clade_status bench_ready(bench_job *job) {
  if (job->device) return CLADE_OK;
  CLADE_TRY(bench_open(job, NULL));
  CLADE_TRY(bench_probe(job));
  bench_show_device(job);
  return CLADE_OK;
}

int cli_bench(int argc, char **argv) {
  static const cli_command own[] = {
      {"compare", NULL, cli_compare}, {"comm", NULL, bench_comm}, {"scale", NULL, bench_scale}};
  for (size_t i = 0; i < CLADE_COUNT(own); i++)
    if (argc > 1 && !strcmp(argv[1], own[i].name)) return own[i].run(argc - 1, argv + 1);
  bench_job job = {.args = description, .dtype = CLADE_F32, .rounds = 7, .to = stdout};
  int result = parse_options(&job, argc, argv);
  size_t work = 0;
  if (result) return result < 0 ? CLI_DONE : result;
  if (optind < argc) job.what = argv[optind++];
  if (optind < argc) return cli_wrong(&job.args, "unexpected argument '%s'", argv[optind]);
  if ((result = bench_check(&job, &work))) return result;
  if (job.google && (result = cli_check_output(&job.args, "--google", job.google, 1, &job.shapes))) return result;
  if (job.google && !cli_can_write(job.google)) return CLI_FAILED;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  if (job.args.json || job.csv) job.to = stderr;
  clade_status status = run(&job, work);
  result = status == CLADE_OK ? bench_report(&job) : cli_failed_status(status);
  for (size_t i = 0; i < job.n_rows; i++) clade__free(job.rows[i].why);
  clade__free(job.rows);
  clade_device_release(job.device);
  return result;
}
