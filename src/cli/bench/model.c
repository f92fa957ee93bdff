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

clade_status bench_model_data(bench_model_work *w) {
  const size_t pixels = (size_t)(w->batch * w->channels * w->side * w->side);
  w->results = w->train ? 1 : (size_t)(w->batch * w->classes);
  w->x = clade__new(pixels, sizeof *w->x);
  w->labels = clade__new((size_t)w->batch, sizeof *w->labels);
  if (!w->x || !w->labels) return CLADE_NO_MEMORY;
  bench_random(61, pixels, 1, w->x);
  for (int64_t i = 0; i < w->batch; i++) w->labels[i] = (int32_t)(i * 7 % w->classes);
  return CLADE_OK;
}

void bench_model_free(bench_model_work *w) {
  clade__free(w->x);
  clade__free(w->labels);
}

static clade_status work_of(const bench_job *job, const bench_shape *shape, bench_model_work *w) {
  const int64_t *v = shape->value;
  *w = (bench_model_work){.batch = job->batch ? job->batch : v[BATCH],
                          .channels = v[CHANNELS],
                          .side = v[SIDE],
                          .classes = v[CLASSES],
                          .train = v[TRAIN],
                          .strict = v[STRICT],
                          .precision = job->dtype == CLADE_I8 ? CLADE_F32 : job->dtype,
                          .quantized = job->dtype == CLADE_I8};
  CLADE_TRY(name_of(shape, w));
  return bench_model_data(w);
}

static clade_status build(const bench_model_work *w, bench_clade *c) {
  CLADE_TRY(clade_graph_new(&c->graph));
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

clade_status bench_model_side(const bench_job *job, const bench_model_work *w, bench_side *side) {
  bench_clade *c = clade__new(1, sizeof *c);
  if (!c) return CLADE_NO_MEMORY;
  c->out = (clade_type){.dtype = CLADE_F32};
  c->out_elements = w->results;
  c->strict = w->strict;
  c->precision = w->precision;
  c->quantized = w->quantized;
  clade_status status = build(w, c);
  clade_status made = bench_clade_side(job, c, side);
  return status == CLADE_OK ? made : status;
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

static clade_status check(bench_job *job, const bench_model_work *w, int n, bench_side *sides) {
  float *ours = clade__new(w->results, sizeof *ours), *theirs = clade__new(w->results, sizeof *theirs);
  clade_status status = ours && theirs ? CLADE_OK : CLADE_NO_MEMORY;
  double largest = 0;
  for (int i = 0; i < n && status == CLADE_OK; i++) {
    float *result = i ? theirs : ours;
    if (!sides[i].read) continue; /* times single layers and has no result */
    status = first(&sides[i], result);
    if (!bench_goes_on(job, &sides[i], status)) break;
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

static const char *const peers[] = {"pytorch", "pytorch_nhwc", "onnxruntime"};
static const char f32_alone[] = "it is asked for f32";
static const char other_type[] = "it has no model of this type";
static const char f32_too[] = "clade_f32";

/* PyTorch has mixed precision, ONNX Runtime a quantized model, and both f32. */
static bool takes(const char *peer, clade_dtype dtype) {
  return dtype == CLADE_F32 || (dtype == CLADE_I8) == !strcmp(peer, "onnxruntime");
}

static const char *join(const bench_job *job, const bench_model_work *w, const bench_clade *c, const char *peer,
                        bench_side *side) {
  const size_t pixels = (size_t)(w->batch * w->channels * w->side * w->side);
  bench_script script = {
      .file = "model.py",
      .text = bench_model_script,
      .files = {{"x", w->x, pixels * sizeof *w->x}, {"labels", w->labels, (size_t)w->batch * sizeof *w->labels}},
      .vars = c->vars,
      .results = w->results};
  if (c->layers) {
    script.files[2].name = "layers";
    script.files[2].data = c->layers;
    script.files[2].bytes = strlen(c->layers);
  }
  bench_script_say(&script, "%s", w->model);
  bench_script_say(&script, "%s%s", w->train ? "train" : "infer", strstr(peer, "_nhwc") ? "_nhwc" : "");
  const int64_t numbers[] = {w->batch, w->channels, w->side, w->classes};
  for (size_t i = 0; i < CLADE_COUNT(numbers); i++) bench_script_say(&script, "%lld", (long long)numbers[i]);
  bench_script_say(&script, "%s", clade_dtype_name(job->dtype));
  return bench_python(job, peer, &script, side);
}

static clade_status compete(bench_job *job, const bench_model_work *w, bench_row *row, bench_side *sides, int *n) {
  *n = 1;
  CLADE_TRY(bench_model_side(job, w, &sides[0]));
  bench_clade *c = sides[0].state;
  CLADE_TRY(bench_clade_row(c, "conv2d", row));
  if (bench_wants(job, f32_too) && job->dtype != CLADE_F32 && job->dtype != CLADE_F16) { /* its own networks in f32 */
    bench_model_work wide = *w;
    wide.precision = CLADE_F32;
    wide.quantized = false;
    CLADE_TRY(bench_model_side(job, &wide, &sides[*n]));
    sides[(*n)++].name = f32_too;
  }
  for (size_t i = 0; i < CLADE_COUNT(peers); i++) {
    if (!bench_wants(job, peers[i]) || (w->train && !strcmp(peers[i], "onnxruntime"))) continue;
    const char *reason = takes(peers[i], job->dtype) ? join(job, w, c, peers[i], &sides[*n]) : other_type;
    if (reason) bench_missing(job, peers[i], reason);
    *n += !reason;
  }
  if (bench_wants(job, "onednn")) {
    const char *reason = job->dtype == CLADE_F32 ? bench_onednn_model(job, w, c->graph, &sides[*n]) : f32_alone;
    if (reason) bench_missing(job, "onednn", reason);
    *n += !reason;
  }
  CLADE_TRY(check(job, w, *n, sides));
  return bench_race(job, *n, sides, row);
}

static clade_status one(bench_job *job, const bench_shape *shape) {
  bench_model_work w;
  bench_side sides[BENCH_MAX_SIDES] = {{0}};
  bench_row row = {.group = "model", .chain = 1};
  int n = 0;
  bool train = shape->value[TRAIN];
  if (job->pass && train != !strcmp(job->pass, "train")) return CLADE_OK;
  if (train && job->dtype == CLADE_I8) return CLADE_OK; /* quantized networks are for inference */
  clade_status status = work_of(job, shape, &w);
  snprintf(row.dtype, sizeof row.dtype, "%s", clade_dtype_name(job->dtype));
  snprintf(row.work, sizeof row.work, "%s", shape->name);
  snprintf(row.pass, sizeof row.pass, "%s", train ? "train" : "infer");
  bench_shape_text(shape, keys, row.shape, sizeof row.shape);
  row.items = (double)w.batch;
  if (status == CLADE_OK) status = compete(job, &w, &row, sides, &n);
  bench_sides_free(n, sides);
  bench_model_free(&w);
  if (status == CLADE_OK) return bench_row_add(job, &row);
  clade__free(row.why);
  return clade__fail_in(status, "model %s", shape->name);
}

clade_status bench_models(bench_job *job) {
  bench_shapes shapes = {0};
  clade_status status = bench_shapes_of(job, "networks", keys, sets, &shapes);
  bench_model_work work;
  for (size_t i = 0; i < shapes.count && status == CLADE_OK; i++) status = name_of(&shapes.at[i], &work);
  if (status == CLADE_OK) status = bench_ready(job);
  for (size_t i = 0; i < shapes.count && status == CLADE_OK; i++) status = one(job, &shapes.at[i]);
  bench_shapes_free(&shapes);
  return status;
}
