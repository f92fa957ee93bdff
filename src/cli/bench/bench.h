/* Types and functions shared by all parts of `clade bench`: options, works, contestants, timing and reports. */
#ifndef CLADE_CLI_BENCH_H
#define CLADE_CLI_BENCH_H

#include "cl/foreign.h"
#include "cli/cli.h"

typedef struct bench_job bench_job;
enum { BENCH_MAX_SIDES = 8, BENCH_MAX_ROUNDS = 200, BENCH_KEYS = 16 };

/* ---- shapes.c: works as lines of text, "NAME key=value …"; # begins a comment ---- */
typedef struct bench_key {
  const char *name; /* NULL: end of the table */
  int64_t low, high;
  int64_t unset; /* value of an absent key; below `low`: the key is required */
} bench_key;
typedef struct bench_shape {
  char name[48];
  const char *source; /* borrowed: the file or set of the line; NULL: none */
  int line;
  int64_t value[BENCH_KEYS]; /* in the order of the keys */
} bench_shape;
typedef struct bench_shapes {
  bench_shape *at;
  size_t count, capacity;
} bench_shapes;
typedef struct bench_set {
  const char *name;
  const char *lines;
} bench_set;
/* The shapes that the job asks for: those of its file, of its set, or of its group's first set. They borrow the file's
 * and the set's name. Error messages name them and the line. */
clade_status bench_shapes_of(const bench_job *job, bench_shapes *out);
char *bench_shape_text(const bench_shape *shape, const bench_key *keys, char *text, size_t size); /* without the name */
void bench_shapes_free(bench_shapes *shapes);

/* ---- results ---- */
typedef struct bench_stat {
  double median, min, max; /* seconds */
} bench_stat;
typedef struct bench_peer_row {
  const char *name, *against; /* a peer, and the contestant of Clade with which the peer is compared */
  char kernel[96], isa[96];
  int threads, kept, thrown; /* kept, thrown: numbers of rounds */
  bench_stat seconds;
  double ratio; /* peer's median by Clade's, over the kept rounds; above 1: Clade is faster */
} bench_peer_row;
typedef struct bench_own_row { /* Clade with operands and results in the preferred layouts of an implementation */
  char impl[64], layouts[96];  /* impl "": no blocked layout was faster than dense */
  bench_stat seconds;
} bench_own_row;
typedef struct bench_row {
  char group[16], work[48], shape[160], dtype[8], pass[16], impl[64];
  char *why; /* clade__free; which implementation was chosen and which refused; NULL: unknown */
  int chain, rounds;
  double flops, bytes; /* of one call: what the work needs, independent of the contestant; 0: not counted */
  double items;        /* images in a call of a model; 0: no model */
  double bound;        /* seconds to copy `bytes`, measured in the same rounds; 0: use the device's copy rate */
  bench_stat seconds;  /* of one call */
  double kernels;      /* part of `seconds` in kernels, by the device's clock; 0: not measured (models on CPUs) */
  bench_own_row own;
  int n_peers;
  bench_peer_row peer[BENCH_MAX_SIDES];
} bench_row;

typedef struct bench_watcher {
  bool known;
  double all, idle, own; /* clock ticks: of all processors; of these idle; of this process and its children */
} bench_watcher;

struct bench_job {
  cli_args args;
  const struct bench_group *group; /* of `what`; NULL: all */
  const char *what, *set, *shapes, *only, *pass, *google, *peer;
  clade_dtype dtype;
  int64_t batch, chain, rounds; /* batch, chain: 0 is unset */
  bool peers, csv, explain, explain_all;
  FILE *to; /* stream of the table for people */
  clade_device *device;
  clade_device_info info;
  double peak_flops, copy_bytes; /* limits of the device, per second */
  int copy;                      /* number of the fastest kind of copy in probe.c */
  const char *copy_by;           /* name of that kind */
  bench_watcher watcher;
  bench_row *rows;
  size_t n_rows, row_capacity;
  int columns;                       /* number of peers in the table that is being printed */
  const char *told[BENCH_MAX_SIDES]; /* peers that were already reported as missing */
};

/* ---- time.c: timing, and contestants that take turns ---- */
/* A contestant: one program that does the work. */
typedef struct bench_side {
  const char *name;
  void *state;
  clade_status (*refresh)(void *state); /* not timed, before each call: rewrites the operands; NULL: nothing to do */
  clade_status (*call)(void *state);
  clade_status (*read)(void *state, int index, float *result); /* copies result `index` of the last call */
  void (*free)(void *state);
  double (*seconds_of_call)(void *state); /* seconds of the last call by its own clock; NULL: the caller times */
  char kernel[96], isa[96];
  int threads;
  int partner;                      /* of a peer: index of Clade's contestant with which the peer is compared */
  bool ours;                        /* another contestant of Clade, not a peer */
  bool process;                     /* runs in another process, which may end */
  bool lost;                        /* the process ended: no further turns */
  double seconds[BENCH_MAX_ROUNDS]; /* median of the calls of each round */
} bench_side;
void bench_pause(double seconds); /* seconds < 1 */
bench_stat bench_stat_of(int n, const double *seconds);
/* Whether the benchmark goes on after a call with this status. A process that ended is reported and marked as lost;
 * the others go on. */
bool bench_goes_on(bench_job *job, bench_side *side, clade_status status);
void bench_sides_free(int n, bench_side *sides);

/* A row and its contestants. sides[0] is Clade; others may be Clade too. */
typedef struct bench_race {
  bench_job *job;
  bench_row row;
  int n;
  bench_side sides[BENCH_MAX_SIDES];
  clade__arena arena; /* operands; freed after the contestants */
} bench_race;
/* Adds the group's peers that the job asks for and that `join` can fill in. It returns NULL, or the reason why a peer
 * cannot take part; the peer is then reported as missing, unless the reason is empty. */
typedef const char *bench_join(const bench_job *job, const void *work, const char *peer, bench_side *side);
void bench_peers(bench_race *race, bench_join *join, const void *work);
/* Checks the results of all contestants that have any. */
typedef clade_status bench_checker(const bench_job *job, const void *work, bench_side *side);
clade_status bench_check(bench_race *race, bench_checker *check, const void *work);
/* Gives each contestant a turn per round, with pauses between turns, and fills the row's figures. */
clade_status bench_take_turns(bench_race *race);

/* ---- clade.c: a graph whose operands are variables, so that an execution copies nothing in or out ---- */
typedef enum bench_kind {
  BENCH_WEIGHT,  /* a constant weight: its packed copy is kept between calls */
  BENCH_OPERAND, /* the result of another node: packing is part of the work */
  BENCH_FRESH    /* as BENCH_OPERAND, and rewritten before each call */
} bench_kind;
typedef struct bench_value {
  char name[24];
  const void *data; /* borrowed, in the variable's type */
  size_t bytes;
  bench_kind kind;
} bench_value;
typedef struct bench_clade {
  clade_graph *graph;
  clade_func *func;
  clade_vars *vars;
  clade_run *run;
  clade_ticket ticket;
  bench_value *values;
  size_t n_values, capacity;
  const char *prefer;    /* as clade_compile(.prefer); NULL: none */
  bool strict;           /* as clade_compile(.strict) */
  clade_dtype precision; /* as clade_compile(.precision) */
  bool quantized;        /* quantized to 8 bits, calibrated by the values of its variables */
  char *layers;          /* of a quantized one: the text with the type and scale of each layer's input */
  const char *assigned;  /* the result is the new value of this variable; NULL: the results are outputs */
  clade_type out;        /* type of the results "y0", "y1", … */
  size_t out_elements;
  void *raw, *dense;
} bench_clade;
clade_val bench_variable(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data,
                         bench_kind kind);
/* An operand whose data have the type's layout. The returned value is dense; a consumer that takes the blocked
 * layout reads the operand without a reorder. */
clade_val bench_laid(bench_clade *c, const char *name, const clade_type *type, const void *data);
/* A parameter; the update in the graph gives the result. */
clade_val bench_parameter(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data);
/* Compiles the graph that `build` makes and fills `side`, which is freed also after a failure. `build` gets an empty
 * graph, and sets the type and number of the results and how to compile. */
typedef clade_status bench_build(const void *work, bench_clade *c);
clade_status bench_clade_side(const bench_job *job, bench_build *build, const void *work, bench_side *side);
/* Measures row->kernels. Executions change the weights of a model that is trained. */
clade_status bench_clade_kernels(const bench_clade *c, bench_row *row);
/* Fills in the implementation and the explanation of the first node of an op. */
clade_status bench_clade_row(const bench_side *side, const char *op, bench_row *row);

/* ---- layout.c: conversions between dense and blocked layouts on the host ---- */
void bench_pack(const clade_type *type, const void *dense, void *packed);
void bench_unpack(const clade_type *type, const void *packed, void *dense);

/* ---- data.c: reproducible numbers, and helpers of the checks ---- */
void bench_random(uint64_t seed, size_t n, double scale, float *x); /* uniform in [-scale, scale) */
/* Operands of a type: in f32 the numbers that `raw` has in the type. Of i8 and u8 all whole numbers, else uniform. */
clade_status bench_numbers(clade__arena *arena, uint64_t seed, clade_dtype dtype, size_t n, double scale, float **x,
                           void **raw);
double bench_sign(uint64_t seed, uint64_t i); /* 1 or -1 */
double bench_unit(clade_dtype dtype);         /* largest relative rounding error of a type */

/* ---- bench.c ---- */
/* The works of `clade bench NAME`, a row for each shape and pass. */
typedef struct bench_group {
  const char *name;
  const bench_key *keys;
  const bench_set *sets;                    /* the first is the default */
  int quick;                                /* number of leading sets that `bench all` runs */
  const char *passes[4], *peers[6];         /* NULL: end; without passes, rows have the pass "forward" */
  bool batch, chain;                        /* whether --batch and --chain apply */
  int (*pass_of)(const bench_shape *shape); /* the shape's only pass; NULL: a shape has all passes */
  clade_status (*accept)(const bench_job *job, const bench_shape *shape); /* before the device is opened; may be NULL */
  /* Fills in the row, whose group, work, shape, dtype and pass are set. The race is freed afterwards. */
  clade_status (*measure)(bench_race *race, const bench_shape *shape, int pass);
} bench_group;
extern const bench_group bench_gemm, bench_conv, bench_ops, bench_models;
bool bench_take_dtype(bench_job *job, const char *text); /* false: not a known type; the error is printed */
/* Sets the group, and checks that the options fit together. CLI_DONE, or CLI_USAGE with the error printed. */
int bench_check_options(bench_job *job);
/* Opens the device and starts the watcher of processor use. Called after all options are parsed. With a communicator
 * each rank opens a device of its own. */
clade_status bench_open(bench_job *job, const clade_comm *comm);

/* ---- probe.c ---- */
clade_status bench_probe(bench_job *job);
/* Lower bounds of ops that are limited by memory; each moves the given number of bytes:
 * - BENCH_COPY: the fastest kind of copy of the probe
 * - BENCH_ROWS: a copy of rows of `line` (at least BENCH_LINE) bytes at random places
 * - BENCH_READ: a kernel that reads, and writes next to nothing
 * - BENCH_SPREAD: a kernel that writes four times what it reads */
typedef enum bench_bound { BENCH_COPY, BENCH_ROWS, BENCH_READ, BENCH_SPREAD } bench_bound;
enum { BENCH_LINE = 64 };
clade_status bench_bound_side(const bench_job *job, bench_bound kind, size_t bytes, size_t line, bench_side *side);

/* ---- gemm.c and its peers ---- */
typedef enum bench_operand { BENCH_A, BENCH_B, BENCH_C, BENCH_OPERANDS } bench_operand;
/* C = op(A) op(B) for `batch` matrices, `chain` calls in a row. */
typedef struct bench_gemm_work {
  int64_t batch, m, n, k, chain;
  bool linked; /* the result of a call is A of the next call */
  bool trans[BENCH_OPERANDS], frozen[BENCH_OPERANDS];
  clade_dtype type[BENCH_OPERANDS];
  size_t elements[BENCH_OPERANDS]; /* of one call */
  int64_t count[BENCH_OPERANDS];   /* how many there are in memory: one, or one for each call */
  float *data[BENCH_OPERANDS];     /* of A and B, contiguous */
  void *raw[BENCH_OPERANDS];       /* the same in their types */
} bench_gemm_work;

/* ---- comm.c, scale.c: sub-commands with options of their own ---- */
int bench_comm(int argc, char **argv);
int bench_scale(int argc, char **argv);

/* ---- peers.c: libraries that are opened at run time ---- */
/* Opens a library and looks up its functions. Returns NULL, or the reason for the failure and how to install the
 * library. */
const char *bench_library(const char *file, const char *package, int n, const clade__symbol *symbols);
int bench_threads(const bench_job *job); /* number of threads for peers: the device's compute units if it is a CPU */
int bench_processors(char *name, size_t size);
void bench_watch(bench_watcher *watcher);
/* Fraction of all processors that other processes used since bench_watch; 0: unknown. */
double bench_busy(const bench_watcher *watcher);
/* bench_openblas and bench_clblast return NULL, or the reason why the library cannot take part. */
bool bench_wants(const bench_job *job, const char *peer); /* by --peers, or by --peer with this name */
const char *bench_openblas(const bench_job *job, const bench_gemm_work *work, bench_side *side);
const char *bench_clblast(const bench_job *job, const bench_gemm_work *work, bench_side *side);

/* ---- report.c ---- */
clade_status bench_row_add(bench_job *job, const bench_row *row); /* prints the row too; takes ownership of `why` */
void bench_missing(bench_job *job, const char *peer, const char *reason); /* printed once for each peer */
bool bench_google(const bench_job *job); /* writes the file of --google; false: failed, with the error printed */
void bench_show_device(const bench_job *job);
json_t *bench_machine_json(const bench_watcher *watcher);
int bench_report(bench_job *job); /* prints the requested documents; returns the exit status */

#endif
