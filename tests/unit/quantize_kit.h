/* What the tests of quantization share: a model with its variables, and the whole way from it to quantized ones. */
#ifndef QUANTIZE_KIT_H
#define QUANTIZE_KIT_H

#include "plan_kit.h"
#include "quant/quant.h"

typedef struct model {
  clade_graph *g;
  clade_func *func;
  clade_vars *vars;
} model;

static inline void free_model(model *m) {
  clade_vars_release(m->vars);
  clade_func_release(m->func);
  clade_graph_release(m->g);
}

/* To weights of the type; without a batch `x` nothing is observed. */
static inline clade_status quantize_whole(const model *m, clade_device *device, clade_dtype weights,
                                          const clade_feed *x) {
  clade_quantization *q = NULL;
  clade_quantization_layer layer = {.size = sizeof layer};
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  char *text = NULL;
  clade_status status;
  CLADE_GOTO(clade_quantization_new(m->g, device, m->vars, &q, .weights = weights));
  if (x) CLADE_GOTO(clade_quantization_observe(q, 0, 0, 1, x));
  CLADE_GOTO(clade_quantization_text(q, &text));
  CLADE_GOTO(clade_quantization_get_layer(q, 0, &layer));
  CLADE_GOTO(clade_compile(m->g, device, &func, .quantization = text));
  CLADE_GOTO(clade_vars_new(func, 0, &vars));
  CLADE_GOTO(clade_quantization_apply(q, vars));
fail:
  clade_vars_release(vars);
  clade_func_release(func);
  clade_text_free(text);
  clade_quantization_free(q);
  return status;
}

#endif
