/* What the files of optimizers share. */
#ifndef CLADE_TRAIN_OPTIM_H
#define CLADE_TRAIN_OPTIM_H

#include <clade/optim.h>

#include "base/base.h"

/* Refuses numbers that make no sense; names them. */
clade_status clade__schedule_check(const clade_schedule *schedule);
/* Adam where there is none. */
clade_status clade__optimizer_given(clade_optimizer *optimizer);
clade_status clade__optimizer_check(const clade_optimizer *optimizer);
/* The f32 scalar that clade_schedule_at gives for `step` (i64); invalid: always 1. */
clade_val clade__schedule_node(clade_graph *g, const clade_schedule *schedule, clade_val step);

#endif
