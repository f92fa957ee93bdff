/* Checkpoints: what they say beside the variables, and whether one belongs to this training. The text is JSON: what
 * decides the course of a training ("course", compared when it is resumed) and where it stands. */
#include <inttypes.h>

#include "base/json.h"
#include "train/room.h"

static json_t *split_json(const clade__training *tr) {
  json_t *rows = json_array();
  for (int i = 0; i < tr->n_shares; i++) json_array_append_new(rows, json_integer(tr->share[i].rows));
  return rows;
}

static json_t *shape_json(const clade__training *tr) { /* of an image */
  json_t *dims = json_array();
  for (int i = 0; i < tr->data.shape.rank; i++) json_array_append_new(dims, json_integer(tr->data.shape.dim[i]));
  return dims;
}

/* What must be the same for a resumed training to be the same training. Epochs may be more. */
static json_t *course_json(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  const clade_augment *a = &t->augment;
  return json_pack("{s:s, s:s, s:I, s:i, s:I, s:o, s:s, s:s?, s:[i,i,b,f,i,b]}", "model", t->model_name, "data",
                   tr->data.name, "images", (json_int_t)tr->data.count, "batch", t->batch, "seed", (json_int_t)t->seed,
                   "split", split_json(tr), "optimizer", t->optimizer.rule->name, "place", t->place, "augment", a->crop,
                   a->shift, a->flip, (double)a->rotate, a->cutout, a->normalise);
}

static json_t *channels_json(const clade__training *tr, const float *values) {
  json_t *array = json_array();
  for (int64_t i = 0; i < tr->data.shape.dim[0]; i++) json_array_append_new(array, json_real((double)values[i]));
  return array;
}

/* What was done to every image, so that whoever uses the weights does it too; null: nothing. */
static json_t *normalise_json(const clade__training *tr) {
  if (!tr->t.augment.normalise) return json_null();
  return json_pack("{s:o, s:o}", "mean", channels_json(tr, tr->data.mean), "std", channels_json(tr, tr->data.std));
}

/* Of a func; one that is not there yet will be compiled with what was read. */
static json_t *choices_of(const clade_func *func, const char *before) {
  char *text = NULL;
  if (!func) return before ? json_string(before) : json_null();
  json_t *json = clade_func_choices(func, &text) == CLADE_OK ? json_string(text) : NULL;
  clade_text_free(text);
  return json;
}

static json_t *choices_json(const clade__training *tr) {
  json_t *step = choices_of(tr->step_func, tr->choices[0]), *test = choices_of(tr->test_func, tr->choices[1]);
  return json_pack("[o, o]", step, test);
}

static clade_status state_text(const clade__training *tr, char **text) {
  json_t *root = json_pack("{s:i, s:o, s:I, s:i, s:o, s:f, s:o, s:o}", "format", 1, "course", course_json(tr), "step",
                           (json_int_t)tr->at, "classes", tr->data.classes, "shape", shape_json(tr), "best", tr->best,
                           "normalise", normalise_json(tr), "choices", choices_json(tr));
  clade_status status = clade__json_print(root, JSON_COMPACT | JSON_REAL_PRECISION(17), text);
  json_decref(root);
  return status;
}

clade_status clade__train_save(clade__training *tr, bool best) {
  if (!tr->directory) return CLADE_OK;
  char *text;
  CLADE_TRY(state_text(tr, &text));
  clade_status status = clade_checkpoint_save(tr->directory, tr->vars, tr->at, text, .keep = tr->t.keep, .best = best);
  clade__free(text);
  CLADE_TRY(status);
  clade__train_tell(tr, CLADE_TRAIN_CHECKPOINT, tr->t.checkpoint_dir);
  return CLADE_OK;
}

/* Names the first thing that the checkpoint's training did otherwise. */
static clade_status compare(const clade_checkpoint *checkpoint, const json_t *theirs, json_t *ours) {
  const char *name;
  json_t *value;
  json_object_foreach(ours, name, value) {
    const json_t *other = json_object_get(theirs, name);
    if (json_equal(value, other) || (json_is_null(value) && !other)) continue;
    const size_t flags = JSON_ENCODE_ANY | JSON_COMPACT;
    char *a = NULL, *b = NULL;
    clade_status status = other ? clade__json_print(other, flags, &a) : CLADE_OK;
    if (status == CLADE_OK) status = clade__json_print(value, flags, &b);
    if (status == CLADE_OK)
      status = CLADE_FAIL(INVALID,
                          "%s: it was trained with %s %s, this training has %s: a resumed one must be the same, or "
                          "have a directory of its own",
                          clade_checkpoint_path(checkpoint), name, a ? a : "none", b);
    clade__free(a);
    clade__free(b);
    return status;
  }
  return CLADE_OK;
}

static clade_status take_state(clade__training *tr, const clade_checkpoint *checkpoint) {
  json_t *state = json_loads(clade_checkpoint_text(checkpoint), 0, NULL), *ours = course_json(tr);
  clade_status status = CLADE_NO_MEMORY;
  if (!ours) goto fail;
  if (json_integer_value(json_object_get(state, "format")) != 1)
    CLADE_GOTO(CLADE_FAIL(CORRUPT, "%s: it does not say where a training stands", clade_checkpoint_path(checkpoint)));
  CLADE_GOTO(compare(checkpoint, json_object_get(state, "course"), ours));
  tr->at = json_integer_value(json_object_get(state, "step"));
  tr->best = json_real_value(json_object_get(state, "best"));
  if (tr->at < 0 || tr->at > tr->steps)
    CLADE_GOTO(CLADE_FAIL(INVALID, "%s: it is %" PRId64 " steps on its way, and this training has %" PRId64,
                          clade_checkpoint_path(checkpoint), tr->at, tr->steps));
  CLADE_GOTO(clade_checkpoint_apply(checkpoint, tr->vars));
  tr->begun_at = tr->at;
  tr->resumed = true;
fail:
  json_decref(state);
  json_decref(ours);
  return status;
}

/* Texts; whatever else stands there is none. */
static clade_status read_choices(clade__training *tr) {
  json_t *state = json_loads(clade_checkpoint_text(tr->checkpoint), 0, NULL);
  const json_t *list = json_object_get(state, "choices");
  clade_status status = CLADE_OK;
  for (size_t i = 0; i < CLADE_COUNT(tr->choices) && status == CLADE_OK; i++) {
    const char *text = json_string_value(json_array_get(list, i));
    tr->choices[i] = text ? clade__copy_text(text) : NULL;
    if (text && !tr->choices[i]) status = CLADE_NO_MEMORY;
  }
  json_decref(state);
  return status;
}

clade_status clade__train_find(clade__training *tr) {
  const char *path = tr->t.checkpoint_dir;
  if (!path) return tr->t.resume ? CLADE_FAIL(INVALID, "clade_train: .resume without a .checkpoint_dir") : CLADE_OK;
  CLADE_TRY(clade_checkpoint_dir_open(path, &tr->directory));
  clade_status status = clade_checkpoint_open(path, CLADE_CHECKPOINT_LATEST, &tr->checkpoint);
  if (status == CLADE_NOT_FOUND) return CLADE_OK;
  CLADE_TRY(status);
  return tr->t.resume ? read_choices(tr) : CLADE_OK;
}

clade_status clade__train_resume(clade__training *tr) {
  clade_status status = CLADE_OK;
  if (!tr->checkpoint) return CLADE_OK;
  if (tr->t.resume)
    status = take_state(tr, tr->checkpoint);
  else
    clade__log(CLADE_LOG_WARNING,
               "%s holds checkpoints up to step %" PRId64 ": this training begins afresh, and its own replace them",
               tr->t.checkpoint_dir, clade_checkpoint_step(tr->checkpoint));
  clade_checkpoint_free(tr->checkpoint);
  tr->checkpoint = NULL;
  return status;
}
