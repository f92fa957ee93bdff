/* The test after an epoch: loss, accuracy and confusion matrix over the test images. */
#include <math.h>

#include <clade/ops.h>

#include "comm/comm.h"
#include "train/internal.h"

/* Labels after the last image are -1 and count for nothing. */
static void count(clade__training *tr, const int32_t *label, const int32_t *answer, int n, int64_t *right) {
  for (int i = 0; i < n; i++) {
    *right += label[i] == answer[i];
    tr->confusion[label[i] * tr->data.classes + answer[i]]++;
  }
}

/* Builds this rank's part of the test graph; the ranks of the first data index test together. */
static clade_status build_graph(const clade__training *tr, clade_graph **g) {
  clade__grid grid = tr->grid;
  grid.data = grid.micro_batches = 1;
  clade__outcome o = clade__train_loss(tr, *g, tr->test_batch, 0);
  clade_output(*g, "loss", o.loss);
  clade_output(*g, "answer", clade_arg_max(*g, o.logits, 1));
  CLADE_TRY(clade_graph_status(*g));
  CLADE_TRY(clade__train_lay_out(tr, g, NULL));
  return grid.pipeline > 1 ? clade__train_cut_stages(tr, &grid, g) : CLADE_OK;
}

static clade_status build(clade__training *tr) {
  clade_graph *g;
  CLADE_TRY(clade_graph_new(&g));
  clade_status status = build_graph(tr, &g);
  if (status == CLADE_OK)
    status = clade_compile(g, tr->device, &tr->test_func, .fallback = tr->t.fallback, .place = tr->t.place,
                           .prefer = tr->t.prefer, .strict = tr->t.strict, .choices = tr->choices[1],
                           .precision = tr->t.precision, .types = tr->t.types);
  clade_graph_release(g);
  clade_graph_release(tr->laid);
  tr->laid = NULL;
  return status;
}

clade_status clade__train_test_ready(clade__training *tr) {
  size_t classes = (size_t)tr->data.classes;
  if (tr->test_loader) return CLADE_OK;
  double begun = clade__train_seconds(tr);
  CLADE_TRY(build(tr));
  CLADE_TRY(clade_run_new(tr->test_func, tr->vars, &tr->test_run));
  tr->confusion = clade__new(classes * classes, sizeof *tr->confusion);
  if (!tr->confusion) return CLADE_NO_MEMORY;
  CLADE_TRY(clade_loader_new(tr->t.test, &tr->test_loader, .batch = tr->test_batch, .threads = tr->t.threads,
                             .queue = CLADE__LOADER_QUEUE, .augment = {.normalize = tr->t.augment.normalize}));
  tr->tested_seconds += clade__train_seconds(tr) - begun;
  return CLADE_OK;
}

static clade_status test(clade__training *tr) {
  int64_t classes = tr->data.classes, right = 0, tested = 0;
  double loss_sum = 0;
  int32_t answer[CLADE__TEST_BATCH];
  CLADE_TRY(clade__train_test_ready(tr));
  memset(tr->confusion, 0, (size_t)(classes * classes) * sizeof *tr->confusion);
  CLADE_TRY(clade_loader_seek(tr->test_loader, 0, 0));
  while (tested < tr->test_data.count) {
    clade_batch batch = {.size = sizeof batch};
    clade_ticket ticket;
    float loss;
    size_t rows = (size_t)tr->test_batch;
    CLADE_TRY(clade_loader_next(tr->test_loader, &batch));
    clade_feed feeds[] = {{"x", batch.x, rows * tr->sample * sizeof *batch.x, NULL},
                          {"y", batch.y, rows * sizeof *batch.y, NULL}};
    CLADE_TRY(
        clade_execute(tr->test_run, clade__train_feeds(tr->test_func, CLADE_COUNT(feeds), feeds), feeds, &ticket));
    CLADE_TRY(clade_read(tr->test_run, ticket, "loss", &loss, sizeof loss));
    CLADE_TRY(clade_read(tr->test_run, ticket, "answer", answer, rows * sizeof *answer));
    if (!isfinite(loss)) CLADE_TRY(clade__train_check_images(tr, &batch, "test"));
    loss_sum += (double)loss * batch.n;
    count(tr, batch.y, answer, batch.n, &right);
    tested += batch.n;
  }
  tr->test_loss = loss_sum / (double)tested;
  tr->test_accuracy = (double)right / (double)tested;
  return CLADE_OK;
}

/* With a cut model ranks wait for one another; some still compile kernels in the first test. */
clade_status clade__train_test(clade__training *tr) {
  if (!clade__train_is_cut(tr)) return test(tr);
  clade__comm_be_patient(tr->t.comm, CLADE__RANK_0_ALONE);
  const clade_status status = test(tr);
  clade__comm_be_patient(tr->t.comm, 1);
  return status;
}
