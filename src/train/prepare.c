/* Before the first step: options with what was unset, refusals, and the step's func with its run and loader. */
#include <math.h>

#include <clade/nn.h>

#include "base/file.h"
#include "comm/wire.h"
#include "ir/ir.h"
#include "train/optim.h"
#include "train/internal.h"

enum { DEFAULT_EPOCHS = 3, DEFAULT_BATCH = 64, DEFAULT_KEEP = 3, FIRST_SCALE = 1 << 16 };

/* ---- options ---- */
/* So that they add up: what rounding leaves goes to the first ones. */
clade_status clade__train_cut(clade__training *tr, const double *shares) {
  const int batch = tr->t.batch;
  double sum = 0;
  int given = 0;
  for (int i = 0; i < tr->ranks; i++) {
    const double part = shares ? shares[i] : 1;
    if (!(part > 0 && isfinite(part))) return CLADE_FAIL(INVALID, "clade_train: share %d of the batch is %g", i, part);
    sum += part;
  }
  for (int i = 0; i < tr->ranks; i++) given += tr->parts[i] = (int)((shares ? shares[i] : 1) * batch / sum);
  for (int i = 0; given < batch; i = (i + 1) % tr->ranks, given++) tr->parts[i]++;
  for (int i = 0; i < tr->ranks; i++)
    if (!tr->parts[i])
      return CLADE_FAIL(INVALID, "clade_train: a batch of %d leaves nothing for %s %d of %d", batch,
                        tr->local ? "device" : "rank", i, tr->ranks);
  tr->rows = tr->parts[tr->rank];
  tr->first_row = 0;
  for (int i = 0; i < tr->rank; i++) tr->first_row += tr->parts[i];
  return CLADE_OK;
}

static clade_status check_data(clade__training *tr) {
  char train[128], test[128];
  const clade_dataset_info *a = &tr->data, *b = &tr->test_data;
  tr->data.size = tr->test_data.size = sizeof tr->data;
  if (!tr->t.train || !tr->t.test)
    return CLADE_FAIL(INVALID, "clade_train: .%s is NULL: there is no data", tr->t.train ? "test" : "train");
  CLADE_TRY(clade_dataset_describe(tr->t.train, &tr->data));
  CLADE_TRY(clade_dataset_describe(tr->t.test, &tr->test_data));
  if (!clade_shape_equal(&a->shape, &b->shape) || a->classes != b->classes)
    return CLADE_FAIL(BAD_SHAPE, "clade_train: training images are %s of %d classes, test images %s of %d",
                      clade_shape_text(&a->shape, train, sizeof train), a->classes,
                      clade_shape_text(&b->shape, test, sizeof test), b->classes);
  if (a->classes < 1 || a->classes > CLADE_TRAIN_MAX_CLASSES)
    return CLADE_FAIL(INVALID, "clade_train: %d classes; from 1 to %d are expected", a->classes,
                      CLADE_TRAIN_MAX_CLASSES);
  if (a->count < tr->t.batch)
    return CLADE_FAIL(INVALID, "clade_train: %lld training images fill no batch of %d: use a smaller batch",
                      (long long)a->count, tr->t.batch);
  if (b->count < 1) return CLADE_FAIL(INVALID, "clade_train: there are no test images");
  int64_t elements;
  CLADE_TRY(clade_shape_elements(&a->shape, &elements));
  tr->sample = (size_t)elements;
  return CLADE_OK;
}

clade_status clade_train_steps(const clade_trainer *trainer, int64_t *epoch_steps, int64_t *steps) {
  clade_dataset_info data = {.size = sizeof data};
  if (!trainer || !epoch_steps || !steps) return CLADE_FAIL(INVALID, "clade_train_steps: an argument is NULL");
  CLADE_TRY(clade_dataset_describe(trainer->train, &data));
  int epochs = trainer->epochs ? trainer->epochs : DEFAULT_EPOCHS,
      batch = trainer->batch ? trainer->batch : DEFAULT_BATCH;
  if (epochs < 0 || batch < 0) return CLADE_FAIL(INVALID, "clade_train: %d epochs, batches of %d", epochs, batch);
  *epoch_steps = data.count / batch;
  if (*epoch_steps > INT64_MAX / epochs)
    return CLADE_FAIL(OVERFLOW, "clade_train: %d epochs of %lld steps", epochs, (long long)*epoch_steps);
  *steps = *epoch_steps * epochs;
  return CLADE_OK;
}

clade_status clade__train_options(const clade_trainer *given, clade__training *tr) {
  clade_trainer *t = &tr->t;
  *t = *given;
  tr->rank = clade_comm_rank(t->comm);
  tr->ranks = clade_comm_size(t->comm);
  if (tr->rank) { /* rank 0 reads and writes */
    t->checkpoint_dir = t->log_dir = t->trace = NULL;
    t->resume = t->overwrite = false;
  }
  if (!t->model_name) t->model_name = "user";
  if (!t->epochs) t->epochs = DEFAULT_EPOCHS;
  if (!t->batch) t->batch = DEFAULT_BATCH;
  if (!t->threads) t->threads = 1;
  if (!t->keep) t->keep = DEFAULT_KEEP;
  CLADE_TRY(clade__optimizer_given(&t->optimizer));
  if (!t->trace_from && !t->trace_to) t->trace_from = 2, t->trace_to = 6;
  if (t->trace_from < 1 || t->trace_to < t->trace_from)
    return CLADE_FAIL(INVALID, "clade_train: a trace of steps %lld to %lld", (long long)t->trace_from,
                      (long long)t->trace_to);
  if (t->epochs < 0 || t->batch < 0 || t->threads < 0 || t->keep < 0 || t->checkpoint_steps < 0)
    return CLADE_FAIL(INVALID,
                      "clade_train: epochs %d, batch %d, threads %d, keep %d, checkpoint_steps %lld: none may "
                      "be negative",
                      t->epochs, t->batch, t->threads, t->keep, (long long)t->checkpoint_steps);
  if (!t->precision) t->precision = CLADE_F32;
  if (t->precision != CLADE_F32 && (t->precision_auto || !clade__comm_carries(t->precision)))
    return CLADE_FAIL(INVALID, "clade_train: .precision is %s%s; expected f32, bf16 or f16",
                      clade_dtype_name(t->precision), t->precision_auto ? " and .precision_auto is set" : "");
  if (t->tune < CLADE_TUNE_OFF || t->tune > CLADE_TUNE_FULL)
    return CLADE_FAIL(INVALID, "clade_train: .tune is %d; expected off, quick or full", (int)t->tune);
  CLADE_TRY(clade__train_check_pruned(tr));
  CLADE_TRY(clade__train_check_quantized(tr));
  CLADE_TRY(clade__train_take_shapes(tr));
  if (t->trace) CLADE_TRY(clade__file_can_write(t->trace));
  if (t->n_devices) tr->device = clade_device_retain(t->devices[0]);
  if (!t->n_devices) CLADE_TRY(clade_device_find(NULL, &tr->device));
  tr->parts = clade__new((size_t)tr->ranks, sizeof *tr->parts);
  tr->others = clade__new((size_t)tr->ranks, sizeof *tr->others);
  if (!tr->parts || !tr->others) return CLADE_NO_MEMORY;
  CLADE_TRY(check_data(tr));
  CLADE_TRY(clade_train_steps(t, &tr->epoch_steps, &tr->steps));
  tr->test_batch = (int)CLADE_MIN(tr->test_data.count, (int64_t)CLADE__TEST_BATCH);
  tr->test_loss = tr->test_accuracy = NAN;
  tr->best = -1;
  return clade__train_cut(tr, t->split);
}

/* ---- graphs ---- */
/* What follows goes by their shape: a class more would be counted beyond the confusion matrix. */
static clade_val check_logits(const clade__training *tr, clade_graph *g, clade_val logits, int rows) {
  clade_type type;
  char text[640];
  clade_status status = clade_graph_status(g);
  if (status == CLADE_OK) status = clade_val_type(g, logits, &type);
  if (status != CLADE_OK) return clade__graph_fail(g, status, "clade_train: the model's logits");
  if (type.shape.rank == 2 && type.shape.dim[0] == rows && type.shape.dim[1] == tr->data.classes) return logits;
  status = CLADE_FAIL(
      BAD_SHAPE, "clade_train: the model \"%s\" gives %s; logits [%d, %d] are expected, for %d images of %d classes",
      tr->t.model_name, clade__type_text(&type, text, sizeof text), rows, tr->data.classes, rows, tr->data.classes);
  return clade__graph_fail(g, status, NULL);
}

clade__outcome clade__train_loss(const clade__training *tr, clade_graph *g, int rows, double smoothing) {
  const clade_shape *image = &tr->data.shape;
  clade_shape shape = {.rank = image->rank + 1, .dim = {rows}};
  for (int i = 0; i < image->rank; i++) shape.dim[i + 1] = image->dim[i];
  clade__outcome o;
  const clade_val logits = clade__train_model(tr, g, shape), y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(rows));
  o.logits = check_logits(tr, g, logits, rows);
  o.model = clade__graph_hash(g);
  o.loss = clade_cross_entropy(g, o.logits, y, .smoothing = (float)smoothing, .ignore = true, .ignore_index = -1);
  o.right = clade_sum(g, clade_cast(g, clade_eq(g, clade_arg_max(g, o.logits, 1), y), CLADE_F32));
  return o;
}

/* The mean loss over this rank's rows, weighted by its part of the batch. */
static clade__outcome build_part(const clade__training *tr, clade_graph *g) {
  clade__graph_only_share(g, tr->rank);
  clade__outcome o = clade__train_loss(tr, g, tr->rows, tr->t.smoothing);
  if (tr->ranks == 1) return o;
  o.loss = clade_mul(g, o.loss, clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)tr->rows / tr->t.batch));
  return o;
}

/* However many parts a batch is cut into, the model is the same. Checkpoints, which tell of it, are rank 0's. */
static clade_status hash_model(clade__training *tr, const clade__outcome *part) {
  clade_graph *g;
  tr->model_hash = part->model;
  if (tr->ranks == 1 || tr->rank) return CLADE_OK;
  CLADE_TRY(clade_graph_new(&g));
  clade_graph_train(g, true);
  tr->model_hash = clade__train_loss(tr, g, tr->t.batch, tr->t.smoothing).model;
  clade_status status = clade_graph_status(g);
  clade_graph_release(g);
  return status;
}

clade_status clade__train_compile(const clade__training *tr, clade_graph *g, clade_func **out) {
  return clade_compile(g, tr->device, out, .fallback = tr->t.fallback, .place = tr->t.place, .prefer = tr->t.prefer,
                       .strict = tr->t.strict, .choices = tr->choices[0], .precision = tr->t.precision,
                       .types = tr->t.types);
}

/* One device after the other, so that none disturbs what another one measures. */
static clade_status tune_in_turn(clade__training *tr) {
  for (int turn = 0; turn < tr->ranks; turn++) {
    if (turn == tr->rank) CLADE_TRY(clade_tune(tr->step_func, tr->t.tune, .stop = tr->t.stop));
    if (tr->ranks > 1) CLADE_TRY(clade_comm_barrier(tr->t.comm));
  }
  return CLADE_OK;
}

/* What is resumed goes by its own choices. */
static clade_status tune_step(clade__training *tr, clade_graph *g) {
  if (tr->t.tune == CLADE_TUNE_OFF || tr->choices[0]) return CLADE_OK;
  CLADE_TRY(tune_in_turn(tr));
  clade_func_release(tr->step_func);
  tr->step_func = NULL;
  return clade__train_compile(tr, g, &tr->step_func);
}

/* What loss scaling did: the number that the step's gradients were multiplied by, and how many were skipped. */
static void add_scale(clade_graph *g) {
  const struct {
    const char *name, *variable;
    bool next;
  } rows[] = {{"loss_scale", CLADE__LOSS_SCALE, false}, {"skipped", CLADE__LOSS_SCALE ".skipped", true}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++) {
    size_t at;
    if (!clade__map_get(&g->variables.by_name, clade__hash_bytes(rows[i].variable, strlen(rows[i].variable)), &at))
      continue;
    const clade__port *port = &g->variables.at[at];
    clade_output(g, rows[i].name, clade__graph_val(g, rows[i].next ? port->assigned : port->value));
  }
}

/* Of all ranks. One that is asked to stop tells the others, so that all stop after the same step. */
static clade_status add_outputs(const clade__training *tr, clade_graph *g, const clade__outcome *part) {
  static const char *const names[] = {"loss", "right", "stop"};
  clade_val told[] = {part->loss, part->right, {0}};
  const int n = tr->ranks > 1 ? 3 : 2;
  if (n > 2) told[2] = clade_input(g, "stop", CLADE_F32, CLADE_SCALAR);
  if (n > 2) CLADE_TRY(clade_all_reduce(g, tr->t.comm, CLADE_F32, n, told));
  for (int i = 0; i < n; i++) clade_output(g, names[i], told[i]);
  add_scale(g);
  return clade_graph_status(g);
}

static clade_status add_update(const clade__training *tr, clade_graph *g, clade_val loss, clade_comm *comm) {
  const clade_trainer *t = &tr->t;
  clade__train_lock(tr);
  const clade_status status = clade_minimize(
      g, loss, .optimizer = t->optimizer, .schedule = t->schedule, .clip_norm = t->clip_norm,
      .clip_value = t->clip_value, .ema = t->ema, .comm = comm, .shard = t->shard, .compress = t->compress,
      .low_rank = t->low_rank, .reduce = t->reduce, .keep_zeros = t->pruned > CLADE_PRUNE_CHANNELS,
      .loss_scale = clade__train_scales(tr) ? FIRST_SCALE : 0);
  clade__train_unlock(tr);
  return status;
}

clade_status clade__train_add_step(const clade__training *tr, clade_graph *g, clade_comm *comm, clade__outcome *part) {
  clade_graph_train(g, true);
  clade_graph_sync(g, tr->t.sync_batch_norm ? comm : NULL);
  *part = build_part(tr, g);
  return add_update(tr, g, part->loss, comm);
}

static clade_status build_step(clade__training *tr) {
  clade__outcome part;
  clade_graph *g;
  clade_status status;
  CLADE_TRY(clade_graph_new(&g));
  CLADE_GOTO(clade__train_add_step(tr, g, tr->t.comm, &part));
  CLADE_GOTO(hash_model(tr, &part));
  tr->backward = part.loss.id + 1;
  CLADE_GOTO(add_outputs(tr, g, &part));
  if (tr->t.detect_anomaly) CLADE_GOTO(clade_graph_watch(g));
  CLADE_GOTO(clade__train_compile(tr, g, &tr->step_func));
  CLADE_GOTO(tune_step(tr, g));
fail:
  clade_graph_release(g);
  return status;
}

clade_status clade__train_load(const clade__training *tr, clade_loader **out) {
  return clade_loader_new(tr->t.train, out, .batch = tr->t.batch, .threads = tr->t.threads,
                          .queue = CLADE__LOADER_QUEUE, .seed = tr->t.seed, .shuffle = true, .drop_last = true,
                          .augment = tr->t.augment, .first_row = tr->first_row, .rows = tr->rows);
}

clade_status clade__train_build(clade__training *tr) {
  CLADE_TRY(clade__train_find(tr));
  if (tr->ranks > 1 && !tr->local) CLADE_TRY(clade__train_agree(tr));
  CLADE_TRY(clade__train_hand_pruned(tr));
  CLADE_TRY(clade__train_hand_choices(tr));
  CLADE_TRY(clade__train_find_precision(tr));
  CLADE_TRY(clade__train_split(tr));
  CLADE_TRY(build_step(tr));
  CLADE_TRY(clade_vars_new(tr->step_func, tr->t.seed, &tr->vars));
  CLADE_TRY(clade__train_take_weights(tr));
  CLADE_TRY(clade__train_resume(tr));
  if (tr->ranks > 1) CLADE_TRY(clade__train_join(tr));
  CLADE_TRY(clade__train_gather_choices(tr));
  CLADE_TRY(clade__train_find_foreign(tr));
  CLADE_TRY(clade__train_hand_out(tr));
  clade_checkpoint_free(tr->checkpoint);
  tr->checkpoint = NULL;
  CLADE_TRY(clade__train_open_logs(tr));
  CLADE_TRY(clade_run_new(tr->step_func, tr->vars, &tr->step_run));
  CLADE_TRY(clade__train_load(tr, &tr->loader));
  return clade_loader_seek(tr->loader, tr->at / tr->epoch_steps, tr->at % tr->epoch_steps);
}

void clade__train_release(clade__training *tr) {
  clade_loader_free(tr->loader);
  clade_loader_free(tr->test_loader);
  clade__train_close_logs(tr);
  clade_run_free(tr->step_run);
  clade_run_free(tr->test_run);
  clade_func_release(tr->step_func);
  clade_func_release(tr->test_func);
  clade_vars_release(tr->vars);
  clade_checkpoint_free(tr->checkpoint);
  for (size_t i = 0; i < CLADE_COUNT(tr->choices); i++) clade__free(tr->choices[i]);
  for (int i = 0; i < tr->ranks && tr->others; i++) clade__free(tr->others[i]);
  clade__free(tr->others);
  clade_graph_release(tr->shapes);
  clade__free(tr->quantization);
  clade__free(tr->changed);
  clade_checkpoint_dir_close(tr->directory);
  clade_device_release(tr->device);
  clade__free(tr->confusion);
  clade__free(tr->optimizer_bytes);
  clade__free(tr->parts);
  clade__free(tr->split);
  clade__free(tr->foreign.at);
}
