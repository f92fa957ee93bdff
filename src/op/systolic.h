/* Implementations by a bundle's kernels, as rows of the tables of ops. Their code is in src/op/systolic/. */
#ifndef CLADE_SYSTOLIC_H
#define CLADE_SYSTOLIC_H

#include "op/op.h"

/* CLADE__SYSTOLIC(gemm) expands to a row and its comma, or to nothing if CLADE_FPGA is OFF. */
#ifdef CLADE_WITH_FPGA
#define CLADE__SYSTOLIC(row) &clade__systolic_##row,
extern const clade_impl clade__systolic_arg_max, clade__systolic_batch_norm, clade__systolic_batch_norm_grad,
    clade__systolic_broadcast, clade__systolic_cross_entropy, clade__systolic_cross_entropy_grad,
    clade__systolic_eltwise, clade__systolic_eltwise_i64, clade__systolic_gather, clade__systolic_gemm,
    clade__systolic_gemm_i8, clade__systolic_pool, clade__systolic_pool_grad, clade__systolic_reduce,
    clade__systolic_softmax, clade__systolic_softmax_grad, clade__systolic_update, clade__systolic_weights;
#else
#define CLADE__SYSTOLIC(row)
#endif

#endif
