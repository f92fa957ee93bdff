/* What clade tune tunes: a model's training step or inference, or a product of matrices. */
#include <stdio.h>

#include "cli/tune.h"
#include "models/models.h"

enum { MOST = 1 << 20 };

static bool product_of(const char *text, int64_t size[3]) {
  char rest;
  long long m, n, k;
  if (sscanf(text, "%lldx%lldx%lld%c", &m, &n, &k, &rest) != 3) return false;
  size[0] = m, size[1] = n, size[2] = k;
  for (int i = 0; i < 3; i++)
    if (size[i] < 1 || size[i] > MOST) return false;
  return true;
}

bool tune_is_target(const char *text) {
  int64_t size[3];
  return model_by_name(text) || product_of(text, size);
}

static void build_product(clade_graph *g, const int64_t size[3]) {
  clade_val a = clade_input(g, "a", CLADE_F32, CLADE_SHAPE(size[0], size[2])),
            b = clade_input(g, "b", CLADE_F32, CLADE_SHAPE(size[2], size[1]));
  clade_output(g, "y", clade_gemm(g, a, b));
}

/* Images as the model is usually given them. */
static clade_shape images_for(const tune_job *job, clade_model_fn *model) {
  if (model == mlp || model == lenet5) return CLADE_SHAPE(job->batch, 1, 28, 28);
  if (model == resnet18) return CLADE_SHAPE(job->batch, 3, 32, 32);
  return CLADE_SHAPE(job->batch, 3, 224, 224);
}

static clade_status build_model(const tune_job *job, clade_graph *g, clade_model_fn *model) {
  clade_graph_train(g, !job->infer);
  clade_val x = clade_input(g, "x", CLADE_F32, images_for(job, model));
  clade_val logits = model(g, x, (int)job->classes, NULL);
  if (job->infer) {
    clade_output(g, "p", clade_softmax(g, logits, 1));
    return CLADE_OK;
  }
  clade_val y = clade_input(g, "y", CLADE_I32, CLADE_SHAPE(job->batch));
  clade_val loss = clade_cross_entropy(g, logits, y);
  clade_output(g, "loss", loss);
  return clade_minimise(g, loss, .optimizer = clade_adam());
}

clade_status tune_func(const tune_job *job, const char *target, clade_func **out) {
  int64_t size[3];
  clade_graph *g;
  clade_model_fn *model = model_by_name(target);
  CLADE_TRY(clade_graph_new(&g));
  clade_status status = CLADE_OK;
  if (model)
    status = build_model(job, g, model);
  else if (product_of(target, size))
    build_product(g, size);
  if (status == CLADE_OK)
    status = clade_compile(g, job->device, out, .companion = job->companion, .strict = job->strict);
  clade_graph_release(g);
  return status;
}
