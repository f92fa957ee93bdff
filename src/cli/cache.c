/* clade cache path|clear: the directory of compiled programs. */
#include "cli/cli.h"

#include <getopt.h>
#include <stdio.h>

enum { PATH_BYTES = 4096 };

static int path(const cli_args *args) {
  char directory[PATH_BYTES];
  clade_status status = clade_cache_path(directory, sizeof directory);
  int result = CLI_DONE;
  if (status)
    result = cli_failed_status(status);
  else if (args->json)
    result = cli_json_end(json_pack("{s:o}", "path", cli_json_text(directory)));
  else
    puts(directory);
  return result;
}

static int clear(const cli_args *args) {
  uint64_t files = 0, bytes = 0;
  char directory[PATH_BYTES];
  clade_status status = clade_cache_path(directory, sizeof directory);
  if (!status) status = clade_cache_clear(&files, &bytes);
  int result = CLI_DONE;
  if (status)
    result = cli_failed_status(status);
  else if (args->json)
    result = cli_json_end(json_pack("{s:o, s:I, s:I}", "path", cli_json_text(directory), "files", (json_int_t)files,
                                    "bytes", (json_int_t)bytes));
  else
    printf("removed %llu files, %llu bytes from %s\n", (unsigned long long)files, (unsigned long long)bytes, directory);
  return result;
}

static const cli_args description = {
    .command = "cache",
    .synopsis = "path|clear",
    .about = "path prints the directory of compiled programs; clear empties it.",
    .device_help = "no effect: all devices share one directory",
    .many_devices = true,
};

int cli_cache(int argc, char **argv) {
  cli_args args = description;
  const char *value;
  int next = cli_next(&args, argc, argv, &value);
  if (next == CLI_NEXT_HELP) return CLI_DONE;
  if (next == CLI_NEXT_WRONG) return CLI_USAGE;
  if (optind == argc) return cli_wrong(&args, "path or clear is missing");
  const char *what = argv[optind];
  bool is_path = !strcmp(what, "path");
  if (!is_path && strcmp(what, "clear")) return cli_wrong(&args, "'%s' is neither path nor clear", what);
  if (optind + 1 < argc) return cli_wrong(&args, "unexpected argument '%s'", argv[optind + 1]);
  if (args.json && !cli_json_begin()) return CLI_FAILED;
  return is_path ? path(&args) : clear(&args);
}
