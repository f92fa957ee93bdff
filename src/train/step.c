/* Graphs of a training: the model with its loss over a rank's rows, in micro-batches; the step with the update; and
 * the part that a rank computes. */
#include <math.h>

#include <clade/nn.h>

#include "base/base.h"
#include "parallel/parallel.h"
#include "pass/pass.h"
#include "train/optim.h"
#include "train/internal.h"

enum { FIRST_SCALE = 1 << 16 };

/* Checks the shape of the logits: an additional class would exceed the confusion matrix. */
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

static clade_shape images(const clade__training *tr, int rows) {
  const clade_shape *image = &tr->data.shape;
  clade_shape shape = {.rank = image->rank + 1, .dim = {rows}};
  for (int i = 0; i < image->rank; i++) shape.dim[i + 1] = image->dim[i];
  return shape;
}

static clade__outcome judge(const clade__training *tr, clade_graph *g, clade_val logits, clade_val y, int rows,
                            double smoothing) {
  clade__outcome o;
  o.logits = check_logits(tr, g, logits, rows);
  o.model = clade__graph_hash(g);
  o.loss = clade_cross_entropy(g, o.logits, y, .smoothing = (float)smoothing, .ignore = true, .ignore_index = -1);
  o.added = clade_graph_added_loss(g);
  if (clade_val_ok(o.added)) o.loss = clade_add(g, o.loss, o.added);
  o.right = clade_sum(g, clade_cast(g, clade_eq(g, clade_arg_max(g, o.logits, 1), y), CLADE_F32));
  return o;
}

static clade_val labels(clade_graph *g, int rows) { return clade_input(g, "y", CLADE_I32, CLADE_SHAPE(rows)); }

clade__outcome clade__train_loss(const clade__training *tr, clade_graph *g, int rows, double smoothing) {
  const clade_val logits = clade__train_model(tr, g, images(tr, rows));
  return judge(tr, g, logits, labels(g, rows), rows, smoothing);
}

/* ---- micro-batches ---- */
int clade__train_micro_rows(const clade__training *tr, int index) {
  return tr->rows / tr->grid.micro_batches + (index < tr->rows % tr->grid.micro_batches);
}

static clade_val some_rows(clade_graph *g, clade_val all, int first, int rows) {
  clade_type type;
  clade_shape begin = {0};
  if (clade_val_type(g, all, &type) != CLADE_OK) return (clade_val){0};
  begin.rank = type.shape.rank;
  begin.dim[0] = first;
  type.shape.dim[0] = rows;
  return clade_slice(g, all, begin, type.shape);
}

/* Weights the loss of some rows by their part of the batch. */
static void weigh(const clade__training *tr, clade_graph *g, clade__outcome *o, int rows) {
  const clade_val part = clade_fill(g, CLADE_F32, CLADE_SCALAR, (double)rows / tr->t.batch);
  o->loss = clade_mul(g, o->loss, part);
  if (clade_val_ok(o->added)) o->added = clade_mul(g, o->added, part);
}

static int first_share(const clade__training *tr) { return tr->place.data * tr->grid.micro_batches; }

/* Builds a share of the graph for each micro-batch; losses and correct answers are summed in the first. each: [3 n]. */
static clade__outcome build_shares(const clade__training *tr, clade_graph *g, clade_val *each) {
  clade__outcome o = {0};
  const int n = tr->grid.micro_batches;
  const clade_val x = clade_input(g, "x", CLADE_F32, images(tr, tr->rows)), y = labels(g, tr->rows);
  clade__train_give_shapes(tr, g);
  for (int i = 0, first = 0; i < n; i++) {
    const int rows = clade__train_micro_rows(tr, i);
    clade_graph_share(g, first_share(tr) + i);
    const clade_val logits = clade__train_model_of(tr, g, some_rows(g, x, first, rows));
    o = judge(tr, g, logits, some_rows(g, y, first, rows), rows, tr->t.smoothing);
    weigh(tr, g, &o, rows);
    each[i] = o.loss;
    each[n + i] = o.right;
    each[2 * n + i] = o.added;
    first += rows;
  }
  clade_graph_share(g, first_share(tr));
  o = (clade__outcome){.loss = clade__sum_in_pairs(g, n, each), .right = clade__sum_in_pairs(g, n, each + n)};
  if (clade_val_ok(each[2 * n])) o.added = clade__sum_in_pairs(g, n, each + 2 * n);
  return o;
}

/* Builds the mean loss over this rank's rows, weighted by their part of the batch. */
static clade__outcome build_part(const clade__training *tr, clade_graph *g) {
  const int n = tr->grid.micro_batches;
  clade__outcome o = {0};
  clade__graph_only_share(g, first_share(tr));
  if (n == 1) {
    o = clade__train_loss(tr, g, tr->rows, tr->t.smoothing);
    if (tr->grid.data > 1) weigh(tr, g, &o, tr->rows);
    return o;
  }
  clade_val *each = clade__new(3 * (size_t)n, sizeof *each);
  if (each)
    o = build_shares(tr, g, each);
  else
    clade__graph_fail(g, CLADE_NO_MEMORY, "clade_train");
  clade__free(each);
  return o;
}

/* Hashes the model over a whole batch, independent of how the batch is cut. Only rank 0 needs the hash, for
 * checkpoints. */
static clade_status hash_model(clade__training *tr, const clade__outcome *part) {
  clade_graph *g;
  tr->model_hash = part->model;
  if ((tr->grid.data == 1 && tr->grid.micro_batches == 1) || tr->rank) return CLADE_OK;
  CLADE_TRY(clade_graph_new(&g));
  clade_graph_train(g, true);
  tr->model_hash = clade__train_loss(tr, g, tr->t.batch, tr->t.smoothing).model;
  clade_status status = clade_graph_status(g);
  clade_graph_release(g);
  return status;
}

/* ---- compiling ---- */
clade_status clade__train_compile(const clade__training *tr, clade_graph *g, clade_func **out) {
  return clade_compile(g, tr->device, out, .fallback = tr->t.fallback, .place = tr->t.place, .prefer = tr->t.prefer,
                       .strict = tr->t.strict, .choices = tr->choices[0], .precision = tr->t.precision,
                       .types = tr->t.types);
}

/* Tunes one device after another, so that measurements do not disturb each other. */
static clade_status tune_in_turn(clade__training *tr) {
  for (int turn = 0; turn < tr->ranks; turn++) {
    if (turn == tr->rank) CLADE_TRY(clade_tune(tr->step_func, tr->t.tune, .stop = tr->t.stop));
    if (tr->ranks > 1) CLADE_TRY(clade_comm_barrier(tr->t.comm));
  }
  return CLADE_OK;
}

/* A resumed training uses its own choices. */
static clade_status tune_step(clade__training *tr, clade_graph *g) {
  if (tr->t.tune == CLADE_TUNE_OFF || tr->choices[0]) return CLADE_OK;
  CLADE_TRY(tune_in_turn(tr));
  clade_func_release(tr->step_func);
  tr->step_func = NULL;
  return clade__train_compile(tr, g, &tr->step_func);
}

/* Outputs of loss scaling: the scale of the step, and the number of skipped steps. */
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

/* Input of the sum over ranks by which a rank that is asked to stop stops all ranks after the same step. */
static clade_val add_stop(clade_graph *g) { return clade_input(g, "stop", CLADE_F32, CLADE_SCALAR); }

static clade_status add_outputs(const clade__training *tr, clade_graph *g, const clade__outcome *part) {
  const char *names[4] = {"loss", "right"};
  clade_val told[4] = {part->loss, part->right};
  int n = 2;
  if (clade_val_ok(part->added)) names[n] = "added", told[n++] = part->added;
  if (tr->grid.data > 1 && !clade__train_cuts(tr)) names[n] = "stop", told[n++] = add_stop(g);
  g->device = g->nodes[g->values[part->loss.id].node].device;
  CLADE_TRY(clade_all_reduce(g, tr->data_ranks, CLADE_F32, n, told));
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

static void begin_graph(const clade__training *tr, clade_graph *g, clade_comm *comm) {
  clade_graph_train(g, true);
  clade_graph_sync(g, tr->t.sync_batch_norm ? comm : NULL);
}

clade_status clade__train_add_step(const clade__training *tr, clade_graph *g, clade_comm *comm, clade__outcome *part) {
  begin_graph(tr, g, comm);
  *part = build_part(tr, g);
  return add_update(tr, g, part->loss, comm);
}

/* ---- the part of a rank ---- */
bool clade__train_cuts(const clade__training *tr) { return clade__train_is_cut(tr) || tr->grid.micro_batches > 1; }

static clade_status replace(clade_graph **g, clade_graph *by) {
  clade_graph_release(*g);
  *g = by;
  return CLADE_OK;
}

/* Replaces the graph by this rank's part of each layer; follows tr->laid if it is set. */
static clade_status take_part(const clade__training *tr, clade_graph **g, clade__text *explain) {
  const clade__tensor_how how = {.comm = tr->tensor_ranks,
                                 .wire = CLADE_F32,
                                 .speeds = tr->speeds,
                                 .memory = tr->t.parallel_memory,
                                 .like = tr->laid};
  clade_graph *part;
  if (tr->grid.tensor == 1) return CLADE_OK;
  CLADE_TRY(clade_graph_new(&part));
  clade_graph_train(part, (*g)->trains);
  clade__graph_only_share(part, (*g)->first_share);
  const clade_status status = clade__tensor_append(*g, &how, part, explain);
  if (status == CLADE_OK) return replace(g, part);
  clade_graph_release(part);
  return status;
}

static clade_status assign_stages(const clade__training *tr, clade_graph **g, clade__text *explain) {
  clade_graph *staged;
  if (tr->grid.pipeline == 1) return CLADE_OK;
  if (tr->laid) {
    clade__stages_follow(tr->laid, *g);
    return CLADE_OK;
  }
  CLADE_TRY(clade__stages_assign(*g, &tr->grid, 0, &staged, explain));
  return replace(g, staged);
}

clade_status clade__train_lay_out(const clade__training *tr, clade_graph **g, clade__text *explain) {
  CLADE_TRY(clade_graph_status(*g));
  CLADE_TRY(take_part(tr, g, explain));
  return assign_stages(tr, g, explain);
}

clade_status clade__train_cut_stages(const clade__training *tr, const clade__grid *grid, clade_graph **g) {
  clade_graph *own;
  CLADE_TRY(clade_graph_status(*g));
  CLADE_TRY(clade__stages_cut(*g, grid, tr->stage_ranks, &own));
  return replace(g, own);
}

static clade_val take_output(const clade_graph *g, const char *name) {
  size_t index;
  if (!clade__map_get(&g->outputs.by_name, clade__hash_bytes(name, strlen(name)), &index)) return (clade_val){0};
  return clade__graph_val(g, g->outputs.at[index].value);
}

/* Builds the forward pass of a rank; its loss and correct answers are temporarily outputs. */
static clade_status build_forward(clade__training *tr, clade_graph **g, clade__outcome *part) {
  begin_graph(tr, *g, tr->data_ranks);
  *part = build_part(tr, *g);
  if (!clade__train_cuts(tr)) return clade_graph_status(*g);
  clade_output(*g, "loss", part->loss);
  clade_output(*g, "right", part->right);
  if (clade_val_ok(part->added)) clade_output(*g, "added", part->added);
  CLADE_TRY(clade__train_lay_out(tr, g, &tr->explained));
  part->loss = take_output(*g, "loss");
  part->right = take_output(*g, "right");
  part->added = take_output(*g, "added");
  if (clade__train_is_cut(tr)) tr->laid = clade_graph_retain(*g);
  clade__ports_clear(&(*g)->outputs);
  return CLADE_OK;
}

/* Adds the stop signal of all ranks after the graph is cut. */
static clade_status share_stop(const clade__training *tr, clade_graph *g) {
  clade_val stop;
  if (tr->ranks == 1 || !clade__train_cuts(tr)) return clade_graph_status(g);
  stop = add_stop(g);
  CLADE_TRY(clade_all_reduce(g, tr->t.comm, CLADE_F32, 1, &stop));
  clade_output(g, "stop", stop);
  return clade_graph_status(g);
}

static clade_status complete(clade__training *tr, clade_graph **g) {
  clade__outcome part;
  CLADE_TRY(build_forward(tr, g, &part));
  CLADE_TRY(hash_model(tr, &part));
  CLADE_TRY(add_update(tr, *g, part.loss, tr->data_ranks));
  CLADE_TRY(add_outputs(tr, *g, &part));
  tr->adds = clade_val_ok(part.added);
  tr->backward = clade__train_cuts(tr) ? 0 : part.loss.id + 1;
  if (clade__train_cuts(tr)) CLADE_TRY(clade__train_cut_stages(tr, &tr->grid, g));
  return share_stop(tr, *g);
}

clade_status clade__train_build_step(clade__training *tr) {
  clade_graph *g;
  clade_status status;
  CLADE_TRY(clade_graph_new(&g));
  CLADE_GOTO(complete(tr, &g));
  if (tr->t.detect_anomaly) CLADE_GOTO(clade_graph_watch(g));
  CLADE_GOTO(clade__train_compile(tr, g, &tr->step_func));
  CLADE_GOTO(tune_step(tr, g));
fail:
  clade_graph_release(g);
  return status;
}

int clade__train_feeds(const clade_func *func, int n, clade_feed *feeds) {
  clade_port_info port = {.size = sizeof port};
  clade_func_info info = {.size = sizeof info};
  int used = 0;
  if (clade_func_get_info(func, &info) != CLADE_OK) return 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < info.inputs; k++)
      if (clade_func_input(func, k, &port) == CLADE_OK && !strcmp(port.name, feeds[i].name)) {
        feeds[used++] = feeds[i];
        break;
      }
  return used;
}
