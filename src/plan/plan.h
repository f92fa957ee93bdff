/* From a selected graph to a func: steps over memory that is laid out beforehand; and runs that execute it. */
#ifndef CLADE_PLAN_H
#define CLADE_PLAN_H

#include <clade/run.h>

#include "op/op.h"
#include "pass/pass.h"
#include "program/store.h"

/* Where bytes lie. Each space is its own buffers. */
typedef enum clade__space {
  CLADE__NOWHERE,
  CLADE__ARENA,    /* of the run, per device: slab `index` */
  CLADE__VARIABLE, /* variable `index` of the func */
  CLADE__CONSTANT, /* constants of the func, per device */
  CLADE__INPUT,    /* input `index`, per slot */
  CLADE__OUTPUT    /* output `index`, per slot */
} clade__space;

typedef struct clade__place {
  clade__space space;
  int device;
  int index;
  size_t offset, bytes;
} clade__place;

typedef enum clade__fstep_kind {
  CLADE__FSTEP_KERNEL,
  CLADE__FSTEP_COPY,    /* on one device */
  CLADE__FSTEP_FILL,    /* a pattern, on one device */
  CLADE__FSTEP_TRANSFER /* between devices: a host step, ends a segment */
} clade__fstep_kind;

typedef struct clade__fstep {
  clade__fstep_kind kind;
  int device;
  clade__id node;
  int request;               /* KERNEL: in the func's table, and so its kernel */
  clade_kernel_step *launch; /* KERNEL: arguments and range */
  clade__place *operand;     /* KERNEL: by argument; others: [0] source, [1] destination */
  clade__place workspace;
  int source_device; /* TRANSFER */
  unsigned char pattern[16];
  size_t pattern_bytes;
  bool per_slot; /* touches an input or output: own kernel for each slot */
} clade__fstep;

struct clade_func {
  clade__ref ref;
  clade_func *generic; /* what it was specialised from; NULL: itself */
  clade_graph *graph;  /* selected (specialised) or generic */
  int n_devices;
  clade_device **devices;
  bool shaped; /* planned: has steps */
  bool no_fusion;
  char *prefer;
  double seconds;
  /* generic: the cache of specialisations */
  pthread_mutex_t lock;
  clade_func **shaped_funcs;
  size_t n_shaped, shaped_capacity;
  clade__hash dims_hash;
  /* shaped */
  clade__arena arena;
  clade__fstep *steps;
  size_t n_steps;
  size_t *segments; /* first step of each; a segment ends before a TRANSFER's completion */
  size_t n_segments;
  size_t n_requests;
  int *request_device;
  clade__program_kernel *kernels;
  size_t *slabs; /* bytes of each arena slab */
  int *slab_device;
  size_t n_slabs;
  uint64_t live_peak;
  clade__buffer **constants; /* per device */
  size_t *constant_bytes;
  clade__place *output_place; /* where each output is to be read */
  int *variable_device;
};

/* The steps of a selected graph, in order, their requests, and what they use. */
clade_status clade__lower(clade_func *func);
/* Places for every value and workspace: slabs, aliasing, in-place, variables written directly where that is safe. */
clade_status clade__memory_plan(clade_func *func);

/* For tests. Funcs specialised while this is not 0 keep so many bytes free before and after each place in the arena, in
 * variables and in inputs and outputs, share no arena memory among values but by views and in-place, and their runs
 * begin with all of it filled by 0xff (NaN in every float format). */
extern size_t clade__plan_guard_bytes;
/* Waits for everything; CLADE_CORRUPT, naming the value, when a byte of a guard was written to. */
clade_status clade__run_check_guards(clade_run *run);

struct clade_vars {
  clade__ref ref;
  pthread_mutex_t lock;
  size_t n;
  struct clade__var {
    char *name;
    clade_type type;
    int device;
    uint64_t version; /* counts writes */
    clade__buffer *buffer;
  } * at;
  clade__map by_name;
  int n_devices;
  clade_device **devices;
  int writer; /* runs that assign: at most one */
};

#endif
