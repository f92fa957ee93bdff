/* Internal to the harness: arrays and their conversion to device formats. */
#ifndef CLADE_OP_ARRAY_H
#define CLADE_OP_ARRAY_H

#include "op_test.h"

void op_list_types(void);                  /* call before using the type lists */
void *op_alloc(size_t count, size_t size); /* zeroed; ends the test if memory runs out */
void op_array_free(op_array *a);
void op_array_fill(op_array *a, const op_input *in, op_random *r);
size_t op_array_bytes(const op_array *a);
void op_array_pack(const op_array *a, void *bytes);
double op_array_get(clade_dtype dtype, const void *bytes, int64_t at);
/* Compares within the bounds; reports the first excess and returns false. *worst: the largest used fraction of a
 * bound. */
bool op_array_compare(const op_array *want, const void *bytes, const char *what, double *worst);

#endif
