/* clade pack build|inspect|verify|sign: bundles of programs that were built offline. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>

#include "base/file.h"
#include "cli/pack.h"

enum { MOST_DEFINES = 32, MOST_SOURCES = 16 };

typedef struct pack {
  cli_args args;
  const char *manifest, *binary, *output, *key, *keys, *target, *tool, *tool_version, *tool_command;
  const char *source[MOST_SOURCES];
  size_t n_sources;
  clade__bundle_define define[MOST_DEFINES];
  size_t n_defines;
  bool directory;
  int n_paths;
  char **paths;
} pack;

/* ---- build: from a manifest and a binary ---- */
typedef struct promise {
  const char *manifest;
  uint64_t bytes; /* size of the binary according to the manifest */
} promise;

static clade_status wrong_size(const promise *told, const char *binary, uint64_t bytes) {
  return CLADE_FAIL(INVALID, "%s has %llu bytes; %s tells %llu", binary, (unsigned long long)bytes, told->manifest,
                    (unsigned long long)told->bytes);
}

static clade_status judge(const clade__file *file, const void *told) {
  const promise *p = told;
  return file->bytes == p->bytes ? CLADE_OK : wrong_size(p, file->path, file->bytes);
}

static clade_status build(const pack *p, clade__arena *arena, clade__bytes *manifest, clade__bytes *binary) {
  clade__bundle_draft draft = {.key_path = p->key};
  CLADE_TRY(clade__file_read(p->manifest, CLADE__BUNDLE_MANIFEST_BYTES, manifest));
  CLADE_TRY(clade__manifest_parse(p->manifest, manifest->data, manifest->n, arena, &draft.manifest));
  const promise told = {p->manifest, draft.manifest.binary.bytes};
  if (p->binary) CLADE_TRY(clade__file_read_judged(p->binary, CLADE__BUNDLE_BINARY_BYTES, judge, &told, binary));
  if (!p->binary && told.bytes) return wrong_size(&told, "the binary, which is not given,", 0);
  draft.binary = binary->data;
  draft.binary_bytes = binary->n;
  return clade__bundle_write(p->output, p->directory, &draft);
}

/* ---- build: from kernels for a target ---- */
static bool read_target(const char *text, cli_pack_target *t) {
  const char *colon = strchr(text, ':');
  size_t n = colon ? (size_t)(colon - text) : strlen(text);
  for (int kind = CLADE__TARGET_INTEL; kind <= CLADE__TARGET_RTL; kind++) {
    if (strlen(clade__target_names[kind]) != n || strncmp(text, clade__target_names[kind], n) != 0) continue;
    t->kind = (clade__target_kind)kind;
    t->name = colon ? colon + 1 : NULL;
    return cli_pack_compiles(t) ? !colon : colon && colon[1];
  }
  return false;
}

/* A bundle may be signed in place: its content is read completely before. */
static int check_output(const pack *p) {
  int result = cli_check_output(&p->args, "--output", p->output, 3, (const char *[]){p->manifest, p->binary, p->key});
  return result ? result : cli_check_output(&p->args, "--output", p->output, p->n_sources, p->source);
}

static int run_build_target(const pack *p) {
  cli_pack_target t = {.sources = p->source,
                       .n_sources = p->n_sources,
                       .defines = (clade__bundle_define *)(uintptr_t)p->define,
                       .n_defines = p->n_defines,
                       .binary = p->binary,
                       .tool = p->tool,
                       .tool_version = p->tool_version,
                       .tool_command = p->tool_command,
                       .output = p->output,
                       .key = p->key,
                       .directory = p->directory};
  if (!read_target(p->target, &t))
    return cli_wrong(&p->args, "--target %s: expected pocl, rtl, intel:BOARD or xilinx:PLATFORM (docs/fpga.md)",
                     p->target);
  if (p->manifest || !p->output) return cli_wrong(&p->args, "build --target takes --output, and no --manifest");
  bool made = p->binary && p->tool && p->tool_version && p->tool_command,
       none = !p->binary && !p->tool && !p->tool_version && !p->tool_command;
  if (cli_pack_compiles(&t) ? !none : !made)
    return cli_wrong(&p->args,
                     "--binary and what made it, --tool, --tool-version and --tool-command, go with intel and "
                     "xilinx, whose tools this command does not call; for pocl and rtl it compiles by itself");
  if (check_output(p)) return CLI_USAGE;
  clade_status status = cli_pack_build_target(&t);
  return status ? cli_failed_status(status) : cli_pack_show(p->output, p->args.json);
}

static int run_build(const pack *p) {
  clade__arena arena = {0};
  clade__bytes manifest = {0}, binary = {0};
  if (p->n_paths) return cli_wrong(&p->args, "unexpected argument '%s'", p->paths[0]);
  if (p->target) return run_build_target(p);
  if (!p->manifest || !p->output || p->n_defines || p->n_sources || p->tool || p->tool_version || p->tool_command)
    return cli_wrong(&p->args,
                     "build needs --output, and --manifest or --target, to which alone --source, --define and "
                     "--tool belong");
  if (check_output(p)) return CLI_USAGE;
  clade_status status = build(p, &arena, &manifest, &binary);
  clade__arena_free(&arena);
  clade__free(manifest.data);
  clade__free(binary.data);
  return status ? cli_failed_status(status) : cli_pack_show(p->output, p->args.json);
}

/* ---- sign ---- */
static int run_sign(const pack *p) {
  clade__bundle bundle;
  if (!p->key || !p->output) return cli_wrong(&p->args, "sign needs --key and --output");
  if (p->n_paths != 1) return cli_wrong(&p->args, "sign takes one bundle");
  if (check_output(p)) return CLI_USAGE;
  clade_status status = clade__bundle_read(p->paths[0], &bundle);
  if (status == CLADE_OK) {
    clade__bundle_draft draft = {bundle.manifest, bundle.binary, bundle.binary_bytes, p->key};
    status = clade__bundle_write(p->output, p->directory, &draft);
  }
  clade__bundle_free(&bundle);
  return status ? cli_failed_status(status) : cli_pack_show(p->output, p->args.json);
}

/* ---- verify ---- */
static clade_status verify(const char *path, clade_bundle_policy policy, const clade__keys *keys,
                           clade__bundle *bundle) {
  CLADE_TRY(clade__bundle_safe(path));
  CLADE_TRY(clade__bundle_read(path, bundle));
  return clade__bundle_trusted(bundle, policy, keys);
}

static json_t *verified(const char *path, clade_status status, const clade__bundle *bundle) {
  bool ok = status == CLADE_OK;
  json_t *digest = ok ? cli_pack_hex(bundle->digest, sizeof bundle->digest) : json_null();
  return json_pack("{s:o, s:b, s:b, s:o, s:o}", "path", cli_json_text(path), "ok", ok, "signed",
                   ok && bundle->is_signed, "digest", digest, "message", cli_json_text(ok ? NULL : clade_last_error()));
}

static int run_verify(const pack *p) {
  clade__keys keys = {0};
  json_t *list = json_array();
  int result = CLI_DONE;
  if (!p->n_paths) return cli_wrong(&p->args, "verify takes one bundle or more");
  if (p->keys && clade__keys_read(p->keys, &keys)) return cli_failed_status(CLADE_INVALID);
  for (int i = 0; i < p->n_paths; i++) {
    clade__bundle bundle = {0};
    clade_status status = verify(p->paths[i], p->keys ? CLADE_BUNDLES_SIGNED : CLADE_BUNDLES_ANY, &keys, &bundle);
    if (list) json_array_append_new(list, verified(p->paths[i], status, &bundle));
    if (status) result = cli_failed_status(status);
    if (!status && !p->args.json) printf("%s: right%s\n", p->paths[i], bundle.is_signed ? ", and signed" : "");
    clade__bundle_free(&bundle);
  }
  clade__keys_free(&keys);
  if (!p->args.json)
    json_decref(list);
  else if (cli_json_end(json_pack("{s:o}", "bundles", list)))
    result = CLI_FAILED;
  return result;
}

static int run_inspect(const pack *p) {
  if (p->n_paths != 1) return cli_wrong(&p->args, "inspect takes one bundle");
  return cli_pack_show(p->paths[0], p->args.json);
}

/* ---- options ---- */
enum { MANIFEST, BINARY, OUTPUT, DIRECTORY, KEY, KEYS, TARGET, SOURCE, DEFINE, TOOL, TOOL_VERSION, TOOL_COMMAND };
static const cli_option options[] = {
    [MANIFEST] = {"manifest", "FILE", "build: the manifest (docs/fpga.md)"},
    [BINARY] = {"binary", "FILE", "build: the binary of the vendor's tool"},
    [OUTPUT] = {"output", "PATH", "build, sign: the bundle to write"},
    [DIRECTORY] = {"directory", NULL, "build, sign: write a directory instead of a file"},
    [KEY] = {"key", "FILE", "build, sign: an Ed25519 private key in PEM (openssl genpkey -algorithm ed25519)"},
    [KEYS] = {"keys", "FILE", "verify: public keys in PEM; one of them must have signed"},
    [TARGET] = {"target", "pocl|rtl|intel:BOARD|xilinx:PLATFORM",
                "build: from kernels; pocl and rtl (the emulated accelerators) compile them, others need --binary"},
    [SOURCE] = {"source", "FILE", "build --target: a source file; may be repeated (unset: Clade's own kernels)"},
    [DEFINE] = {"define", "NAME=VALUE", "build --target: a macro of the compilation; may be repeated"},
    [TOOL] = {"tool", "NAME", "build --target: the tool that made the binary"},
    [TOOL_VERSION] = {"tool-version", "TEXT", "build --target: the version of the tool"},
    [TOOL_COMMAND] = {"tool-command", "TEXT", "build --target: the command line of the tool"},
    {0}};

static const cli_args description = {
    .command = "pack",
    .synopsis = "build|inspect|verify|sign [BUNDLE…]",
    .about = "build makes a bundle from a manifest and a binary, or from kernels; inspect prints its content;\n"
             "verify checks that it is complete, safe from other users and, with --keys, trusted; sign writes a signed "
             "copy.",
    .device_help = "no effect: no device is used",
    .many_devices = true,
    .options = options,
};

/* The copied name lives as long as the process. */
static bool take_define(pack *p, const char *value) {
  const char *equals = strchr(value, '=');
  char *name = equals && p->n_defines < MOST_DEFINES ? clade__copy_text(value) : NULL;
  if (!name) return false;
  name[equals - value] = '\0';
  p->define[p->n_defines++] = (clade__bundle_define){name, equals + 1};
  return true;
}

static bool take(pack *p, int option, const char *value) {
  switch (option) {
  case MANIFEST: p->manifest = value; break;
  case BINARY: p->binary = value; break;
  case OUTPUT: p->output = value; break;
  case DIRECTORY: p->directory = true; break;
  case KEY: p->key = value; break;
  case KEYS: p->keys = value; break;
  case TARGET: p->target = value; break;
  case DEFINE: return take_define(p, value);
  case SOURCE:
    if (p->n_sources == MOST_SOURCES) return false;
    p->source[p->n_sources++] = value;
    break;
  case TOOL: p->tool = value; break;
  case TOOL_VERSION: p->tool_version = value; break;
  case TOOL_COMMAND: p->tool_command = value; break;
  default: break;
  }
  return true;
}

int cli_pack(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(const pack *p);
  } actions[] = {{"build", run_build}, {"inspect", run_inspect}, {"verify", run_verify}, {"sign", run_sign}};
  pack p = {.args = description};
  const char *value;
  int next;
  while ((next = cli_next(&p.args, argc, argv, &value)) >= 0)
    if (!take(&p, next, value))
      return cli_wrong(&p.args, "'%s': --define takes NAME=VALUE, at most %d times, --source a file, at most %d times",
                       value, MOST_DEFINES, MOST_SOURCES);
  if (next == CLI_NEXT_HELP) return CLI_DONE;
  if (next == CLI_NEXT_WRONG) return CLI_USAGE;
  if (optind == argc) return cli_wrong(&p.args, "build, inspect, verify or sign is missing");
  p.paths = argv + optind + 1;
  p.n_paths = argc - optind - 1;
  for (size_t i = 0; i < CLADE_COUNT(actions); i++) {
    if (strcmp(argv[optind], actions[i].name)) continue;
    if (p.args.json && !cli_json_begin()) return CLI_FAILED;
    return actions[i].run(&p);
  }
  return cli_wrong(&p.args, "'%s' is none of build, inspect, verify and sign", argv[optind]);
}
