/* The implementations of conv2d and conv2d_data, which share one form (src/op/conv/gather.c). */
#include "op/conv/conv.h"
#include "op/group.h"
#include "op/product.h"
#include "op/systolic.h"

const clade_impl *const clade__conv_impls[] = {
    CLADE_IMPL(.name = "bytes", CLADE__CONV_VEC, .accept = clade__gather_bytes_accept, .cost = clade__gather_bytes_cost,
               .workspace = clade__gather_bytes_workspace, .emit = clade__gather_bytes_emit, .file = "conv2d_bytes"),
    CLADE_IMPL(.name = "clblast", .family = CLADE_FAMILY_LIBRARY, .accept = clade__conv_clblast_accept,
               .emit = clade__conv_clblast_emit),
    /* conv2d_data begins here. */
    CLADE__GATHER_DIRECT,
    CLADE__DEPTHWISE,
    CLADE_IMPL(.name = "lines", CLADE__CONV_VEC, .accept = clade__gather_lines_accept, .cost = clade__gather_lines_cost,
               .emit = clade__gather_lines_emit, .file = "conv2d_lines"),
    CLADE__GATHER_BY("gemm", gemm, "gemm", false),
    CLADE__GATHER_POINTWISE,
    CLADE__GATHER_FLAT,
    CLADE__GATHER_BY("winograd", winograd, "conv2d_winograd", true),
    CLADE__GATHER_BY("fft", fft, "conv2d_fft", true),
    CLADE__GATHER_MMA,
    CLADE__WINOGRAD_GROUP,
    CLADE_IMPL(.name = "depthwise_group", CLADE__NO_TEAMS, .accept = clade__depthwise_group_accept,
               .cost = clade__depthwise_group_cost, .emit = clade__depthwise_group_emit,
               .file = "conv2d_depthwise_group"),
    CLADE__LAST_WARPGROUP(gather),
    CLADE__LAST_WARP(gather),
    CLADE__PRODUCT_WARPGROUP(gather),
    CLADE__PRODUCT_WARP(gather),
    CLADE__PRODUCT_SIMT(gather),
    CLADE__SYSTOLIC(gather) /* with its comma */
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = clade__gather_ref_accept,
               .cost = clade__gather_ref_cost, .emit = clade__gather_ref_emit),
    NULL,
};
