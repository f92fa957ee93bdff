/* What ops share about shapes: axes, strides, products, rough costs, launches over a flat range. */
#ifndef CLADE_DIMS_H
#define CLADE_DIMS_H

#include "op/op.h"

/* Makes an axis that may count from the end one from 0 on; the refusal names `what`. */
clade_status clade__axis(const char *what, int axis, int rank, int *out);
/* The attributes of ops along one axis, and the builder that makes a node of them. */
typedef struct clade__axis_attrs {
  int32_t axis; /* from 0 on */
} clade__axis_attrs;
extern const clade_attr clade__axis_table[];
clade_val clade__axis_node(clade_graph *g, const clade_op *op, clade_val x, int axis);
/* Refuses operands in a blocked layout. */
clade_status clade__want_dense(const clade_node *n);
clade_status clade__want_float(const clade_node *n, int operand, const char *name);
clade_status clade__want_float_type(const char *op, const char *name, clade_dtype have);
/* Refuses types for storage, where kernels take any number. */
clade_status clade__want_computed(const char *op, const char *name, clade_dtype have);
/* For builders: an operand that has to be of another one's type. */
clade_status clade__want_type(const char *op, const char *name, clade_dtype have, clade_dtype want);
/* n rounded up to whole tiles. */
static inline int64_t clade__up(int64_t n, int64_t tile) { return (n + tile - 1) / tile * tile; }
/* The product of dimensions [from, to); of sizes, not symbols. */
int64_t clade__product(const clade_shape *shape, int from, int to);
/* Row-major strides; for axes of size 1 too. */
void clade__strides(const clade_shape *shape, int64_t stride[CLADE_MAX_RANK]);
/* Strides that read `in` as if it had been broadcast to `out`: 0 along axes that are repeated or not there. */
void clade__broadcast_strides(const clade_shape *in, const clade_shape *out, int64_t stride[CLADE_MAX_RANK]);
/* Drops axes of size 1 and joins neighbors that all of the `n_sets` of strides walk through without a gap. The rank
 * that is left; at least 1. */
int clade__collapse(int rank, int64_t *dim, int n_sets, int64_t (*const *strides)[CLADE_MAX_RANK]);

/* A broadcast that divides by the number of repetitions: the adjoint of a mean. */
clade_val clade__broadcast_mean(clade_graph *g, clade_val x, const clade_shape *shape);

/* Seconds for work in floating-point operations and bytes, at a fraction `efficiency` of the device's peak of f32. */
double clade__cost(const clade_device_info *device, double flops, double bytes, double efficiency);
double clade__node_bytes(const clade_node *n); /* of all operands */

/* The node as its operands lie in memory, all dense: where the output is blocked, the blocked axis counts blocks, and
 * what stands inside of a block comes as two axes more, of size 1 for operands that stay dense. For implementations
 * that work in any layout. `in` and `out` have room for the node's operands. */
void clade__node_stored(const clade_node *n, clade_type *in, clade_type *out, clade_node *stored);

/* For in_place: those of the operands from `first` on that have as many elements as the output, of the same size, in
 * the same order. Where an element of such an operand is read only by who then writes it, its memory may be taken over.
 */
uint64_t clade__elementwise(const clade_node *n, int out, int first);

/* The in_place of what derives normalizations: dx, output 0, over x or dy, operands 0 and 1. All sums of a channel
 * are done before its first element of dx is written, and that where those of x and dy were read. */
uint64_t clade__dx_in_place(const clade_node *n, int out);

/* The name of the dtype that moves elements of the same size. */
const char *clade__raw_name(clade_dtype dtype);
/* From one element to the next, for kernels that are told so; 0 where elements share a block (emit refuses these). */
size_t clade__element_bytes(clade_dtype dtype);
double clade__bytes_of(clade_dtype dtype, int64_t elements); /* in memory, for costs */
/* NULL, or why a kernel whose work-items make that many passes through their loops, all loops together, would be cut
 * short by the device. A loop's last look at its condition counts as a pass. */
const char *clade__cut_short(const clade_device_info *device, double passes);
/* How much local memory a kernel's arrays may take. */
uint64_t clade__local_most(const clade_device_info *device);
/* Eight numbers: the last `rank` are given, and `none` stands for axes that there are not. */
void clade__emit_last(clade_kernel_step *s, int rank, const int64_t *value, int64_t none);
/* Lanes of the vectors of floats that kernels for CPUs are written in: 4, 8 or 16. */
int clade__vector_width(const clade_device_info *device);
/* A result of axes `dim` whose elements are the operand's by strides along them (0 repeats one), by the kernel of
 * broadcast.cl. Elements of the type named T are divided by `divisor`; at 1 they are only moved. Begin with axes
 * joined. */
void clade__emit_strided(clade_emit *e, const clade_query *q, const char *T, int64_t divisor, int rank,
                         const int64_t *dim, const int64_t *stride);
/* Long sums are cut for so many compute units, whatever the device has: a part of a CPU adds in the order of the whole
 * one, and gives its bits. */
enum { CLADE__SUM_UNITS = 16 };
/* Images with their channels in blocks of so many, for kernels that have a channel in each lane: {n, c / 16, pixels,
 * 16}.
 */
enum { CLADE__LANES = 16 };
static inline clade_layout clade__channel_blocks(void) { return (clade_layout){.axis = 1, .block = CLADE__LANES}; }
/* Bytes; where the device does not tell, 512 KiB and 4 MiB. */
int64_t clade__second_cache(const clade_device_info *device);
extern uint64_t clade__least_cache; /* of any device; tests lower it, to see with few elements what many do */
/* A far one counts as twice what the second ones hold, if that is less. */
uint64_t clade__last_cache(const clade_device_info *device);
/* Results so large that they do not stay in the caches are better written past them. */
bool clade__streams(const clade_device_info *device, const clade_type *type);
/* A launch over `n` pieces of work, in one dimension: groups of one work-item on CPUs, where a work-item does a lot, of
 * 64 elsewhere. */
void clade__emit_flat(clade_kernel_step *s, const clade_device_info *device, int64_t n);
/* How many elements a work-item should do, of `n`: enough for all units of a CPU to be busy; `most` at the most and,
 * elsewhere, `few`. */
int64_t clade__piece(const clade_device_info *device, int64_t n, int64_t few, int64_t most);
/* The same in rows of so many elements; one where the device cuts long loops short. */
int64_t clade__rows(const clade_device_info *device, int64_t rows, int64_t row);

#endif
