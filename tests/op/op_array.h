/* For the harness alone: arrays of the op test and their way into a device's formats. */
#ifndef CLADE_OP_ARRAY_H
#define CLADE_OP_ARRAY_H

#include "op_test.h"

void op_list_types(void);                  /* before a test's are looked at */
void *op_alloc(size_t count, size_t size); /* zeroed; ends the test when there is none */
void op_array_free(op_array *a);
void op_array_fill(op_array *a, const op_input *in, op_random *r);
size_t op_array_bytes(const op_array *a);
void op_array_pack(const op_array *a, void *bytes);
double op_array_get(clade_dtype dtype, const void *bytes, int64_t at);
/* false, and says where, when an element is off by more than it may be. *worst: the largest part of a bound used. */
bool op_array_compare(const op_array *want, const void *bytes, const char *what, double *worst);

#endif
