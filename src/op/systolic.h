/* Shared by the implementations that use bundled kernels, whose interface and limits are listed in fpga/interface.def.
 */
#ifndef CLADE_SYSTOLIC_H
#define CLADE_SYSTOLIC_H

#include "op/dims.h"

/* Limits that every build of the kernels supports. */
enum clade__systolic_limit {
#define LIMIT(name, value) CLADE__SYSTOLIC_##name = value,
#include "fpga/interface.def"
};

/* NULL, or why an operand or result has a type other than f32. */
const char *clade__systolic_floats(const clade_query *q);

/* NULL, or why the kernels cannot interpret the program. */
const char *clade__systolic_refuses(const clade__elt *program, int most_inputs);
/* Emits the arguments code and param. */
void clade__systolic_program(clade_kernel_step *s, const clade__elt *program);
void clade__systolic_int4(clade_kernel_step *s, const int64_t value[4]);

/* Estimated seconds for `cycles` cycles of a pipeline, or for the transfer of `bytes` bytes: the middle of the range
 * that fpga/model/cycles.h gives. */
double clade__systolic_seconds(const clade_query *q, double cycles, double bytes);
double clade__systolic_cost(const clade_query *q, double cycles); /* each operand is transferred once */
/* Cost of reading and writing one word per cycle. */
double clade__systolic_elements(const clade_query *q);
/* Launch of a single work-item. */
void clade__systolic_launch(clade_kernel_step *s);

/* ---- matrix products and convolutions ---- */
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
