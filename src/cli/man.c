/* The manual pages in the macros of man(7), from the tables of the help texts: clade(1), and a page for each
 * sub-command. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

enum { NAME_BYTES = 64, PATH_BYTES = 4096 };

static const char *summary; /* of the page; NULL: the description begins with it */

typedef struct meaning {
  const char *name, *text;
} meaning;
static const meaning variables[] = {
    {"CLADE_DEVICE", "The device if none is named."},
    {"CLADE_CACHE_DIR", "The program cache. Default: $XDG_CACHE_HOME/clade, or ~/.cache/clade. \"off\": no cache."},
    {"CLADE_CACHE_MIB", "The size limit of the program cache in MiB. Default: 1024."},
    {"CLADE_TUNING", "Files of tuning records, separated by colons. \"off\": none are used."},
    {"CLADE_BUNDLE_PATH", "Directories of bundles, for devices without a compiler."},
    {"CLADE_BUNDLE_POLICY", "Which bundles are loaded: any, or signed."},
    {"CLADE_BUNDLE_KEYS", "The keys that signed bundles are trusted by."},
    {"CLADE_BENCH_PYTHON", "The Python that has PyTorch or ONNX Runtime, for clade bench."},
    {"CLADE_KERNEL_DIR", "A directory of kernel files that replace the built-in ones."},
    {"CLADE_LIBRARIES", "Libraries that implementations may call: clblast, clfft, or both, separated by a colon."},
    {"CLADE_LOG", "The least severe messages to print: error, warning, info or debug. Default: warning."},
    {"CLADE_MEASURE", "\"off\": GPUs are not measured at a first compilation. \"on\": CPUs are measured as well."},
    {"CLADE_PERSISTENT", "\"0\": each step is a launch of its own, without persistent kernels and joined launches."},
    {"CLADE_STRICT", "\"1\": only implementations within the error bounds of their ops."},
    {"CLADE_AMX", "\"off\": the operating system is not asked for AMX."},
    {"CLADE_PROBE_DIR", "The directory of clade-probe."},
    {"CLADE_PROBE_SECONDS", "The time limit of a probe in seconds. Default: 30."}};
static const meaning statuses[] = {{"0", "Success."},
                                   {"1", "Failure, with a message on standard error."},
                                   {"2", "Wrong usage."},
                                   {"75", "A rank or a device was lost. Another try may succeed."},
                                   {"130", "Interrupted."}};

/* Prints text that roff shows as it is typed: hyphens, quotes and the like stay ASCII, and no line begins a request. */
static void text(const char *at) {
  static const struct {
    const char *sign, *roff;
  } signs[] = {{"\\", "\\e"},  {"-", "\\-"},   {"'", "\\(aq"}, {"`", "\\(ga"},
               {"^", "\\(ha"}, {"~", "\\(ti"}, {"…", "..."},   {"\n", " "}};
  if (*at == '.') fputs("\\&", stdout);
  while (*at) {
    size_t i = 0;
    while (i < CLADE_COUNT(signs) && strncmp(at, signs[i].sign, strlen(signs[i].sign)) != 0) ++i;
    if (i == CLADE_COUNT(signs)) {
      putchar(*at++);
      continue;
    }
    fputs(signs[i].roff, stdout);
    at += strlen(signs[i].sign);
  }
}

static void entry(const char *dashes, const char *name, const char *argument, const char *help) {
  fputs(".TP\n\\fB", stdout);
  text(dashes);
  text(name);
  printf("\\fR%s\\fI", argument && *argument != '[' ? " " : "");
  text(argument ? argument : "");
  fputs("\\fR\n", stdout);
  text(help);
  putchar('\n');
}

/* "clade-bench-compare" */
static void page_name(const char *command, char name[NAME_BYTES]) {
  snprintf(name, NAME_BYTES, "clade%s%s", *command ? "-" : "", command);
  for (char *at = name; *at; ++at)
    if (*at == ' ') *at = '-';
}

static void begin(const char *command, const char *what, const char *synopsis) {
  char name[NAME_BYTES], title[NAME_BYTES];
  page_name(command, name);
  for (size_t i = 0; i < NAME_BYTES; ++i) title[i] = (char)toupper((unsigned char)name[i]);
  fputs(".TH \"", stdout);
  text(title);
  printf("\" 1 \"\" \"clade %s\" \"Clade\"\n.SH NAME\n", clade_version());
  text(name);
  fputs(" \\- ", stdout);
  text(what);
  printf("\n.SH SYNOPSIS\n\\fBclade%s%s\\fR ", *command ? " " : "", command);
  text(synopsis);
  putchar('\n');
}

static void print_page(const cli_args *args) {
  char words[256], synopsis[256];
  snprintf(words, sizeof words, "%s", summary ? summary : args->about);
  if (!summary) { /* "Does the same." becomes "does the same" */
    words[0] = (char)tolower((unsigned char)words[0]);
    words[strcspn(words, ".")] = '\0';
  }
  snprintf(synopsis, sizeof synopsis, "[options]%s%s", *args->synopsis ? " " : "", args->synopsis);
  begin(args->command, words, synopsis);
  fputs(".SH DESCRIPTION\n", stdout);
  text(args->about);
  fputs("\n.SH OPTIONS\n", stdout);
  for (const cli_option *o = args->options; o && o->name; ++o) entry("--", o->name, o->argument, o->help);
  if (!args->runs_command) {
    entry("--", "device", "SPEC", args->device_help);
    entry("--", "json", NULL, CLI_JSON_HELP);
  }
  entry("--", "help", NULL, CLI_HELP_HELP);
  fputs(".SH SEE ALSO\n.BR clade (1)\n", stdout);
}

static void print_main_page(const cli_command *commands, size_t n) {
  char name[NAME_BYTES];
  begin("", "deep-learning compute backend on OpenCL", "COMMAND [options]");
  fputs(".SH DESCRIPTION\nTrains, runs, measures and tunes deep-learning models on devices of OpenCL.\n.SH COMMANDS\n",
        stdout);
  for (size_t i = 0; i < n; ++i) {
    if (!commands[i].summary) continue;
    entry("", commands[i].name, NULL, commands[i].summary);
    page_name(commands[i].name, name);
    fputs(".br\nSee \\fB", stdout);
    text(name);
    fputs("\\fR(1).\n", stdout);
  }
  fputs(".SH ENVIRONMENT\n", stdout);
  for (size_t i = 0; i < CLADE_COUNT(variables); ++i) entry("", variables[i].name, NULL, variables[i].text);
  fputs(".SH EXIT STATUS\n", stdout);
  for (size_t i = 0; i < CLADE_COUNT(statuses); ++i) entry("", statuses[i].name, NULL, statuses[i].text);
  fputs(".SH FILES\n.TP\n.I share/doc/clade/\nThe pages of docs/ that texts refer to, and the API reference.\n",
        stdout);
}

/* Makes standard output the file of a page. */
static bool open_page(const char *directory, const char *command) {
  char name[NAME_BYTES], path[PATH_BYTES];
  page_name(command, name);
  if (snprintf(path, sizeof path, "%s/%s.1", directory, name) >= PATH_BYTES)
    errno = ENAMETOOLONG;
  else if (freopen(path, "w", stdout))
    return true;
  cli_failed("cannot write %s: %s", path, strerror(errno));
  return false;
}

static bool write_page(const char *directory, const cli_command *command, const char *more) {
  char name[NAME_BYTES], help[] = "--help";
  char *words[] = {(char *)(uintptr_t)command->name, more ? (char *)(uintptr_t)more : help, more ? help : NULL, NULL};
  snprintf(name, sizeof name, "%s%s%s", command->name, more ? " " : "", more ? more : "");
  summary = more ? NULL : command->summary;
  optind = 0; /* another list of words begins */
  return open_page(directory, name) && command->run(more ? 3 : 2, words) == CLI_DONE && !fflush(stdout);
}

int cli_man(const cli_command *commands, size_t n, int argc, char **argv) {
  static const char *const of_bench[] = {"compare", "comm", "scale"};
  if (argc != 2) {
    fprintf(stderr, "clade __man: expected the directory for the manual pages\n");
    return CLI_USAGE;
  }
  cli_print_help = print_page;
  if (!open_page(argv[1], "")) return CLI_FAILED;
  print_main_page(commands, n);
  bool right = !fflush(stdout);
  for (size_t i = 0; i < n && right; ++i) {
    if (!commands[i].summary) continue;
    right = write_page(argv[1], &commands[i], NULL);
    for (size_t k = 0; k < CLADE_COUNT(of_bench) && right && commands[i].run == cli_bench; ++k)
      right = write_page(argv[1], &commands[i], of_bench[k]);
  }
  return right ? CLI_DONE : CLI_FAILED;
}
