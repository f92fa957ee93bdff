/* clade infer: runs a model on a demonstration's input or on files. */
#include "cli/infer.h"

#include <getopt.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "comm/wire.h"
#include "models/models.h"

clade_status infer_devices(const infer_job *job, clade_device **device, clade_device **fallback) {
  CLADE_TRY(clade_device_find(job->args.n_devices ? job->args.device[0] : NULL, device));
  return job->fallback ? clade_device_find(job->fallback, fallback) : CLADE_OK;
}

clade_status infer_explain(const infer_job *job, const clade_func *func) {
  char *text;
  CLADE_TRY(job->explain_all ? clade_func_explain(func, &text) : clade_func_explain_brief(func, &text));
  fputs(text, job->args.json ? stderr : stdout);
  clade_text_free(text);
  return CLADE_OK;
}

clade_status infer_digest(const void *data, size_t bytes, char text[65]) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!EVP_Digest(data, bytes, hash, &length, EVP_sha256(), NULL) || length != 32)
    return CLADE_FAIL(INTERNAL, "libcrypto cannot compute SHA-256");
  for (unsigned i = 0; i < length; ++i) snprintf(text + 2 * i, 3, "%02x", hash[i]);
  return CLADE_OK;
}

json_t *infer_device_json(clade_device *device) {
  clade_device_info info = {.size = sizeof info};
  if (clade_device_get_info(device, &info)) return NULL;
  return json_pack("{s:s, s:o, s:o, s:o}", "id", info.id, "name", cli_json_text(info.name), "platform",
                   cli_json_text(info.platform), "driver", cli_json_text(info.driver));
}

static json_t *impls_json(const clade_func *func) {
  json_t *list = json_array();
  int n = 0;
  clade_impl_info info = {.size = sizeof info};
  if (clade_func_impl_count(func, &n)) return list;
  for (int i = 0; i < n && !clade_func_impl(func, i, &info); ++i)
    json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:i}", "node", cli_json_text(info.node), "op", info.op,
                                          "impl", info.impl, "device", info.device));
  return list;
}

/* Copies in each execution; 0 without a fallback device, or if both devices are the same. */
static json_t *crossing_json(const clade_func *func, int from, int to) {
  int copies;
  uint64_t bytes = 0;
  return json_integer(clade_func_crossing(func, from, to, &copies, &bytes) ? 0 : (json_int_t)bytes);
}

json_t *infer_add_func(json_t *document, const clade_func *func, clade_device *fallback) {
  clade_device_info info = {.size = sizeof info};
  if (cli_json_set(document, "impls", impls_json(func)) && (!fallback || !clade_device_get_info(fallback, &info)) &&
      cli_json_set(document, "fallback", fallback ? json_string(info.id) : json_null()) &&
      cli_json_set(document, "bytes_to_fallback", crossing_json(func, 0, 1)) &&
      cli_json_set(document, "bytes_from_fallback", crossing_json(func, 1, 0)))
    return document;
  json_decref(document);
  return NULL;
}

enum { MODEL, INPUT, OUTPUT, CLASSES, DEMO, BATCH, SEED, FALLBACK, PLACE, PRECISION, TYPES, EXPLAIN, TRACE };
static const cli_option options[] = {
    [MODEL] = {"model", "NAME", "model of the weights in FILE: " MODEL_NAMES " (in DIR: its own)"},
    [INPUT] = {"input", "X.npy", "images: [n, channels, height, width], [n, height, width] or [n, values]"},
    [OUTPUT] = {"output", "Y.npy",
                "file for the probabilities, [n, classes] (unset: the likeliest classes are printed)"},
    [CLASSES] = {"classes", "N", "classes of the model in FILE (10; in DIR: its own)"},
    [DEMO] = {"demo", "NAME",
              "run a demonstration: mlp, a perceptron with random weights, checked against a C reference"},
    [BATCH] = {"batch", "N", "images in a batch (64)"},
    [SEED] = {"seed", "N", "seed of the demonstration's weights and input (42)"},
    [FALLBACK] = CLI_FALLBACK,
    [PLACE] = CLI_PLACE,
    [PRECISION] = {"precision", "TYPE", "type in which layers compute: f32, bf16 or f16 (f32)"},
    [TYPES] = {"types", "LIST", "exceptions to --precision for nodes, layers, functions or ops: gemm=f32,fc3=bf16"},
    [EXPLAIN] = CLI_EXPLAIN,
    [TRACE] = {"trace", "FILE", "write a Chrome trace of the demonstration's steps"},
    {0},
};
static const cli_args description = {
    .command = "infer",
    .synopsis = "DIR|FILE.safetensors",
    .about = "Runs a trained model: the best checkpoint of a directory, or a file of weights.",
    .device_help = "device to run on, see docs/devices.md (unset: CLADE_DEVICE, or the best)",
    .options = options,
};

static bool take_precision(infer_job *job, const char *text) {
  job->precision = clade__dtype_named(text);
  if (clade__comm_carries(job->precision)) return true;
  return cli_wrong(&job->args, "--precision %s: expected f32, bf16 or f16", text), false;
}

static int parse_options(infer_job *job, int argc, char **argv) {
  const char *value;
  for (int next; (next = cli_next(&job->args, argc, argv, &value)) != CLI_NEXT_END;) switch (next) {
    case MODEL: job->model = value; break;
    case INPUT: job->input = value; break;
    case OUTPUT: job->output = value; break;
    case CLASSES:
      if (!cli_number(&job->args, "classes", value, 1, CLADE_TRAIN_MAX_CLASSES, &job->classes)) return CLI_USAGE;
      break;
    case DEMO: job->demo = value; break;
    case BATCH:
      if (!cli_number(&job->args, "batch", value, 1, 1 << 20, &job->batch)) return CLI_USAGE;
      break;
    case SEED:
      if (!cli_number(&job->args, "seed", value, 0, INT64_MAX, &job->seed)) return CLI_USAGE;
      break;
    case FALLBACK: job->fallback = value; break;
    case PLACE: job->place = value; break;
    case PRECISION:
      if (!take_precision(job, value)) return CLI_USAGE;
      break;
    case TYPES: job->types = value; break;
    case EXPLAIN:
      if (!cli_explain_all(&job->args, value, &job->explain_all)) return CLI_USAGE;
      job->explain = true;
      break;
    case TRACE: job->trace = value; break;
    default: return next == CLI_NEXT_HELP ? -1 : CLI_USAGE;
    }
  return CLI_DONE;
}

static int check_demo(const infer_job *job) {
  if (strcmp(job->demo, "mlp")) return cli_wrong(&job->args, "--demo %s: only mlp is there", job->demo);
  if (job->weights || job->model || job->input || job->output)
    return cli_wrong(&job->args, "--demo has weights and input of its own: no file, --model, --input or --output");
  if (job->precision) return cli_wrong(&job->args, "--demo is checked by the bound of f32: no --precision");
  int wrong = job->trace ? cli_check_output(&job->args, "--trace", job->trace, 0, NULL) : CLI_DONE;
  return wrong || !job->trace || cli_can_write(job->trace) ? wrong : CLI_FAILED;
}

static int check_files(const infer_job *job) {
  if (!job->weights)
    return cli_wrong(&job->args, "no weights: name a directory of checkpoints or a file, or --demo mlp");
  struct stat at;
  bool directory = !stat(job->weights, &at) && S_ISDIR(at.st_mode);
  if (!job->model && !directory)
    return cli_wrong(&job->args, "--model is missing: only a directory of checkpoints says which model it holds");
  if (!job->input) return cli_wrong(&job->args, "--input is missing");
  if (job->model && !model_by_name(job->model))
    return cli_wrong(&job->args, "--model %s: expected " MODEL_NAMES, job->model);
  if (job->trace) return cli_wrong(&job->args, "--trace is for --demo");
  if (!job->output) return CLI_DONE;
  int wrong = cli_check_output(&job->args, "--output", job->output, 2, (const char *[]){job->input, job->weights});
  return wrong || cli_can_write(job->output) ? wrong : CLI_FAILED;
}

int cli_infer(int argc, char **argv) {
  infer_job job = {.args = description, .batch = 64, .seed = 42, .classes = 10, .begun = clade__now()};
  int parsed = parse_options(&job, argc, argv);
  if (parsed) return parsed < 0 ? CLI_DONE : parsed;
  if (optind < argc) job.weights = argv[optind++];
  if (optind < argc) return cli_wrong(&job.args, "unexpected argument '%s'", argv[optind]);
  if (job.types && (!job.precision || job.precision == CLADE_F32))
    return cli_wrong(&job.args, "--types needs --precision: f32 alone has no others");
  if ((parsed = job.demo ? check_demo(&job) : check_files(&job))) return parsed;
  if (job.args.json && !cli_json_begin()) return CLI_FAILED;
  return job.demo ? infer_demo(&job) : infer_files(&job);
}
