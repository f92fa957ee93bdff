/* Launches of work-groups whose items compute a line together (cl_kernels/prelude_group.cl): softmax, reductions,
 * normalization and losses by it on GPUs. Never run on one. */
#ifndef CLADE_GROUP_H
#define CLADE_GROUP_H

#include "op/dims.h"

/* A group does `beside` lines, each by a team of `team` items: neighbors, or, where it is `spread`, items of
 * neighboring lines. */
typedef struct clade__group {
  int64_t team, beside;
  bool spread;
} clade__group;

enum { CLADE__GROUP_ITEMS = 256, CLADE__GROUP_LOCAL = 8 << 10 };
#define CLADE__TEAMS \
  .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU, .units = clade__group_units, .needs_local = CLADE__GROUP_LOCAL
#define CLADE__GROUP .name = "group", CLADE__TEAMS
/* ... without teams. */
#define CLADE__NO_TEAMS    .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU
#define CLADE__GROUP_PLAIN .name = "group", CLADE__NO_TEAMS

/* For lines of n elements that lie `inner` apart: by these numbers alone, since the order of sums hangs on it. */
clade__group clade__group_of(int64_t n, int64_t inner);
/* NULL, or why the device cannot; a work-item goes through `passes` turns of its loops for each line. */
const char *clade__group_refuses(const clade_query *q, double passes);
/* Turns of an item's loop over a line. */
double clade__group_turns(const clade__group *g, int64_t n);
/* The group's parameters, and the launch: TEAM_LINE goes from 0 to at least `lines`. */
void clade__emit_groups(clade_kernel_step *s, const clade_query *q, const clade__group *g, int64_t lines);
/* A launch without teams: each item has four elements on end (FOUR_FROM). */
void clade__emit_fours(clade_kernel_step *s, int64_t elements);
/* A result of so few axes that is read by strides (clade__emit_strided), four elements on end for each item. */
void clade__emit_strided_fours(clade_emit *e, const char *T, int64_t divisor, int rank, const int64_t *dim,
                               const int64_t *stride);
/* Few lines that are long are cut into parts, and these are joined by another launch: how many elements a part has, a
 * multiple of four. By sizes alone. */
int64_t clade__group_part(int64_t lines, int64_t n);
bool clade__group_units(const clade_query *q); /* clade_impl.units: shuffles come with PTX */
double clade__group_cost(const clade_query *q, double flops);

#endif
