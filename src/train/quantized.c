/* Quantization-aware training: layers simulate quantization, and ranges of their inputs follow the data. */
#include "base/json.h"
#include "pass/quantize.h"
#include "train/internal.h"

clade_status clade__train_check_quantized(const clade__training *tr) {
  const clade_trainer *t = &tr->t;
  if (t->freeze_ranges < 0)
    return CLADE_FAIL(INVALID, "clade_train: .freeze_ranges is %d; expected an epoch, from 1 on", t->freeze_ranges);
  if (!t->quantization) return CLADE_OK;
  if (tr->ranks > 1)
    return CLADE_FAIL(UNSUPPORTED, "clade_train: quantization-aware training on %d %s; expected one", tr->ranks,
                      tr->local ? "devices" : "ranks");
  if (t->precision_auto || (t->precision && t->precision != CLADE_F32))
    return CLADE_FAIL(INVALID, "clade_train: quantization-aware training in %s; expected f32",
                      t->precision_auto ? "a precision that is measured" : clade_dtype_name(t->precision));
  return CLADE_OK;
}

/* ---- checkpoints ---- */
json_t *clade__train_quantized(const clade__training *tr) {
  if (!tr->t.quantization) return json_null();
  return json_pack("{s:s, s:i}", "layers", tr->t.quantization, "freeze_ranges", tr->t.freeze_ranges);
}

clade_status clade__train_read_quantized(clade__training *tr, const char *path, const json_t *quantized) {
  const char *layers = json_string_value(json_object_get(quantized, "layers"));
  const json_int_t freeze = json_integer_value(json_object_get(quantized, "freeze_ranges"));
  tr->t.quantization = NULL;
  if (!quantized || json_is_null(quantized)) return CLADE_OK;
  if (!layers || freeze < 0 || freeze > INT32_MAX)
    return CLADE_FAIL(CORRUPT, "%s: its \"qat\" does not say which layers are trained for 8 bits", path);
  tr->quantization = clade__copy_text(layers);
  if (!tr->quantization) return CLADE_NO_MEMORY;
  tr->t.quantization = tr->quantization;
  if (!tr->t.freeze_ranges) tr->t.freeze_ranges = (int)freeze;
  const clade_status status = clade__train_check_quantized(tr);
  return status ? clade__fail_in(status, "%s", path) : CLADE_OK;
}

/* ---- graphs ---- */
clade_val clade__train_model_of(const clade__training *tr, clade_graph *g, clade_val x) {
  clade__train_lock(tr);
  const clade_val logits = tr->t.model(g, x, tr->data.classes, tr->t.model_user);
  clade__train_unlock(tr);
  return logits;
}

static clade_val build(const clade__training *tr, clade_graph *g, clade_shape shape) {
  clade__train_give_shapes(tr, g);
  return clade__train_model_of(tr, g, clade_input(g, "x", CLADE_F32, shape));
}

/* Builds the model in a graph of its own and copies it with simulated quantization. */
static clade_status simulate(const clade__training *tr, clade_graph *g, clade_shape shape, clade_val *logits) {
  clade_graph *model = NULL;
  clade__id *map = NULL, id;
  clade_status status;
  CLADE_GOTO(clade_graph_new(&model));
  clade_graph_train(model, g->trains);
  const clade_val built = build(tr, model, shape);
  CLADE_GOTO(clade_graph_status(model));
  CLADE_GOTO(clade__graph_value(model, built, "clade_train: the model's logits", &id));
  map = clade__new(model->n_values, sizeof *map);
  CLADE_GOTO(map ? CLADE_OK : CLADE_NO_MEMORY);
  CLADE_GOTO(clade__simulate(model, tr->t.quantization, g, map));
  *logits = clade__graph_val(g, map[id]);
fail:
  clade__free(map);
  clade_graph_release(model);
  return status;
}

clade_val clade__train_model(const clade__training *tr, clade_graph *g, clade_shape shape) {
  clade_val logits = {0};
  if (!tr->t.quantization) return build(tr, g, shape);
  const clade_status status = simulate(tr, g, shape, &logits);
  return status ? clade__graph_fail(g, status, NULL) : logits;
}

/* ---- ranges ---- */
clade_status clade__train_freeze(clade__training *tr) {
  const int64_t epoch = tr->at / tr->epoch_steps + 1;
  const float none = 0;
  if (!tr->t.quantization || !tr->t.freeze_ranges || epoch < tr->t.freeze_ranges) return CLADE_OK;
  return clade_vars_set(tr->vars, CLADE__RANGES "rate", &none, sizeof none);
}
