/* Opens and measures a run's model for clade prune. */
#include "base/json.h"
#include "cli/answers.h"
#include "cli/prune.h"
#include "io/checkpoint.h"

void prune_side_close(prune_side *side) {
  clade_checkpoint_free(side->checkpoint);
  clade_vars_release(side->vars);
  clade_func_release(side->func);
  clade_graph_release(side->graph);
}

clade_status prune_build(const prune_job *job, clade_graph *g) {
  const clade_trainer *t = &job->train.trainer;
  clade_dataset_info data = {.size = sizeof data};
  CLADE_TRY(clade_dataset_describe(t->test, &data));
  clade_shape shape = {.rank = data.shape.rank + 1, .dim = {job->batch}};
  for (int i = 0; i < data.shape.rank; i++) shape.dim[i + 1] = data.shape.dim[i];
  const clade_val x = clade_input(g, "x", CLADE_F32, shape);
  clade_output(g, "y", t->model(g, x, data.classes, t->model_user));
  return clade_graph_status(g);
}

/* Whether the checkpoint keeps pruned weights at 0. */
static bool has_zeros(const json_t *state) {
  const char *structure = json_string_value(json_object_get(json_object_get(state, "pruned"), "structure"));
  return structure && (!strcmp(structure, clade_prune_structure_name(CLADE_PRUNE_WEIGHTS)) ||
                       !strcmp(structure, clade_prune_structure_name(CLADE_PRUNE_2_4)));
}

/* Checks that a checkpoint holds the run's model, and whether it was pruned before. */
static clade_status read_state(const prune_job *job, const prune_side *side, bool *pruned) {
  const char *path = clade_checkpoint_path(side->checkpoint), *model = job->train.trainer.model_name;
  json_t *state = clade__json_load_text(clade_checkpoint_text(side->checkpoint));
  const char *theirs = json_string_value(json_object_get(json_object_get(state, "course"), "model"));
  clade_status status = CLADE_OK;
  *pruned = json_is_object(json_object_get(state, "pruned"));
  if (!theirs)
    status = CLADE_FAIL(CORRUPT, "%s: it does not say which model it holds", path);
  else if (strcmp(theirs, model) != 0)
    status =
        CLADE_FAIL(INVALID, "%s: it holds the model %.64s, and %s/run.json says %s", path, theirs, job->run, model);
  else if (job->structure == CLADE_PRUNE_CHANNELS && has_zeros(state))
    status = CLADE_FAIL(INVALID, "%s: its weights are pruned, and would not stay so: channels are to be pruned before",
                        path);
  json_decref(state);
  return status;
}

static clade_status load(prune_job *job, const char *directory, prune_side *side) {
  const clade_trainer *t = &job->train.trainer;
  bool pruned;
  CLADE_TRY(clade_checkpoint_open(directory, CLADE_CHECKPOINT_BEST, &side->checkpoint));
  CLADE_TRY(read_state(job, side, &pruned));
  CLADE_TRY(clade_graph_new(&side->graph));
  if (pruned) CLADE_TRY(clade_checkpoint_shapes(side->checkpoint, side->graph));
  CLADE_TRY(prune_build(job, side->graph));
  CLADE_TRY(clade_compile(side->graph, job->device, &side->func, .fallback = t->fallback, .place = t->place));
  CLADE_TRY(clade_vars_new(side->func, 0, &side->vars));
  return clade_checkpoint_apply(side->checkpoint, side->vars);
}

static clade_status measure(const prune_job *job, prune_side *side) {
  const clade_trainer *trainer = &job->train.trainer;
  clade_dataset_info data = {.size = sizeof data};
  clade_run *run;
  CLADE_TRY(clade_dataset_describe(trainer->test, &data));
  const answers_test test = {trainer->test, job->train.data, job->batch, data.classes, trainer->augment.normalize};
  CLADE_TRY(clade_run_new(side->func, side->vars, &run));
  const clade_status status = answers_measure(&test, run, &side->accuracy, &side->seconds);
  clade_run_free(run);
  return status;
}

static clade_status count(prune_side *side) {
  for (int i = 0; i < clade_vars_count(side->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    float *w;
    size_t n;
    CLADE_TRY(clade_vars_describe(side->vars, i, &info));
    if (!info.parameter) continue;
    CLADE_TRY(clade__vars_floats(side->vars, info.name, &info.type, &w, &n));
    side->parameters += (int64_t)n;
    for (size_t k = 0; k < n && clade__is_weight(&info); k++) side->zeros += w[k] == 0;
    clade__free(w);
  }
  side->flops = clade__graph_flops(side->graph);
  side->bytes = clade__checkpoint_weights(side->checkpoint);
  return CLADE_OK;
}

clade_status prune_side_open(prune_job *job, const char *directory, prune_side *side) {
  CLADE_TRY(load(job, directory, side));
  CLADE_TRY(count(side));
  return measure(job, side);
}
