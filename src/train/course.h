/* The description of a training in a checkpoint, as JSON. */
#ifndef CLADE_TRAIN_COURSE_H
#define CLADE_TRAIN_COURSE_H

#include "base/json.h"
#include "train/optim.h"
#include "train/internal.h"

/* Return NULL if out of memory. */
json_t *clade__train_course(const clade__training *tr);
json_t *clade__train_settings(const clade__training *tr);
json_t *clade__train_graph(const clade__training *tr); /* hash of the model's graph, once it is built */
/* Compare the state of the checkpoint at `path` with this training. Fail with the name of the first difference. */
clade_status clade__train_compare(const clade__training *tr, const char *path, const json_t *state);
clade_status clade__train_compare_graph(const clade__training *tr, const char *path, const json_t *state);
/* Whether a rank has the same parts of the model under both settings; rows may differ. */
bool clade__train_same_parts(const json_t *before, const json_t *now);
/* *out: "lr 0.01 (the checkpoint had 0.1), …", to be freed; NULL: no setting changed since `before`. */
clade_status clade__train_changes(const clade__training *tr, const json_t *before, char **out);

#endif
