/* clade bench: what its options, works, contestants, clock and reports share. */
#ifndef CLADE_CLI_BENCH_H
#define CLADE_CLI_BENCH_H

#include "cl/foreign.h"
#include "cli/cli.h"

typedef struct bench_job bench_job;
enum { BENCH_MAX_SIDES = 8, BENCH_MAX_ROUNDS = 200, BENCH_KEYS = 16 };

/* ---- shapes.c: works as lines of text, "NAME key=value …"; # begins a comment ---- */
typedef struct bench_key {
  const char *name; /* NULL ends a table */
  int64_t low, high;
  int64_t unset; /* what a line that does not say has; below `low`: it must say */
} bench_key;
typedef struct bench_shape {
  char name[48];
  const char *source;        /* borrowed: the file or set that it stands in, NULL where in none */
  int line;                  /* there */
  int64_t value[BENCH_KEYS]; /* in the order of the keys */
} bench_shape;
typedef struct bench_shapes {
  bench_shape *at;
  size_t count, capacity;
} bench_shapes;
typedef struct bench_set {
  const char *name; /* NULL ends a table */
  const char *lines;
} bench_set;
/* Appends the shapes of a text, or of a file; a refusal names source and line. The shapes borrow `source`. */
clade_status bench_shapes_parse(const char *source, const char *text, const bench_key *keys, bench_shapes *out);
clade_status bench_shapes_read(const char *path, const bench_key *keys, bench_shapes *out);
/* What the job asks for: its file, its set, or the set `usual`. */
clade_status bench_shapes_of(const bench_job *job, const char *usual, const bench_key *keys, const bench_set *sets,
                             bench_shapes *out);
char *bench_shape_text(const bench_shape *shape, const bench_key *keys, char *text, size_t size); /* without the name */
void bench_shapes_free(bench_shapes *shapes);

/* ---- what was found ---- */
typedef struct bench_stat {
  double median, min, max; /* seconds */
} bench_stat;
typedef struct bench_peer_row {
  const char *name, *against; /* a peer, and which of Clade's contestants its partner is */
  char kernel[96], isa[96];
  int threads, kept, thrown; /* rounds */
  bench_stat seconds;
  double ratio; /* above 1: Clade is faster; of medians over the rounds that were kept */
} bench_peer_row;
typedef struct bench_own_row { /* Clade with operands and results in the layouts that its implementation likes best */
  char impl[64], layouts[96];  /* impl "": there is none, they are dense */
  bench_stat seconds;
} bench_own_row;
typedef struct bench_row {
  char group[16], work[48], shape[160], dtype[8], pass[16], impl[64];
  char *why; /* clade__free; NULL: nothing to tell */
  int chain, rounds;
  double flops, bytes; /* of a call: those that the work needs, whoever does it; 0: does not count */
  double items;        /* images of a call of a model; 0: there are none */
  double bound;        /* of bytes: the seconds of a copy of as many, measured now; 0: the device's */
  bench_stat seconds;  /* of a call */
  double kernels;      /* of these the kernels', by the device's clock; 0: not measured, of models on CPUs */
  bench_own_row own;
  int n_peers;
  bench_peer_row peer[BENCH_MAX_SIDES];
} bench_row;

typedef struct bench_watcher {
  bool known;
  double all, idle, own; /* ticks of all processors; seconds */
} bench_watcher;

struct bench_job {
  cli_args args;
  const char *what, *set, *shapes, *only, *pass, *google, *peer;
  clade_dtype dtype;
  int64_t batch, chain, rounds; /* batch, chain 0: unset */
  bool peers, csv, explain, explain_all;
  FILE *to; /* for people */
  clade_device *device;
  clade_device_info info;
  double peak_flops, copy_bytes; /* a second, of the device */
  int copy;                      /* the fastest of the probe's */
  const char *copy_by;           /* its name */
  bench_watcher watcher;
  bench_row *rows;
  size_t n_rows, row_capacity;
  int columns;                       /* of peers in the table that is being printed */
  const char *told[BENCH_MAX_SIDES]; /* peers that were said to be missing */
};

/* ---- time.c: the clock, and contestants that take turns ---- */
/* One who does the work. */
typedef struct bench_side {
  const char *name;
  void *state;
  clade_status (*refresh)(void *state); /* not timed, before each call: operands as if just computed; NULL: nothing */
  clade_status (*call)(void *state);    /* returns when it is done */
  clade_status (*read)(void *state, int index, float *result); /* result `index` of the last call */
  void (*free)(void *state);
  double (*seconds_of_call)(void *state); /* by its own clock, where that is another process's; NULL: by ours */
  char kernel[96], isa[96];
  int threads;
  int partner;                      /* a peer's: the side of Clade's that it is compared with */
  bool ours;                        /* Clade itself, once more: no peer */
  bool process;                     /* another process, which may end */
  bool lost;                        /* it did: it takes part no more */
  double seconds[BENCH_MAX_ROUNDS]; /* of a call, each round's median */
} bench_side;
void bench_pause(double seconds); /* below one */
bench_stat bench_stat_of(int n, const double *seconds);
/* Whether the others go on after a call that gave `status`: also where a process ended, which is named then, and lost.
 */
bool bench_goes_on(bench_job *job, bench_side *side, clade_status status);
/* Rounds in which each side has a turn, with pauses between them. sides[0] is Clade, and others may be. Fills the row's
 * figures. */
clade_status bench_race(bench_job *job, int n, bench_side *sides, bench_row *row);
void bench_sides_free(int n, bench_side *sides);

/* ---- clade.c: a graph without inputs: all it reads are variables, so that nothing is copied in ---- */
typedef enum bench_kind {
  BENCH_WEIGHT,  /* what is packed of it is kept */
  BENCH_OPERAND, /* as if another node had computed it: its packing is part of the work */
  BENCH_FRESH    /* the same, and written anew before each call */
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
  const char *prefer;    /* implementations that are asked for; NULL: none */
  bool strict;           /* as clade_compile(.strict) */
  clade_dtype precision; /* the same */
  const char *assigned;  /* a variable that the graph gives a new value, which is the result; NULL: outputs are */
  clade_type out;        /* of the results "y0", "y1", … */
  size_t out_elements;   /* of one */
  void *raw, *dense;
} bench_clade;
clade_val bench_variable(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data,
                         bench_kind kind);
/* An operand whose data lie in the type's layout; the value is dense, for whoever does not want it as it is. */
clade_val bench_laid(bench_clade *c, const char *name, const clade_type *type, const void *data);
/* The same as a parameter, which an update in the graph gives its results. */
clade_val bench_parameter(bench_clade *c, const char *name, clade_dtype dtype, clade_shape shape, const void *data);
/* Compiles the graph and makes a side of it; the side owns `c` then, also where this fails. */
clade_status bench_clade_side(const bench_job *job, bench_clade *c, bench_side *side);
/* Measures row->kernels. It executes, so a model that is trained is trained further. */
clade_status bench_clade_kernels(const bench_clade *c, bench_row *row);
/* Implementation, and explanation, of the first node of an op. */
clade_status bench_clade_row(const bench_clade *c, const char *op, bench_row *row);

/* ---- layout.c: between dense and blocked, on the host ---- */
void bench_pack(const clade_type *type, const void *dense, void *packed); /* by type.layout; lanes that pad: zero */
void bench_unpack(const clade_type *type, const void *packed, void *dense);

/* ---- data.c: numbers, the same for the same seed, and what checks need ---- */
void bench_random(uint64_t seed, size_t n, double scale, float *x);            /* uniform in [-scale, scale) */
void bench_random_bytes(uint64_t seed, size_t n, clade_dtype dtype, float *x); /* whole numbers, all of i8 or u8 */
double bench_sign(uint64_t seed, uint64_t i);                                  /* 1 or -1 */
double bench_unit(clade_dtype dtype); /* the largest relative error of a rounding */
/* Rounds floats to a type: `raw` has its bytes, x what they mean. */
clade_status bench_round(clade_dtype dtype, size_t n, float *x, void *raw);

/* ---- bench.c ---- */
bool bench_take_dtype(bench_job *job, const char *text); /* false: it is none, and that is told */
/* Whether what is asked for goes together: CLI_DONE and which of the works it is, or CLI_USAGE, told. */
int bench_check(const bench_job *job, size_t *work);
/* Finds the device, and begins to watch who else uses the processors: after what is asked for was understood.
 * `comm`: NULL, or each of its ranks takes a device. */
clade_status bench_open(bench_job *job, const clade_comm *comm);
/* Also measures the device's limits, and shows them; once. */
clade_status bench_ready(bench_job *job);

/* ---- probe.c ---- */
clade_status bench_probe(bench_job *job);
/* What ops that wait for memory are compared with: the fastest copy that the probe found; one of rows of `line` bytes,
 * at least BENCH_LINE, that are read at random places; a kernel that reads and writes next to nothing; or one that
 * writes four times what it reads. Each moves so many bytes. */
typedef enum bench_bound { BENCH_COPY, BENCH_ROWS, BENCH_READ, BENCH_SPREAD } bench_bound;
enum { BENCH_LINE = 64 };
clade_status bench_bound_side(const bench_job *job, bench_bound kind, size_t bytes, size_t line, bench_side *side);

/* ---- gemm.c and its peers ---- */
clade_status bench_gemm(bench_job *job);
/* C = op(A) op(B), `batch` times, in a chain. */
typedef struct bench_gemm_work {
  int64_t batch, m, n, k, chain;
  bool trans_a, trans_b, frozen_a, frozen_b;
  clade_dtype a_type, b_type, c_type;
  bool linked;                               /* each call's A is the result before it */
  int n_a, n_b;                              /* how many there are: one for each call, or one */
  float *a, *b;                              /* one after another */
  size_t a_elements, b_elements, c_elements; /* of one */
} bench_gemm_work;

/* ---- model.c ---- */
clade_status bench_models(bench_job *job);

/* ---- op.c ---- */
clade_status bench_ops(bench_job *job);

/* ---- comm.c, scale.c: commands of their own ---- */
int bench_comm(int argc, char **argv);
int bench_scale(int argc, char **argv);

/* ---- conv.c ---- */
clade_status bench_conv(bench_job *job);

/* ---- peers.c: libraries that are opened where they are ---- */
/* Opens a library and looks its functions up. A reason that ends in how to get it, or NULL. */
const char *bench_library(const char *file, const char *package, int n, const clade__symbol *symbols);
int bench_threads(const bench_job *job); /* that peers are to have: the device's, where it is a CPU */
/* How many processors, and what the system calls them. */
int bench_processors(char *name, size_t size);
void bench_watch(bench_watcher *watcher);
/* The part of all processors that other processes used since then; 0 where that is unknown. */
double bench_busy(const bench_watcher *watcher);
/* NULL, or why OpenBLAS cannot take part in this. */
bool bench_wants(const bench_job *job, const char *peer); /* --peers, or --peer that names it */
const char *bench_openblas(const bench_job *job, const bench_gemm_work *work, bench_side *side);
const char *bench_clblast(const bench_job *job, const bench_gemm_work *work, bench_side *side);

/* ---- report.c ---- */
clade_status bench_row_add(bench_job *job, const bench_row *row);         /* and tells it; takes `why` */
void bench_missing(bench_job *job, const char *peer, const char *reason); /* tells it once */
bool bench_google(const bench_job *job); /* writes the file that --google names; false: it cannot, and that is told */
void bench_show_device(const bench_job *job);
json_t *bench_machine_json(const bench_watcher *watcher);
int bench_report(bench_job *job); /* the documents that were asked for; the exit status */

#endif
