/* Training of pruned models, which are built with the shapes of the source; and pruning during a training: weights
 * become 0 before an epoch and stay 0, because no gradient reaches them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "comm/comm.h"
#include "ir/ir.h"
#include "train/internal.h"

static bool prunes_weights(const clade__training *tr) { return tr->t.pruned > CLADE_PRUNE_CHANNELS; }

clade_status clade__train_check_pruned(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  if ((unsigned)t->pruned > CLADE_PRUNE_2_4)
    return CLADE_FAIL(INVALID, "clade_train: .pruned is %d, which is no structure", (int)t->pruned);
  if (!(t->sparsity >= 0 && t->sparsity < 1))
    return CLADE_FAIL(INVALID, "clade_train: .sparsity is %g; expected 0 to below 1", t->sparsity);
  if (t->cubic && t->pruned != CLADE_PRUNE_WEIGHTS)
    return CLADE_FAIL(INVALID, "clade_train: .cubic is for weights that are pruned; .pruned is %s",
                      clade_prune_structure_name(t->pruned));
  return CLADE_OK;
}

/* ---- shapes ---- */
static bool is_optimizer(const char *name) { return !strncmp(name, CLADE__OPTIMIZER, strlen(CLADE__OPTIMIZER)); }

static clade_status new_shapes(clade__training *tr) {
  clade_graph_release(tr->shapes);
  tr->shapes = NULL;
  return clade_graph_new(&tr->shapes);
}

clade_status clade__train_take_shapes(clade__training *tr) {
  if (!tr->t.weights) return CLADE_OK;
  CLADE_TRY(new_shapes(tr));
  for (int i = 0; i < clade_vars_count(tr->t.weights); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(tr->t.weights, i, &info));
    if (!is_optimizer(info.name)) clade_graph_shape(tr->shapes, info.name, info.type.shape);
  }
  return clade_graph_status(tr->shapes);
}

void clade__train_give_shapes(const clade__training *tr, clade_graph *g) {
  for (size_t i = 0; tr->shapes && i < tr->shapes->shapes.n; i++)
    clade_graph_shape(g, tr->shapes->shapes.at[i].name, tr->shapes->shapes.at[i].shape);
}

/* ---- checkpoints ---- */
json_t *clade__train_pruned(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  if (!t->pruned && !tr->shapes) return json_null();
  return json_pack("{s:s, s:f, s:b}", "structure", clade_prune_structure_name(t->pruned), "sparsity", t->sparsity,
                   "cubic", t->cubic);
}

clade_status clade__train_read_pruned(clade__training *tr, const char *path, const json_t *pruned) {
  const char *name = json_string_value(json_object_get(pruned, "structure"));
  const json_t *sparsity = json_object_get(pruned, "sparsity");
  if (!pruned || json_is_null(pruned)) {
    clade_graph_release(tr->shapes);
    tr->shapes = NULL;
    tr->t.pruned = CLADE_PRUNE_NONE;
    return CLADE_OK;
  }
  tr->t.pruned = CLADE_PRUNE_NONE;
  while (name && tr->t.pruned <= CLADE_PRUNE_2_4 && strcmp(name, clade_prune_structure_name(tr->t.pruned)) != 0)
    tr->t.pruned++;
  tr->t.sparsity = json_number_value(sparsity);
  tr->t.cubic = json_is_true(json_object_get(pruned, "cubic"));
  if (!name || !json_is_number(sparsity) || clade__train_check_pruned(tr) != CLADE_OK)
    return CLADE_FAIL(CORRUPT, "%s: its \"pruned\" does not say how the model was pruned", path);
  CLADE_TRY(new_shapes(tr));
  return clade_checkpoint_shapes(tr->checkpoint, tr->shapes);
}

/* ---- other ranks ---- */
/* A line for each variable with its name and sizes. *out is NULL if there are no shapes. */
static clade_status shapes_text(const clade__training *tr, char **out) {
  clade__text text = {0};
  *out = NULL;
  if (!tr->shapes) return CLADE_OK;
  for (size_t i = 0; i < tr->shapes->shapes.n; i++) {
    const clade_shape *shape = &tr->shapes->shapes.at[i].shape;
    clade__text_add(&text, "%s", tr->shapes->shapes.at[i].name);
    for (int k = 0; k < shape->rank; k++) clade__text_add(&text, " %" PRId64, shape->dim[k]);
    clade__text_add(&text, "\n");
  }
  return clade__text_take(&text, out);
}

static clade_status take_text(clade__training *tr, char *text) {
  char *rest = NULL;
  CLADE_TRY(new_shapes(tr));
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    clade_shape shape = {0};
    char *at = line + strcspn(line, " ");
    for (bool more = *at; more && shape.rank < CLADE_MAX_RANK; more = *at) {
      if (!shape.rank) *at++ = 0;
      shape.dim[shape.rank++] = strtoll(at, &at, 10);
    }
    clade_graph_shape(tr->shapes, line, shape);
  }
  return clade_graph_status(tr->shapes);
}

clade_status clade__train_hand_pruned(clade__training *tr) {
  char *text = NULL;
  clade_trainer *t = &tr->t;
  if (tr->ranks == 1) return CLADE_OK;
  CLADE_TRY(clade_comm_broadcast(t->comm, 0, &t->pruned, sizeof t->pruned));
  CLADE_TRY(clade_comm_broadcast(t->comm, 0, &t->sparsity, sizeof t->sparsity));
  CLADE_TRY(clade_comm_broadcast(t->comm, 0, &t->cubic, sizeof t->cubic));
  clade_status status = tr->rank ? clade__train_get_text(tr, 0, &text) : shapes_text(tr, &text);
  for (int i = 1; i < tr->ranks && !tr->rank && status == CLADE_OK; i++) status = clade__train_put_text(tr, i, text);
  if (status == CLADE_OK && tr->rank && text) status = take_text(tr, text);
  clade__free(text);
  return status;
}

/* ---- values ---- */
static clade_status take_variable(clade__training *tr, const char *name, const clade_type *type) {
  size_t bytes;
  CLADE_TRY(clade_type_bytes(type, &bytes));
  void *data = clade__new(CLADE_MAX(bytes, (size_t)1), 1);
  if (!data) return CLADE_NO_MEMORY;
  clade_status status = clade_vars_get(tr->t.weights, name, data, bytes);
  if (status != CLADE_OK) clade__fail_in(status, "clade_train: .weights");
  if (status == CLADE_OK) status = clade_vars_set(tr->vars, name, data, bytes);
  clade__free(data);
  return status;
}

clade_status clade__train_take_weights(clade__training *tr) {
  if (!tr->t.weights || tr->checkpoint || tr->rank) return CLADE_OK; /* other ranks receive rank 0's values */
  for (int i = 0; i < clade_vars_count(tr->vars); i++) {
    clade_port_info info = {.size = sizeof info};
    CLADE_TRY(clade_vars_describe(tr->vars, i, &info));
    if (is_optimizer(info.name) || clade__vars_is_part(tr->vars, info.name)) continue; /* handed out separately */
    CLADE_TRY(take_variable(tr, info.name, &info.type));
  }
  return CLADE_OK;
}

/* Sparsity before epoch e of n: s (1 - (1 - e / n)^3) (Zhu and Gupta, 2017). */
static double sparsity_at(const clade__training *tr) {
  const int64_t epoch = tr->at / tr->epoch_steps + 1;
  const double left = 1 - (double)epoch / tr->t.epochs;
  return tr->t.cubic && left > 0 && !tr->t.begin_only ? tr->t.sparsity * (1 - left * left * left) : tr->t.sparsity;
}

clade_status clade__train_sparsify(clade__training *tr) {
  if (!prunes_weights(tr) || (tr->at && !tr->t.cubic)) return CLADE_OK;
  if (tr->t.cubic) tr->best = -1; /* accuracies at a lower sparsity do not count as best */
  return clade_prune_weights(tr->vars, tr->t.pruned, sparsity_at(tr), NULL);
}
