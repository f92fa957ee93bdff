/* Late instructions: those that a device supports but the compiler's target does not. */
#ifndef CLADE_CL_LATE_H
#define CLADE_CL_LATE_H

#include "base/base.h"

/* The kernel source holds the instruction behind `mark`, as a comment inside inline assembly with its operands,
 * which the compiler fills in. If the compiled program is text, such as NVIDIA's PTX, the marks are removed there,
 * the target behind `directive` is replaced by `target`, and the text is built again. */
typedef struct clade__late {
  const char *mark, *directive, *compiled, *target;
  uint32_t capability; /* minimum compute capability */
} clade__late;

/* The row for a device of this compute capability, if the source has marked lines; NULL: not needed. */
const clade__late *clade__late_find(uint32_t capability, const char *source, size_t bytes);
/* Returns the number of marks removed. */
size_t clade__late_switch_on(const clade__late *late, const char *compiled, size_t bytes, clade__text *out);

#endif
