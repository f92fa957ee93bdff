/* Instructions that a device has, but the target lacks that its compiler makes programs for. */
#ifndef CLADE_CL_LATE_H
#define CLADE_CL_LATE_H

#include "base/base.h"

/* A kernel's text has the instruction behind `mark` as a comment of its inline assembly, with its operands, which the
 * compiler fills in. Where the compiled program is a text, as NVIDIA's PTX is, the marks are taken off there, and what
 * stands behind `directive` becomes `target`. The text is then built again. */
typedef struct clade__late {
  const char *mark, *directive, *compiled, *target;
  uint32_t capability; /* of devices that have it */
} clade__late;

/* The row for a device of this compute capability whose program has marked lines in its source; NULL: none is needed.
 */
const clade__late *clade__late_find(uint32_t capability, const char *source, size_t bytes);
/* How many marks were taken off. */
size_t clade__late_switch_on(const clade__late *late, const char *compiled, size_t bytes, clade__text *out);

#endif
