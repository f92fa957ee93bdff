/* clade bench model: a training step or an inference of whole networks, compared with PyTorch, ONNX Runtime and oneDNN.
 */
#include <math.h>
#include <stdio.h>

#include "cli/bench/model.h"
#include "cli/bench/python.h"
#include "models/models.h"

static const bench_key keys[] = {{"batch", 1, 4096, 1},
                                 {"channels", 1, 64, 3},
                                 {"side", 1, 4096, 224},
                                 {"classes", 2, 100000, 1000},
                                 {"train", 0, 1, 0},
                                 {"strict", 0, 1, 0},
                                 {0}};
enum { BATCH, CHANNELS, SIDE, CLASSES, TRAIN, STRICT };

/* The part of a name before @ is the model. */
static const bench_set sets[] = {{"networks", "lenet5@128 batch=128 channels=1 side=28 classes=10 train\n"
                                              "resnet18@8 batch=8 train\n"
                                              "resnet18@8.strict batch=8 train strict\n"
                                              "resnet18@32x32 batch=32 side=32 classes=10 train\n"
                                              "resnet18@32x32.strict batch=32 side=32 classes=10 train strict\n"
                                              "resnet50@1 batch=1\n"
                                              "resnet50@8 batch=8\n"
                                              "mobilenetv2@1 batch=1\n"},
                                 {0}};

static clade_status name_of(const bench_shape *shape, bench_model_work *w) {
  snprintf(w->model, sizeof w->model, "%.*s", (int)strcspn(shape->name, "@"), shape->name);
  if (model_by_name(w->model)) return CLADE_OK;
  return CLADE_FAIL(NOT_FOUND, "%s, line %d: there is no model '%s'; expected " MODEL_NAMES, shape->source, shape->line,
                    w->model);
}

clade_status bench_model_data(clade__arena *arena, bench_model_work *w) {
  const size_t pixels = (size_t)(w->batch * w->channels * w->side * w->side);
  w->results = w->train ? 1 : (size_t)(w->batch * w->classes);
  w->x = clade__arena_new(arena, pixels * sizeof *w->x);
  w->labels = clade__arena_new(arena, (size_t)w->batch * sizeof *w->labels);
  if (!w->x || !w->labels) return CLADE_NO_MEMORY;
  bench_random(61, pixels, 1, w->x);
  for (int64_t i = 0; i < w->batch; i++) w->labels[i] = (int32_t)(i * 7 % w->classes);
  return CLADE_OK;
}

clade_status bench_model_build(const void *work, bench_clade *c) {
  const bench_model_work *w = work;
  c->out = (clade_type){.dtype = CLADE_F32};
  c->out_elements = w->results;
  c->strict = w->strict;
  c->precision = w->precision;
  c->quantized = w->quantized;
  clade_graph_train(c->graph, w->train);
  clade_val x =
      bench_variable(c, "bench.x", CLADE_F32, CLADE_SHAPE(w->batch, w->channels, w->side, w->side), w->x, BENCH_FRESH);
  clade_val y = model_by_name(w->model)(c->graph, x, (int)w->classes, NULL);
  if (w->train) {
    clade_val labels = bench_variable(c, "bench.labels", CLADE_I32, CLADE_SHAPE(w->batch), w->labels, BENCH_FRESH);
    y = clade_cross_entropy(c->graph, y, labels);
    (void)clade_minimize(c->graph, y, .optimizer = clade_sgd(.lr = 0.01, .momentum = 0.9), .comm = w->comm,
                         .compress = w->compress, .low_rank = w->low_rank,
                         .loss_scale = w->precision == CLADE_F16 ? 65536 : 0);
  }
  clade_output(c->graph, "y0", y);
  return CLADE_OK;
}

/* All contestants start with the same weights, so the first call gives comparable logits or losses. A single
 * contestant is only checked for finite numbers. */
static clade_status first(bench_side *side, float *result) {
  CLADE_TRY(side->call(side->state));
  return side->read(side->state, 0, result);
}

/* Allowed difference relative to the largest result; types of 16 and 8 bits round after each layer. */
static double tolerance(const bench_model_work *w) {
  if (w->quantized) return 0.5;
  return w->precision == CLADE_BF16 ? 5e-2 : w->precision == CLADE_F16 ? 1e-2 : 1e-3;
}

static clade_status check(bench_race *race, const bench_model_work *w) {
  bench_side *sides = race->sides;
  float *ours = clade__new(w->results, sizeof *ours), *theirs = clade__new(w->results, sizeof *theirs);
  clade_status status = ours && theirs ? CLADE_OK : CLADE_NO_MEMORY;
  double largest = 0;
  for (int i = 0; i < race->n && status == CLADE_OK; i++) {
    float *result = i ? theirs : ours;
    if (!sides[i].read) continue; /* times single layers and has no result */
    status = first(&sides[i], result);
    if (!bench_goes_on(race->job, &sides[i], status)) break;
    status = CLADE_OK;
    if (sides[i].lost) continue;
    for (size_t k = 0; k < w->results; k++) largest = fmax(largest, fabs((double)ours[k]));
    for (size_t k = 0; k < w->results && status == CLADE_OK; k++)
      if (!isfinite(result[k]) || (i && fabs((double)ours[k] - (double)theirs[k]) > tolerance(w) * largest))
        status =
            CLADE_FAIL(INTERNAL, "result %zu is %g, by %s %g", k, (double)ours[k], sides[i].name, (double)result[k]);
  }
  clade__free(ours);
  clade__free(theirs);
  return status;
}

static const char f32_too[] = "clade_f32";

static const char *python(const bench_job *job, const bench_model_work *w, const char *peer, bench_side *side) {
  const bench_clade *c = w->ours->state;
  const size_t pixels = (size_t)(w->batch * w->channels * w->side * w->side);
  bench_script script = {
      .file = "model.py",
      .text = bench_model_script,
      .files = {{"x", w->x, pixels * sizeof *w->x}, {"labels", w->labels, (size_t)w->batch * sizeof *w->labels}},
      .vars = c->vars,
      .results = w->results};
  if (c->layers) bench_script_file(&script, "layers", c->layers, strlen(c->layers));
  bench_script_say(&script, "%s", w->model);
  bench_script_say(&script, "%s%s", w->train ? "train" : "infer", strstr(peer, "_nhwc") ? "_nhwc" : "");
  const int64_t numbers[] = {w->batch, w->channels, w->side, w->classes};
  for (size_t i = 0; i < CLADE_COUNT(numbers); i++) bench_script_say(&script, "%lld", (long long)numbers[i]);
  bench_script_say(&script, "%s", clade_dtype_name(job->dtype));
  return bench_python(job, peer, &script, side);
}

static const char *join(const bench_job *job, const void *work, const char *peer, bench_side *side) {
  const bench_model_work *w = work;
  const bool onnx = !strcmp(peer, "onnxruntime");
  if (!strcmp(peer, f32_too) || (onnx && w->train)) return "";
  if (!strcmp(peer, "onednn"))
    return job->dtype == CLADE_F32 ? bench_onednn_model(job, w, ((const bench_clade *)w->ours->state)->graph, side)
                                   : "it is asked for f32";
  /* PyTorch has mixed precision, ONNX Runtime a quantized model, and both f32. */
  if (job->dtype != CLADE_F32 && (job->dtype == CLADE_I8) != onnx) return "it has no model of this type";
  return python(job, w, peer, side);
}

static clade_status accept(const bench_job *job, const bench_shape *shape) {
  (void)job;
  return name_of(shape, &(bench_model_work){0});
}

static clade_status measure(bench_race *race, const bench_shape *shape, int pass) {
  const bench_job *job = race->job;
  const int64_t *v = shape->value;
  bench_model_work w = {.batch = job->batch ? job->batch : v[BATCH],
                        .channels = v[CHANNELS],
                        .side = v[SIDE],
                        .classes = v[CLASSES],
                        .train = v[TRAIN],
                        .strict = v[STRICT],
                        .precision = job->dtype == CLADE_I8 ? CLADE_F32 : job->dtype,
                        .quantized = job->dtype == CLADE_I8,
                        .ours = &race->sides[race->n++]};
  (void)pass;
  race->row.items = (double)w.batch;
  CLADE_TRY(name_of(shape, &w));
  CLADE_TRY(bench_model_data(&race->arena, &w));
  CLADE_TRY(bench_clade_side(job, bench_model_build, &w, &race->sides[0]));
  CLADE_TRY(bench_clade_row(w.ours, "conv2d", &race->row));
  if (bench_wants(job, f32_too) && job->dtype != CLADE_F32 && job->dtype != CLADE_F16) { /* its own networks in f32 */
    bench_model_work wide = w;
    wide.precision = CLADE_F32;
    wide.quantized = false;
    CLADE_TRY(bench_clade_side(job, bench_model_build, &wide, &race->sides[race->n]));
    race->sides[race->n++].name = f32_too;
  }
  bench_peers(race, join, &w);
  CLADE_TRY(check(race, &w));
  return bench_take_turns(race);
}

enum { TRAINS, INFERS };
static int pass_of(const bench_shape *shape) { return shape->value[TRAIN] ? TRAINS : INFERS; }

const bench_group bench_models = {.name = "model",
                                  .keys = keys,
                                  .sets = sets,
                                  .quick = 1,
                                  .passes = {[TRAINS] = "train", [INFERS] = "infer"},
                                  .peers = {"clade_f32", "pytorch", "pytorch_nhwc", "onnxruntime", "onednn"},
                                  .batch = true,
                                  .pass_of = pass_of,
                                  .accept = accept,
                                  .measure = measure};
