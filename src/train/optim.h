/* Shared by the files of optimizers and schedules. */
#ifndef CLADE_TRAIN_OPTIM_H
#define CLADE_TRAIN_OPTIM_H

#include <clade/optim.h>

#include "base/base.h"

/* Checks the numbers; the error names a wrong one. */
clade_status clade__schedule_check(const clade_schedule *schedule);
/* Sets Adam if no optimizer is given. */
clade_status clade__optimizer_given(clade_optimizer *optimizer);
clade_status clade__optimizer_check(const clade_optimizer *optimizer);
/* The f32 scalar factor of the schedule at `step` (i64), as clade_schedule_at. Invalid: always 1. */
clade_val clade__schedule_node(clade_graph *g, const clade_schedule *schedule, clade_val step);

#endif
