/* The contract of an op: the same struct for Clade's own and for a user's, out of tree. An op sees its node as types
 * and attributes; it says what comes out (infer), how it is derived (grad), and which implementations there are. What
 * an implementation emits are steps: data, never a call into OpenCL. docs/adding-an-op.md builds one from nothing. */
#ifndef CLADE_OP_H
#define CLADE_OP_H

#include <clade/device.h>

CLADE_BEGIN_DECLS

typedef struct clade_graph clade_graph;
typedef struct clade_op clade_op;

/* A value of a graph. All zero is invalid: "no value", and what a failed builder returns. */
typedef struct clade_val {
  uint32_t graph, id;
} clade_val;

enum { CLADE_MAX_OPERANDS = 64 }; /* and outputs, of a node */

/* A node as its op sees it. In infer the dimensions may be symbols; everywhere else they are sizes. */
typedef struct clade_node {
  size_t size;
  const clade_op *op;
  const char *name;
  const void *attrs; /* attr_bytes of the op's attribute struct */
  int n_in, n_out;
  const clade_type *in;
  clade_type *out; /* infer writes them */
} clade_node;

/* Attributes are a plain struct, copied bytewise, zeroed where unset; this table describes it, for printing, hashing
 * and files. */
typedef enum clade_attr_kind {
  CLADE_ATTR_BOOL = 1, /* bool */
  CLADE_ATTR_I32,      /* int32_t */
  CLADE_ATTR_I64,      /* int64_t */
  CLADE_ATTR_F32,      /* float */
  CLADE_ATTR_DTYPE,    /* clade_dtype */
  CLADE_ATTR_SHAPE,    /* clade_shape */
  CLADE_ATTR_BYTES     /* `count` bytes without a meaning here */
} clade_attr_kind;
/* A table of these is a plain array: its layout is frozen. */
typedef struct clade_attr {
  const char *name; /* NULL ends a table */
  clade_attr_kind kind;
  uint32_t offset, count; /* count > 1: an array */
} clade_attr;

/* ---- derivatives ---- */
typedef struct clade_grad {
  size_t size;
  clade_graph *graph;
  const clade_node *node;
  const clade_val *in, *out;
  const clade_val *dout; /* gradients of the outputs; invalid where none flows */
  clade_val *din;        /* to be filled; stays invalid where there is none */
  const bool *wanted;    /* which of din anybody needs */
} clade_grad;

/* ---- channels that go together, for pruning (docs/pruning.md) ----
 * An op's rule says for a node which places along axes stand for the same channel, so that they stay or go together.
 * Operands are numbered from 0 on, results after them; shapes are sizes. */
typedef struct clade_ties clade_ties;
/* n places of an axis, from `at` on, and as many of another one. */
CLADE_API void clade_tie(clade_ties *t, int a, int axis_a, int64_t at_a, int b, int axis_b, int64_t at_b, int64_t n);
CLADE_API void clade_tie_axes(clade_ties *t, int a, int axis_a, int b, int axis_b); /* all places; of equal length */
CLADE_API void clade_keep_axis(clade_ties *t, int a, int axis);                     /* none of its places goes */
CLADE_API bool clade_axis_kept(const clade_ties *t, int a, int axis);               /* as nodes up to here say it */

/* ---- dimensions that the work runs over, for computing it in parts (docs/parallel.md) ----
 * An op's rule names dimensions, each with the axes of operands and results that lie along it, as an index in
 * Einstein's notation does. Operands are numbered from 0 on, results after them; shapes are sizes. What lies along none
 * is needed as a whole, and so is an operand that does not lie along the one that is split. */
typedef struct clade_dims clade_dims;
typedef enum clade_dim_kind {
  CLADE_DIM_EACH = 1, /* a part gives the same part of the results; those that do not lie along it hang on no part */
  CLADE_DIM_SUM,      /* a part gives a part of a sum: results that do not lie along it are to be added */
  CLADE_DIM_MEAN      /* the same of means, which are weighted by how long the parts are; for floats */
} clade_dim_kind;
CLADE_API int clade_dims_add(clade_dims *d, clade_dim_kind kind); /* the dimension's number, for the calls below */
/* An axis in blocks of `block` places each: all of a dimension have as many blocks, which is its size. One axis of each
 * operand and result. */
CLADE_API void clade_dims_along(clade_dims *d, int dim, int a, int axis, int64_t block);
/* The operand, of i32, holds numbers of places along the dimension: they are shifted by where a part begins, so that
 * those of other parts name no place there. */
CLADE_API void clade_dims_numbers(clade_dims *d, int dim, int operand);
/* Of a sum: the operand is added to the only result, by broadcasting. Parts get zeros for it, and the sum gets it. */
CLADE_API void clade_dims_once(clade_dims *d, int dim, int operand);
/* Of a part that begins at block B and is N blocks long: the attributes' whole number at `offset` (of i32, i64, or a
 * dimension of a shape) is base + by_begin B + by_length N. */
CLADE_API void clade_dims_attr(clade_dims *d, int dim, size_t offset, int64_t base, int64_t by_begin,
                               int64_t by_length);

/* ---- implementations ---- */
typedef struct clade_query {
  size_t size;
  const clade_node *node;
  const clade_device_info *device;
  /* The implementation's parameters, in the order of its space: what accept, layouts, cost, workspace and emit are to
   * go by. NULL where it has no space. */
  const int32_t *config;
} clade_query;

typedef struct clade_emit clade_emit;               /* where steps go */
typedef struct clade_kernel_step clade_kernel_step; /* a launch being described; owned by the emit */

/* What a tuner may vary of an implementation: whole numbers with names. A configuration holds one for each. It is
 * chosen with the implementation, by a record that was measured (docs/tuning.md), else by `defaults`, and then kept:
 * every function of the implementation gets it in its query, and nowhere else. */
enum { CLADE_MAX_PARAMS = 16, CLADE_MAX_IMPLS = 64 };
typedef struct clade_space {
  size_t size;               /* an older struct may end behind .defaults */
  const char *const *params; /* names; ends in NULL, at most CLADE_MAX_PARAMS. Records go by them */
  /* Fills the configuration where nobody tuned: from the device's capabilities and the problem's sizes, in
   * microseconds. It is asked before accept, so also of nodes that will be refused, but not on devices that the
   * implementation is not for. Parameters that affect the order of a sum must not depend on compute_units: a part of a
   * CPU gives the bits of the whole one. */
  void (*defaults)(const clade_query *q, int32_t *config);
  /* Configuration number i of those worth timing for this device and problem, the likeliest first; false behind the
   * last one. One that `accept` refuses is passed over, and so is one that was there before. A record's counts only
   * while it is one of these, or the default. NULL: none but the default. */
  bool (*configs)(const clade_query *q, int i, int32_t *config);
} clade_space;

/* What an implementation's kernels are written for; it decides nothing by itself, but tests and people choose by it. */
typedef enum clade_family {
  CLADE_FAMILY_REF = 1,  /* runs on every OpenCL 1.2 device */
  CLADE_FAMILY_VEC,      /* few long work-items that compute with vectors: CPUs */
  CLADE_FAMILY_GROUP,    /* work-groups that share local memory: GPUs */
  CLADE_FAMILY_MMA,      /* matrix units */
  CLADE_FAMILY_SYSTOLIC, /* kernels of an offline bundle: FPGAs */
  CLADE_FAMILY_LIBRARY   /* steps of another library */
} clade_family;
CLADE_API const char *clade_family_name(clade_family family); /* "vec"; "?" for a number that is none */

/* Device classes as a mask. */
enum { CLADE_ON_CPU = 1 << CLADE_CPU, CLADE_ON_GPU = 1 << CLADE_GPU, CLADE_ON_ACCEL = 1 << CLADE_ACCEL };

/* Set .size. A struct of an older header, which ends earlier, is taken as if the rest were zero; .emit is the last
 * field that it must have. */
typedef struct clade_impl {
  size_t size;
  const char *name; /* "ref", "vec", "simt", …: records and .prefer go by it */
  /* NULL: taken; else the reason, a static text. Unset: takes all. */
  const char *(*accept)(const clade_query *q);
  /* The layouts that it takes operands in and gives outputs in, where it wants others than the node was built with:
   * dense ones, mostly. Both arrays are all dense before. accept and layouts see the node as it was built; cost,
   * workspace and emit see it in these layouts. What the graph has otherwise is packed or unpacked on the way. */
  void (*layouts)(const clade_query *q, clade_layout *in, clade_layout *out);
  double (*cost)(const clade_query *q);      /* estimated seconds; unset: 1e9, so that order decides */
  size_t (*workspace)(const clade_query *q); /* bytes of scratch memory; unset: none */
  clade_status (*emit)(clade_emit *e, const clade_query *q);
  const clade_space *space; /* what a tuner may vary; NULL: nothing */
  /* Each element of an output comes from the operands' elements at the same place (repeated where they broadcast), so
   * that it works in any layout that all share: an operand that is as long as the outputs along the blocked axis is
   * blocked as they are, others stay dense. Padding lanes may hold anything and become anything. `layouts` is unset. */
  bool any_layout;
  const char *file; /* the kernel file that its kernels are in; NULL: the op's */
  /* Its results may be further off than the op promises, within a bound of its own (docs/layouts.md, docs/porting.md):
   * not taken where clade_compile(.strict) asks for what ops promise. */
  bool loose;
  /* Whether it may use a matrix unit of the device for such a node: then the device is asked for them before `accept`
   * is. NULL: none. Layouts and shapes are not yet known, and there is no row. */
  bool (*units)(const clade_query *q);
  /* The kernel that it launches is one of an offline bundle, of this name: it is taken only where the device has a
   * bundle that holds it, and there nothing else is. Its steps launch this kernel alone, without parameters of the
   * compiler, and offsets have 32 bits. NULL: its kernels are compiled. */
  const char *bundled;
  clade_family family; /* 0: not told */
  /* What it needs of a device. It is looked at first: where something is missing, none of the functions is called. */
  unsigned devices;      /* mask of CLADE_ON_CPU, …: the classes of devices that it is made for; 0: any */
  bool needs_long_loops; /* not for devices that cut a work-item's loops short (clade_device_info.max_passes) */
  uint32_t needs_lanes;  /* floats of the device's vectors (vector_f32), at least */
  uint32_t needs_units;  /* mask of 1 << clade_unit: one of them, and that `units` holds for the node */
  uint64_t needs_local;  /* bytes of local memory, at least */
} clade_impl;

typedef enum clade_op_flag {
  CLADE_OP_VIEW = 1,   /* output 0 is input 0's bytes under another type: no step */
  CLADE_OP_EFFECT = 2, /* kept although nobody uses it, ordered by the token */
  CLADE_OP_STOP = 4,   /* derivatives end here: none flows to its operands */
} clade_op_flag;

/* What mixed precision (clade_compile(.precision), docs/mixed-precision.md) makes of a node's operands of f32. Its
 * results are of the types that infer then gives. */
typedef enum clade_autocast {
  CLADE_AUTOCAST_WIDE = 0, /* they are f32, as they were built */
  CLADE_AUTOCAST_NARROW,   /* they are cast to the narrow type: its cost is arithmetic */
  CLADE_AUTOCAST_CARRY     /* they come as they are: in the narrow type where all of them do, else in f32 */
} clade_autocast;

#ifndef __cplusplus
/* An element of an array of implementations: static const clade_impl *const impls[] = {CLADE_IMPL(.name = …), NULL}; */
#define CLADE_IMPL(...) (&(const clade_impl){.size = sizeof(clade_impl), __VA_ARGS__})
#endif

/* Set .size. As of clade_impl, an older struct may end behind .impls. */
struct clade_op {
  size_t size;
  const char *name; /* also the stem of its kernel file; a user's must hold a dot: "acme.swirl" */
  unsigned flags;
  int min_in, max_in, n_out; /* n_out: see .outputs */
  uint32_t attr_bytes;
  /* How many of its inputs, from the first, decide how fast a node is (an epilogue's do not), for tuning records. 0:
   * all. */
  int problem_in;
  const clade_attr *attrs;              /* ends in a NULL name; NULL: none */
  clade_status (*infer)(clade_node *n); /* clade_fail() names argument and value */
  clade_status (*grad)(clade_grad *g);  /* NULL: not differentiable; adds nodes */
  /* The inputs whose memory output `out` may take over, as a mask; NULL: none. It is: whoever writes an element there
   * has read what it needs of the old one, and nobody else reads that, also where other outputs take over other inputs.
   * The plan gives no input to two outputs. */
  uint64_t (*in_place)(const clade_node *n, int out);
  /* Ends in NULL; at most CLADE_MAX_IMPLS. The cheapest that accepts wins; order breaks ties; ref comes last. */
  const clade_impl *const *impls;
  const char *source; /* a user's kernel source in OpenCL C 1.2; NULL: cl_kernels/<name>.cl */
  const char *file;   /* the kernel file that it shares, instead of <name>.cl; NULL: its own */
  /* For an op whose nodes have different numbers of outputs: how many a node has, by what clade_node_add was given
   * (attrs may be NULL, n_in out of range), shapes aside. NULL: n_out, which is ignored otherwise. */
  int (*outputs)(const void *attrs, int n_in);
  /* Which channels of operands and results go together, for pruning. NULL: none of them can go. */
  void (*ties)(clade_ties *t, const clade_node *n);
  clade_autocast autocast;
  uint64_t carries; /* the operands that .autocast is about, as a mask, the others stay f32; 0: all */
  /* The dimensions that a node's work runs over. NULL: none of them can be split. */
  void (*dims)(clade_dims *d, const clade_node *n);
};

/* Adds a node. `op` and everything it points to must outlive the graph's funcs. outs has room for the node's outputs.
 * The first one is returned too. `name` may be NULL. */
CLADE_API clade_val clade_node_add(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                                   const clade_val *in, clade_val *outs);

/* ---- emitting steps ---- */
/* A launch of `kernel`, a function of the op's kernel file. The calls below describe it in any order, but arguments
 * come in the kernel's order. The first failure is kept and returned by the emit as a whole. */
CLADE_API clade_kernel_step *clade_emit_kernel(clade_emit *e, const char *kernel);
/* Compile-time parameters: #define NAME value. Each set of them is a program variant of its own: shapes are arguments.
 */
CLADE_API void clade_emit_define(clade_kernel_step *s, const char *name, int64_t value);
CLADE_API void clade_emit_define_text(clade_kernel_step *s, const char *name, const char *text);
/* ARG(type, name) of the kernel: a pointer and an offset in elements. */
CLADE_API void clade_emit_in(clade_kernel_step *s, int index);
CLADE_API void clade_emit_out(clade_kernel_step *s, int index);
CLADE_API void clade_emit_workspace(clade_kernel_step *s, size_t byte_offset, size_t element_bytes);
CLADE_API void clade_emit_i32(clade_kernel_step *s, int32_t value);
CLADE_API void clade_emit_u32(clade_kernel_step *s, uint32_t value);
CLADE_API void clade_emit_f32(clade_kernel_step *s, float value);
CLADE_API void clade_emit_index(clade_kernel_step *s, int64_t value);                /* index_t */
CLADE_API void clade_emit_index8(clade_kernel_step *s, int n, const int64_t *value); /* index8_t, rest zero */
CLADE_API void clade_emit_local(clade_kernel_step *s, size_t bytes);                 /* __local memory */
/* Global and local size; a zero in `global` drops the step. `local` must be what the kernel says by GROUP(x, y, z),
 * where it says it, and be fixed: it is part of the variant. Global sizes are rounded up to it. */
CLADE_API void clade_emit_range(clade_kernel_step *s, int dims, const size_t *global, const size_t *local);
/* Output `out` becomes a copy of input `in` (same bytes). */
CLADE_API void clade_emit_copy(clade_emit *e, int in, int out);
/* A step that another library enqueues (clade/opencl.h). Its operands follow, by clade_emit_in, _out and _workspace,
 * and nothing else does. `work` is copied; `routine` is what the step is called where steps are listed. */
typedef struct clade_library clade_library;
enum { CLADE_MAX_LIBRARY_OPERANDS = 16 };
CLADE_API clade_kernel_step *clade_emit_library(clade_emit *e, const char *routine, const clade_library *library,
                                                const void *work, size_t work_bytes);

/* ---- host steps ----
 * Work that the host does between kernels: it sends to another process, waits for a socket, looks at data. The inputs'
 * bytes are copied to the host, `begin` starts the work, `poll` asks for its end, and the outputs' bytes are copied to
 * the device before the first step that reads them. Kernels that need no output of the step run meanwhile. An op with
 * such an implementation should have the flag CLADE_OP_EFFECT where the order matters: steps of those ops begin in the
 * order of the graph, execution after execution, on all devices of the func together. */
typedef enum clade_host_state { CLADE_HOST_DONE = 1, CLADE_HOST_AGAIN } clade_host_state;

typedef struct clade_host_call {
  size_t size;
  const void *work;  /* the bytes that the emit gave */
  void *state;       /* of prepare */
  int n;             /* operands, in the order of the emit */
  void *const *data; /* their bytes on the host, until the step ends: inputs to be read, outputs to be written */
  const size_t *bytes;
  void (*wake)(void *waker); /* any thread may call it until the step ends: poll is then asked at once */
  void *waker;
} clade_host_call;

/* Must outlive the funcs. A failure is told by clade_fail(); it ends the execution. No function of these may wait, but
 * for prepare; they are called by one thread at a time for each run, and may not call the run. */
typedef struct clade_host {
  size_t size;
  /* When the func is compiled: whatever is to be connected or allocated. NULL: nothing. */
  clade_status (*prepare)(const void *work, clade_device *device, void **state);
  /* Starts the work. `call` and its arrays live until the step ends. *pending is handed to the functions below. */
  clade_status (*begin)(const clade_host_call *call, void **pending);
  /* Whether it has ended. After DONE, or a failure, the step has ended. NULL: begin did all of it. */
  clade_status (*poll)(void *pending, clade_host_state *state);
  /* Ends a step that has begun and not ended: its execution failed, or clade_cancel was called. The data may not be
   * touched afterwards. NULL: nothing is to be done. */
  void (*cancel)(void *pending);
  void (*release)(void *state); /* with the func; NULL: nothing */
  /* Microseconds from one poll to the next where nobody wakes; unset: 100. */
  int poll_us;
  /* Told after each step: the seconds in which the device had nothing to do but to wait for it. NULL: nobody asks. */
  void (*waited)(void *state, double seconds);
} clade_host;

/* A step of the host. Its operands follow, by clade_emit_in and clade_emit_out, and nothing else does. `work` is
 * copied; `routine` is the name under which steps are listed. */
enum { CLADE_MAX_HOST_OPERANDS = CLADE_MAX_OPERANDS };
CLADE_API clade_kernel_step *clade_emit_host(clade_emit *e, const char *routine, const clade_host *host,
                                             const void *work, size_t work_bytes);

CLADE_END_DECLS
#endif
