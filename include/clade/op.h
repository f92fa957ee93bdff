/* Ops: the interface between the library and an op, the same for Clade's ops and for those of a program. An op sees a
 * node as types and attributes. The op declares the types of the results (infer), the derivative (grad) and the
 * implementations. Implementations emit steps, which are data; they never call OpenCL. docs/adding-an-op.md builds an
 * op from scratch. */
#ifndef CLADE_OP_H
#define CLADE_OP_H

#include <clade/device.h>

CLADE_BEGIN_DECLS

/* ---- values and nodes ---- */
/* A graph (<clade/graph.h>), and an op (below). */
typedef struct clade_graph clade_graph;
typedef struct clade_op clade_op;

/* A value of a graph. All zero is the invalid value: "none", and the result of a failed builder. */
typedef struct clade_val {
  uint32_t graph, id; /* the graph, and the value within it */
} clade_val;

enum { CLADE_MAX_OPERANDS = 64 }; /* most inputs, and most outputs, of a node */

/* A node as its op sees it. Dimensions may be symbols in infer; elsewhere they are sizes. */
typedef struct clade_node {
  size_t size;
  const clade_op *op;   /* the node's op */
  const char *name;     /* the node's name; may be NULL */
  const void *attrs;    /* the op's attribute struct, of attr_bytes bytes */
  int n_in, n_out;      /* number of inputs and outputs */
  const clade_type *in; /* types of the inputs */
  clade_type *out;      /* types of the outputs, written by infer */
} clade_node;

/* ---- attributes ---- */
/* The type of an attribute. */
typedef enum clade_attr_kind {
  CLADE_ATTR_BOOL = 1, /* bool */
  CLADE_ATTR_I32,      /* int32_t */
  CLADE_ATTR_I64,      /* int64_t */
  CLADE_ATTR_F32,      /* float */
  CLADE_ATTR_DTYPE,    /* clade_dtype */
  CLADE_ATTR_SHAPE,    /* clade_shape */
  CLADE_ATTR_BYTES     /* `count` bytes that are not interpreted */
} clade_attr_kind;
/* One attribute of an op. Attributes are a plain struct, copied bytewise, zero where unset. A table of these rows
 * describes the struct for printing, hashing and files. The layout of a row never changes. */
typedef struct clade_attr {
  const char *name;       /* name; NULL ends the table */
  clade_attr_kind kind;   /* type */
  uint32_t offset, count; /* offset in the struct; number of elements, above 1 for an array */
} clade_attr;

/* ---- derivatives ---- */
/* The arguments of an op's grad, which adds nodes that compute the gradients of the inputs. */
typedef struct clade_grad {
  size_t size;
  clade_graph *graph;        /* where nodes are added */
  const clade_node *node;    /* the node to differentiate */
  const clade_val *in, *out; /* its inputs and outputs */
  const clade_val *dout;     /* gradients of the outputs; invalid if there is none */
  clade_val *din;            /* gradients of the inputs, to be filled; invalid if there is none */
  const bool *wanted;        /* which of din are needed */
} clade_grad;

/* ---- channels for pruning ----
 * An op's `ties` declares which positions along axes belong to the same channel, and therefore stay or are removed
 * together (docs/pruning.md). Operands are numbered from 0, followed by the results. Shapes are sizes. */
typedef struct clade_ties clade_ties; /* the declarations of all nodes */

/* Ties `n` positions of one axis, from `at` on, to as many of another. */
CLADE_API void clade_tie(clade_ties *t, int a, int axis_a, int64_t at_a, int b, int axis_b, int64_t at_b, int64_t n);
CLADE_API void clade_tie_axes(clade_ties *t, int a, int axis_a, int b, int axis_b); /* ties two axes of equal size */
CLADE_API void clade_keep_axis(clade_ties *t, int a, int axis);                     /* no position may be removed */
CLADE_API bool clade_axis_kept(const clade_ties *t, int a, int axis);               /* kept by a node so far */

/* ---- dimensions of the work, for computing parts ----
 * An op's `dims` declares the dimensions that the work runs over, each with the axes of operands and results along it,
 * like the indices of Einstein notation (docs/parallel.md). Operands are numbered from 0, followed by the results.
 * Shapes are sizes. An operand that does not lie along the dimension that is split is needed whole. */
typedef struct clade_dims clade_dims; /* the dimensions of a node */

/* The contribution of one part of a dimension. */
typedef enum clade_dim_kind {
  CLADE_DIM_EACH = 1, /* the same part of the results; results off the dimension do not depend on it */
  CLADE_DIM_SUM,      /* a partial sum of the results that do not lie along the dimension */
  CLADE_DIM_MEAN      /* a partial mean of floats, weighted by the length of the part */
} clade_dim_kind;
CLADE_API int clade_dims_add(clade_dims *d, clade_dim_kind kind); /* adds a dimension; returns its number */
/* An axis of operand or result `a` lies along the dimension, in blocks of `block` positions each. The number of blocks
 * is the size of the dimension and the same for all axes along it. At most one axis of each operand and result. */
CLADE_API void clade_dims_along(clade_dims *d, int dim, int a, int axis, int64_t block);
/* The operand (i32) holds indices along the dimension. In a part they are shifted by the beginning of the part, so that
 * indices of other parts are out of range. */
CLADE_API void clade_dims_numbers(clade_dims *d, int dim, int operand);
/* The operand is added once to the only result of a sum, by broadcasting: parts get zeros instead of it. */
CLADE_API void clade_dims_once(clade_dims *d, int dim, int operand);
/* In a part that begins at block B and is N blocks long, the attribute at `offset` (i32, i64, or a dimension of a
 * shape) becomes base + by_begin B + by_length N. */
CLADE_API void clade_dims_attr(clade_dims *d, int dim, size_t offset, int64_t base, int64_t by_begin,
                               int64_t by_length);

/* ---- implementations ---- */
/* The arguments of the functions of an implementation. */
typedef struct clade_query {
  size_t size;
  const clade_node *node;          /* the node to compute */
  const clade_device_info *device; /* the device that computes the node */
  /* The configuration: a value for each parameter of the implementation's space. NULL without a space. */
  const int32_t *config;
} clade_query;

typedef struct clade_emit clade_emit;               /* the list of steps that an implementation adds to */
typedef struct clade_kernel_step clade_kernel_step; /* a step being described; owned by clade_emit */

enum { CLADE_MAX_PARAMS = 16, CLADE_MAX_IMPLS = 64 }; /* most parameters of a space; most implementations of an op */
enum { CLADE_MAX_ALTERNATIVES = 4 };                  /* most alternatives in layouts */
/* The tunable parameters of an implementation: named integers. A configuration holds a value for each. The
 * configuration is chosen with the implementation, from a measured record (docs/tuning.md) or else by `defaults`. All
 * functions of the implementation then receive the same one in their query. */
typedef struct clade_space {
  size_t size;               /* sizeof(clade_space); an older struct may end behind .defaults */
  const char *const *params; /* names, ending in NULL, at most CLADE_MAX_PARAMS; records refer to them */
  /* Fills in the default configuration, from the device's properties and the sizes of the problem, within microseconds.
   * Called before accept, so also for nodes that accept refuses, but only on devices that the implementation is made
   * for. Parameters that affect summation order must not depend on `compute_units`: a part of a CPU computes the bits
   * of the whole one. */
  void (*defaults)(const clade_query *q, int32_t *config);
  /* Fills in candidate number `i` for tuning, the most promising first; false behind the last one. Candidates that
   * accept refuses, and repeated ones, are skipped. A record is valid only while its configuration is a candidate or
   * the default. NULL: the default is the only candidate. */
  bool (*configs)(const clade_query *q, int i, int32_t *config);
} clade_space;

/* The family of an implementation: what its kernels are written for. Tests and people select by family; the choice of
 * implementations does not. */
typedef enum clade_family {
  CLADE_FAMILY_REF = 1,  /* every OpenCL 1.2 device */
  CLADE_FAMILY_VEC,      /* few long work-items with vector types: CPUs */
  CLADE_FAMILY_GROUP,    /* work-groups that share local memory: GPUs */
  CLADE_FAMILY_MMA,      /* matrix units */
  CLADE_FAMILY_SYSTOLIC, /* kernels of an offline bundle: FPGAs */
  CLADE_FAMILY_LIBRARY   /* another library */
} clade_family;
CLADE_API const char *clade_family_name(clade_family family); /* "vec"; "?" for an unknown number */

/* Device classes as bits of a mask. */
enum { CLADE_ON_CPU = 1 << CLADE_CPU, CLADE_ON_GPU = 1 << CLADE_GPU, CLADE_ON_ACCEL = 1 << CLADE_ACCEL };

/* An implementation: one way to compute an op. Only `name` and `emit` are mandatory. The caller sets .size; a shorter
 * struct of an older header is read as if the rest were zero, and must reach .emit. */
typedef struct clade_impl {
  size_t size;
  const char *name; /* "ref", "vec", "simt", …; records and .prefer refer to the name */
  /* Accepts the node (NULL) or refuses it with a reason, a static text. NULL: every node is accepted. */
  const char *(*accept)(const clade_query *q);
  /* Changes the layouts of inputs and outputs from dense, as both arrays are initially. accept and layouts see the node
   * with the layouts that it was built with; cost, workspace and emit see it with these. Values in other layouts are
   * reordered. */
  void (*layouts)(const clade_query *q, clade_layout *in, clade_layout *out);
  double (*cost)(const clade_query *q);      /* estimated seconds; NULL: 1e9, so that the order of the list decides */
  size_t (*workspace)(const clade_query *q); /* bytes of scratch memory; NULL: none */
  clade_status (*emit)(clade_emit *e, const clade_query *q); /* adds the steps that compute the node */
  const clade_space *space;                                  /* tunable parameters; NULL: none */
  /* Works in any layout that all operands share. Allowed if each element of an output depends only on the operands'
   * elements at the same position, after broadcasting. An operand of full length along the blocked axis is blocked as
   * the outputs are, others are dense. Padding elements may hold, and get, any value. `layouts` is NULL. */
  bool any_layout;
  const char *file; /* the kernel file; NULL: the op's */
  /* Results may differ by more than the op promises, within a bound of their own (docs/layouts.md, docs/porting.md).
   * Not chosen under clade_compile(.strict). */
  bool loose;
  /* Whether the node may use a matrix unit, whose state is then determined before accept is called. Layouts and shapes
   * are not known yet, and there is no configuration. NULL: no unit is used. */
  bool (*units)(const clade_query *q);
  /* Name of the kernel of an offline bundle that the steps launch. Chosen only on devices whose bundle has the kernel,
   * and there no others are. The steps launch this kernel only, without compile-time parameters; offsets have 32 bits.
   * NULL: kernels are compiled. */
  const char *bundled;
  clade_family family; /* what the kernels are written for; 0: not stated */
  /* Requirements on the device. They are checked first: if one is not met, no function is called. */
  unsigned devices;      /* device classes, a mask of CLADE_ON_CPU, …; 0: all */
  bool needs_long_loops; /* no limit of loop iterations (clade_device_info.max_passes) */
  uint32_t needs_lanes;  /* least floats per vector (clade_device_info.vector_f32) */
  uint32_t needs_units;  /* a mask of 1 << clade_unit: the device has one of them, and `units` holds */
  uint64_t needs_local;  /* least bytes of local memory */
  /* Number of alternatives in layouts, up to CLADE_MAX_ALTERNATIVES; 0: one. If there are several, the first parameter
   * of the space is called "layouts" and numbers them from 0: its `defaults` finds the number in config[0], its
   * `configs` lists all, and accept and layouts go by it. Each alternative takes part in the choice of implementations
   * and layouts, with a configuration and tuning records of its own. */
  size_t alternatives;
} clade_impl;

/* ---- ops ---- */
/* Properties of an op, as bits of a mask. */
typedef enum clade_op_flag {
  CLADE_OP_VIEW = 1,   /* output 0 is the memory of input 0 with another type: there is no step */
  CLADE_OP_EFFECT = 2, /* nodes are kept even if unused, in the order of a token that they pass on */
  CLADE_OP_STOP = 4,   /* no gradient flows to the inputs */
} clade_op_flag;

/* Treatment of a node's f32 inputs by mixed precision (clade_compile(.precision), docs/mixed-precision.md). infer gives
 * the types of the results. */
typedef enum clade_autocast {
  CLADE_AUTOCAST_WIDE = 0, /* stay f32 */
  CLADE_AUTOCAST_NARROW,   /* are cast to the narrow type: for ops whose cost is arithmetic */
  CLADE_AUTOCAST_CARRY     /* keep the narrow type if all of them have it; otherwise f32 */
} clade_autocast;

#ifndef __cplusplus
/* An element of an array of implementations: static const clade_impl *const impls[] = {CLADE_IMPL(.name = …), NULL}; */
#define CLADE_IMPL(...) (&(const clade_impl){.size = sizeof(clade_impl), __VA_ARGS__})
#endif

/* An op. The caller sets .size; a shorter struct of an older header must reach .impls. */
struct clade_op {
  size_t size;
  const char *name;          /* also the stem of the kernel file; a program's own ops have a dot: "acme.swirl" */
  unsigned flags;            /* mask of clade_op_flag */
  int min_in, max_in, n_out; /* least and most inputs; number of outputs, unless `outputs` is set */
  uint32_t attr_bytes;       /* size of the attribute struct */
  /* Number of inputs, from the first, that affect the speed of a node; epilogue operands do not. Tuning records depend
   * on these only. 0: all. */
  int problem_in;
  const clade_attr *attrs;              /* table of attributes, ending in a NULL name; NULL: none */
  clade_status (*infer)(clade_node *n); /* sets the types of the outputs; errors name the argument and its value */
  clade_status (*grad)(clade_grad *g);  /* adds the nodes of the derivative; NULL: not differentiable */
  /* The inputs whose memory output `out` may reuse, as a mask. Allowed if every work-item that needs an element reads
   * it before it is overwritten, also while other outputs reuse other inputs. No input is given to two outputs. NULL:
   * none. */
  uint64_t (*in_place)(const clade_node *n, int out);
  /* The implementations, ending in NULL, at most CLADE_MAX_IMPLS. The cheapest that accepts is chosen, in doubt the
   * first. "ref" comes last. */
  const clade_impl *const *impls;
  const char *source; /* kernel source in OpenCL C 1.2, for a program's own op; NULL: cl_kernels/<name>.cl */
  const char *file;   /* a shared kernel file instead of <name>.cl; NULL: its own */
  /* The number of outputs, for ops whose nodes differ, from the arguments of clade_node_add without the shapes. attrs
   * may be NULL, and n_in out of range. NULL: n_out. */
  int (*outputs)(const void *attrs, int n_in);
  /* Declares which channels belong together, for pruning. NULL: no channel can be removed. */
  void (*ties)(clade_ties *t, const clade_node *n);
  clade_autocast autocast; /* treatment by mixed precision */
  uint64_t carries;        /* the inputs that .autocast applies to, as a mask; others stay f32; 0: all */
  /* Declares the dimensions of the work, for tensor parallelism. NULL: no dimension can be split. */
  void (*dims)(clade_dims *d, const clade_node *n);
};

/* Adds a node, and returns its first output. `outs` has room for all outputs. `name` may be NULL. `op` and everything
 * that it points to must outlive the funcs of the graph. */
CLADE_API clade_val clade_node_add(clade_graph *g, const clade_op *op, const char *name, const void *attrs, int n_in,
                                   const clade_val *in, clade_val *outs);

/* ---- emitting kernels ---- */
/* Adds a launch of `kernel`, a function in the op's kernel file. The calls below describe the launch, arguments in the
 * kernel's order. The first failure is kept, and the emit as a whole returns it. */
CLADE_API clade_kernel_step *clade_emit_kernel(clade_emit *e, const char *kernel);
/* Defines a compile-time parameter: #define NAME value. Each set of parameters is a separate program, so shapes are
 * passed as arguments instead. */
CLADE_API void clade_emit_define(clade_kernel_step *s, const char *name, int64_t value);
CLADE_API void clade_emit_define_text(clade_kernel_step *s, const char *name, const char *text);
/* Passes an input, an output or the workspace: ARG(type, name) in the kernel, a pointer and an offset in elements. */
CLADE_API void clade_emit_in(clade_kernel_step *s, int index);
CLADE_API void clade_emit_out(clade_kernel_step *s, int index);
CLADE_API void clade_emit_workspace(clade_kernel_step *s, size_t byte_offset, size_t element_bytes);
/* Passes a number: int, uint, float, index_t, or index8_t whose elements from n on are zero. */
CLADE_API void clade_emit_i32(clade_kernel_step *s, int32_t value);
CLADE_API void clade_emit_u32(clade_kernel_step *s, uint32_t value);
CLADE_API void clade_emit_f32(clade_kernel_step *s, float value);
CLADE_API void clade_emit_index(clade_kernel_step *s, int64_t value);
CLADE_API void clade_emit_index8(clade_kernel_step *s, int n, const int64_t *value);
CLADE_API void clade_emit_local(clade_kernel_step *s, size_t bytes); /* passes __local memory */
/* Sets the global and the local size. A zero in `global` drops the step. Global sizes are rounded up to multiples of
 * `local`, which is part of the program and must be fixed, and equal to the kernel's GROUP(x, y, z) if it has one. */
CLADE_API void clade_emit_range(clade_kernel_step *s, int dims, const size_t *global, const size_t *local);
/* Adds a copy of input `in` to output `out`, of the same size. */
CLADE_API void clade_emit_copy(clade_emit *e, int in, int out);

/* ---- emitting library calls ---- */
/* A library that enqueues work on OpenCL queues (<clade/opencl.h>). */
typedef struct clade_library clade_library;
enum { CLADE_MAX_LIBRARY_OPERANDS = 16 }; /* most operands of a library step */
/* Adds a call of a library. Only clade_emit_in, clade_emit_out and clade_emit_workspace may follow, and name the
 * operands. `work` is copied. `routine` is the name of the step in listings. */
CLADE_API clade_kernel_step *clade_emit_library(clade_emit *e, const char *routine, const clade_library *library,
                                                const void *work, size_t work_bytes);

/* ---- emitting host steps ----
 * A host step is work that the host does between kernels, such as sending to another process or inspecting data. The
 * inputs are copied to the host, `begin` starts the work, `poll` asks for its end, and the outputs are copied to the
 * device before the first step that reads them. Kernels that do not need the outputs run in the meantime.
 *
 * Ops for whose host steps the order matters set CLADE_OP_EFFECT: their steps begin in the order of the graph,
 * execution after execution, over all devices of the func. */

/* The state of a host step. */
typedef enum clade_host_state {
  CLADE_HOST_DONE = 1, /* the step has ended */
  CLADE_HOST_AGAIN     /* the step goes on: poll again */
} clade_host_state;

/* The arguments of a host step. */
typedef struct clade_host_call {
  size_t size;
  const void *work;          /* the bytes given to clade_emit_host */
  void *state;               /* from prepare */
  int n;                     /* number of operands, in the order of the emit */
  void *const *data;         /* their bytes on the host, inputs to read and outputs to write, until the step ends */
  const size_t *bytes;       /* their sizes */
  void (*wake)(void *waker); /* makes the library poll at once; any thread may call it until the step ends */
  void *waker;               /* argument of wake */
} clade_host_call;

/* The functions of a host step. The struct must outlive the funcs. A failure, with its message set by clade_fail, ends
 * the execution. Except for prepare, the functions must not wait. They are called by one thread at a time per run, and
 * must not call the run. */
typedef struct clade_host {
  size_t size;
  /* Connects or allocates when a func is compiled. NULL: nothing to prepare. */
  clade_status (*prepare)(const void *work, clade_device *device, void **state);
  /* Starts the work. `call` and its arrays live until the step ends. *pending is passed to poll and cancel. */
  clade_status (*begin)(const clade_host_call *call, void **pending);
  /* Reports whether the step has ended, which a failure does too. NULL: begin does all the work. */
  clade_status (*poll)(void *pending, clade_host_state *state);
  /* Ends a step under way, because its execution failed or clade_cancel was called. The data must not be accessed
   * afterwards. NULL: nothing to do. */
  void (*cancel)(void *pending);
  void (*release)(void *state); /* frees the state with the func; NULL: nothing to free */
  int poll_us;                  /* microseconds between polls; 0: 100 */
  /* Reports after each step the seconds in which the device was idle because of it. NULL: not reported. */
  void (*waited)(void *state, double seconds);
} clade_host;

enum { CLADE_MAX_HOST_OPERANDS = CLADE_MAX_OPERANDS }; /* most operands of a host step */
/* Adds a host step. Only clade_emit_in and clade_emit_out may follow, and name the operands. `work` is copied.
 * `routine` is the name of the step in listings. */
CLADE_API clade_kernel_step *clade_emit_host(clade_emit *e, const char *routine, const clade_host *host,
                                             const void *work, size_t work_bytes);

CLADE_END_DECLS
#endif
