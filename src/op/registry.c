/* Table of the built-in ops, generated from ops.def. */
#include "op/op.h"

const clade_op *const clade__ops[] = {
#define CLADE_OP(NAME, name) &clade__op_##name,
#include "op/ops.def"
#undef CLADE_OP
    NULL};

const clade_op *clade__op_find(const char *name) {
  for (const clade_op *const *op = clade__ops; name && *op; op++)
    if (strcmp((*op)->name, name) == 0) return *op;
  return NULL;
}
