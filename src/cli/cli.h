/* What the sub-commands share: options, errors, JSON on standard output, child processes. */
#ifndef CLADE_CLI_H
#define CLADE_CLI_H

#include <jansson.h>

#include <clade/clade.h>

#include "base/base.h"

/* Exit statuses. */
enum {
  CLI_DONE = 0,
  CLI_FAILED = 1,
  CLI_USAGE = 2,
  CLI_LOST = 75,        /* a rank or a device: another try may do it (EX_TEMPFAIL of sysexits.h) */
  CLI_INTERRUPTED = 130 /* as shells say it of a Ctrl-C */
};

/* ---- sub-commands ---- */
typedef struct cli_command {
  const char *name, *summary; /* summary NULL: not listed, for the command itself */
  int (*run)(int argc, char **argv);
} cli_command;
int cli_bench(int argc, char **argv);
int cli_cache(int argc, char **argv);
int cli_child(int argc, char **argv);
int cli_compare(int argc, char **argv); /* of bench */
int cli_devices(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_infer(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_launch(int argc, char **argv);
int cli_pack(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_prune(int argc, char **argv);
int cli_quantize(int argc, char **argv);
int cli_train(int argc, char **argv);
int cli_tune(int argc, char **argv);

/* ---- options ---- */
typedef struct cli_option {
  const char *name;
  const char *argument; /* NULL: takes none; "[=X]": may take one, after an equals sign */
  const char *help;     /* NULL name ends a table */
} cli_option;

/* Of those who compute on a device with a bundle and its fallback device. */
#define CLI_FALLBACK \
  { "fallback", "SPEC", "a device that takes what no kernel of the device's bundle computes (none)" }
#define CLI_PLACE \
  { "place", "LIST", "force ops or nodes to one of the two: gemm=home,softmax=fallback (none)" }

enum { CLI_MAX_DEVICES = 16 };

/* What a sub-command takes and, once parsed, got. --help is everyone's, and so are --device and --json but of those
 * that run another command, before which their options end. */
typedef struct cli_args {
  const char *command;
  const char *synopsis;    /* after the options: "path|clear"; "" */
  const char *about;       /* one or two lines */
  const char *device_help; /* what --device means here */
  bool many_devices;       /* --device may be repeated */
  bool runs_command;
  const cli_option *options;
  bool json;
  int n_devices;
  const char *device[CLI_MAX_DEVICES];
} cli_args;

/* The next option: its index in `options` with *value set, or one of these. Common ones are dealt with here. */
/* *value is NULL where there is none. */
enum { CLI_NEXT_END = -1, CLI_NEXT_HELP = -2, CLI_NEXT_WRONG = -3 };
int cli_next(cli_args *args, int argc, char **argv, const char **value);
/* Where the spec (NULL is fine) asks for the emulated accelerator: lets OpenCL's loader find it. Before it is opened.
 */
void cli_emulated(const char *spec);
/* Of --explain: the value is NULL or "all"; false with the usage error told. */
#define CLI_EXPLAIN \
  { "explain", "[=all]", "print which implementation each node got; all: also which refused, and why" }
bool cli_explain_all(const cli_args *args, const char *value, bool *all);
/* A whole number within [low, high], or false with the usage error told. */
bool cli_number(const cli_args *args, const char *option, const char *text, int64_t low, int64_t high, int64_t *out);

extern const char *cli_program; /* how the command was called, for commands that are told to be tried next */

/* ---- ranks (ranks.c) ---- */
bool cli_ranks_started(void); /* by mpirun or the like, as one of several processes */
int cli_ranks_threads(void);  /* the processors that this process is bound to */
/* NULL where mpirun did not start this process, or started no other one. */
clade_status cli_ranks_open(clade_comm **out);
/* Tells this thread's message, with the rank's number, and ends all ranks. Returns the exit status where there are no
 * others. */
int cli_ranks_failed(clade_comm *comm, clade_status status);
/* The device of this rank, among those that are asked for. Without ranks the first. */
clade_status cli_ranks_device(const clade_comm *comm, const cli_args *args, clade_device **out);

/* ---- errors: "clade: what and what to do" on standard error ---- */
int cli_wrong(const cli_args *args, const char *format, ...) CLADE_PRINTF(2, 3); /* CLI_USAGE */
int cli_failed(const char *format, ...) CLADE_PRINTF(1, 2);                      /* CLI_FAILED */
bool cli_can_write(const char *path); /* told otherwise; before what is to be written takes its time */
/* CLI_USAGE, told, where the path of an option ("--output") is "-" or the same file as one of those that are read, of
 * which some may be NULL. */
int cli_check_output(const cli_args *args, const char *option, const char *path, size_t n, const char *const *inputs);
/* CLI_FAILED, told, where the path of an option is there already, but as an empty directory. */
int cli_check_new_directory(const char *option, const char *path);
/* This thread's message, and what to do about the status: CLI_FAILED, or CLI_LOST. */
int cli_failed_status(clade_status status);

/* ---- output ---- */
/* At exit: ends the process by CLI_FAILED where what it printed could not be written, as on a full device. */
void cli_output_end(void);
/* From here on standard output is for JSON alone: what libraries print there goes to standard error. */
bool cli_json_begin(void);
/* Prints the document, with "schema": 1 first, and releases it. CLI_FAILED where it cannot be written or is NULL. */
int cli_json_end(json_t *document);
/* For commands that tell what goes on: prints the object on a line of its own, at once, and releases it. */
bool cli_json_line(json_t *object);
json_t *cli_json_text(const char *text); /* null for NULL; bytes that are not UTF-8 become '?' */
/* object[name] = value, which is released; false: no memory. */
bool cli_json_set(json_t *object, const char *name, json_t *value);

/* ---- children: this program, run again, so that a library that aborts takes only the child with it ---- */
typedef struct cli_child_result {
  bool started, timed_out;
  int status;      /* exit status, when signal is 0 */
  int signal;      /* what killed it */
  json_t *json;    /* what it printed; NULL: nothing or no JSON */
  char words[512]; /* the last line it wrote to standard error */
} cli_child_result;
/* clade __child <arguments…>; `environment`: NULL or a NAME=value that is added. */
void cli_child_run(const char *const *arguments, const char *environment, int seconds, cli_child_result *result);
void cli_child_free(cli_child_result *result);

/* ---- devices ---- */
/* `ask`: its matrix units are tried, which compiles a kernel. NULL: could not be described, or no memory. */
json_t *cli_device_json(int index, bool ask);

#endif
