/* Checkpoints of a training: state beside the variables, and resuming. The state is JSON: course, settings
 * (course.h) and position. */
#include <inttypes.h>
#include <math.h>

#include "base/json.h"
#include "train/course.h"

static json_t *shape_json(const clade__training *tr) { /* of an image */
  json_t *dims = json_array();
  for (int i = 0; i < tr->data.shape.rank; i++) json_array_append_new(dims, json_integer(tr->data.shape.dim[i]));
  return dims;
}

static json_t *channels_json(const clade__training *tr, const float *values) {
  json_t *array = json_array();
  for (int64_t i = 0; i < tr->data.shape.dim[0]; i++) json_array_append_new(array, json_real((double)values[i]));
  return array;
}

/* The normalization of images, needed to use the weights; null: none. */
static json_t *normalize_json(const clade__training *tr) {
  if (!tr->t.augment.normalize) return json_null();
  return json_pack("{s:o, s:o}", "mean", channels_json(tr, tr->data.mean), "std", channels_json(tr, tr->data.std));
}

/* The choices of a func, or those that were read if the func is not built yet. */
static json_t *choices_of(const clade_func *func, const char *before) {
  char *text = NULL;
  if (!func) return before ? json_string(before) : json_null();
  json_t *json = clade_func_choices(func, &text) == CLADE_OK ? json_string(text) : NULL;
  clade_text_free(text);
  return json;
}

/* The choices of a rank, or the index of an earlier rank with the same ones. */
static json_t *choices_of_rank(const clade__training *tr, int rank) {
  const char *text = tr->others[rank];
  for (int i = 1; i < rank && text; i++)
    if (tr->others[i] && !strcmp(tr->others[i], text)) return json_integer(i);
  return text ? json_string(text) : json_null();
}

static json_t *choices_json(const clade__training *tr) {
  json_t *step = choices_of(tr->step_func, tr->choices[0]), *test = choices_of(tr->test_func, tr->choices[1]);
  json_t *all = json_pack("[o, o]", step, test);
  for (int i = 1; i < tr->ranks; i++) json_array_append_new(all, choices_of_rank(tr, i));
  return all;
}

static clade_status state_text(const clade__training *tr, char **text) {
  json_t *root =
      json_pack("{s:i, s:o, s:o, s:o, s:s?, s:I, s:I, s:i, s:o, s:f, s:o, s:o, s:o, s:o}", "format", 1, "course",
                clade__train_course(tr), "settings", clade__train_settings(tr), "graph", clade__train_graph(tr), "spec",
                tr->data.spec, "step", (json_int_t)tr->at, "skipped", (json_int_t)tr->skipped, "classes",
                tr->data.classes, "shape", shape_json(tr), "best", tr->best, "normalize", normalize_json(tr), "choices",
                choices_json(tr), "pruned", clade__train_pruned(tr), "qat", clade__train_quantized(tr));
  clade_status status = clade__json_print(root, JSON_COMPACT | JSON_REAL_PRECISION(17), text);
  json_decref(root);
  return status;
}

clade_status clade__train_save(clade__training *tr, bool best) {
  if (!tr->directory) return CLADE_OK;
  char *text;
  CLADE_TRY(state_text(tr, &text));
  const clade_checkpoint_opt opt = {.size = sizeof opt,
                                    .text = text,
                                    .keep = tr->t.keep,
                                    .best = best,
                                    .pack_zeros = tr->t.pruned > CLADE_PRUNE_CHANNELS};
  clade_status status = clade__checkpoint_save(tr->directory, tr->vars, &tr->foreign, tr->at, &opt);
  clade__free(text);
  CLADE_TRY(status);
  clade__train_tell(tr, CLADE_TRAIN_CHECKPOINT, tr->t.checkpoint_dir);
  return CLADE_OK;
}

static clade_status bad_field(const char *path, const char *name, const json_t *value, const char *expected) {
  char *text = NULL;
  if (value) CLADE_TRY(clade__json_print(value, JSON_ENCODE_ANY | JSON_COMPACT, &text));
  clade_status status =
      CLADE_FAIL(CORRUPT, "%s: its \"%s\" is %s; %s is expected", path, name, text ? text : "missing", expected);
  clade__free(text);
  return status;
}

static clade_status read_position(clade__training *tr, const char *path, const json_t *state) {
  const json_t *step = json_object_get(state, "step"), *best = json_object_get(state, "best");
  const json_t *skipped = json_object_get(state, "skipped"); /* absent in older checkpoints: 0 */
  tr->at = json_integer_value(step);
  tr->skipped = json_integer_value(skipped);
  tr->best = json_number_value(best);
  if (!json_is_integer(step) || tr->at < 0) return bad_field(path, "step", step, "a whole number from 0 on");
  if (tr->skipped < 0 || tr->skipped > tr->at)
    return bad_field(path, "skipped", skipped, "a whole number, of its steps");
  if (!json_is_number(best)) return bad_field(path, "best", best, "a number");
  if (tr->at > tr->steps)
    return CLADE_FAIL(INVALID, "%s: it is %" PRId64 " steps on its way, and this training has %" PRId64, path, tr->at,
                      tr->steps);
  return CLADE_OK;
}

/* Reads a scalar from the checkpoint, even if rank 0 does not have the variable. */
static clade_status read_scalar(const clade__training *tr, const char *name, clade_dtype dtype, void *out,
                                size_t bytes) {
  const void *data;
  CLADE_TRY(clade__checkpoint_find(tr->checkpoint, name, &(clade_type){.dtype = dtype}, &data));
  memcpy(out, data, bytes);
  return CLADE_OK;
}

/* Applies the variables and checks that they belong to the position. */
static clade_status take_variables(clade__training *tr, const char *path) {
  int64_t done;
  CLADE_TRY(clade__checkpoint_apply(tr->checkpoint, tr->vars, &tr->foreign));
  CLADE_TRY(read_scalar(tr, "optimizer.step", CLADE_I64, &done, sizeof done));
  if (done != tr->at - tr->skipped)
    return CLADE_FAIL(CORRUPT, "%s: its \"step\" is %" PRId64 ", and its variable optimizer.step %" PRId64 "%s", path,
                      tr->at, done, tr->skipped ? ", which is not that without the \"skipped\" ones" : "");
  return CLADE_OK;
}

/* The learning rate is a variable, but this training's value replaces the checkpoint's. */
static clade_status take_settings(clade__training *tr, const json_t *state) {
  const json_t *before = json_object_get(state, "settings");
  float lr;
  CLADE_TRY(read_scalar(tr, "optimizer.lr", CLADE_F32, &lr, sizeof lr));
  bool same = lr == (float)tr->t.optimizer.lr;
  json_t *rate =
      /* Older checkpoints store only the rate. */
      json_pack("{s:f}", "lr", same ? tr->t.optimizer.lr : (double)lr);
  clade_status status = rate ? clade__train_changes(tr, before ? before : rate, &tr->changed) : CLADE_NO_MEMORY;
  json_decref(rate);
  CLADE_TRY(status);
  clade__log(CLADE_LOG_INFO, "%s: resuming at step %" PRId64 "%s%s", tr->t.checkpoint_dir, tr->at,
             tr->changed ? " with " : "", tr->changed ? tr->changed : "");
  return CLADE_OK;
}

/* Sets a variable if this rank has it. */
static clade_status set_where_it_is(clade__training *tr, const char *name, const void *value, size_t bytes) {
  for (int i = 0; i < clade_vars_count(tr->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(tr->vars, i, &info));
    if (!strcmp(info.name, name)) return clade_vars_set(tr->vars, name, value, bytes);
  }
  return CLADE_OK;
}

clade_status clade__train_go_on(clade__training *tr) {
  const float lr = (float)tr->t.optimizer.lr;
  if (!tr->resumed) return CLADE_OK;
  CLADE_TRY(set_where_it_is(tr, "optimizer.lr", &lr, sizeof lr));
  return set_where_it_is(tr, CLADE__LOSS_SCALE ".skipped", &tr->skipped, sizeof tr->skipped);
}

static clade_status take_state(clade__training *tr) {
  const char *path = clade_checkpoint_path(tr->checkpoint);
  json_t *state = clade__json_load_text(clade_checkpoint_text(tr->checkpoint));
  clade_status status;
  if (json_object_get(state, "quantization"))
    CLADE_GOTO(CLADE_FAIL(INVALID, "%s: its weights are quantized: train the run that they were made of", path));
  CLADE_GOTO(clade__train_compare_graph(tr, path, state));
  CLADE_GOTO(take_variables(tr, path));
  CLADE_GOTO(take_settings(tr, state));
  tr->begun_at = tr->at;
  tr->resumed = true;
fail:
  json_decref(state);
  return status;
}

static clade_status copy(const char *text, char **out) {
  *out = text ? clade__copy_text(text) : NULL;
  return text && !*out ? CLADE_NO_MEMORY : CLADE_OK;
}

/* Reads pinned choices; other values are ignored. They apply only to the same number of ranks and the same parts of
 * the model. */
static clade_status read_choices(clade__training *tr, const json_t *state) {
  const json_t *list = json_object_get(state, "choices");
  json_t *now = clade__train_settings(tr);
  const bool same = clade__train_same_parts(json_object_get(state, "settings"), now);
  const int ranks = json_array_size(list) == (size_t)tr->ranks + 1 ? tr->ranks : 1;
  json_decref(now);
  if (!same) return CLADE_OK;
  for (size_t i = 0; i < CLADE_COUNT(tr->choices); i++)
    CLADE_TRY(copy(json_string_value(json_array_get(list, i)), &tr->choices[i]));
  for (int i = 1; i < ranks; i++) {
    const json_t *one = json_array_get(list, (size_t)i + 1);
    const json_int_t as = json_integer_value(one); /* 0: not an index */
    CLADE_TRY(copy(as > 0 && as < i ? tr->others[as] : json_string_value(one), &tr->others[i]));
  }
  return CLADE_OK;
}

/* For .split_auto. A split over another number of ranks is ignored; speeds are measured again. */
static clade_status read_split(clade__training *tr, const json_t *state) {
  const json_t *rows = json_object_get(json_object_get(state, "settings"), "split");
  if (!tr->t.split_auto || json_array_size(rows) != (size_t)tr->ranks) return CLADE_OK;
  for (int i = 0; i < tr->ranks; i++)
    if (json_integer_value(json_array_get(rows, (size_t)i)) < 1) return CLADE_OK;
  tr->split = clade__new((size_t)tr->ranks, sizeof *tr->split);
  if (!tr->split) return CLADE_NO_MEMORY;
  for (int i = 0; i < tr->ranks; i++) tr->split[i] = (double)json_integer_value(json_array_get(rows, (size_t)i));
  return CLADE_OK;
}

/* For .precision_auto. Without a precision (older checkpoints) it is measured again. */
static void read_precision(clade__training *tr, const json_t *state) {
  const char *text = json_string_value(json_object_get(json_object_get(state, "settings"), "precision"));
  if (!tr->t.precision_auto || !text) return;
  tr->kept_precision = strncmp(text, "bf16", 4) ? CLADE_F32 : CLADE_BF16;
}

/* For .link_auto. Without numbers (no layer was divided) they are measured. */
static void read_speeds(clade__training *tr, const json_t *state) {
  const json_t *link = json_object_get(json_object_get(state, "settings"), "tensor_link");
  if (!tr->t.link_auto || json_array_size(link) != 3) return;
  tr->kept_speeds =
      (clade__speeds){json_number_value(json_array_get(link, 0)), json_number_value(json_array_get(link, 1)),
                      json_number_value(json_array_get(link, 2))};
}

/* All checks that need no compilation. */
static clade_status read_state(clade__training *tr) {
  const char *path = clade_checkpoint_path(tr->checkpoint);
  json_t *state = clade__json_load_text(clade_checkpoint_text(tr->checkpoint));
  clade_status status;
  if (json_integer_value(json_object_get(state, "format")) != 1)
    CLADE_GOTO(CLADE_FAIL(CORRUPT, "%s: it does not say where a training stands", path));
  CLADE_GOTO(clade__train_compare(tr, path, state));
  CLADE_GOTO(read_position(tr, path, state));
  CLADE_GOTO(read_choices(tr, state));
  CLADE_GOTO(read_split(tr, state));
  CLADE_GOTO(clade__train_read_pruned(tr, path, json_object_get(state, "pruned")));
  CLADE_GOTO(clade__train_read_quantized(tr, path, json_object_get(state, "qat")));
  read_precision(tr, state);
  read_speeds(tr, state);
fail:
  json_decref(state);
  return status;
}

/* The newest checkpoint, or the best if it is the only one. */
static clade_status find_newest(clade__training *tr, const char *path) {
  clade_status status = clade_checkpoint_open(path, CLADE_CHECKPOINT_LATEST, &tr->checkpoint);
  if (status == CLADE_NOT_FOUND) status = clade_checkpoint_open(path, CLADE_CHECKPOINT_BEST, &tr->checkpoint);
  if (status == CLADE_NOT_FOUND) return CLADE_OK;
  CLADE_TRY(status);
  return read_state(tr);
}

/* Fails if there are checkpoints, which a new training would replace. */
static clade_status refuse_any(const char *path) {
  clade_checkpoint *there;
  clade_status status = clade_checkpoint_open(path, CLADE_CHECKPOINT_BEST, &there);
  if (status == CLADE_NOT_FOUND) return CLADE_OK;
  if (status != CLADE_OK)
    return clade__fail_in(status, "%s holds checkpoints, which only a training that may overwrite them replaces", path);
  status = CLADE_FAIL(DUPLICATE,
                      "%s holds checkpoints up to step %" PRId64 ", which a training from the start would replace: "
                      "resume it, overwrite it, or name another directory",
                      path, clade_checkpoint_step(there));
  clade_checkpoint_free(there);
  return status;
}

clade_status clade__train_find(clade__training *tr) {
  const char *path = tr->t.checkpoint_dir;
  if (!path) return tr->t.resume ? CLADE_FAIL(INVALID, "clade_train: .resume without a .checkpoint_dir") : CLADE_OK;
  if (tr->t.resume && tr->t.overwrite)
    return CLADE_FAIL(INVALID, "clade_train: .resume goes on with what .overwrite replaces: set one of them");
  CLADE_TRY(clade_checkpoint_dir_open(path, &tr->directory));
  if (!tr->t.overwrite && !tr->t.resume) CLADE_TRY(refuse_any(path));
  CLADE_TRY(clade__train_fingerprint(tr));
  return tr->t.resume ? find_newest(tr, path) : CLADE_OK;
}

clade_status clade__train_resume(clade__training *tr) { return tr->checkpoint ? take_state(tr) : CLADE_OK; }
