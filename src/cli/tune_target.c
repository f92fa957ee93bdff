/* The works of clade tune: training steps and inferences of models, and the products and convolutions of clade
 * bench. */
#include <stdio.h>

#include "cli/tune.h"

enum { MOST = 1 << 20 };

static bool product_of(const char *text, bench_shape *shape) {
  char rest;
  long long m, n, k;
  if (sscanf(text, "%lldx%lldx%lld%c", &m, &n, &k, &rest) != 3) return false;
  *shape = (bench_shape){.value = {[GEMM_M] = m, [GEMM_N] = n, [GEMM_K] = k, [GEMM_BATCH] = 1}};
  for (int i = GEMM_M; i <= GEMM_K; i++)
    if (shape->value[i] < 1 || shape->value[i] > MOST) return false;
  return true;
}

static bool is_set(const char *word) { return !strcmp(word, "gemm") || !strcmp(word, "conv"); }

static int check_model(const tune_job *job) {
  const char *pass = job->bench.pass;
  if (pass && strcmp(pass, "train") && strcmp(pass, "infer"))
    return cli_wrong(&job->args, "--pass %s: expected train or infer, of a model", pass);
  if (job->bench.dtype != CLADE_F32) return cli_wrong(&job->args, "--dtype: a model has its own types");
  return CLI_DONE;
}

static int check_product(const tune_job *job) {
  if (job->bench.batch) return cli_wrong(&job->args, "--batch: a product tells its own rows");
  if (job->bench.pass) return cli_wrong(&job->args, "--pass: a product has one");
  return CLI_DONE;
}

int tune_check(tune_job *job, int n, char **words) {
  bench_shape shape;
  bool sets = false;
  for (int i = 0; i < n; i++) {
    int wrong = CLI_DONE;
    if (is_set(words[i])) {
      sets = true;
      job->bench.what = words[i];
      wrong = bench_check_options(&job->bench);
      if (!wrong && !strcmp(words[i], "gemm")) wrong = check_product(job);
      if (!wrong && !strcmp(words[i], "conv") && !clade__is_float(job->bench.dtype))
        wrong = cli_wrong(&job->args, "--dtype %s: of conv floats alone are tuned", clade_dtype_name(job->bench.dtype));
    } else if (model_by_name(words[i])) {
      wrong = check_model(job);
    } else if (product_of(words[i], &shape)) {
      wrong = check_product(job);
    } else {
      wrong = cli_wrong(&job->args, "'%s' is no model (%s), not gemm or conv, and no product as 512x512x512", words[i],
                        MODEL_NAMES);
    }
    if (wrong) return wrong;
  }
  if (!sets && (job->bench.set || job->bench.shapes || job->bench.only))
    return cli_wrong(&job->args, "--set, --shapes and --only are of gemm and conv: name one");
  return CLI_DONE;
}

static clade_status add(tune_job *job, tune_work **out) {
  CLADE_TRY(clade__grow(&job->works, &job->capacity, job->n_works + 1, sizeof *job->works));
  *out = &job->works[job->n_works++];
  memset(*out, 0, sizeof **out);
  return CLADE_OK;
}

static clade_status add_product(tune_job *job, const bench_shape *shape, const char *group, const char *name) {
  tune_work *work;
  CLADE_TRY(add(job, &work));
  snprintf(work->name, sizeof work->name, "%s%s", group, name);
  bench_gemm_work_of(&job->bench, shape, &work->gemm);
  return CLADE_OK;
}

static clade_status add_products(tune_job *job, const bench_shapes *shapes) {
  for (size_t i = 0; i < shapes->count; i++) CLADE_TRY(add_product(job, &shapes->at[i], "gemm ", shapes->at[i].name));
  return CLADE_OK;
}

static clade_status add_convs(tune_job *job, const bench_shapes *shapes) {
  for (int pass = 0; pass < BENCH_PASSES; pass++)
    for (size_t i = 0; i < shapes->count; i++) {
      tune_work *work;
      if (job->bench.pass && strcmp(job->bench.pass, bench_conv.passes[pass])) continue;
      CLADE_TRY(add(job, &work));
      snprintf(work->name, sizeof work->name, "conv %s %s", shapes->at[i].name, bench_conv.passes[pass]);
      CLADE_TRY(bench_conv_work_of(&job->bench, &shapes->at[i], (bench_pass)pass, &work->conv));
    }
  return CLADE_OK;
}

static clade_status add_set(tune_job *job, const char *word) {
  bool gemm = !strcmp(word, "gemm");
  bench_shapes shapes = {0};
  job->bench.group = gemm ? &bench_gemm : &bench_conv;
  clade_status status = bench_shapes_of(&job->bench, &shapes);
  if (status == CLADE_OK) status = gemm ? add_products(job, &shapes) : add_convs(job, &shapes);
  bench_shapes_free(&shapes);
  return status;
}

clade_status tune_works(tune_job *job, int n, char **words) {
  bench_shape shape;
  for (int i = 0; i < n; i++) {
    tune_work *work;
    if (is_set(words[i])) {
      CLADE_TRY(add_set(job, words[i]));
    } else if (product_of(words[i], &shape)) {
      CLADE_TRY(add_product(job, &shape, "", words[i]));
    } else {
      CLADE_TRY(add(job, &work));
      snprintf(work->name, sizeof work->name, "%s", words[i]);
      work->model = model_by_name(words[i]);
    }
  }
  return CLADE_OK;
}

/* A weight, which is packed once, or an input, as another node's result would be. */
static clade_val operand(clade_graph *g, const char *name, clade_dtype dtype, clade_shape shape, bool weight) {
  return weight ? clade_variable(g, name, dtype, shape, (clade_initial){CLADE_INIT_ZERO, 0, 0})
                : clade_input(g, name, dtype, shape);
}

static clade_status build_product(clade_graph *g, const bench_gemm_work *w) {
  clade_val a = operand(g, "a", w->type[BENCH_A], bench_gemm_shape(w, BENCH_A), w->frozen[BENCH_A]),
            b = operand(g, "b", w->type[BENCH_B], bench_gemm_shape(w, BENCH_B), w->frozen[BENCH_B]);
  clade_output(g, "y", clade_gemm(g, a, b, .trans_a = w->trans[BENCH_A], .trans_b = w->trans[BENCH_B]));
  return CLADE_OK;
}

static clade_status build_conv(clade_graph *g, clade_dtype dtype, const bench_conv_work *w) {
  clade_val v[BENCH_ROLES], dy;
  v[BENCH_X] = clade_input(g, "x", dtype, w->shape[BENCH_X]);
  v[BENCH_W] = operand(g, "w", dtype, w->shape[BENCH_W], true);
  v[BENCH_Y] = bench_convolve(g, w, v[BENCH_X], v[BENCH_W]);
  clade_val result = v[BENCH_Y];
  if (w->pass != BENCH_FORWARD) {
    dy = clade_input(g, "dy", dtype, w->shape[BENCH_Y]);
    CLADE_TRY(clade_gradients(g, v[BENCH_Y], dy, 1, &v[bench_conv_result(w)], &result));
  }
  clade_output(g, "result", result);
  return CLADE_OK;
}

/* The usual image size of a model. */
static clade_shape images_for(int64_t batch, clade_model_fn *model) {
  if (model == mlp || model == lenet5) return CLADE_SHAPE(batch, 1, 28, 28);
  if (model == resnet18) return CLADE_SHAPE(batch, 3, 32, 32);
  return CLADE_SHAPE(batch, 3, 224, 224);
}

static clade_status build_model(const tune_job *job, clade_graph *g, clade_model_fn *model) {
  bool infer = job->bench.pass && !strcmp(job->bench.pass, "infer");
  int64_t batch = job->bench.batch ? job->bench.batch : 64;
  clade_graph_train(g, !infer);
  clade_val x = clade_input(g, "x", CLADE_F32, images_for(batch, model));
  clade_val logits = model(g, x, (int)job->classes, NULL);
  if (infer) {
    clade_output(g, "p", clade_softmax(g, logits, 1));
    return CLADE_OK;
  }
  clade_val y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(batch));
  clade_val loss = clade_cross_entropy(g, logits, y);
  clade_output(g, "loss", loss);
  return clade_minimize(g, loss, .optimizer = clade_adam());
}

static clade_status build(const tune_job *job, const tune_work *work, clade_graph *g) {
  if (work->model) return build_model(job, g, work->model);
  return work->gemm.m ? build_product(g, &work->gemm) : build_conv(g, job->bench.dtype, &work->conv);
}

clade_status tune_func(const tune_job *job, const tune_work *work, clade_func **out) {
  clade_graph *g;
  CLADE_TRY(clade_graph_new(&g));
  clade_status status = build(job, work, g);
  if (status == CLADE_OK) status = clade_compile(g, job->device, out, .fallback = job->fallback, .strict = job->strict);
  clade_graph_release(g);
  return status == CLADE_OK ? CLADE_OK : clade__fail_in(status, "%s", work->name);
}
