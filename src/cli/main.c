/* The command `clade`: finds the sub-command and runs it. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const cli_command commands[] = {
    {"doctor", "say what is wrong with this machine's OpenCL, and how to mend it", cli_doctor},
    {"devices", "list every device and what it can do", cli_devices},
    {"train", "train a model on images", cli_train},
    {"infer", "run a model's forward pass", cli_infer},
    {"bench", "measure how fast a device is, beside other libraries", cli_bench},
    {"tune", "measure which implementations are fast here, and keep it", cli_tune},
    {"pack", "make, look at and sign bundles of offline-built programs", cli_pack},
    {"cache", "print or empty the directory of compiled programs", cli_cache},
    {"__child", NULL, cli_child},
};

const char *cli_program = "clade";

static void help(FILE *to) {
  fprintf(to, "usage: clade COMMAND [options]\n\ncommands:\n");
  for (size_t i = 0; i < CLADE_COUNT(commands); ++i)
    if (commands[i].summary) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fprintf(to, "\nclade COMMAND --help tells a command's options; clade --version the version.\n");
}

static void say(void *user, clade_log_level level, const char *message) {
  (void)user;
  static const char *const names[] = {"", "error", "warning", "info", "debug"};
  fprintf(stderr, "clade: %s: %s\n", names[level], message);
}

static clade_log_level log_level(void) {
  const char *text = getenv("CLADE_LOG");
  if (text && !strcmp(text, "debug")) return CLADE_LOG_DEBUG;
  if (text && !strcmp(text, "info")) return CLADE_LOG_INFO;
  return CLADE_LOG_WARNING;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    help(stderr);
    return CLI_USAGE;
  }
  atexit(cli_output_end);
  cli_program = argv[0];
  const char *name = argv[1];
  if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
    help(stdout);
    return CLI_DONE;
  }
  if (!strcmp(name, "--version")) {
    printf("clade %s\n", clade_version());
    return CLI_DONE;
  }
  cli_emulated(getenv("CLADE_DEVICE"));
  for (size_t i = 0; i < CLADE_COUNT(commands); ++i)
    if (!strcmp(name, commands[i].name)) {
      clade_status status = clade_init(.log = say, .log_level = log_level());
      return status ? cli_failed_status(status) : commands[i].run(argc - 1, argv + 1);
    }
  fprintf(stderr, "clade: there is no command '%s': clade --help lists them\n", name);
  return CLI_USAGE;
}
