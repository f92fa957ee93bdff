/* What implementations by kernels of a bundle share: fpga/interface.def tells the kernels and what they bear. */
#ifndef CLADE_SYSTOLIC_H
#define CLADE_SYSTOLIC_H

#include "op/dims.h"

/* What every build of the kernels bears. */
enum clade__systolic_limit {
#define LIMIT(name, value) CLADE__SYSTOLIC_##name = value,
#include "fpga/interface.def"
};

/* NULL, or why no operand or result may be of another type. */
const char *clade__systolic_floats(const clade_query *q);

/* NULL, or why the kernels do not interpret a program of so many operands. */
const char *clade__systolic_refuses(const clade__elt *program, int most_inputs);
/* The arguments code and param. */
void clade__systolic_program(clade_kernel_step *s, const clade__elt *program);
void clade__systolic_int4(clade_kernel_step *s, const int64_t value[4]);

/* Seconds for so many cycles of the kernel's one pipeline, or for the bytes: what fpga/model/cycles.h tells, in the
 * middle of its range. */
double clade__systolic_seconds(const clade_query *q, double cycles, double bytes);
double clade__systolic_cost(const clade_query *q, double cycles); /* each operand's bytes once */
/* A word in and a word out each cycle. */
double clade__systolic_elements(const clade_query *q);
/* The launch of one work-item. */
void clade__systolic_launch(clade_kernel_step *s);

/* ---- sums of products ---- */
const char *clade__systolic_gemm_accept(const clade_query *q);
const char *clade__systolic_gemm_i8_accept(const clade_query *q);
double clade__systolic_gemm_cost(const clade_query *q);
clade_status clade__systolic_gemm_emit(clade_emit *e, const clade_query *q);
clade_status clade__systolic_gemm_i8_emit(clade_emit *e, const clade_query *q);
const char *clade__systolic_gather_accept(const clade_query *q);
double clade__systolic_gather_cost(const clade_query *q);
clade_status clade__systolic_gather_emit(clade_emit *e, const clade_query *q);
const char *clade__systolic_weights_accept(const clade_query *q);
double clade__systolic_weights_cost(const clade_query *q);
clade_status clade__systolic_weights_emit(clade_emit *e, const clade_query *q);
#define CLADE__SYSTOLIC_GATHER                                                                             \
  CLADE_IMPL(.name = "systolic", .family = CLADE_FAMILY_SYSTOLIC, .accept = clade__systolic_gather_accept, \
             .cost = clade__systolic_gather_cost, .emit = clade__systolic_gather_emit, .bundled = "array_f32")

/* ---- elementwise ---- */
const char *clade__systolic_eltwise_accept(const clade_query *q);
const char *clade__systolic_eltwise_i64_accept(const clade_query *q);
clade_status clade__systolic_eltwise_emit(clade_emit *e, const clade_query *q);
clade_status clade__systolic_eltwise_i64_emit(clade_emit *e, const clade_query *q);

#endif
