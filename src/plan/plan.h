/* From a selected graph to a func: steps over memory that is laid out beforehand. Runs, which execute it, are in
 * plan/run.h. */
#ifndef CLADE_PLAN_H
#define CLADE_PLAN_H

#include <clade/run.h>

#include "op/op.h"
#include "pass/pass.h"
#include "program/store.h"
#include "program/tuning.h"

/* Where bytes lie. Each space is its own buffers. */
typedef enum clade__space {
  CLADE__NOWHERE,
  CLADE__ARENA,    /* of the run: slab `index` */
  CLADE__VARIABLE, /* variable `index` of the func */
  CLADE__CONSTANT, /* of the func: constant slab `index` */
  CLADE__INPUT,    /* input `index`, per slot */
  CLADE__OUTPUT,   /* output `index`, per slot */
  CLADE__PACKED    /* of the variables: the copy that pack `index` of the func makes */
} clade__space;
const char *clade__space_name(clade__space space);

typedef struct clade__place {
  clade__space space;
  int device;
  int index;
  size_t offset, bytes;
} clade__place;

/* What needs memory: a value that is no view, a node's workspace, a value kept aside. Alive from time `birth` to time
 * `death`, both included. Times count steps from 1 on; copies that precede them all are at 0. */
typedef struct clade__cell {
  clade__id value; /* 0: a workspace, or kept aside */
  uint32_t birth, death;
  int32_t taken; /* the cell whose memory this one takes over in place; -1: none */
  clade__place place;
} clade__cell;

typedef enum clade__fstep_kind {
  CLADE__FSTEP_KERNEL,
  CLADE__FSTEP_LIBRARY, /* enqueued by another library */
  CLADE__FSTEP_COPY,    /* on one device */
  CLADE__FSTEP_HOST     /* the host's: an op's own work, or a copy between devices */
} clade__fstep_kind;

typedef struct clade__operand {
  int32_t cell; /* -1: an argument that is no memory */
  bool read, write;
  clade__place place;
} clade__operand;

typedef struct clade__fstep {
  clade__fstep_kind kind;
  bool wide;                 /* KERNEL: index_t has 64 bits */
  bool per_slot;             /* touches an input or output: a kernel for each slot */
  int device;                /* HOST: where its outputs lie */
  int source_device;         /* HOST: where its inputs lie */
  clade__id node;            /* 0: a copy that the plan needs */
  uint32_t time;             /* of liveness */
  size_t request;            /* KERNEL: in the func's table, and so its kernel; unset in a persistent kernel */
  uint32_t persistent;       /* KERNEL: which persistent kernel of the func it is in, from 1 on; 0: none */
  uint32_t interpreter;      /* KERNEL: which of the func's can do it in a persistent kernel, from 1 on; 0: none */
  uint32_t member;           /* and which case it is there; */
  clade__hash key;           /* by its member's hash */
  double seconds;            /* as estimated: of its node's an equal part */
  clade_kernel_step *launch; /* KERNEL, LIBRARY, HOST; of a copy between devices NULL */
  void *state;               /* LIBRARY, HOST: what it prepared */
  bool prepared;
  size_t host, needed; /* HOST: its number; the step before which its outputs must be there, n_steps: the end */
  bool awaits;         /* it is the first one that needs the outputs of a host step */
  int n_operands;      /* of a launch: one for each argument; others: [0] source, [1] destination */
  clade__operand *operand;
} clade__fstep;

/* A conversion, a cast, or a copy to another device, that is no step of executions, because its source does not change
 * in them (packed.c). */
typedef struct clade__fpack {
  int variable; /* of the func; -1: it is of a constant, and made with the func */
  int32_t cell;
  clade_layout layout;
  clade_dtype dtype;
  clade__fstep step;
} clade__fpack;

/* A kernel that persistent kernels are launches of: of each device the func's own, and some that others have had
 * compiled. */
typedef struct clade__finterpreter {
  int device;
  bool found; /* another's, which the store knows by this: */
  clade__hash hash;
  int n_bases;    /* how much memory it can name */
  size_t n_steps; /* that it does */
  size_t request;
} clade__finterpreter;

/* Steps that one launch does in turn. */
typedef struct clade__fpersistent {
  size_t first, count; /* of the func's steps */
  int device;
  uint32_t interpreter; /* from 1 on */
  uint32_t workers;     /* one for each unit; no more than its widest step has items */
  bool per_slot;        /* some step is */
  size_t at, end;       /* words of the device's table */
  int n_bases;
  clade__place *bases; /* the memory of all steps, by space and index */
} clade__fpersistent;

typedef struct clade__slab {
  int device;
  size_t bytes;
} clade__slab;
typedef struct clade__slabs {
  clade__slab *at;
  size_t count, capacity;
} clade__slabs;

/* Programs of a device that has several, as executions need them; first -1: it has one, or none. */
typedef struct clade__programming {
  int first, last, changes;
} clade__programming;

struct clade_func {
  clade__ref ref;
  clade_graph *graph; /* selected (shaped) or as built */
  clade_graph *built; /* shaped: what was selected from */
  int n_devices;
  clade_device **devices;
  bool shaped;  /* planned: has steps */
  int fallback; /* of devices; -1: none */
  bool no_fusion, strict;
  char *prefer, *place;
  char *casts;            /* what mixed precision did, for people; NULL: nothing */
  clade__records *pins;   /* choices that were given; NULL: none */
  clade__records *placed; /* those of places that were made; NULL: none */
  bool trusted;           /* the pins' rows are */
  clade__tuning **tuning; /* [n_devices]: what each went by when the func was compiled; NULL: untuned */
  double seconds;
  /* with symbols: the specializations so far, by the hash of their sizes */
  pthread_mutex_t lock;
  clade_func **shaped_funcs;
  size_t n_shaped, shaped_capacity;
  clade__map by_dims;
  /* shaped */
  clade__arena arena;
  size_t guard; /* bytes around each cell, for tests */
  clade__fstep *steps;
  size_t n_steps, step_capacity;
  size_t *hosts; /* [n_hosts]: the steps of the host */
  size_t n_hosts;
  clade__programming *programming; /* [n_devices] */
  clade__fpack *packs;
  size_t n_packs, pack_capacity;
  clade__cell *cells;
  size_t n_cells, cell_capacity;
  int32_t *cell_of; /* [n_values] through views; -1: none */
  clade__request *requests;
  int *request_device;
  size_t n_requests, request_capacity;
  clade__program_kernel *kernels; /* [n_requests] */
  clade__finterpreter *interpreters;
  size_t n_interpreters, interpreter_capacity;
  clade__fpersistent *persistent;
  size_t n_persistent, persistent_capacity;
  clade__program_kernel
      *apart; /* [n_steps]: of those in persistent kernels, for profiled runs; under the lock; NULL: none yet */
  clade__slabs slabs, constant_slabs;
  uint64_t live_peak;
  clade__buffer **constants; /* [constant_slabs.count] */
  int32_t *output_cell;      /* where each output is to be read */
  bool writes;
};

/* As clade_compile does, for the tuner too. Without `kernels` it gets none: clade__prepare is to follow. */
typedef struct clade__how {
  bool no_fusion, untuned, strict, kernels;
  bool trusted; /* rows of pins need not be listed by their spaces: the tuner's own */
  int fallback; /* as in clade__pass_ctx */
  const char *prefer, *place;
  clade_dtype precision; /* as in clade__pass_ctx, and so is */
  const char *types;
  const char *quantization; /* as in clade__pass_ctx */
  bool simulate;            /* the same */
  clade__records *pins;
} clade__how;
clade_status clade__compile(clade_graph *graph, int n, clade_device *const *devices, const clade__how *how,
                            clade_func **out);

/* A shaped func's graph once more, chosen by the records as they are now. */
clade_status clade__compile_again(const clade_func *func, clade_func **out);

/* ---- compiling (lower.c, request.c, assign.c, memory_plan.c, pack.c, constant.c) ---- */
/* The steps of a selected graph, in that order, and their cells. */
clade_status clade__lower(clade_func *func);
/* order[n_nodes - 1]: as built, but what becomes variables as early as may be (early.c). */
clade_status clade__early(const clade_graph *g, clade__id *order);
clade_status clade__cell_new(clade_func *func, clade__id value, int device, size_t bytes, int32_t *out);
/* A step that copies one cell to another, between devices where theirs differ; `first`: before all others. */
clade_status clade__copy_step(clade_func *func, int32_t from, int32_t to, clade__id node, bool first);
/* The requests of all kernel steps, each once, and their kernels: per device one batch. Then what libraries prepare. */
clade_status clade__prepare(clade_func *func);
void clade__tell_idle_pins(const clade_func *func);  /* one warning of all that no node has (impls.c) */
clade_status clade__list_requests(clade_func *func); /* the first half of it */
/* The kernels of steps in persistent kernels, for launches of their own. */
clade_status clade__prepare_apart(clade_func *func);
/* But for the arguments of its launch. */
void clade__step_request(const clade_func *func, const clade__fstep *step, clade__request *out);
/* Finds the persistent kernels; places are known. Then an interpreter's request: without a file where no persistent
 * kernel needs it. */
clade_status clade__persistent_plan(clade_func *func);
clade_status clade__persistent_request(clade_func *func, uint32_t interpreter, clade__request *request);
/* Which interpreter does each step (interpreter.c): of each device the func's own, or one that is there already.
 * *spared: half of what would have to be compiled, or more. */
clade_status clade__own_interpreters(clade_func *func);
clade_status clade__found_interpreters(clade_func *func, bool *spared);
void clade__drop_found(clade_func *func); /* the own ones do all */
/* Words of a table, as cl_kernels/persistent.cl has it: of a line of memory and of a step before its arguments. And how
 * many arguments come before the memory. */
enum { CLADE__PERSISTENT_LINE = 16, CLADE__PERSISTENT_STEP = 8, CLADE__PERSISTENT_HEAD = 3 };
enum { CLADE__PERSISTENT_BASES = 96 }; /* arguments for memory, at most, of 8 bytes: devices promise 1024 bytes */
int clade__persistent_base(const clade__fpersistent *persistent, const clade__place *place); /* -1: none */
int clade__persistent_words(const clade__arg *arg); /* of 32 bits, in a step's table */
/* Decides where outputs and assigned variables lie, and adds the copies that are left. Steps are in order after it. */
clade_status clade__place_ports(clade_func *func);
/* The value may be written into `cell`, which its node reads, as far as its op is concerned. */
bool clade__may_take(const clade_func *func, clade__id value, int32_t cell);
/* When the outputs of host steps are needed (host_plan.c). */
clade_status clade__hosts_plan(clade_func *func);
/* Places for every cell. */
clade_status clade__memory_plan(clade_func *func);
clade_status clade__constants_upload(clade_func *func);
/* What is packed of constants; after their upload. */
clade_status clade__packed_constants(clade_func *func);

/* Packing: intervals that are alive together get bytes that do not overlap. O(n log n). */
typedef struct clade__interval {
  size_t bytes; /* a multiple of the alignment, not 0 */
  uint32_t birth, death;
  size_t slab, offset; /* the result */
} clade__interval;
/* `end`: no time is later. `limit`: of one slab. *sizes: bytes of each slab, by clade__free. */
clade_status clade__pack(size_t n, clade__interval *at, uint32_t end, size_t limit, size_t **sizes, size_t *n_slabs);
/* Where all of it lies in one slab of *total bytes: packed anew by other orders, if that takes less. A total of `bound`
 * cannot be bettered. */
clade_status clade__pack_orders(size_t n, clade__interval *at, uint64_t bound, size_t limit, size_t *total);
/* The largest sum of bytes that are alive at once. */
clade_status clade__pack_bound(size_t n, const clade__interval *at, uint32_t end, uint64_t *bound);

/* ---- for tests ---- */
/* Bytes of 0xFF before and after every placed value, in funcs and variables that are made from here on; no memory is
 * reused then. A multiple of every device's alignment; 0: none. */
extern size_t clade__plan_guard_bytes;
/* The largest slab, where it is smaller than the device's largest buffer; 0: the device's. */
extern size_t clade__plan_slab_bytes;
/* Funcs are planned, but get no kernels: they are to be looked at and not run. */
extern bool clade__plan_only;
/* Steps that a func's persistent kernels have together at least, or there are none. */
extern size_t clade__persistent_least;
/* CLADE_CORRUPT where a byte outside all values was written by what the run has executed; waits. */
clade_status clade__run_check_guards(clade_run *run);

/* ---- variables ---- */
typedef struct clade__var {
  char *name;
  clade_type type;
  bool parameter;
  clade__part part;
  int device;       /* of vars->devices */
  uint64_t version; /* counts writes */
  size_t bytes, offset;
  clade__buffer *buffer;
} clade__var;

/* A variable in another layout or on another device, as it was at a version. Its buffer is never written again: whoever
 * reads it holds it.
 */
typedef struct clade__packed {
  int variable;
  uint64_t version;
  clade__buffer *buffer; /* NULL: given up, or not made yet */
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
  clade_run *writer; /* the run that assigned last, or NULL; it clears this before it goes */
  bool entering;     /* the writer is inside clade_execute */
  clade__packed *packed;
  size_t n_packed, packed_capacity;
  clade__map packed_by; /* variable, layout, type and device */
  clade_run *readers;   /* the runs that have packed copies */
  clade__spare *spares; /* [n_devices]: what the devices may ask back */
  uint64_t packings;    /* ever made, for tests */
};
/* Gives up the packed copies on the device that nobody reads just now. false: there were none, or somebody else has the
 * variables. */
bool clade__packed_drop(void *vars, clade_device *device);
/* What a variable of constant shape begins with; what was opened is to be closed, also where it failed. */
typedef struct clade__initial {
  clade_initial how;
  uint64_t key;
  size_t rows, columns; /* of a matrix that is made as a whole */
  double *matrix;
} clade__initial;
clade_status clade__initial_open(const clade_initial *how, const clade_shape *shape, uint64_t key, clade__initial *out);
double clade__initial_at(const clade__initial *initial, uint64_t element);
void clade__initial_close(clade__initial *initial);

/* The variables that a func works on: index[i] is variable i of the func in vars. Names what does not fit. */
clade_status clade__vars_match(const clade_vars *vars, const clade_func *func, int *index);
/* CLADE_BUSY while executions of a run that assigns are under way, other than `self`. Needs vars->lock. */
clade_status clade__vars_idle(const clade_vars *vars, const clade_run *self);
bool clade__run_idle(clade_run *run);
/* As clade_run_trace; `process` is the number of the first device's rows, so that traces of several processes can be
 * joined. */
clade_status clade__run_trace(clade_run *run, const char *path, int process);

/* The func as passes see it; the devices' infos are to be given to clade__free. */
/* That its costs go by: where it was given choices, what those went by. Not known: what is expected of the class. */
void clade__func_speed(const clade_func *func, int device, clade__profile *out);
clade_status clade__func_pass_ctx(const clade_func *func, clade_device_info **infos, clade__pass_ctx *ctx);
/* Text for a cell's place: "arena:0:256:64". */
void clade__place_print(const clade__place *place, clade__text *out);
const char *clade__step_name(const clade_func *func, const clade__fstep *step, char room[32]);

#endif
