/* The command `clade`: finds the sub-command and runs it. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const cli_command commands[] = {
    {"doctor", "diagnose this machine's OpenCL and suggest remedies", cli_doctor},
    {"devices", "list all devices and their capabilities", cli_devices},
    {"train", "train a model on images", cli_train},
    {"plan", "propose a layout of a training over many ranks", cli_plan},
    {"launch", "run a training and restart it when a rank is lost", cli_launch},
    {"infer", "run a model's forward pass", cli_infer},
    {"inspect", "list a model's layers: parameters, FLOPs, types and times", cli_inspect},
    {"prune", "remove channels or weights of a trained model", cli_prune},
    {"quantize", "store a trained model with weights of 8 or 4 bits", cli_quantize},
    {"bench", "measure the speed of a device and of other libraries", cli_bench},
    {"tune", "find the fastest implementations on a device and keep the result", cli_tune},
    {"pack", "build, inspect, verify and sign bundles of offline-built programs", cli_pack},
    {"cache", "print or empty the directory of compiled programs", cli_cache},
    {"__child", NULL, cli_child},
};

const char *cli_program = "clade";

static void help(FILE *to) {
  fprintf(to, "usage: clade COMMAND [options]\n\ncommands:\n");
  for (size_t i = 0; i < CLADE_COUNT(commands); ++i)
    if (commands[i].summary) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fprintf(to, "\nclade COMMAND --help lists the options of a command; clade --version prints the version.\n");
}

static const char *const levels[] = {"", "error", "warning", "info", "debug"};

static void say(void *user, clade_log_level level, const char *message) {
  (void)user;
  fprintf(stderr, "clade: %s: %s\n", levels[level], message);
}

/* Reads CLADE_LOG. false: unknown level, printed. */
static bool take_log_level(clade_log_level *out) {
  const char *text = getenv("CLADE_LOG");
  *out = CLADE_LOG_WARNING;
  if (!text || !*text) return true;
  for (clade_log_level level = CLADE_LOG_ERROR; level <= CLADE_LOG_DEBUG; ++level)
    if (!strcmp(text, levels[level])) {
      *out = level;
      return true;
    }
  fprintf(stderr, "clade: CLADE_LOG=%s: expected error, warning, info or debug\n", text);
  return false;
}

static int run(const cli_command *command, int argc, char **argv) {
  clade_log_level level;
  if (!take_log_level(&level)) return CLI_USAGE;
  const bool ranks = cli_ranks_started(); /* mpirun binds ranks to processors of their own */
  clade_status status =
      clade_init(.log = say, .log_level = level, .no_affinity = ranks, .cpu_threads = ranks ? cli_ranks_threads() : 0);
  return status ? cli_failed_status(status) : command->run(argc, argv);
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
    printf("clade %s%s%s\n", clade_version(), *CLADE_CLI_BUILT ? ", built with " : "", CLADE_CLI_BUILT);
    return CLI_DONE;
  }
  cli_emulated(getenv("CLADE_DEVICE"));
  if (!strcmp(name, "__man")) return cli_man(commands, CLADE_COUNT(commands), argc - 1, argv + 1);
  for (size_t i = 0; i < CLADE_COUNT(commands); ++i)
    if (!strcmp(name, commands[i].name)) return run(&commands[i], argc - 1, argv + 1);
  fprintf(stderr, "clade: there is no command '%s': clade --help lists them\n", name);
  return CLI_USAGE;
}
