/* The registry of Clade's ops and what they share: elementwise rows, generated expressions, emitted steps. */
#ifndef CLADE_OP_INTERNAL_H
#define CLADE_OP_INTERNAL_H

#include "ir/ir.h"
#include "program/request.h"

#define CLADE_OP(NAME, name) extern const clade_op clade__op_##name;
#include "op/ops.def"
#undef CLADE_OP

/* All rows of ops.def, in order; ends in NULL. */
extern const clade_op *const clade__ops[];
const clade_op *clade__op_find(const char *name); /* NULL: none */
/* The multiplications and additions of a convolution or a matrix product; 0 of others. */
double clade__node_flops(const clade_node *n);

/* ---- eltwise.def as a table ---- */
typedef enum clade__elt_kind {
  CLADE__ELT_FLOAT,   /* floats to the same type */
  CLADE__ELT_NUMBER,  /* any numbers to the same type */
  CLADE__ELT_COMPARE, /* two numbers of one type to bool */
  CLADE__ELT_TEST,    /* a float to bool */
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
  const char *expression, *integer; /* OpenCL C in a, b, c, p, q, for floats and for integers; NULL: no such type */
  const char *derivative[3];        /* by a, b, c; NULL: none (a zero gradient) */
  float param[CLADE__ELT_PARAMS];
  double low, high;  /* where it is defined and tested */
  double ulp, floor; /* a device may be off by ulp * 2^-23 * max(|result|, floor) */
  int cost;          /* of an element in multiply-adds, roughly */
} clade__elt_row;
extern const clade__elt_row clade__elt_rows[]; /* ends in a NULL name */
const clade__elt_row *clade__elt_by_name(const char *name);
const clade__elt_row *clade__elt_by_number(unsigned number);

/* That rows, operands and element types fit each other; the refusal names function and operand. */
clade_status clade__elt_check(const clade__elt *program);
/* The dtype that a row gives for operands of these, or a refusal. `want` is a cast's. */
clade_status clade__elt_result(const clade__elt_row *row, const clade_dtype *in, clade_dtype want, clade_dtype *out);
/* The OpenCL C statements, on one line, that compute a program: inputs are variables i0, i1, … already in compute type
 * (float, int, long); the result is in `r`, in the compute type of its dtype. Intermediate halves stay floats, but a
 * cast to a half rounds; intermediate integers wrap. */
clade_status clade__elt_source(const clade__elt *program, clade__text *out);
/* The same for sixteen elements at once, as float16, of a program for which clade__elt_wide holds: of floats alone,
 * besides what is tested in between. */
clade_status clade__elt_source16(const clade__elt *program, clade__text *out);
bool clade__elt_wide(const clade__elt *program);
bool clade__elt_has_blocks(const clade__elt *program); /* it is a cast from or to a type whose elements share blocks */
/* The dtype of the result. */
clade_dtype clade__elt_dtype(const clade__elt *program);
/* The value of a program in double, not rounded to float: a reference for tests and for folding constants, not for
 * devices. Integers are exact up to 2^53 in magnitude. */
double clade__elt_eval(const clade__elt *program, const double *in);

/* The attributes of the op eltwise, and the builder that everything elementwise goes through. */
typedef struct clade__eltwise_attrs {
  clade__elt program;
} clade__eltwise_attrs;
clade_val clade__eltwise_program(clade_graph *g, const char *name, const clade__elt *program, const clade_val *in);
bool clade__is_cast(const clade__node *n); /* and nothing else */
/* x as f32, by a node also where it is that already: mixed precision leaves what is computed of it in f32. */
clade_val clade__wide(clade_graph *g, clade_val x);

/* NumPy's rule; `what` names the op in the refusal. */
clade_status clade__broadcast_shape(const char *what, const clade_shape *a, const clade_shape *b, clade_shape *out);
/* Sums `dy` down to the shape of x: the gradient of a broadcast. */
clade_val clade__sum_to(clade_graph *g, clade_val dy, const clade_shape *shape);

/* gemm's attributes; input 2… are the epilogue's inputs 1…, broadcast against the result. Where shape[i].rank is not 0,
 * operand i, dense, is read as one of that shape whose elements lie by strides from an offset on; those of the last
 * axis side by side (pass/views.c). */
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

/* ---- what implementations need (impl.c) ---- */
/* NULL, or what the device lacks that the implementation says it needs: then none of its functions may be called. */
const char *clade__impl_lacks(const clade_impl *impl, const clade_query *q);
/* Its kernels are compiled, and for the device's class. */
bool clade__impl_made_for(const clade_impl *impl, const clade_device_info *device);
/* The same, and then what its `accept` says. */
const char *clade__impl_unfit(const clade_impl *impl, const clade_query *q);
/* Tests set it: this implementation is taken on devices of all classes. Nothing else that it needs is passed over. */
extern const clade_impl *clade__impl_anywhere;
/* Few long work-items with vectors, on CPUs. */
#define CLADE__VEC      .family = CLADE_FAMILY_VEC, .devices = CLADE_ON_CPU
#define CLADE__LONG_VEC CLADE__VEC, .needs_long_loops = true

/* ---- what tuning records go by (problem.c) ---- */
/* A node with what decides how fast it is, sizes in buckets; or `exact`, with all that decides its choice. */
void clade__problem_text(const clade_node *n, bool exact, clade__text *out);
int64_t clade__bucket(int64_t size);
/* The stem of the kernel file of an implementation, and the text where it is none of Clade's files: a bundle's kernel
 * has an empty one. */
const char *clade__kernel_file(const clade_op *op, const clade_impl *impl);
const char *clade__kernel_source_of(const clade_op *op, const clade_impl *impl);
/* Of the kernels that it may emit. Fails where the op has no source of kernels. */
clade_status clade__impl_hash(const clade_op *op, const clade_impl *impl, const clade_device_info *device,
                              clade__hash *out);
/* There is something to choose: on this device, among what is made for its class; NULL: on any. Choices that are kept
 * are of such ops alone, so that what is added for another class changes none of a device's. */
bool clade__tunable(const clade_op *op, const clade_device_info *device);

/* ---- steps: what implementations emit, as data ---- */
typedef enum clade__arg_kind {
  CLADE__ARG_IN,
  CLADE__ARG_OUT,
  CLADE__ARG_WORKSPACE,
  CLADE__ARG_BYTES,
  CLADE__ARG_LOCAL
} clade__arg_kind;

/* A cl argument. IN, OUT and WORKSPACE are two: the buffer, then the offset in elements as index_t. */
typedef struct clade__arg {
  clade__arg_kind kind;
  int operand;      /* IN, OUT: of the node */
  size_t at;        /* IN, WORKSPACE: bytes from its start; LOCAL: bytes */
  uint32_t element; /* bytes of an element, for the offset */
  uint32_t bytes;   /* BYTES */
  char type;        /* BYTES: of the kernel's parameter: i int, u uint, f float, 8 int8; 0: another one */
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
  const char *kernel; /* or the routine of LIBRARY and HOST; texts live in the emit's arena */
  const char *file;   /* that the kernel is in; NULL: the implementation's */
  clade__define *defines;
  size_t n_defines, define_capacity;
  clade__arg *args;
  size_t n_args, arg_capacity;
  int dims;
  size_t global[3], local[3];   /* global is rounded up to local */
  bool dropped;                 /* a zero in global */
  int in, out;                  /* COPY: operands */
  const clade_library *library; /* LIBRARY */
  const clade_host *host;       /* HOST */
  const void *work;             /* of both */
  struct clade_kernel_step *next;
};

struct clade_emit {
  clade__arena *arena; /* where steps live: the caller's */
  const clade_query *query;
  bool wide; /* index_t has 64 bits: some operand has 2^31 elements or more */
  clade_kernel_step *first, *last;
  clade_status status;
};

/* Begins an emit for a query; INDEX64 is defined for each kernel step where it must be. */
void clade__emit_begin(clade_emit *emit, clade__arena *arena, const clade_query *query);
extern bool clade__always_wide; /* tests set it, for indices of 64 bits with few elements */
/* As clade_emit_in, from an element of the operand on. */
void clade__emit_in_at(clade_kernel_step *s, int index, int64_t element);
/* Of any type: where its elements share blocks, STORAGE(T) is a byte of one and LOAD finds an element's. */
void clade__emit_in_blocks(clade_kernel_step *s, int index);
void clade__emit_out_blocks(clade_kernel_step *s, int index);
/* An argument of any bytes, at most 64. */
void clade__emit_bytes(clade_kernel_step *s, const void *value, size_t bytes);
/* After the implementation's emit: its first failure, or that a step was left incomplete. */
clade_status clade__emit_end(clade_emit *emit);

#endif
