/* Interface of the implementations of conv2d_weights. */
#ifndef CLADE_CONV_WEIGHTS_H
#define CLADE_CONV_WEIGHTS_H

#include "op/conv/conv.h"

typedef struct clade__weights {
  int64_t n, groups, rows, inner, source[2], result[2], kernel[2];
  int64_t columns, outputs; /* weights per row, and in total */
} clade__weights;
/* If `flat`, a 1 x 1 convolution without stride and padding is described with each image as one line. */
clade__weights clade__weights_of(const clade_node *n, bool flat);
double clade__weights_flops(const clade__weights *p);

/* Partial sums in the workspace:
 *
 *   scratch  size of the workspace
 *   open     begins the launch that computes the parts: its operands, `first` (0 or 1) before the other, and the target
 *   begin    the same with x first, followed by sizes, window and map
 *   join     the launch that adds the parts in order
 *
 * Parts are `turned` if their rows are columns of w. A single f32 part that is not turned is the result itself. */
size_t clade__weights_scratch(const clade_query *q, int64_t parts, bool turned);
clade_kernel_step *clade__weights_open(clade_emit *e, const clade_query *q, const char *kernel, int first,
                                       int64_t parts, bool turned);
clade_kernel_step *clade__weights_begin(clade_emit *e, const clade_query *q, const char *kernel,
                                        const clade__weights *p, int64_t parts);
void clade__weights_join(clade_emit *e, const clade_query *q, int64_t parts, bool turned, bool spaced);
/* Row stride of parts that are `spaced`, which avoids cache set conflicts. */
int64_t clade__weights_pitch(const clade_query *q, int64_t parts, bool turned);
/* Estimated cycles of the join. */
double clade__weights_join_cycles(const clade__weights *p, int64_t parts);

/* The partition of sums depends only on the sizes, for reproducibility. It is chosen for this number of cores: by the
 * sum of all work-items, plus the longest one for each core. */
enum { CLADE__WEIGHTS_UNITS = 8 };

/* Register tile of `flat` and `vec`: rows by two vectors. */
static inline int clade__weights_lanes(const clade_query *q) { return q->device->vector_f32 >= 16 ? 16 : 8; }
static inline int clade__weights_panel(const clade_query *q) { return 2 * clade__weights_lanes(q); }
static inline int clade__weights_tile_rows(const clade_query *q) { return clade__weights_lanes(q) == 16 ? 12 : 6; }

/* ---- flat: 1 x 1 windows; dense, or with blocked channels ---- */
void clade__weights_blocked_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
void clade__weights_images(const clade_query *q, clade_layout *in, clade_layout *out); /* by the alternative */
const char *clade__weights_flat_accept(const clade_query *q);
double clade__weights_flat_cost(const clade_query *q);
size_t clade__weights_flat_workspace(const clade_query *q);
clade_status clade__weights_flat_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__weights_flat_space;
/* ---- lines: few rows, no stride ---- */
const char *clade__weights_lines_accept(const clade_query *q);
double clade__weights_lines_cost(const clade_query *q);
size_t clade__weights_lines_workspace(const clade_query *q);
clade_status clade__weights_lines_emit(clade_emit *e, const clade_query *q);
/* ---- winograd: 3 x 3 windows, no stride, images with blocked channels ---- */
const char *clade__weights_winograd_accept(const clade_query *q);
double clade__weights_winograd_cost(const clade_query *q);
size_t clade__weights_winograd_workspace(const clade_query *q);
clade_status clade__weights_winograd_emit(clade_emit *e, const clade_query *q);
/* ---- vec: any window ---- */
const char *clade__weights_vec_accept(const clade_query *q);
double clade__weights_vec_cost(const clade_query *q);
size_t clade__weights_vec_workspace(const clade_query *q);
clade_status clade__weights_vec_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__weights_vec_space;
/* ---- gemm: any window larger than 1 x 1, as a matrix product ---- */
const char *clade__weights_gemm_accept(const clade_query *q);
double clade__weights_gemm_cost(const clade_query *q);
size_t clade__weights_gemm_workspace(const clade_query *q);
clade_status clade__weights_gemm_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__weights_gemm_space;
/* ---- depthwise: images with blocked channels, or dense ---- */
const char *clade__weights_depthwise_accept(const clade_query *q);
double clade__weights_depthwise_cost(const clade_query *q);
size_t clade__weights_depthwise_workspace(const clade_query *q);
clade_status clade__weights_depthwise_emit(clade_emit *e, const clade_query *q);
/* ---- mma: bf16 by units of CPUs (conv.h), images in blocks of channels ---- */
extern const clade_space clade__weights_mma_space;
bool clade__weights_mma_units(const clade_query *q);
const char *clade__weights_mma_accept(const clade_query *q);
double clade__weights_mma_cost(const clade_query *q);
size_t clade__weights_mma_workspace(const clade_query *q);
clade_status clade__weights_mma_emit(clade_emit *e, const clade_query *q);
/* ---- group: depthwise on GPUs, dense ---- */
const char *clade__weights_depthwise_group_accept(const clade_query *q);
double clade__weights_depthwise_group_cost(const clade_query *q);
size_t clade__weights_depthwise_group_workspace(const clade_query *q);
clade_status clade__weights_depthwise_group_emit(clade_emit *e, const clade_query *q);

#endif
