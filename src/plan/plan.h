/* Compiles a graph with selected implementations to a func: steps over preplanned memory. Runs, which execute funcs,
 * are in plan/run.h. */
#ifndef CLADE_PLAN_H
#define CLADE_PLAN_H

#include <clade/run.h>

#include "op/op.h"
#include "pass/pass.h"
#include "program/store.h"
#include "program/tuning.h"

/* Memory spaces; each has its own buffers. */
typedef enum clade__space {
  CLADE__NOWHERE,
  CLADE__ARENA,    /* slab `index` of the run's arena */
  CLADE__VARIABLE, /* variable `index` of the func */
  CLADE__CONSTANT, /* slab `index` of the func's constants */
  CLADE__INPUT,    /* input `index`, per slot */
  CLADE__OUTPUT,   /* output `index`, per slot */
  CLADE__PACKED    /* packed copy for pack `index` of the func */
} clade__space;
const char *clade__space_name(clade__space space);

typedef struct clade__place {
  clade__space space;
  int device;
  int index;
  size_t offset, bytes;
} clade__place;

/* A piece of memory: a value that is not a view, a node's workspace, or a saved old value. Alive from `birth` to
 * `death`, inclusive. Times number the steps from 1; copies before all steps are at 0. */
typedef struct clade__cell {
  clade__id value; /* 0: a workspace or a saved value */
  uint32_t birth, death;
  int32_t taken; /* cell whose memory is reused in place; -1: none */
  clade__place place;
} clade__cell;

typedef enum clade__fstep_kind {
  CLADE__FSTEP_KERNEL,
  CLADE__FSTEP_LIBRARY, /* enqueued by an external library */
  CLADE__FSTEP_COPY,    /* within a device */
  CLADE__FSTEP_HOST     /* host step of an op, or a copy between devices */
} clade__fstep_kind;

typedef struct clade__operand {
  int32_t cell; /* -1: argument without memory */
  bool read, write;
  clade__place place;
} clade__operand;

typedef struct clade__fstep {
  clade__fstep_kind kind;
  bool wide;                 /* KERNEL: uses 64-bit indices */
  bool per_slot;             /* accesses an input or output: one kernel object per slot */
  int device;                /* HOST: of its outputs */
  int source_device;         /* HOST: of its inputs */
  clade__id node;            /* 0: a copy added by the plan */
  uint32_t time;             /* position for lifetimes */
  size_t request;            /* KERNEL: index of its request and kernel; unset in persistent kernels */
  uint32_t persistent;       /* KERNEL: the persistent kernel that contains it, from 1; 0: none */
  bool joins;                /* KERNEL: a persistent kernel can contain it */
  uint32_t member;           /* its case number in the interpreter */
  clade__hash key;           /* hash of its kernel as a member */
  double seconds;            /* estimated; a node's time divided among its steps */
  clade_kernel_step *launch; /* KERNEL, LIBRARY, HOST; NULL for copies between devices */
  void *state;               /* LIBRARY, HOST: prepared state */
  bool prepared;
  size_t host, needed; /* HOST: its number; the step before which its outputs must have arrived, n_steps: the end */
  bool awaits;         /* the first step that needs the outputs of a host step */
  int n_operands;      /* launches: one per argument; others: [0] source, [1] destination */
  clade__operand *operand;
} clade__fstep;

/* A pack: a reorder, cast or transfer whose source is constant across executions, so that it is not part of them
 * (packed.c). */
typedef struct clade__fpack {
  int variable; /* of the func; -1: made from a constant, with the func */
  int32_t cell;
  clade_layout layout;
  clade_dtype dtype;
  clade__fstep step;
} clade__fpack;

/* The kernel that executes the steps of a device's persistent kernels. */
typedef struct clade__finterpreter {
  bool joined;    /* for joined launches (joined.c) */
  int n_bases;    /* number of its pointer arguments */
  size_t n_steps; /* that it can execute */
  size_t request;
} clade__finterpreter;

/* Consecutive steps executed by one launch: a persistent kernel, or a joined launch. */
typedef struct clade__fpersistent {
  size_t first, count; /* range of the func's steps */
  int device;
  bool joined;
  uint32_t workers; /* work-groups: one per compute unit, at most the items of its widest step; joined: of all steps */
  bool per_slot;    /* contains a step that is */
  size_t at, end;   /* range of words in the device's table */
  int n_bases;
  clade__place *bases; /* buffers of all steps, by space and index; joined: without those of variables */
} clade__fpersistent;

typedef struct clade__slab {
  int device;
  size_t bytes;
} clade__slab;
typedef struct clade__slabs {
  clade__slab *at;
  size_t count, capacity;
} clade__slabs;

/* Programs that an execution needs on a device with several; first -1: the device has at most one. */
typedef struct clade__programming {
  int first, last, changes;
} clade__programming;

struct clade_func {
  clade__ref ref;
  clade_graph *graph; /* selected (shaped) or as built */
  clade_graph *built; /* shaped: the graph before selection */
  int n_devices;
  clade_device **devices;
  bool shaped;  /* planned: has steps */
  int fallback; /* device index; -1: none */
  bool no_fusion, strict;
  char *prefer, *place;
  char *casts;            /* description of mixed precision's casts; NULL: none */
  clade__records *pins;   /* given choices, or NULL */
  clade__records *placed; /* placements with a choice, or NULL */
  bool trusted;           /* accept the pins' configurations without checks */
  clade__tuning **tuning; /* [n_devices]: records used for compilation; NULL: untuned */
  double seconds;
  /* with symbols: specializations, by the hash of their sizes */
  pthread_mutex_t lock;
  clade_func **shaped_funcs;
  size_t n_shaped, shaped_capacity;
  clade__map by_dims;
  /* shaped funcs */
  clade__arena arena;
  size_t guard; /* bytes around each cell, for tests */
  clade__fstep *steps;
  size_t n_steps, step_capacity;
  size_t *hosts; /* [n_hosts]: host steps */
  size_t n_hosts;
  clade__programming *programming; /* [n_devices] */
  clade__fpack *packs;
  size_t n_packs, pack_capacity;
  clade__cell *cells;
  size_t n_cells, cell_capacity;
  int32_t *cell_of; /* [n_values]; views share a cell; -1: none */
  clade__request *requests;
  int *request_device;
  size_t n_requests, request_capacity;
  clade__program_kernel *kernels;    /* [n_requests] */
  clade__finterpreter *interpreters; /* [n_devices] */
  clade__fpersistent *persistent;
  size_t n_persistent, persistent_capacity;
  /* [n_steps]: separate kernels of steps in persistent kernels, for profiled runs; under the lock; NULL: not
   * prepared. */
  clade__program_kernel *apart;
  clade__slabs slabs, constant_slabs;
  uint64_t live_peak;
  clade__buffer **constants; /* [constant_slabs.count] */
  int32_t *output_cell;      /* cell of each output */
  bool writes;
};

/* Options of clade_compile and the tuner. Without `kernels`, clade__prepare must follow. */
typedef struct clade__how {
  bool no_fusion, untuned, strict, kernels;
  bool trusted; /* accept pins' configurations that their spaces do not list, as the tuner's */
  int fallback; /* see clade__pass_ctx */
  const char *prefer, *place;
  clade_dtype precision; /* see clade__pass_ctx, as for: */
  const char *types;
  const char *quantization; /* see clade__pass_ctx */
  bool simulate;            /* see clade__pass_ctx */
  clade__records *pins;
} clade__how;
clade_status clade__compile(clade_graph *graph, int n, clade_device *const *devices, const clade__how *how,
                            clade_func **out);

/* Compiles a shaped func's graph again with the current records. */
clade_status clade__compile_again(const clade_func *func, clade_func **out);

/* ---- compilation (lower.c, request.c, assign.c, memory_plan.c, pack.c, constant.c) ---- */
/* Creates the steps of a selected graph, in order, and their cells. */
clade_status clade__lower(clade_func *func);
/* order[n_nodes - 1]: graph order, but with new values of variables as early as possible, or as late as possible on
 * devices with joined launches (early.c). joins[device]; NULL: on none. */
clade_status clade__early(const clade_graph *g, const bool *joins, clade__id *order);
clade_status clade__cell_new(clade_func *func, clade__id value, int device, size_t bytes, int32_t *out);
/* Adds a step that copies one cell to another, also between devices. `first`: before all other steps. */
clade_status clade__copy_step(clade_func *func, int32_t from, int32_t to, clade__id node, bool first);
/* Collects the requests of all kernel steps without duplicates, prepares the kernels in one batch per device, then
 * prepares library steps. */
clade_status clade__prepare(clade_func *func);
void clade__tell_idle_pins(const clade_func *func);  /* logs one warning for all pins without a node (impls.c) */
clade_status clade__list_requests(clade_func *func); /* the first part of it */
/* Prepares kernels for separate launches of steps in persistent kernels. */
clade_status clade__prepare_apart(clade_func *func);
/* Excludes the arguments of its launch. */
void clade__step_request(const clade_func *func, const clade__fstep *step, clade__request *out);
/* Forms the persistent kernels, after places are known. Then the request of a device's interpreter; it has no file if
 * the device has no persistent kernel. */
clade_status clade__persistent_plan(clade_func *func);
clade_status clade__persistent_request(clade_func *func, int device, clade__request *request);
clade_status clade__find_joining(clade_func *func); /* the steps that persistent kernels can contain */
/* Layout of the table, as in cl_kernels/persistent.cl: words per memory line, words of a step before its arguments;
 * and the number of kernel arguments before the pointers. */
enum { CLADE__PERSISTENT_LINE = 16, CLADE__PERSISTENT_STEP = 8, CLADE__PERSISTENT_HEAD = 3 };
/* Maximum number of pointer arguments of 8 bytes, within OpenCL's minimum of 1024 bytes. */
enum { CLADE__PERSISTENT_BASES = 96 };
/* Whether consecutive independent steps of the device become joined launches: GPUs (joined.c). */
bool clade__joins(const clade_device *device);
/* Whether the step touches no memory that a step of the launch writes, and writes none that one touches. */
bool clade__independent(const clade_func *func, const clade__fpersistent *joined, const clade__fstep *step);
uint32_t clade__joined_groups(const clade__fstep *step); /* work-groups */
/* The first pointer arguments of a joined launch are the buffers of variables, which are known to runs alone; the
 * others are its `bases`. */
enum { CLADE__JOINED_SLABS = 8, CLADE__JOINED_BASES = 16, CLADE__JOINED_MOST = 1 << 22 /* work-groups */ };
/* Index of the buffer, or -1. */
int clade__persistent_base(const clade__fpersistent *persistent, const clade__place *place);
int clade__persistent_words(const clade__arg *arg); /* 32-bit words in a step's table */
/* Decides where outputs and assigned variables are stored, and adds the remaining copies. Steps are final
 * afterwards. */
clade_status clade__place_ports(clade_func *func);
/* Whether the op permits writing the value to `cell`, which its node reads. */
bool clade__may_take(const clade_func *func, clade__id value, int32_t cell);
/* When the outputs of host steps are needed (host_plan.c). */
clade_status clade__hosts_plan(clade_func *func);
/* Assigns places to all cells. */
clade_status clade__memory_plan(clade_func *func);
/* Maximum size of a buffer that several values share; and the space of a value in it: rounded up to the alignment, not
 * 0, including guards. */
size_t clade__slab_limit(const clade_device *device);
clade_status clade__slab_room(const clade_device *device, size_t bytes, size_t guard, size_t *room);
clade_status clade__constants_upload(clade_func *func);
/* Makes the packed copies of constants, after their upload. */
clade_status clade__packed_constants(clade_func *func);

/* Memory allocation: intervals that overlap in time get disjoint bytes. O(n log n). */
typedef struct clade__interval {
  size_t bytes; /* positive multiple of the alignment */
  uint32_t birth, death;
  size_t slab, offset; /* result */
} clade__interval;
/* `end`: latest time. `limit`: of a slab. *sizes: bytes of each slab, freed by clade__free. */
clade_status clade__pack(size_t n, clade__interval *at, uint32_t end, size_t limit, size_t **sizes, size_t *n_slabs);
/* Tries other orders if everything fits into one slab of *total bytes, and keeps a better result. `bound` is a lower
 * bound of the total. */
clade_status clade__pack_orders(size_t n, clade__interval *at, uint64_t bound, size_t limit, size_t *total);
/* The largest sum of live bytes at any time. */
clade_status clade__pack_bound(size_t n, const clade__interval *at, uint32_t end, uint64_t *bound);

/* ---- for tests ---- */
/* Bytes of 0xFF before and after every placed value of funcs and variables made afterwards; disables reuse of
 * memory. A multiple of every device's alignment; 0: none. */
extern size_t clade__plan_guard_bytes;
/* Maximum slab size, if smaller than the device's limit; 0: the device's limit. */
extern size_t clade__plan_slab_bytes;
/* Plans funcs without preparing kernels; such funcs cannot run. */
extern bool clade__plan_only;
/* Minimum number of steps in all persistent kernels of a func. */
extern size_t clade__persistent_least;
extern size_t clade__joined_least; /* the same of a joined launch */
extern bool clade__joins_anywhere; /* joined launches on other devices than GPUs */
/* Waits, then returns CLADE_CORRUPT if the run's executions wrote a byte outside of all values. */
clade_status clade__run_check_guards(clade_run *run);

/* ---- variables ---- */
typedef struct clade__var {
  char *name;
  clade_type type;
  bool parameter;
  clade__part part;
  int device;       /* index in vars->devices */
  uint64_t version; /* incremented by each write */
  size_t bytes, offset;
  clade__buffer *buffer; /* of its own, or shared (vars.c) */
  int slab;              /* number of the buffer among those of the device */
} clade__var;

/* A packed copy of a variable at a version. Its buffer is immutable; readers hold references. */
typedef struct clade__packed {
  int variable;
  uint64_t version;
  clade__buffer *buffer; /* NULL: released, or not made yet */
} clade__packed;

struct clade_vars {
  clade__ref ref;
  pthread_mutex_t lock;
  size_t n;
  clade__var *at;
  clade__map by_name;
  int n_devices;
  clade_device **devices;
  size_t guard;
  clade_run *writer; /* the last run that assigned, or NULL; cleared by the run before it is freed */
  bool entering;     /* the writer is inside clade_execute */
  clade__packed *packed;
  size_t n_packed, packed_capacity;
  clade__map packed_by; /* key: variable, layout, type and device */
  clade_run *readers;   /* runs with packed copies */
  clade__spare *spares; /* [n_devices]: registered to release packed copies */
  uint64_t packings;    /* number of copies ever made, for tests */
};
/* Releases the device's packed copies that no execution reads. False: there were none, or the lock is held
 * elsewhere. */
bool clade__packed_drop(void *vars, clade_device *device);
/* Initial values of a variable of constant shape. Must be closed, even if opening failed. */
typedef struct clade__initial {
  clade_initial how;
  uint64_t key;
  size_t rows, columns; /* of a matrix that is generated as a whole */
  double *matrix;
} clade__initial;
clade_status clade__initial_open(const clade_initial *how, const clade_shape *shape, uint64_t key, clade__initial *out);
double clade__initial_at(const clade__initial *initial, uint64_t element);
void clade__initial_close(clade__initial *initial);

/* Maps the func's variables to those of vars: index[i] for variable i. Errors name mismatches. */
clade_status clade__vars_match(const clade_vars *vars, const clade_func *func, int *index);
/* CLADE_BUSY if a run other than `self` that assigns has unfinished executions. Needs vars->lock. */
clade_status clade__vars_idle(const clade_vars *vars, const clade_run *self);
bool clade__run_idle(clade_run *run);

/* The func as seen by passes; free the device infos with clade__free. */
/* The profile that cost estimates use: from the choices if given; if unknown, the class defaults. */
void clade__func_speed(const clade_func *func, int device, clade__profile *out);
clade_status clade__func_pass_ctx(const clade_func *func, clade_device_info **infos, clade__pass_ctx *ctx);
/* Prints the place of a cell: "arena:0:256:64". */
void clade__place_print(const clade__place *place, clade__text *out);
const char *clade__step_name(const clade_func *func, const clade__fstep *step, char room[32]);

#endif
