/* Known answers: operands and expected results of the kernels in fpga/interface.def. */
#ifndef CLADE_KNOWN_H
#define CLADE_KNOWN_H

#include <stddef.h>

typedef struct clade__known_value {
  const void *data;
  size_t bytes;
} clade__known_value;

/* One value per TENSOR and VALUE of the kernel, in order. For an output tensor, it is the expected result; the
 * tensor is zeroed before. */
typedef struct clade__known {
  const char *kernel; /* NULL: end of table */
  const clade__known_value *values;
  size_t n;
} clade__known;
extern const clade__known clade__known_answers[];

#endif
