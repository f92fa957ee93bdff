/* Registry of the built-in ops and what they share: rows of elementwise functions, generated OpenCL expressions, and
 * the steps that implementations emit. */
#ifndef CLADE_OP_INTERNAL_H
#define CLADE_OP_INTERNAL_H

#include "ir/ir.h"
#include "program/request.h"

#define CLADE_OP(NAME, name) extern const clade_op clade__op_##name;
#include "op/ops.def"
#undef CLADE_OP

/* One entry per row of ops.def, in that order, ended by NULL. */
extern const clade_op *const clade__ops[];
const clade_op *clade__op_find(const char *name); /* NULL if there is no such op */
/* Floating-point operations of a convolution or a matrix product (a multiply-add counts two); 0 for other ops. */
double clade__node_flops(const clade_node *n);

/* ---- eltwise.def as a table ---- */
typedef enum clade__elt_kind {
  CLADE__ELT_FLOAT,   /* floats to the same type */
  CLADE__ELT_NUMBER,  /* any numbers to the same type */
  CLADE__ELT_COMPARE, /* two numbers of one type to bool */
  CLADE__ELT_TEST,    /* two values of one type to bool */
  CLADE__ELT_LOGIC,   /* bools to bool */
  CLADE__ELT_INTEGER, /* integers to the same type */
  CLADE__ELT_SELECT,  /* bool, T, T to T */
  CLADE__ELT_CAST     /* anything to the instruction's dtype */
} clade__elt_kind;
typedef struct clade__elt_row {
  uint16_t number;
  const char *name;
  int arity, n_params;
  clade__elt_kind kind;
  const char *expression, *integer; /* OpenCL C of a, b, c, p, q, for floats and for integers; NULL: type unsupported */
  const char *derivative[3];        /* by a, b and c; NULL: the gradient is zero */
  float param[CLADE__ELT_PARAMS];
  double low, high;  /* the domain in which the function is defined and tested */
  double ulp, floor; /* tolerance: ulp * 2^-23 * max(|result|, floor) */
  int cost;          /* estimated cost per element, in multiply-adds */
} clade__elt_row;
extern const clade__elt_row clade__elt_rows[]; /* ends with a row whose name is NULL */
const clade__elt_row *clade__elt_by_name(const char *name);
const clade__elt_row *clade__elt_by_number(unsigned number);

/* Checks a program's rows, operands and element types. The error message names the function and the operand. */
clade_status clade__elt_check(const clade__elt *program);
/* Result type of a function for operand types `in`, or an error. `want` is the target type of a cast. */
clade_status clade__elt_result(const clade__elt_row *row, const clade_dtype *in, clade_dtype want, clade_dtype *out);
/* Generates OpenCL C statements, on one line, for an elementwise program. The operands are the variables i0, i1, … in
 * their compute type (float, int or long); the result is `r`, in the compute type of its dtype. Intermediate values of
 * f16 and bf16 stay in float, and only a cast rounds them. Intermediate integers wrap around. */
clade_status clade__elt_source(const clade__elt *program, clade__text *out);
/* The same for sixteen elements at once, as float16 vectors. Valid only where clade__elt_wide holds, which means that
 * operands and result are floats; comparisons and selects may occur in between. */
clade_status clade__elt_source16(const clade__elt *program, clade__text *out);
bool clade__elt_wide(const clade__elt *program);
/* For a program that may also take i32 and bytes, which it casts to floats, and may end with a cast to bytes: integers
 * are int16 then. */
bool clade__elt_wide_whole(const clade__elt *program);
bool clade__elt_has_blocks(const clade__elt *program); /* a cast from or to a type with block scales (q4_0, q8_0) */
/* Result type of the program. */
clade_dtype clade__elt_dtype(const clade__elt *program);
/* Evaluates a program in double, without rounding to float; for test references and constant folding. Integers are
 * exact up to a magnitude of 2^53. */
double clade__elt_eval(const clade__elt *program, const double *in);

/* Attributes of the op eltwise, and the builder behind all elementwise functions. */
typedef struct clade__eltwise_attrs {
  clade__elt program;
} clade__eltwise_attrs;
clade_val clade__eltwise_program(clade_graph *g, const char *name, const clade__elt *program, const clade_val *in);
bool clade__is_cast(const clade__node *n); /* true if the node is one cast and nothing else */
/* Casts x to f32, by a node even if x is f32, so that autocast keeps what follows in f32. */
clade_val clade__wide(clade_graph *g, clade_val x);

/* Shape of two operands broadcast by NumPy's rules; `what` names the op in error messages. */
clade_status clade__broadcast_shape(const char *what, const clade_shape *a, const clade_shape *b, clade_shape *out);
/* Sums `dy` down to the given shape: the gradient of a broadcast. */
clade_val clade__sum_to(clade_graph *g, clade_val dy, const clade_shape *shape);

/* Attributes of gemm. Operands 2… of the node are inputs 1… of the epilogue, broadcast against the result. If
 * shape[i].rank is not 0, operand i is a strided view (pass/views.c): it has this shape, and element strides and an
 * offset into a dense buffer. The last axis must be contiguous. */
typedef struct clade__gemm_attrs {
  bool trans_a, trans_b;
  float alpha;
  clade__elt epilogue;
  clade_shape shape[2];
  int64_t stride[2][CLADE_MAX_RANK], offset[2];
} clade__gemm_attrs;
static inline const clade_shape *clade__gemm_shape(const clade_node *n, int operand) {
  const clade__gemm_attrs *at = n->attrs;
  return at->shape[operand].rank ? &at->shape[operand] : &n->in[operand].shape;
}

/* ---- what implementations need of a device (impl.c) ---- */
/* NULL, or which of the implementation's declared needs the device does not meet. If it is not NULL, no function of the
 * implementation may be called. */
const char *clade__impl_lacks(const clade_impl *impl, const clade_query *q);
/* True if the kernels are compiled from source and the device belongs to one of the declared classes. */
bool clade__impl_made_for(const clade_impl *impl, const clade_device_info *device);
/* As clade__impl_lacks, followed by the implementation's own `accept`. */
const char *clade__impl_unfit(const clade_impl *impl, const clade_query *q);
/* For tests: this implementation is accepted on every device class. Its other requirements still hold. */
extern const clade_impl *clade__impl_anywhere;
/* Kernels for CPUs: few work-items, each with a long vectorized loop. */
#define CLADE__VEC      .family = CLADE_FAMILY_VEC, .devices = CLADE_ON_CPU
#define CLADE__LONG_VEC CLADE__VEC, .needs_long_loops = true

/* ---- keys of tuning records (problem.c) ---- */
/* Describes a node by what affects its speed, with sizes rounded to buckets. If `exact`, by everything that affects the
 * choice of an implementation. */
void clade__problem_text(const clade_node *n, bool exact, clade__text *out);
int64_t clade__bucket(int64_t size);
/* Stem of an implementation's kernel file, and the kernel text if it is not one of the built-in files. A bundled kernel
 * has an empty text. */
const char *clade__kernel_file(const clade_op *op, const clade_impl *impl);
const char *clade__kernel_source_of(const clade_op *op, const clade_impl *impl);
/* Hash over the kernels that an implementation may emit. Fails if the op has no kernel source. */
clade_status clade__impl_hash(const clade_op *op, const clade_impl *impl, const clade_device_info *device,
                              clade__hash *out);
/* True if a tuner has alternatives to compare among the implementations for the device's class (any class if NULL).
 * Choices are stored for such ops only, so an implementation added for another class leaves stored choices valid. */
bool clade__tunable(const clade_op *op, const clade_device_info *device);

/* ---- steps, described as data ---- */
typedef enum clade__arg_kind {
  CLADE__ARG_IN,
  CLADE__ARG_OUT,
  CLADE__ARG_WORKSPACE,
  CLADE__ARG_BYTES,
  CLADE__ARG_LOCAL
} clade__arg_kind;

/* A kernel argument. IN, OUT and WORKSPACE stand for two OpenCL arguments: the buffer and an offset in elements
 * (index_t). */
typedef struct clade__arg {
  clade__arg_kind kind;
  int operand;      /* IN, OUT: index of the node's operand or result */
  size_t at;        /* IN, WORKSPACE: offset in bytes; LOCAL: size in bytes */
  uint32_t element; /* size of an element in bytes, to convert offsets */
  uint32_t bytes;   /* BYTES: size of the value */
  char type;        /* BYTES: type of the kernel's parameter: i int, u uint, f float, 8 int8, 0 another */
  unsigned char value[64];
} clade__arg;

typedef enum clade__step_kind {
  CLADE__STEP_KERNEL,
  CLADE__STEP_COPY,
  CLADE__STEP_LIBRARY,
  CLADE__STEP_HOST
} clade__step_kind;

struct clade_kernel_step {
  clade__step_kind kind;
  clade_emit *emit;
  const char *kernel; /* kernel, or routine of a LIBRARY or HOST step; allocated in the emit's arena */
  const char *file;   /* kernel file; NULL: the implementation's own */
  clade__define *defines;
  size_t n_defines, define_capacity;
  clade__arg *args;
  size_t n_args, arg_capacity;
  int dims;
  size_t global[3], local[3];   /* global sizes are rounded up to multiples of local ones */
  bool dropped;                 /* a global size is 0, so nothing is launched */
  int in, out;                  /* COPY: operand and result */
  const clade_library *library; /* LIBRARY */
  const clade_host *host;       /* HOST */
  const void *work;             /* LIBRARY and HOST: private data */
  struct clade_kernel_step *next;
};

struct clade_emit {
  clade__arena *arena; /* the caller's arena, which holds the steps */
  const clade_query *query;
  bool wide; /* index_t has 64 bits, because an operand has about 2^31 elements or more */
  clade_kernel_step *first, *last;
  clade_status status;
};

/* Starts describing the steps of a query's node. INDEX64 is defined for each kernel step. */
void clade__emit_begin(clade_emit *emit, clade__arena *arena, const clade_query *query);
extern bool clade__always_wide; /* for tests: use 64-bit indices for small operands too */
/* As clade_emit_in, with an offset in elements. */
void clade__emit_in_at(clade_kernel_step *s, int index, int64_t element);
/* Operands of any type. For types with shared block scales, STORAGE(T) is a byte of a block and LOAD finds the element.
 */
void clade__emit_in_blocks(clade_kernel_step *s, int index);
void clade__emit_out_blocks(clade_kernel_step *s, int index);
/* A by-value argument of at most 64 bytes. */
void clade__emit_bytes(clade_kernel_step *s, const void *value, size_t bytes);
/* Called after the implementation's emit: returns its first error, or an error if a step is incomplete. */
clade_status clade__emit_end(clade_emit *emit);

#endif
