/* Preparation before the first step: defaults and checks of options, variables, the step's run and loader. */
#include <math.h>

#include "base/file.h"
#include "comm/wire.h"
#include "train/optim.h"
#include "train/internal.h"

enum { DEFAULT_EPOCHS = 3, DEFAULT_BATCH = 64, DEFAULT_KEEP = 3 };

static clade_status check_parts(const clade__training *tr) {
  const int n = tr->grid.data, micro_batches = tr->grid.micro_batches;
  for (int i = 0; i < n; i++) {
    if (!tr->parts[i])
      return CLADE_FAIL(INVALID, "clade_train: a batch of %d leaves nothing for %s %d of %d", tr->t.batch,
                        n < tr->ranks ? "data index"
                        : tr->local   ? "device"
                                      : "rank",
                        i, n);
    if (tr->parts[i] < micro_batches)
      return CLADE_FAIL(INVALID, "clade_train: %d micro-batches of %d images: expected no more than there are images",
                        micro_batches, tr->parts[i]);
    if (tr->grid.pipeline > 1 && tr->parts[i] % micro_batches)
      return CLADE_FAIL(INVALID,
                        "clade_train: .pipeline takes micro-batches of equally many images, and %d images do not make "
                        "%d of them",
                        tr->parts[i], micro_batches);
  }
  return CLADE_OK;
}

/* Expands the rows of data indices to rows of ranks. */
static void spread_parts(clade__training *tr) {
  for (int i = tr->ranks; i-- > 0;) tr->parts[i] = tr->parts[i / (tr->grid.tensor * tr->grid.pipeline)];
}

/* Rounds the shares so that they add up; remainders go to the first ranks. */
clade_status clade__train_cut(clade__training *tr, const double *shares) {
  const int batch = tr->t.batch, n = tr->grid.data;
  double sum = 0;
  int given = 0;
  for (int i = 0; i < n; i++) {
    const double part = shares ? shares[i] : 1;
    if (!(part > 0 && isfinite(part))) return CLADE_FAIL(INVALID, "clade_train: share %d of the batch is %g", i, part);
    sum += part;
  }
  for (int i = 0; i < n; i++) given += tr->parts[i] = (int)((shares ? shares[i] : 1) * batch / sum);
  for (int i = 0; given < batch; i = (i + 1) % n, given++) tr->parts[i]++;
  CLADE_TRY(check_parts(tr));
  tr->rows = tr->parts[tr->place.data];
  tr->first_row = 0;
  for (int i = 0; i < tr->place.data; i++) tr->first_row += tr->parts[i];
  spread_parts(tr);
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

/* "run/trace.json" becomes "run/trace.rank3.json". */
static clade_status name_trace(clade__training *tr) {
  const char *path = tr->t.trace;
  if (!path) return CLADE_OK;
  const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
  clade__text text = {0};
  clade__text_add_bytes(&text, path, dot ? (size_t)(dot - path) : strlen(path));
  clade__text_add(&text, ".rank%d%s", tr->rank, dot ? dot : "");
  CLADE_TRY(clade__text_take(&text, &tr->trace_path));
  tr->t.trace = tr->trace_path;
  return CLADE_OK;
}

clade_status clade__train_options(const clade_trainer *given, clade__training *tr) {
  clade_trainer *t = &tr->t;
  *t = *given;
  tr->rank = clade_comm_rank(t->comm);
  tr->ranks = clade_comm_size(t->comm);
  if (tr->rank) { /* only rank 0 reads and writes files, except traces, of which each rank has its own */
    t->checkpoint_dir = t->log_dir = NULL;
    t->resume = t->overwrite = false;
    CLADE_TRY(name_trace(tr));
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
  CLADE_TRY(clade__train_lay_ranks(tr));
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

clade_status clade__train_load(const clade__training *tr, clade_loader **out) {
  return clade_loader_new(tr->t.train, out, .batch = tr->t.batch, .threads = tr->t.threads,
                          .queue = CLADE__LOADER_QUEUE, .seed = tr->t.seed, .shuffle = true, .drop_last = true,
                          .augment = tr->t.augment, .first_row = tr->first_row, .rows = tr->rows);
}

/* Whether this rank reads images or labels; inner stages of a pipeline do not. */
static bool reads_batches(const clade__training *tr) {
  return clade__train_feeds(tr->step_func, 2, (clade_feed[]){{.name = "x"}, {.name = "y"}});
}

clade_status clade__train_build(clade__training *tr) {
  CLADE_TRY(clade__train_find(tr));
  if (tr->ranks > 1 && !tr->local) CLADE_TRY(clade__train_agree(tr));
  CLADE_TRY(clade__train_hand_pruned(tr));
  CLADE_TRY(clade__train_hand_choices(tr));
  CLADE_TRY(clade__train_find_precision(tr));
  CLADE_TRY(clade__train_find_speeds(tr));
  CLADE_TRY(clade__train_split(tr));
  CLADE_TRY(clade__train_build_step(tr));
  CLADE_TRY(clade_vars_new(tr->step_func, tr->t.seed, &tr->vars));
  CLADE_TRY(clade__train_find_foreign(tr));
  CLADE_TRY(clade__train_take_weights(tr));
  CLADE_TRY(clade__train_resume(tr));
  if (tr->ranks > 1) CLADE_TRY(clade__train_join(tr));
  CLADE_TRY(clade__train_go_on(tr));
  CLADE_TRY(clade__train_gather_choices(tr));
  clade_checkpoint_free(tr->checkpoint);
  tr->checkpoint = NULL;
  CLADE_TRY(clade__train_open_logs(tr));
  CLADE_TRY(clade_run_new(tr->step_func, tr->vars, &tr->step_run));
  if (!reads_batches(tr)) return CLADE_OK;
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
  clade__free(tr->trace_path);
  clade__free(tr->optimizer_bytes);
  clade__free(tr->parts);
  clade__free(tr->split);
  clade__free(tr->foreign.at);
  clade__free(tr->pieces);
  clade__text_free(&tr->explained);
  clade_graph_release(tr->laid);
  clade__train_release_ranks(tr);
}
