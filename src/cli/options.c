/* Parses options from a table by getopt_long; help texts and error messages. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

enum { MAX_OPTIONS = 64, OLD = 100 /* range of numbers for each older name of an option */, HELP = 1000, DEVICE, JSON };

static void print_option(const char *name, const char *argument, const char *text) {
  char left[64];
  snprintf(left, sizeof left, "--%s%s%s", name, argument && *argument != '[' ? " " : "", argument ? argument : "");
  printf("  %-20s %s\n", left, text);
}

static void print_help(const cli_args *args) {
  printf("usage: clade %s [options]%s%s\n\n%s\n\noptions:\n", args->command, *args->synopsis ? " " : "", args->synopsis,
         args->about);
  for (const cli_option *o = args->options; o && o->name; ++o) print_option(o->name, o->argument, o->help);
  if (!args->runs_command) {
    print_option("device", "SPEC", args->device_help);
    print_option("json", NULL, CLI_JSON_HELP);
  }
  print_option("help", NULL, CLI_HELP_HELP);
}
void (*cli_print_help)(const cli_args *args) = print_help;

static int take_device(cli_args *args, const char *spec) {
  if (args->n_devices && !args->many_devices)
    return cli_wrong(args, "--device is given twice ('%s' and '%s'): this command uses one", args->device[0], spec);
  if (args->n_devices == CLI_MAX_DEVICES) return cli_wrong(args, "more than %d --device", CLI_MAX_DEVICES);
  cli_emulated(spec);
  args->device[args->n_devices++] = spec;
  return CLI_DONE;
}

static int takes(const char *argument) {
  return !argument ? no_argument : *argument == '[' ? optional_argument : required_argument;
}

static void add(struct option *table, size_t *n, const cli_option *option, int number) {
  const char *name = option->name;
  for (int i = 0; name && *n + 1 < MAX_OPTIONS; name = clade__old_name(option->name, i++))
    table[(*n)++] = (struct option){name, takes(option->argument), NULL, OLD * i + number};
}

int cli_next(cli_args *args, int argc, char **argv, const char **value) {
  struct option table[MAX_OPTIONS] = {{"help", no_argument, NULL, HELP},
                                      {"device", required_argument, NULL, DEVICE},
                                      {"json", no_argument, NULL, JSON}};
  size_t n = args->runs_command ? 1 : 3;
  memset(table + n, 0, (MAX_OPTIONS - n) * sizeof *table);
  for (int i = 0; args->options && args->options[i].name && n + 1 < MAX_OPTIONS; ++i)
    add(table, &n, &args->options[i], i);
  opterr = 0;
  for (;;) {
    int at = CLADE_MAX(optind, 1); /* optind 0: a new list of words */
    int found = getopt_long(argc, argv, args->runs_command ? "+:h" : ":h", table, NULL);
    switch (found) {
    case -1: return CLI_NEXT_END;
    case 'h':
    case HELP: cli_print_help(args); return CLI_NEXT_HELP;
    case JSON: args->json = true; break;
    case DEVICE:
      if (take_device(args, optarg)) return CLI_NEXT_WRONG;
      break;
    case ':': cli_wrong(args, "%s needs a value", argv[optind - 1]); return CLI_NEXT_WRONG;
    case '?': cli_wrong(args, "unknown option '%s'", argv[at]); return CLI_NEXT_WRONG;
    default:
      if (found >= OLD) {
        const char *name = args->options[found % OLD].name;
        clade__old_name_read(name, clade__old_name(name, found / OLD - 1));
      }
      *value = optarg;
      return found % OLD;
    }
  }
}

bool cli_explain_all(const cli_args *args, const char *value, bool *all) {
  *all = value != NULL;
  if (!value || !strcmp(value, "all")) return true;
  return cli_wrong(args, "--explain=%s: expected --explain or --explain=all", value), false;
}

bool cli_number(const cli_args *args, const char *option, const char *text, int64_t low, int64_t high, int64_t *out) {
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (errno || end == text || *end || number < low || number > high) {
    cli_wrong(args, "--%s %s: expected a whole number from %lld to %lld", option, text, (long long)low,
              (long long)high);
    return false;
  }
  *out = number;
  return true;
}

bool cli_link(const cli_args *args, const char *option, const char *text, double *us, double *gbits) {
  char *end, *last;
  *us = strtod(text, &end);
  *gbits = *end == ',' ? strtod(end + 1, &last) : 0;
  if (end != text && *end == ',' && last != end + 1 && !*last && *us >= 0 && *us < 1e9 && *gbits > 0 && *gbits < 1e9)
    return true;
  cli_wrong(args, "--%s %s: expected microseconds and 10^9 bits a second with a comma between, as 50,10", option, text);
  return false;
}

int cli_wrong(const cli_args *args, const char *format, ...) {
  va_list list;
  va_start(list, format);
  fprintf(stderr, "clade %s: ", args->command);
  vfprintf(stderr, format, list);
  fprintf(stderr, ": clade %s --help tells how it is used\n", args->command);
  va_end(list);
  return CLI_USAGE;
}

int cli_failed(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fputs("clade: ", stderr);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  return CLI_FAILED;
}

bool cli_can_write(const char *path) {
  return clade__file_can_write(path) == CLADE_OK || (cli_failed("%s", clade_last_error()), false);
}

int cli_check_output(const cli_args *args, const char *option, const char *path, size_t n, const char *const *inputs) {
  struct stat output, input;
  if (!strcmp(path, "-"))
    return cli_wrong(args, "%s -: standard output is not written to; name a file (./- is one called -)", option);
  if (stat(path, &output) != 0) return CLI_DONE;
  for (size_t i = 0; i < n; i++)
    if (inputs[i] && !stat(inputs[i], &input) && input.st_dev == output.st_dev && input.st_ino == output.st_ino)
      return cli_wrong(args, "%s %s: it is the same file as %s, which is read and would be overwritten", option, path,
                       inputs[i]);
  return CLI_DONE;
}

int cli_check_new_directory(const char *option, const char *path) {
  DIR *dir = opendir(path);
  if (!dir && errno == ENOENT) return CLI_DONE;
  if (!dir)
    return cli_failed("%s %s: %s: a directory that is not there yet is expected", option, path, strerror(errno));
  bool empty = true;
  for (struct dirent *e; empty && (e = readdir(dir));) empty = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..");
  closedir(dir);
  return empty ? CLI_DONE : cli_failed("%s %s: something is there already: name another directory", option, path);
}

static const char *what_to_do(clade_status status) {
  switch (status) {
  case CLADE_OPENCL:
  case CLADE_LOST: return "; `clade doctor` checks this machine's OpenCL";
  case CLADE_DEVICE_MEMORY: return "; use a smaller --batch or another --device";
  default: return "";
  }
}

int cli_failed_status(clade_status status) {
  const char *message = clade_last_error();
  cli_failed("%s%s", *message ? message : clade_status_text(status), what_to_do(status));
  return status == CLADE_LOST ? CLI_LOST : CLI_FAILED;
}
