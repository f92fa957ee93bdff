/* Loss scaling, for gradients in a type with few exponents. The loss is multiplied by a scale before
 * differentiation, and gradients are divided by it. If a gradient is not finite, the step is skipped: all variables
 * keep their values and the scale falls. Nodes decide this from the summed gradients, so that all ranks agree. */
#include <float.h>
#include <math.h>

#include <clade/ops.h>

#include "train/low_rank.h"

enum { CLEAN_STEPS = 2000 };
/* Limits that keep the scale and its inverse finite and nonzero in f32. */
static const double least = 0x1p-24, most = 0x1p100;

static clade_val f32(clade__task *t, double value) { return clade_fill(t->g, CLADE_F32, CLADE_SCALAR, value); }
static clade_val i64(clade__task *t, double value) { return clade_fill(t->g, CLADE_I64, CLADE_SCALAR, value); }

clade_status clade__loss_scale_check(const clade_minimize_opt *o) {
  if (!(o->loss_scale >= 0 && isfinite(o->loss_scale)))
    return CLADE_FAIL(INVALID, ".loss_scale is %g; expected a positive number", o->loss_scale);
  if (o->loss_scale != 0 && o->model)
    return CLADE_FAIL(UNSUPPORTED, ".loss_scale with gradients that were summed before: they are not scaled");
  if (o->loss_scale != 0 && o->low_rank)
    return CLADE_FAIL(
        UNSUPPORTED,
        ".loss_scale with .low_rank %d, whose errors are of the scale that they were made with: leave out "
        "one of the two",
        o->low_rank);
  return CLADE_OK;
}

clade_status clade__task_scale_loss(clade__task *t, clade_val loss) {
  const clade_type type = clade__task_type(t, loss);
  if (t->opt->loss_scale == 0) return CLADE_OK;
  if (type.dtype != CLADE_F32)
    return CLADE_FAIL(DTYPE, "%s: .loss_scale: the loss is %s; expected f32", t->what, clade_dtype_name(type.dtype));
  t->loss_scale = clade__scalar_variable(t->g, CLADE__LOSS_SCALE, CLADE_F32, t->opt->loss_scale);
  t->scale = clade_reciprocal(t->g, t->loss_scale);
  return clade_graph_status(t->g);
}

/* ---- whether a step is skipped ---- */
/* With sharded gradients, ranks see only their own; sums by MPI may differ in the last bits. */
static bool ranks_differ(const clade__task *t) {
  return clade_comm_size(t->opt->comm) > 1 &&
         (clade__task_shards(t, CLADE_SHARD_GRADIENTS) || t->opt->reduce != CLADE_REDUCE_BY_CLADE);
}

static clade_status find_overflow(clade__task *t) {
  clade_val squares;
  CLADE_TRY(clade__task_squares(t, INFINITY, &squares)); /* without clipping, which would turn infinity into a number */
  if (ranks_differ(t)) CLADE_TRY(clade_all_reduce(t->g, t->opt->comm, CLADE_F32, 1, &squares));
  t->clean = clade_le(t->g, squares, f32(t, FLT_MAX)); /* false for infinity and NaN */
  return clade_graph_status(t->g);
}

/* Doubles the scale after a number of clean steps, halves it after a skipped one. */
static void move_scale(clade__task *t) {
  clade_graph *g = t->g;
  const clade_val steps = clade__scalar_variable(g, CLADE__LOSS_SCALE ".clean", CLADE_I64, 0);
  const clade_val skipped = clade__scalar_variable(g, CLADE__LOSS_SCALE ".skipped", CLADE_I64, 0);
  const clade_val more = clade__one_more(g, steps), old = t->loss_scale;
  const clade_val due = clade_ge(g, more, i64(t, CLEAN_STEPS));
  const clade_val grown = clade_select(g, due, clade_add(g, old, old), old);
  const clade_val next = clade_select(g, t->clean, grown, clade_mul(g, old, f32(t, 0.5)));
  const clade_val again = clade_logical_or(g, due, clade_logical_not(g, t->clean));
  clade_assign(g, old, clade_clip(g, next, least, most));
  clade_assign(g, steps, clade_select(g, again, i64(t, 0), more));
  clade_assign(g, skipped, clade_select(g, t->clean, skipped, clade__one_more(g, skipped)));
}

clade_val clade__task_unless_skipped(clade__task *t, clade_val next, clade_val old) {
  const int device = t->g->device;
  if (!clade_val_ok(t->clean)) return next;
  t->g->device = clade__task_device(t, old);
  const clade_val v = clade_select(t->g, t->clean, next, old);
  t->g->device = device;
  return v;
}

/* Makes the model's own assignments, such as running statistics, depend on a clean step. */
static clade_status hold_variables(clade__task *t) {
  clade_graph *g = t->g;
  for (size_t i = 0; i < g->variables.count; i++) {
    const clade__port *port = &g->variables.at[i];
    if (!port->assigned) continue;
    const clade_val old = clade__graph_val(g, port->value), next = clade__graph_val(g, port->assigned);
    CLADE_TRY(clade__reassign(g, old, clade__task_unless_skipped(t, next, old)));
  }
  return CLADE_OK;
}

clade_status clade__task_judge(clade__task *t) {
  if (!clade_val_ok(t->loss_scale)) return CLADE_OK;
  CLADE_TRY(find_overflow(t));
  CLADE_TRY(hold_variables(t));
  move_scale(t);
  return clade_graph_status(t->g);
}
