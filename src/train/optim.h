/* What the files of optimisers share. */
#ifndef CLADE_TRAIN_OPTIM_H
#define CLADE_TRAIN_OPTIM_H

#include <clade/optim.h>

#include "base/base.h"

/* An option, or what stands for it where it is unset. */
static inline double clade__given(double option, double unset) { return option != 0 ? option : unset; }

double clade__schedule_factor(const clade_schedule *schedule); /* of a STEP, with what stands for an unset one */

/* Refuses numbers that make no sense; names them. */
clade_status clade__schedule_check(const clade_schedule *schedule);
clade_status clade__optimizer_check(const clade_optimizer *optimizer);
/* The f32 scalar that clade_schedule_at gives for `step` (i64); invalid: always 1. */
clade_val clade__schedule_node(clade_graph *g, const clade_schedule *schedule, clade_val step);

#endif
