/* The description of a training in a checkpoint: the course, which must be equal to resume, and the settings, which
 * may change and are then reported. */
#include <stdio.h>

#include "comm/wire.h"
#include "train/course.h"

static json_t *split_json(const clade__training *tr) {
  json_t *rows = json_array();
  for (int i = 0; i < tr->ranks; i++) json_array_append_new(rows, json_integer(tr->parts[i]));
  return rows;
}

/* By which layers are divided; null: none is. */
static json_t *link_json(const clade__training *tr) {
  const clade__speeds *s = &tr->speeds;
  return tr->grid.tensor > 1 ? json_pack("[f, f, f]", s->link_us, s->link_gbits, s->tflops) : json_null();
}

/* As text: a custom rule may have any numbers. */
static json_t *numbers_json(const clade_optimizer *o) {
  char text[CLADE_COUNT(o->number) * 32] = "";
  int at = 0;
  for (size_t i = 0; i < CLADE_COUNT(o->number); i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%.15g", i ? " " : "", o->number[i]);
  return json_string(text);
}

json_t *clade__train_course(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  const clade_augment *a = &t->augment;
  return json_pack("{s:s, s:s, s:I, s:i, s:I, s:s, s:s?, s:[i,i,b,f,i,b], s:s, s:o, s:f}", "model", t->model_name,
                   "data", tr->data.name, "images", (json_int_t)tr->data.count, "batch", t->batch, "seed",
                   (json_int_t)t->seed, "optimizer", t->optimizer.rule->name, "place", t->place, "augment", a->crop,
                   a->shift, a->flip, (double)a->rotate, a->cutout, a->normalize, "fingerprint", tr->fingerprint,
                   "optimizer_numbers", numbers_json(&t->optimizer), "ema", t->ema);
}

json_t *clade__train_graph(const clade__training *tr) {
  char hash[33];
  return json_pack("{s:s, s:s}", "hash", clade__hash_text(tr->model_hash, hash), "clade", clade_version());
}

static void schedule_text(const clade_schedule *s, char *text, size_t size) {
  int n = snprintf(text, size, "constant");
  if (s->kind == CLADE_SCHEDULE_STEP)
    n = snprintf(text, size, "step: %g each %lld steps", s->factor, (long long)s->every);
  if (s->kind == CLADE_SCHEDULE_COSINE)
    n = s->start == 1 ? snprintf(text, size, "cosine: to %g at step %lld", s->end, (long long)s->steps)
                      : snprintf(text, size, "cosine: from %g to 1 at step %lld, to %g at step %lld", s->start,
                                 (long long)s->peak, s->end, (long long)s->steps);
  if (s->warmup) snprintf(text + n, size - (size_t)n, ", warm-up of %lld steps", (long long)s->warmup);
}

/* Type or compression of gradients between ranks. */
static void wire_text(const clade_trainer *t, char *text, size_t size) {
  const char *type = clade_dtype_name(clade__comm_wire(t->compress));
  if (t->low_rank)
    snprintf(text, size, "powersgd:%d%s%s", t->low_rank, t->compress ? " " : "", t->compress ? type : "");
  else
    snprintf(text, size, "%s", type);
}

json_t *clade__train_settings(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  char schedule[256], wire[64], precision[256];
  clade__train_precision_text(t, precision, sizeof precision);
  schedule_text(&t->schedule, schedule, sizeof schedule);
  wire_text(t, wire, sizeof wire);
  return json_pack("{s:f, s:s, s:i, s:f, s:f, s:f, s:f, s:i, s:s, s:b, s:s, s:o, s:s, s:i, s:i, s:i, s:i, s:o}", "lr",
                   t->optimizer.lr, "schedule", schedule, "epochs", t->epochs, "weight_decay",
                   t->optimizer.weight_decay, "clip_norm", t->clip_norm, "clip_value", t->clip_value, "smoothing",
                   t->smoothing, "ranks", tr->ranks, "compress", wire, "sync_batch_norm",
                   t->sync_batch_norm && tr->grid.data > 1, "reduce", clade__train_reduced_by(tr), "split",
                   split_json(tr), "precision", precision, "tensor", t->tensor, "pipeline", t->pipeline, "interleave",
                   t->interleave, "micro_batches", t->micro_batches, "tensor_link", link_json(tr));
}

/* Appends a value as a message shows it, without JSON's quotes. */
static void add_value(clade__text *out, const json_t *value) {
  char *text = NULL;
  if (json_is_real(value))
    clade__text_add(out, "%g", json_real_value(value));
  else if (json_is_string(value))
    clade__text_add(out, "\"%s\"", json_string_value(value));
  else if (value && clade__json_print(value, JSON_ENCODE_ANY | JSON_COMPACT, &text) == CLADE_OK)
    clade__text_add(out, "%s", text);
  else
    clade__text_add(out, "none");
  clade__free(text);
}

static clade_status differs(const char *path, const char *name, const json_t *theirs, const json_t *ours) {
  clade__text text = {0};
  char *message = NULL;
  clade__text_add(&text, "%s: it was trained with %s ", path, name);
  add_value(&text, theirs);
  clade__text_add(&text, ", this training has ");
  add_value(&text, ours);
  CLADE_TRY(clade__text_take(&text, &message));
  clade_status status =
      CLADE_FAIL(INVALID, "%s: a resumed one must be the same, or have a directory of its own", message);
  clade__free(message);
  return status;
}

static const char *spec_of(const char *spec) { return spec ? spec : "a set of the program's own"; }

static clade_status other_data(const clade__training *tr, const char *path, const json_t *state) {
  const char *theirs = json_string_value(json_object_get(state, "spec"));
  return CLADE_FAIL(INVALID,
                    "%s: it was trained on other images (%s) than these (%s), of as many: a resumed training must have "
                    "the same, or a directory of its own",
                    path, spec_of(theirs), spec_of(tr->data.spec));
}

clade_status clade__train_compare(const clade__training *tr, const char *path, const json_t *state) {
  /* absent in checkpoints of older versions */
  static const char *const later[] = {"fingerprint", "optimizer_numbers", "ema"};
  const json_t *course = json_object_get(state, "course");
  json_t *ours = clade__train_course(tr), *value;
  const char *name;
  clade_status status = ours ? CLADE_OK : CLADE_NO_MEMORY;
  json_object_foreach(ours, name, value) {
    const json_t *theirs = json_object_get(course, name);
    bool told = theirs || !json_is_null(value);
    for (size_t i = 0; i < CLADE_COUNT(later) && !theirs; i++) told &= strcmp(later[i], name) != 0;
    if (!told || json_equal(value, theirs)) continue;
    status = strcmp(name, "fingerprint") ? differs(path, name, theirs, value) : other_data(tr, path, state);
    break;
  }
  json_decref(ours);
  if (status == CLADE_OK && !json_object_get(course, "fingerprint"))
    clade__log(CLADE_LOG_WARNING,
               "%s: it holds no fingerprint of its images, as an older version wrote it: whether these are the same is "
               "not checked",
               path);
  return status;
}

/* Skips the comparison if another version of Clade wrote the checkpoint: it may build the same layers of other
 * nodes. */
clade_status clade__train_compare_graph(const clade__training *tr, const char *path, const json_t *state) {
  const json_t *theirs = json_object_get(state, "graph");
  json_t *ours = clade__train_graph(tr);
  if (!ours) return CLADE_NO_MEMORY;
  bool same_version = json_equal(json_object_get(ours, "clade"), json_object_get(theirs, "clade"));
  bool other = same_version && !json_equal(ours, theirs);
  json_decref(ours);
  if (!other) return CLADE_OK;
  return CLADE_FAIL(INVALID,
                    "%s: the model \"%s\" that it was trained with computes something else than this one of the same "
                    "name: a resumed training must have the same, or a directory of its own",
                    path, tr->t.model_name);
}

bool clade__train_same_parts(const json_t *before, const json_t *now) {
  static const char *const names[] = {"tensor", "pipeline", "interleave", "micro_batches"};
  for (size_t i = 0; i < CLADE_COUNT(names); i++) {
    const json_t *theirs = json_object_get(before, names[i]), *ours = json_object_get(now, names[i]);
    const json_int_t had = theirs ? json_integer_value(theirs) : 1; /* checkpoints of older versions lack the field */
    if (had != json_integer_value(ours)) return false;
  }
  return true;
}

/* A change of the rows that follows from another layout is not reported, nor a missing field of an older version. */
static bool is_told(const char *name, const json_t *before, const json_t *now) {
  const json_t *theirs = json_object_get(before, name);
  if (!strcmp(name, "tensor_link")) return json_is_array(theirs) && json_is_array(json_object_get(now, name));
  if (strcmp(name, "split") != 0) return theirs;
  return json_array_size(theirs) && clade__train_same_parts(before, now) &&
         json_equal(json_object_get(before, "ranks"), json_object_get(now, "ranks"));
}

clade_status clade__train_changes(const clade__training *tr, const json_t *before, char **out) {
  json_t *now = clade__train_settings(tr), *value;
  const char *name;
  clade__text text = {0};
  *out = NULL;
  if (!now) return CLADE_NO_MEMORY;
  json_object_foreach(now, name, value) {
    const json_t *theirs = json_object_get(before, name);
    if (!is_told(name, before, now) || json_equal(value, theirs)) continue;
    clade__text_add(&text, "%s%s ", text.length ? ", " : "", name);
    add_value(&text, value);
    clade__text_add(&text, " (the checkpoint had ");
    add_value(&text, theirs);
    clade__text_add(&text, ")");
  }
  json_decref(now);
  return text.length || text.failed ? clade__text_take(&text, out) : CLADE_OK;
}
