/* Checkpoints: each is a safetensors file with the trainer's text in its metadata. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/checkpoint.h"

enum { KEEP = 3 };

static void remove_step(const char *directory, int64_t step) {
  char name[CLADE__CHECKPOINT_NAME], *path;
  if (clade__checkpoint_path(directory, clade__checkpoint_name(step, name), &path) != CLADE_OK) return;
  if (unlink(path) && errno != ENOENT)
    clade__log(CLADE_LOG_WARNING, "cannot remove %s, which is not needed any more: %s", path, strerror(errno));
  clade__free(path);
}

/* Removes old checkpoints. Errors are ignored: left-over files only take space. */
static void prune(const char *directory, int64_t step, int keep) {
  clade__steps all;
  int kept = 0;
  if (clade__steps_list(directory, &all) != CLADE_OK) {
    clade__log(CLADE_LOG_WARNING, "%s: no old checkpoint was removed", clade_last_error());
    return;
  }
  for (size_t i = 0; i < all.n; i++)
    if (all.at[i] > step || ++kept > keep) remove_step(directory, all.at[i]);
  clade__free(all.at);
}

/* Places the best checkpoint first: if the process dies between the two, a resumed training starts from the previous
 * step and writes both again. */
static clade_status place(clade_checkpoint_dir *dir, clade__draft *draft, bool best) {
  char *path;
  if (best) {
    CLADE_TRY(clade__checkpoint_path(dir->path, CLADE__BEST, &path));
    clade_status status = clade__draft_link(draft, path);
    clade__free(path);
    CLADE_TRY(status);
  }
  return clade__draft_place(draft);
}

static clade_status write_one(clade_checkpoint_dir *dir, const clade_vars *vars, const clade__foreign *foreign,
                              int64_t step, const clade_checkpoint_opt *opt) {
  char name[CLADE__CHECKPOINT_NAME], number[24], *path;
  clade__draft draft;
  clade_status status;
  snprintf(number, sizeof number, "%" PRId64, step);
  const clade__pair pairs[] = {{CLADE__META_STEP, number}, {CLADE__META_TEXT, opt->text ? opt->text : ""}};
  const clade__vars_written how = {.foreign = foreign, .pack_zeros = opt->pack_zeros};
  CLADE_TRY(clade__checkpoint_path(dir->path, clade__checkpoint_name(step, name), &path));
  status = clade__draft_open(path, &draft);
  clade__free(path);
  CLADE_TRY(status);
  CLADE_GOTO(clade__vars_write(vars, &how, &draft, CLADE_COUNT(pairs), pairs));
  CLADE_GOTO(clade__draft_sync(&draft));
  CLADE_GOTO(place(dir, &draft, opt->best));
fail:
  clade__draft_close(&draft);
  return status;
}

clade_status clade__checkpoint_save(clade_checkpoint_dir *dir, const clade_vars *vars, const clade__foreign *foreign,
                                    int64_t step, const clade_checkpoint_opt *given) {
  clade_checkpoint_opt opt;
  CLADE_TRY(clade__opt_copy(&opt, sizeof opt, given, "clade_checkpoint_save"));
  if (!dir || !vars)
    return CLADE_FAIL(INVALID, "clade_checkpoint_save: the %s NULL", dir ? "variables are" : "directory is");
  if (step < 0 || opt.keep < 0)
    return CLADE_FAIL(INVALID, "clade_checkpoint_save: step %" PRId64 ", .keep %d: neither is negative", step,
                      opt.keep);
  clade_status status = write_one(dir, vars, foreign, step, &opt);
  if (status != CLADE_OK) return clade__fail_in(status, "no checkpoint of step %" PRId64, step);
  prune(dir->path, step, opt.keep ? opt.keep : KEEP);
  return CLADE_OK;
}

clade_status clade_checkpoint_save_(clade_checkpoint_dir *dir, const clade_vars *vars, int64_t step,
                                    const clade_checkpoint_opt *opt) {
  return clade__checkpoint_save(dir, vars, NULL, step, opt);
}

struct clade_checkpoint {
  char *path;
  int64_t step;
  clade__tensors tensors;
};

void clade_checkpoint_free(clade_checkpoint *checkpoint) {
  if (!checkpoint) return;
  clade__tensors_free(&checkpoint->tensors);
  clade__free(checkpoint->path);
  clade__free(checkpoint);
}

clade_status clade__checkpoint_parse(const char *path, clade__bytes *file, clade_checkpoint **out) {
  clade_status status;
  bool ours;
  char *end = "";
  clade_checkpoint *c = clade__new(1, sizeof *c);
  if (!c) CLADE_GOTO(CLADE_NO_MEMORY);
  c->path = clade__copy_text(path);
  if (!c->path) CLADE_GOTO(CLADE_NO_MEMORY);
  CLADE_GOTO(clade__tensors_parse(path, file, &c->tensors));
  CLADE_GOTO(clade__tensors_verify(path, &c->tensors, &ours));
  const char *step = clade__tensors_metadata(&c->tensors, CLADE__META_STEP);
  if (!ours || !step) CLADE_GOTO(CLADE_FAIL(CORRUPT, "%s is no checkpoint: it tells no step", path));
  errno = 0;
  c->step = strtoll(step, &end, 10);
  if (end == step || *end || errno || c->step < 0)
    CLADE_GOTO(CLADE_FAIL(CORRUPT, "%s: \"%.32s\" is no step", path, step));
  *out = c;
  return CLADE_OK;
fail:
  clade__free(file->data);
  *file = (clade__bytes){0};
  clade_checkpoint_free(c);
  return status;
}

static clade_status read_one(const char *directory, const char *name, clade_checkpoint **out) {
  clade__bytes file;
  char *path;
  CLADE_TRY(clade__checkpoint_path(directory, name, &path));
  clade_status status = clade__tensors_read(path, &file);
  if (status == CLADE_OK) status = clade__checkpoint_parse(path, &file, out);
  clade__free(path);
  return status;
}

typedef struct search {
  const char *directory;
  bool vanished;    /* a file was removed after it had been listed */
  clade_status bad; /* status of the first invalid file, whose message is kept */
  char why[1024];
} search;

/* Returns true if the search is over, with *status. */
static bool take(search *s, const char *name, clade_checkpoint **out, clade_status *status) {
  *status = read_one(s->directory, name, out);
  switch (*status) {
  case CLADE_OK:
  case CLADE_NO_MEMORY:
  case CLADE_PERMISSION: return true;
  case CLADE_NOT_FOUND: s->vanished = true; return false;
  default:
    if (s->bad == CLADE_OK) {
      s->bad = *status;
      snprintf(s->why, sizeof s->why, "%s", clade_last_error());
    }
    clade__log(CLADE_LOG_WARNING, "%s: an older checkpoint is looked for", clade_last_error());
    return false;
  }
}

static clade_status newest(search *s, clade_checkpoint **out) {
  char name[CLADE__CHECKPOINT_NAME];
  clade__steps all;
  clade_status status;
  bool over = false;
  CLADE_TRY(clade__steps_list(s->directory, &all));
  for (size_t i = 0; i < all.n && !over; i++) over = take(s, clade__checkpoint_name(all.at[i], name), out, &status);
  clade__free(all.at);
  if (over) return status;
  if (s->bad != CLADE_OK) return clade__fail_again(s->bad, s->why);
  return CLADE_FAIL(NOT_FOUND, "there is no checkpoint in %s", s->directory);
}

clade_status clade_checkpoint_open(const char *directory, clade_checkpoint_which which, clade_checkpoint **out) {
  enum { TURNS = 3 };
  search s = {.directory = directory};
  clade_status status;
  if (!out) return CLADE_FAIL(INVALID, "clade_checkpoint_open: there is no place for the checkpoint (NULL)");
  *out = NULL;
  if (!directory) return CLADE_FAIL(INVALID, "clade_checkpoint_open: the directory is NULL");
  if (which == CLADE_CHECKPOINT_BEST && take(&s, CLADE__BEST, out, &status)) return status;
  for (int turn = 0; turn < TURNS; turn++) { /* a running training may remove all files that were listed */
    s.vanished = false;
    status = newest(&s, out);
    if (status == CLADE_OK || !s.vanished) break;
  }
  return status;
}

int64_t clade_checkpoint_step(const clade_checkpoint *checkpoint) { return checkpoint ? checkpoint->step : -1; }
const char *clade_checkpoint_path(const clade_checkpoint *checkpoint) { return checkpoint ? checkpoint->path : ""; }
const char *clade_checkpoint_text(const clade_checkpoint *checkpoint) {
  const char *text = checkpoint ? clade__tensors_metadata(&checkpoint->tensors, CLADE__META_TEXT) : NULL;
  return text ? text : "";
}

clade_status clade_checkpoint_shapes(const clade_checkpoint *checkpoint, clade_graph *g) {
  if (!checkpoint || !g)
    return CLADE_FAIL(INVALID, "clade_checkpoint_shapes: the %s is NULL", checkpoint ? "graph" : "checkpoint");
  for (size_t i = 0; i < checkpoint->tensors.n; i++) {
    const clade__tensor *tensor = &checkpoint->tensors.at[i];
    if (strncmp(tensor->name, CLADE__OPTIMIZER, strlen(CLADE__OPTIMIZER)) != 0)
      clade_graph_shape(g, tensor->name, tensor->shape);
  }
  return clade_graph_status(g);
}

clade_status clade_checkpoint_apply(const clade_checkpoint *checkpoint, clade_vars *vars) {
  if (!checkpoint || !vars)
    return CLADE_FAIL(INVALID, "clade_checkpoint_apply: the %s NULL", checkpoint ? "variables are" : "checkpoint is");
  return clade__checkpoint_apply(checkpoint, vars, NULL);
}

clade_status clade__checkpoint_apply(const clade_checkpoint *checkpoint, clade_vars *vars,
                                     const clade__foreign *foreign) {
  return clade__vars_apply(checkpoint->path, &checkpoint->tensors, vars, foreign, false);
}

int64_t clade__checkpoint_weights(const clade_checkpoint *checkpoint) {
  int64_t bytes = 0;
  for (size_t i = 0; i < checkpoint->tensors.n; i++)
    if (strncmp(checkpoint->tensors.at[i].name, CLADE__OPTIMIZER, strlen(CLADE__OPTIMIZER)) != 0)
      bytes += (int64_t)checkpoint->tensors.at[i].stored_bytes;
  return bytes;
}

clade_status clade__checkpoint_find(const clade_checkpoint *checkpoint, const char *name, const clade_type *type,
                                    const void **data) {
  const clade__tensor *tensor = clade__tensors_find(&checkpoint->tensors, name);
  if (!tensor) return CLADE_FAIL(NOT_FOUND, "%s does not fit the model; missing: %s", checkpoint->path, name);
  if (tensor->dtype != type->dtype || !clade_shape_equal(&tensor->shape, &type->shape))
    return CLADE_FAIL(BAD_SHAPE, "%s does not fit the model; of another type: %s", checkpoint->path, name);
  *data = tensor->data;
  return CLADE_OK;
}
