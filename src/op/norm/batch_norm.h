/* Batch normalization and its gradient: how a value [samples, channels, …] is divided into work. */
#ifndef CLADE_BATCH_NORM_H
#define CLADE_BATCH_NORM_H

#include <clade/nn.h>

#include "ir/elt.h"
#include "op/dims.h"
#include "op/group.h"

/* Division of a channel into chunks of one work-item each. Depends only on the shape, so that sums are the same on
 * devices with any number of compute units. */
typedef struct clade__channels {
  int64_t samples, channels, inner; /* inner: pixels of an image */
  int64_t count;                    /* elements of a channel */
  int64_t chunk, chunks;
  int64_t block, groups; /* channels per block of the layout (1 or 16), and number of blocks */
} clade__channels;
clade__channels clade__channels_of(const clade_type *x);
/* True if one launch should process a block of channels completely before the next one, so that later passes read
 * `operands` values from the cache. Pays off if the values exceed the caches and a block does not. */
bool clade__channels_whole(const clade_query *q, const clade__channels *c, int operands);
/* Chunks per work-item if the launches of a persistent kernel process channel after channel, each with all compute
 * units; otherwise 0. Used if the L2 caches together hold a channel of `operands` values, and a channel is large enough
 * to keep all units busy between launches. */
int64_t clade__channels_share(const clade_query *q, const clade__channels *c, int operands);
/* Emits the workspace and these sizes, for kernels that sum. */
void clade__channels_emit(clade_kernel_step *s, const clade__channels *c);
const char *clade__channels_accept(const clade_query *q);
/* The accept of kernels with one channel per vector lane. */
const char *clade__channels_blocked(const clade_query *q);
double clade__channels_cost(const clade_query *q);
/* Workspace: two floats per channel and chunk, followed by a cache-line-aligned window that holds one channel of each
 * operand, if clade__channels_share is not 0. */
size_t clade__channels_workspace(const clade_query *q, int operands);
void clade__channels_window(clade_kernel_step *s, const clade_query *q);

/* The same for work-groups (cl_kernels/batch_norm_group.cl). Elements are divided into columns, which teams sum chunk
 * by chunk; a second launch combines the columns of a channel, and a third computes the elements. Usually a channel is
 * one column, made of contiguous runs. If the runs are short, each pixel of a channel is a column of its own, with
 * elements `columns` apart. Depends only on the shape. */
typedef struct clade__columns {
  int64_t columns, beside; /* columns per channel */
  int64_t run, length;     /* contiguous elements; elements of a column */
  int64_t chunk, chunks;
  clade__group sums, join;
} clade__columns;
clade__columns clade__columns_of(const clade_type *x);
/* clade__channels_of, where with channels last each pixel is a sample. */
clade__channels clade__channels_run(const clade_type *x);
/* NULL, or why the device cannot run it; `times`: passes of a team over its chunk. */
const char *clade__columns_refuses(const clade_query *q, double times);
const char *clade__columns_last_refuses(const clade_query *q, double times); /* the same with channels last */
double clade__columns_cost(const clade_query *q);
size_t clade__columns_workspace(const clade_query *q); /* two floats per column and chunk; none for whole channels */
/* True if a team has a whole channel, so that one launch does everything: a launch costs as much as a work-item needs
 * for some ten elements. Depends only on the shape and on whether groups may have 1024 work-items. */
bool clade__columns_whole(const clade_query *q, clade__group *team);
/* Emits the node's first five operands, its results and the sizes, for a kernel of whole channels. */
clade_kernel_step *clade__columns_emit_whole(clade_emit *e, const clade_query *q, const char *kernel,
                                             const clade__group *team, int outputs);
void clade__columns_emit(clade_kernel_step *s, const clade__columns *p);

/* Checks that `count` operands from `first` on are f32 [channels], where x (operand 0) is [samples, channels, …]. */
clade_status clade__want_channels(const clade_node *n, int first, int count, const char *const *names);

typedef struct clade__batch_norm_attrs {
  float eps, momentum;
  clade__elt epilogue; /* applied to the first result; its operands have x's shape and follow the op's own five */
} clade__batch_norm_attrs;
/* Builds the op of (x, weight, bias, running mean, running variance); next: the updated running mean and variance. */
clade_val clade__batch_norm(clade_graph *g, const clade_val in[5], float eps, float momentum, clade_val next[2]);

#endif
