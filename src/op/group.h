/* Launches of kernels in which the work-items of a group reduce lines together (cl_kernels/prelude_group.cl): softmax,
 * reductions, normalization and losses on GPUs. Tested on CPU devices only, see docs/porting.md. */
#ifndef CLADE_GROUP_H
#define CLADE_GROUP_H

#include "op/dims.h"

/* A work-group computes `beside` lines, each by a team of `team` work-items. The items of a team are consecutive, so
 * that they read along the line, or, if `spread`, interleaved, so that consecutive items read neighboring lines. */
typedef struct clade__group {
  int64_t team, beside;
  bool spread;
} clade__group;

enum { CLADE__GROUP_ITEMS = 256, CLADE__GROUP_LOCAL = 8 << 10 };
#define CLADE__TEAMS \
  .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU, .units = clade__group_units, .needs_local = CLADE__GROUP_LOCAL
#define CLADE__GROUP .name = "group", CLADE__TEAMS
/* the same without `needs_local` */
#define CLADE__NO_TEAMS    .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU
#define CLADE__GROUP_PLAIN .name = "group", CLADE__NO_TEAMS

/* Teams for lines of n elements at a stride of `inner`. Depends only on these sizes, since it determines the summation
 * order. */
clade__group clade__group_of(int64_t n, int64_t inner);
/* NULL, or why the device cannot run such a group. `passes`: loop iterations of a work-item. */
const char *clade__group_refuses(const clade_query *q, double passes);
/* Loop iterations of a work-item over a line of n elements. */
double clade__group_turns(const clade__group *g, int64_t n);
/* Sets the group's parameters and the range: TEAM_LINE goes from 0 to at least `lines` - 1. */
void clade__emit_groups(clade_kernel_step *s, const clade_query *q, const clade__group *g, int64_t lines);
/* A launch without teams, in which each work-item has four consecutive elements (FOUR_FROM). */
void clade__emit_fours(clade_kernel_step *s, int64_t elements);
/* As clade__emit_strided, with four consecutive elements per work-item. */
void clade__emit_strided_fours(clade_emit *e, const char *T, int64_t divisor, int rank, const int64_t *dim,
                               const int64_t *stride);
/* Transposes matrices, by tiles in local memory. */
enum { CLADE__TURNED_TILE = 32, CLADE__TURNED_LOCAL = CLADE__TURNED_TILE * (CLADE__TURNED_TILE + 1) * 4 };
void clade__emit_turned(clade_emit *e, const char *T, int64_t matrices, int64_t rows, int64_t columns);
/* Length of the parts into which few long lines are cut; another launch combines them. A multiple of four that depends
 * only on the sizes. */
int64_t clade__group_part(int64_t lines, int64_t n);
bool clade__group_units(const clade_query *q); /* clade_impl.units: sub-group shuffles need PTX */
double clade__group_cost(const clade_query *q, double flops);

#endif
