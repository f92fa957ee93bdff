/* clade doctor: diagnoses this machine's OpenCL and suggests remedies. This process never calls OpenCL, so that no
 * implementation can crash the report. */
#include "cli/doctor.h"

#include <getopt.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <xxhash.h>
#ifdef CLADE_WITH_ZLIB
#include <zlib.h>
#endif

static bool add(json_t *checks, const char *id, const char *thing, bool ok, bool note, const char *remedy,
                const char *format, va_list args) {
  char message[2048], whole[512];
  vsnprintf(message, sizeof message, format, args);
  snprintf(whole, sizeof whole, "%s%s%s", id, thing ? ":" : "", thing ? thing : "");
  json_t *check = json_object();
  bool set = check && cli_json_set(check, "id", cli_json_text(whole)) && cli_json_set(check, "ok", json_boolean(ok)) &&
             cli_json_set(check, "note", json_boolean(note)) &&
             cli_json_set(check, "message", cli_json_text(message)) &&
             cli_json_set(check, "remedy", cli_json_text(remedy));
  if (!set) json_decref(check);
  return set && !json_array_append_new(checks, check);
}

bool doctor_check(json_t *checks, const char *id, const char *thing, bool ok, const char *remedy, const char *format,
                  ...) {
  va_list args;
  va_start(args, format);
  bool added = add(checks, id, thing, ok, false, remedy, format, args);
  va_end(args);
  return added;
}

bool doctor_note(json_t *checks, const char *id, const char *thing, const char *remedy, const char *format, ...) {
  va_list args;
  va_start(args, format);
  bool added = add(checks, id, thing, true, true, remedy, format, args);
  va_end(args);
  return added;
}

static json_t *build_json(void) {
  char compiler[128], hash[32], opencl[16];
#if defined __clang__
  snprintf(compiler, sizeof compiler, "clang %s", __clang_version__);
#else
  snprintf(compiler, sizeof compiler, "gcc %s", __VERSION__);
#endif
  snprintf(hash, sizeof hash, "%d.%d.%d", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
  snprintf(opencl, sizeof opencl, "%d.%d", CLADE_CLI_OPENCL / 100, CLADE_CLI_OPENCL / 10 % 10);
#ifdef CLADE_WITH_ZLIB
  const char *zlib = zlibVersion();
#else
  const char *zlib = NULL;
#endif
  return json_pack("{s:s, s:s, s:s, s:{s:s, s:s, s:s, s:s?}}", "clade", clade_version(), "compiler", compiler, "opencl",
                   opencl, "libraries", "jansson", jansson_version_str(), "libcrypto",
                   OpenSSL_version(OPENSSL_VERSION_STRING), "xxhash", hash, "zlib", zlib);
}

static void print_report(const json_t *checks, const json_t *devices, bool ok) {
  size_t i, failed = 0;
  const json_t *check;
  json_array_foreach(checks, i, check) {
    bool good = json_is_true(json_object_get(check, "ok"));
    bool note = json_is_true(json_object_get(check, "note"));
    const char *remedy = json_string_value(json_object_get(check, "remedy"));
    printf("%s  %s\n", note ? "note" : good ? "ok  " : "FAIL", json_string_value(json_object_get(check, "message")));
    if (remedy) printf("      -> %s\n", remedy);
    failed += !good;
  }
  printf("\n%zu device%s, %zu of %zu checks failed: %s\n", json_array_size(devices),
         json_array_size(devices) == 1 ? "" : "s", failed, json_array_size(checks),
         ok ? "Clade can compute here" : "Clade cannot compute here");
}

static const cli_args description = {
    .command = "doctor",
    .synopsis = "",
    .about = "Diagnoses this machine's OpenCL and suggests remedies. The exit status is 0 if and only if a\n"
             "device computes the correct result in a probe kernel.",
    .device_help = "probe only this device (may be repeated)",
    .many_devices = true,
};

int cli_doctor(int argc, char **argv) {
  cli_args args = description;
  const char *value;
  int next = cli_next(&args, argc, argv, &value);
  if (next == CLI_NEXT_HELP) return CLI_DONE;
  if (next == CLI_NEXT_WRONG) return CLI_USAGE;
  if (optind < argc) return cli_wrong(&args, "unexpected argument '%s'", argv[optind]);
  if (args.json && !cli_json_begin()) return CLI_FAILED;
  json_t *checks = json_array(), *devices = json_array(), *libraries = json_array();
  bool ok = false;
  bool done = checks && devices && libraries && doctor_vendors(checks, libraries) && doctor_home(checks) &&
              doctor_linker(checks) && doctor_dri(checks) && doctor_cache(checks) &&
              doctor_opencl(checks, &args, libraries, devices, &ok);
  json_decref(libraries);
  int result = ok ? CLI_DONE : CLI_FAILED;
  if (!done) {
    result = cli_failed("no memory for the report");
  } else if (args.json) {
    json_t *document =
        json_pack("{s:b, s:O, s:O, s:o}", "ok", ok, "checks", checks, "devices", devices, "build", build_json());
    if (cli_json_end(document)) result = CLI_FAILED;
  } else {
    print_report(checks, devices, ok);
  }
  json_decref(checks);
  json_decref(devices);
  return result;
}
