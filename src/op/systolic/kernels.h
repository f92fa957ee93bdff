/* Shared by the implementations that use bundled kernels, whose interface and limits are listed in fpga/interface.def.
 */
#ifndef CLADE_SYSTOLIC_KERNELS_H
#define CLADE_SYSTOLIC_KERNELS_H

#include "op/dims.h"
#include "op/systolic.h"

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

/* Initializer of a row of op/systolic.h. */
#define CLADE__SYSTOLIC_IMPL(...) \
  { .size = sizeof(clade_impl), .family = CLADE_FAMILY_SYSTOLIC, __VA_ARGS__ }

#endif
