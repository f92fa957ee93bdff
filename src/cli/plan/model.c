/* The model of clade plan and its forward graph: types only, no data. */
#include "cli/plan/plan.h"
#include "models/models.h"

clade_status plan_model_of(const char *name, int64_t side, plan_model *out) {
  *out = (plan_model){.name = name, .images = model_by_name(name)};
  if (!out->images) {
    CLADE_TRY(gpt_parse(name, &out->sizes));
    return side ? CLADE_FAIL(INVALID, "--side: %s has no images", name) : CLADE_OK;
  }
  const bool digits = !strcmp(name, "mlp") || !strcmp(name, "lenet5");
  if (digits && side && side != 28) return CLADE_FAIL(INVALID, "--side: images of %s have 28 x 28", name);
  out->channels = digits ? 1 : 3;
  out->side = side ? side : digits ? 28 : 224;
  out->classes = digits ? 10 : 1000;
  return CLADE_OK;
}

static clade_val loss_of_text(const plan_model *m, clade_graph *g, int64_t rows) {
  const clade_shape shape = CLADE_SHAPE(rows, m->sizes.length);
  clade_val tokens = clade_input(g, "tokens", CLADE_I32, shape), next = clade_input(g, "labels", CLADE_I32, shape);
  return clade_cross_entropy(g, gpt(g, tokens, &m->sizes), next);
}

static clade_val loss_of_images(const plan_model *m, clade_graph *g, int64_t rows) {
  clade_val x = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(rows, m->channels, m->side, m->side)),
            labels = clade_input(g, "labels", CLADE_I32, CLADE_SHAPE(rows));
  return clade_cross_entropy(g, m->images(g, x, (int)m->classes, NULL), labels);
}

clade_status plan_model_graph(const plan_model *model, int64_t rows, clade_graph **out) {
  CLADE_TRY(clade_graph_new(out));
  clade_graph_train(*out, true);
  clade_val loss = model->images ? loss_of_images(model, *out, rows) : loss_of_text(model, *out, rows);
  clade_output(*out, "loss", loss);
  clade_status status = clade_graph_status(*out);
  if (status == CLADE_OK) return CLADE_OK;
  clade_fail(status, "%s: %s", model->name, clade_graph_message(*out));
  clade_graph_release(*out);
  *out = NULL;
  return status;
}
