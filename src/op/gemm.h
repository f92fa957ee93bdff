/* Between gemm's definition and its implementations. */
#ifndef CLADE_GEMM_H
#define CLADE_GEMM_H

#include "op/dims.h"

extern const clade_impl clade__gemm_impls[];

#endif
