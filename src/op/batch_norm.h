/* How batch normalization and its derivative go through a value [samples, channels, …]. */
#ifndef CLADE_BATCH_NORM_H
#define CLADE_BATCH_NORM_H

#include <clade/nn.h>

#include "ir/elt.h"
#include "op/dims.h"
#include "op/group.h"

/* A channel's elements in chunks, each a work-item's; how many depends on shapes alone, so that the sums come out the
 * same on devices of any number of units. */
typedef struct clade__channels {
  int64_t samples, channels, inner; /* inner: pixels of an image */
  int64_t count;                    /* of a channel */
  int64_t chunk, chunks;
  int64_t block, groups; /* channels side by side, 1 or 16; blocks of them */
} clade__channels;
clade__channels clade__channels_of(const clade_type *x);
/* Whether one launch goes through a block of channels after the other, as what it read first of `operands` values is
 * still in the caches when it reads it again: where the values are larger than these, and their blocks are not. */
bool clade__channels_whole(const clade_query *q, const clade__channels *c, int operands);
/* How many chunks of each channel a work-item does where launches that are one persistent kernel go through channel
 * after channel, all units at one: where the second caches together hold a channel of `operands` values, and too few of
 * them would not keep units busy from one launch to the next. 0: not so. */
int64_t clade__channels_share(const clade_query *q, const clade__channels *c, int operands);
/* The workspace, and what of the above kernels that sum take. */
void clade__channels_emit(clade_kernel_step *s, const clade__channels *c);
const char *clade__channels_accept(const clade_query *q);
/* For kernels with a channel in each lane. */
const char *clade__channels_blocked(const clade_query *q);
double clade__channels_cost(const clade_query *q);
/* Two floats for each channel and chunk; behind them, where there are shares of so many operands, a window that holds a
 * channel of each, and begins with a line. */
size_t clade__channels_workspace(const clade_query *q, int operands);
void clade__channels_window(clade_kernel_step *s, const clade_query *q);

/* The same for work-groups (cl_kernels/batch_norm_group.cl): columns beside each other, whose sums a team makes chunk
 * by chunk, and what joins those of a channel. A channel is one column, of runs on end; or where these are short, each
 * of its pixels is one, whose elements lie `columns` apart. By the shape alone. */
typedef struct clade__columns {
  int64_t columns, beside; /* of a channel */
  int64_t run, length;     /* elements on end; of a column */
  int64_t chunk, chunks;
  clade__group sums, join;
} clade__columns;
clade__columns clade__columns_of(const clade_type *x);
/* For a team that goes through its chunk `times` times. */
const char *clade__columns_refuses(const clade_query *q, double times);
double clade__columns_cost(const clade_query *q);
size_t clade__columns_workspace(const clade_query *q); /* two floats for each column and chunk */
void clade__columns_emit(clade_kernel_step *s, const clade__columns *p);

/* That the operands from `first` on are f32 [channels] of x, operand 0. */
clade_status clade__want_channels(const clade_node *n, int first, int count, const char *const *names);

typedef struct clade__batch_norm_attrs {
  float eps, momentum;
  clade__elt epilogue; /* of the first result; its operands are as large, and come behind the op's five */
} clade__batch_norm_attrs;
/* The op, of (x, weight, bias, running mean, running variance); next: what the running ones become. */
clade_val clade__batch_norm(clade_graph *g, const clade_val in[5], float eps, float momentum, clade_val next[2]);

#endif
