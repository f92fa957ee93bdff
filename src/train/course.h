/* What a checkpoint says of its training, as JSON. */
#ifndef CLADE_TRAIN_COURSE_H
#define CLADE_TRAIN_COURSE_H

#include "base/json.h"
#include "train/optim.h"
#include "train/internal.h"

/* NULL: no memory. */
json_t *clade__train_course(const clade__training *tr);
json_t *clade__train_settings(const clade__training *tr);
json_t *clade__train_graph(const clade__training *tr); /* of the model, once it is built */
/* Each names the first thing that the state of the checkpoint at `path` has otherwise than this training. */
clade_status clade__train_compare(const clade__training *tr, const char *path, const json_t *state);
clade_status clade__train_compare_graph(const clade__training *tr, const char *path, const json_t *state);
/* Of two settings: whether a rank has the same parts of the model, if of other rows. */
bool clade__train_same_parts(const json_t *before, const json_t *now);
/* "lr 0.01 (the checkpoint had 0.1), …", to be freed; NULL: the settings are as they were `before`. */
clade_status clade__train_changes(const clade__training *tr, const json_t *before, char **out);

#endif
