/* Between the implementations of a convolution's derivative by its weights. */
#ifndef CLADE_CONV_WEIGHTS_H
#define CLADE_CONV_WEIGHTS_H

#include "op/conv/conv.h"

typedef struct clade__weights {
  int64_t n, groups, rows, inner, source[2], result[2], kernel[2];
  int64_t columns, outputs; /* weights of a row; of all */
} clade__weights;
/* `flat`: where each place has one tap, its own, an image is one line. */
clade__weights clade__weights_of(const clade_node *n, bool flat);
double clade__weights_flops(const clade__weights *p);

/* Parts of the sums: scratch memory for them; the launch that makes them, up to its operands, of which 0 or 1 comes
 * first, and where they go; the same with x first, sizes, window and map; and the launch that joins them, in their
 * order. Parts that are turned have columns of w as rows. One part of the stored type that is not is the result
 * already.
 */
size_t clade__weights_scratch(const clade_query *q, int64_t parts, bool turned);
clade_kernel_step *clade__weights_open(clade_emit *e, const clade_query *q, const char *kernel, int first,
                                       int64_t parts, bool turned);
clade_kernel_step *clade__weights_begin(clade_emit *e, const clade_query *q, const char *kernel,
                                        const clade__weights *p, int64_t parts);
void clade__weights_join(clade_emit *e, const clade_query *q, int64_t parts, bool turned, bool spaced);
/* From row to row of parts that are `spaced`: so that rows do not meet in one set of a cache. */
int64_t clade__weights_pitch(const clade_query *q, int64_t parts, bool turned);
/* What that costs, in cycles of a core. */
double clade__weights_join_cycles(const clade__weights *p, int64_t parts);

/* Where sums are cut depends on sizes alone, since it orders them: the work of all items, and the longest once for each
 * of this many cores. */
enum { CLADE__WEIGHTS_UNITS = 8 };

/* A tile of `flat`, `vec` and `columns`: so many rows by two vectors of so many floats. */
static inline int clade__weights_lanes(const clade_query *q) { return q->device->vector_f32 >= 16 ? 16 : 8; }
static inline int clade__weights_panel(const clade_query *q) { return 2 * clade__weights_lanes(q); }
static inline int clade__weights_tile_rows(const clade_query *q) { return clade__weights_lanes(q) == 16 ? 12 : 6; }

/* ---- flat: windows of one place; dense, or with channels in blocks ---- */
const char *clade__weights_flat_blocked_accept(const clade_query *q);
void clade__weights_blocked_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
extern const clade_space clade__weights_flat_blocked_space;
const char *clade__weights_flat_accept(const clade_query *q);
double clade__weights_flat_cost(const clade_query *q);
size_t clade__weights_flat_workspace(const clade_query *q);
clade_status clade__weights_flat_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__weights_flat_space;
/* ---- lines: few rows, step 1 ---- */
const char *clade__weights_lines_accept(const clade_query *q);
double clade__weights_lines_cost(const clade_query *q);
size_t clade__weights_lines_workspace(const clade_query *q);
clade_status clade__weights_lines_emit(clade_emit *e, const clade_query *q);
/* ---- winograd: windows of 3 x 3, step 1, images in blocks of channels ---- */
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
/* ---- columns: any window, few places ---- */
const char *clade__weights_columns_accept(const clade_query *q);
double clade__weights_columns_cost(const clade_query *q);
size_t clade__weights_columns_workspace(const clade_query *q);
clade_status clade__weights_columns_emit(clade_emit *e, const clade_query *q);
/* ---- gemm: any window of more than one place, as a product of matrices ---- */
const char *clade__weights_gemm_accept(const clade_query *q);
double clade__weights_gemm_cost(const clade_query *q);
size_t clade__weights_gemm_workspace(const clade_query *q);
clade_status clade__weights_gemm_emit(clade_emit *e, const clade_query *q);
extern const clade_space clade__weights_gemm_space;
/* ---- depthwise: groups of one row and one channel, images in blocks of channels, or dense ---- */
const char *clade__weights_depthwise_blocked_accept(const clade_query *q);
const char *clade__weights_depthwise_dense_accept(const clade_query *q);
double clade__weights_depthwise_cost(const clade_query *q);
size_t clade__weights_depthwise_workspace(const clade_query *q);
clade_status clade__weights_depthwise_emit(clade_emit *e, const clade_query *q);
/* ---- group: the same on GPUs, dense ---- */
const char *clade__weights_depthwise_group_accept(const clade_query *q);
double clade__weights_depthwise_group_cost(const clade_query *q);
size_t clade__weights_depthwise_group_workspace(const clade_query *q);
clade_status clade__weights_depthwise_group_emit(clade_emit *e, const clade_query *q);

#endif
