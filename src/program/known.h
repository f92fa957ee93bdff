/* Known answers: of kernels of fpga/interface.def, operands and what they must give. */
#ifndef CLADE_KNOWN_H
#define CLADE_KNOWN_H

#include <stddef.h>

typedef struct clade__known_value {
  const void *data;
  size_t bytes;
} clade__known_value;

/* A value for each TENSOR and VALUE of the kernel's list, in its order. Of a tensor that is written it is what must
 * stand there afterwards, where zeros were before. */
typedef struct clade__known {
  const char *kernel; /* NULL ends the table */
  const clade__known_value *values;
  size_t n;
} clade__known;
extern const clade__known clade__known_answers[];

#endif
