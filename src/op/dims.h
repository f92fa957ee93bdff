/* Shape arithmetic that ops share: axes, strides, products, cost estimates, and launches over flat ranges. */
#ifndef CLADE_DIMS_H
#define CLADE_DIMS_H

#include "op/op.h"

/* Resolves an axis that may be negative (counted from the end); `what` names it in error messages. */
clade_status clade__axis(const char *what, int axis, int rank, int *out);
/* Attributes of ops that work along one axis, and their builder. */
typedef struct clade__axis_attrs {
  int32_t axis; /* never negative */
} clade__axis_attrs;
extern const clade_attr clade__axis_table[];
clade_val clade__axis_node(clade_graph *g, const clade_op *op, clade_val x, int axis);
/* Fails if an operand has a blocked layout. */
clade_status clade__want_dense(const clade_node *n);
clade_status clade__want_float(const clade_node *n, int operand, const char *name);
clade_status clade__want_float_type(const char *op, const char *name, clade_dtype have);
/* Fails for storage-only types, for kernels that take any numeric type. */
clade_status clade__want_computed(const char *op, const char *name, clade_dtype have);
/* For builders: requires an operand to have another operand's type. */
clade_status clade__want_type(const char *op, const char *name, clade_dtype have, clade_dtype want);
/* Rounds n up to a multiple of `tile`. */
static inline int64_t clade__up(int64_t n, int64_t tile) { return (n + tile - 1) / tile * tile; }
/* Number of parts of at most `part` elements; a part is one element at least. */
static inline int64_t clade__ceil_div(int64_t n, int64_t part) {
  part = CLADE_MAX(part, 1);
  return (n + part - 1) / part;
}
/* Product of the dimensions [from, to). The dimensions must not be symbolic. */
int64_t clade__product(const clade_shape *shape, int from, int to);
/* Row-major strides, also for axes of size 1. */
void clade__strides(const clade_shape *shape, int64_t stride[CLADE_MAX_RANK]);
/* Strides that read `in` as if it were broadcast to `out`: 0 along broadcast axes. */
void clade__broadcast_strides(const clade_shape *in, const clade_shape *out, int64_t stride[CLADE_MAX_RANK]);
/* Drops axes of size 1, and merges neighboring axes that are contiguous in every one of the `n_sets` stride sets.
 * Returns the remaining rank, at least 1. */
int clade__collapse(int rank, int64_t *dim, int n_sets, int64_t (*const *strides)[CLADE_MAX_RANK]);

/* Broadcasts x and divides by the number of repetitions: the gradient of a mean. */
clade_val clade__broadcast_mean(clade_graph *g, clade_val x, const clade_shape *shape);

/* Estimated seconds for `flops` floating-point operations and `bytes` bytes of memory traffic. `efficiency` is the
 * fraction of the device's f32 peak that the kernel reaches. */
double clade__cost(const clade_device_info *device, double flops, double bytes, double efficiency);
double clade__node_bytes(const clade_node *n); /* of all operands and results */

/* Describes a node with blocked operands as one with dense operands of higher rank. The blocked axis then counts
 * blocks, and two axes are appended for the block's elements and the interleaved ones; both have size 1 for dense
 * operands. Implementations that work in any layout use this. `in` and `out` must have room for the node's operands. */
void clade__node_stored(const clade_node *n, clade_type *in, clade_type *out, clade_node *stored);

/* An in_place callback: the set of operands, from `first` on, with the output's shape, layout and element size.
 * In-place execution is allowed if each element is read before it is overwritten. */
uint64_t clade__elementwise(const clade_node *n, int out, int first);

/* The in_place callback of normalization gradients: dx (output 0) may overwrite x or dy (operands 0 and 1). All sums of
 * a channel are complete before its first element of dx is written, at the position where x and dy were read. */
uint64_t clade__dx_in_place(const clade_node *n, int out);

/* Name of the type used to move elements of this size without converting them. */
const char *clade__raw_name(clade_dtype dtype);
/* Size of an element in bytes; 0 for types whose elements share blocks, which emit refuses. */
size_t clade__element_bytes(clade_dtype dtype);
double clade__bytes_of(clade_dtype dtype, int64_t elements); /* size in memory, for cost estimates */
/* NULL, or the reason why a kernel exceeds the device's limit of loop iterations per work-item. `passes` is the total
 * over all loops; the final test of a loop condition counts as an iteration. */
const char *clade__cut_short(const clade_device_info *device, double passes);
/* Local memory available to one kernel, in bytes. */
uint64_t clade__local_most(const clade_device_info *device);
/* Compile-time parameters: clade__emit_defines(s, CLADE__DEFINES({"ROWS", rows}, {"WIDTH", width})). */
typedef struct clade__number {
  const char *name; /* NULL ends the list */
  int64_t value;
} clade__number;
#define CLADE__DEFINES(...) ((const clade__number[]){__VA_ARGS__, {NULL, 0}})
void clade__emit_defines(clade_kernel_step *s, const clade__number *defines);
/* Passes up to eight numbers as an index8_t. */
#define CLADE__EMIT8(s, ...) \
  clade_emit_index8(s, (int)CLADE_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})
/* Passes eight numbers: the `rank` given ones come last, and leading axes that do not exist are `none`. */
void clade__emit_last(clade_kernel_step *s, int rank, const int64_t *value, int64_t none);
/* Number of floats in the vectors of CPU kernels: 4, 8 or 16. */
int clade__vector_width(const clade_device_info *device);
/* Emits broadcast.cl's kernel: a result of shape `dim` whose elements are read from operand 0 by strides (0 repeats an
 * element). T names the element type; elements are divided by `divisor` unless it is 1. Merge axes with clade__collapse
 * first. */
void clade__emit_strided(clade_emit *e, const clade_query *q, const char *T, int64_t divisor, int rank,
                         const int64_t *dim, const int64_t *stride);
/* Long sums are split for a fixed number of compute units, not for the device's own, so that a sub-device with fewer
 * cores returns the same bits. */
enum { CLADE__SUM_UNITS = 16 };
/* Layout of images for kernels with one channel per vector lane: {n, c / 16, pixels, 16}. */
enum { CLADE__LANES = 16 };
/* Channels last, for matrix units of GPUs: axis `axis` is one block, filled up to copies of 16 bytes of 16-bit
 * elements.
 */
enum { CLADE__CHANNEL_COPY = 8 };
static inline clade_layout clade__channels_last(int axis, int64_t channels) {
  return (clade_layout){.axis = (int16_t)axis, .block = (uint16_t)clade__up(channels, CLADE__CHANNEL_COPY)};
}
/* NULL, or why a kernel that takes pixels as samples cannot take x with channels (axis 1) last: the block has no
 * padding, and there are several pixels. */
const char *clade__channels_last_refuse(const clade_shape *x);
static inline clade_layout clade__channel_blocks(void) { return (clade_layout){.axis = 1, .block = CLADE__LANES}; }
/* Size of the L2 cache of one core in bytes; 512 KiB if unknown. */
int64_t clade__second_cache(const clade_device_info *device);
extern uint64_t clade__least_cache; /* lower bound for clade__last_cache; tests lower it to cover large operands */
/* Size of the last-level cache in bytes, at least 4 MiB. A far last-level cache counts as min(LLC, 2 × total L2). */
uint64_t clade__last_cache(const clade_device_info *device);
/* True if a result exceeds the caches, so that non-temporal stores pay off. */
bool clade__streams(const clade_device_info *device, const clade_type *type);
/* A one-dimensional launch of `n` work-items. On CPUs, where a work-item does much work, a work-group is one work-item;
 * elsewhere, 64. */
void clade__emit_flat(clade_kernel_step *s, const clade_device_info *device, int64_t n);
void clade__emit_items(clade_kernel_step *s, int64_t n); /* groups of one work-item on any device */
/* Elements per work-item, out of `n`. On CPUs: at most `most`, and few enough that all cores are busy. Elsewhere:
 * `few`. */
int64_t clade__piece(const clade_device_info *device, int64_t n, int64_t few, int64_t most);
/* As clade__piece, in rows of `row` elements; 1 on devices that limit loop iterations. */
int64_t clade__rows(const clade_device_info *device, int64_t rows, int64_t row);

#endif
