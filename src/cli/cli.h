/* Shared by all sub-commands: options, error messages, JSON on standard output, child processes. */
#ifndef CLADE_CLI_H
#define CLADE_CLI_H

#include <jansson.h>

#include <clade/clade.h>

#include "base/base.h"

enum {
  CLI_DONE = 0,
  CLI_FAILED = 1,
  CLI_USAGE = 2,
  CLI_LOST = 75,        /* a rank or a device was lost; another try may succeed (EX_TEMPFAIL of sysexits.h) */
  CLI_INTERRUPTED = 130 /* 128 + SIGINT, as shells report it */
};

/* ---- sub-commands ---- */
typedef struct cli_command {
  const char *name, *summary; /* summary NULL: internal, not listed in the help */
  int (*run)(int argc, char **argv);
} cli_command;
int cli_bench(int argc, char **argv);
int cli_cache(int argc, char **argv);
int cli_child(int argc, char **argv);
int cli_compare(int argc, char **argv); /* clade bench compare */
int cli_devices(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_infer(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_launch(int argc, char **argv);
int cli_man(const cli_command *commands, size_t n, int argc, char **argv); /* writes the manual pages */
int cli_pack(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_prune(int argc, char **argv);
int cli_quantize(int argc, char **argv);
int cli_train(int argc, char **argv);
int cli_tune(int argc, char **argv);

/* ---- options ---- */
typedef struct cli_option {
  const char *name;
  const char *argument; /* NULL: no argument; "[=X]": optional argument after an equals sign */
  const char *help;     /* the row after the last has name NULL */
} cli_option;

/* Options of commands that run on a device with a bundle and a fallback device. */
#define CLI_FALLBACK \
  { "fallback", "SPEC", "device for what the bundle of the main device has no kernel for (none)" }
#define CLI_PLACE \
  { "place", "LIST", "place ops or nodes on one of the two devices: gemm=home,softmax=fallback (none)" }

enum { CLI_MAX_DEVICES = 16 };

/* Description of a sub-command and its parsed common options. Every command has --help, --device and --json; a
 * command that runs another one (runs_command) has --help only, and its options end at that command. */
typedef struct cli_args {
  const char *command;
  const char *synopsis;    /* after the options: "path|clear" or "" */
  const char *about;       /* one or two lines */
  const char *device_help; /* help text of --device */
  bool many_devices;       /* --device may be repeated */
  bool runs_command;
  const cli_option *options;
  bool json;
  int n_devices;
  const char *device[CLI_MAX_DEVICES];
} cli_args;
#define CLI_JSON_HELP "print one JSON document to standard output, everything else to standard error"
#define CLI_HELP_HELP "print this help"
extern void (*cli_print_help)(const cli_args *args); /* what --help does; man.c writes a manual page instead */

/* Parses the next option. Returns its index in `options` with *value set (NULL: no argument), or a negative code
 * below. The common options are handled here. */
enum { CLI_NEXT_END = -1, CLI_NEXT_HELP = -2, CLI_NEXT_WRONG = -3 };
int cli_next(cli_args *args, int argc, char **argv, const char **value);
/* If the spec (or NULL) names the emulated accelerator, makes OpenCL's loader find its layer. Must precede the first
 * OpenCL call. */
void cli_emulated(const char *spec);
/* For --explain: value is NULL or "all". false: a usage error, printed. */
#define CLI_EXPLAIN \
  { "explain", "[=all]", "print the implementation of each node; all: also the refused ones, with reasons" }
bool cli_explain_all(const cli_args *args, const char *value, bool *all);
/* Parses a whole number within [low, high]. false: a usage error, printed. */
bool cli_number(const cli_args *args, const char *option, const char *text, int64_t low, int64_t high, int64_t *out);
/* Parses a link between ranks, "50,10": latency in microseconds, and Gbit/s. The same. */
bool cli_link(const cli_args *args, const char *option, const char *text, double *us, double *gbits);

extern const char *cli_program; /* name by which the command was called, for suggested commands */

/* ---- ranks (ranks.c) ---- */
bool cli_ranks_started(void); /* whether mpirun or the like started this process as one of several */
int cli_ranks_threads(void);  /* number of processors to which this process is bound */
/* Opens the communicator. *out is NULL unless mpirun started at least two processes. */
clade_status cli_ranks_open(clade_comm **out);
/* Prints this thread's message with the rank's number and ends all ranks. Returns the exit status if this process is
 * the only one. */
int cli_ranks_failed(clade_comm *comm, clade_status status);
/* The device of this rank, among those of --device. Without ranks the first one. */
clade_status cli_ranks_device(const clade_comm *comm, const cli_args *args, clade_device **out);

/* ---- errors: "clade: the fault and the remedy" on standard error ---- */
int cli_wrong(const cli_args *args, const char *format, ...) CLADE_PRINTF(2, 3); /* returns CLI_USAGE */
int cli_failed(const char *format, ...) CLADE_PRINTF(1, 2);                      /* returns CLI_FAILED */
bool cli_can_write(const char *path); /* false: the error is printed; checked before long computations */
/* CLI_USAGE, with the error printed, if the path of an option such as "--output" is "-" or the same file as an
 * input. Inputs may be NULL. */
int cli_check_output(const cli_args *args, const char *option, const char *path, size_t n, const char *const *inputs);
/* CLI_FAILED, with the error printed, if the path of an option exists, unless as an empty directory. */
int cli_check_new_directory(const char *option, const char *path);
/* Prints this thread's message and what to do about the status. Returns CLI_FAILED or CLI_LOST. */
int cli_failed_status(clade_status status);

/* ---- output ---- */
/* At exit: fails with CLI_FAILED if output could not be written, for example to a full disk. */
void cli_output_end(void);
/* Reserves standard output for JSON; what libraries print there goes to standard error. */
bool cli_json_begin(void);
/* Prints the document with a leading "schema": 1, and releases it. Returns CLI_FAILED if it is NULL or a write
 * fails. */
int cli_json_end(json_t *document);
/* Prints an object on a line of its own, flushed, and releases it: for events of a running command. */
bool cli_json_line(json_t *object);
json_t *cli_json_text(const char *text); /* NULL becomes null; bytes that are not UTF-8 become '?' */
/* object[name] = value; takes ownership of the value. false: out of memory. */
bool cli_json_set(json_t *object, const char *name, json_t *value);

/* ---- children: this program again, so that a library that aborts ends only the child ---- */
typedef struct cli_child_result {
  bool started, timed_out;
  int status;   /* exit status, if signal is 0 */
  int signal;   /* signal that killed the child; 0: none */
  json_t *json; /* its output; NULL: none or not JSON */
  char words[512];
} cli_child_result;
/* Runs `clade __child <arguments…>`. environment: NULL, or a NAME=value to add. */
void cli_child_run(const char *const *arguments, const char *environment, int seconds, cli_child_result *result);
void cli_child_free(cli_child_result *result);

/* ---- devices ---- */
/* ask: also try the matrix units, which compiles a kernel. NULL: the device cannot be described, or memory is
 * exhausted. */
json_t *cli_device_json(int index, bool ask);

#endif
