/* Quantization-aware training: layers compute in f32 what they will compute in 8 bits (docs/quantization.md). In
 * training
 *
 *     y = layer(x, weight)      becomes      y = layer(s through(x / s), t through(weight / t))
 *
 * where `through` rounds with a straight-through gradient. Bias and normalization are unchanged. For inference, the
 * layer becomes what quantize.c makes of it, with weights, scales and biases computed in the graph instead of
 * stored, so that both give the same bits. */
#include <math.h>
#include <stdio.h>

#include "pass/quantize.h"

#define LEAST   0x1p-100 /* smallest scale: it and its reciprocal are normal numbers */
#define LEVELS  127      /* of weights */
#define RATE    0.01     /* of PyTorch's averaging_constant */
#define NAME_OF CLADE__RANGES "%s:%s"

static clade_val number(clade_graph *g, double value) { return clade_fill(g, CLADE_F32, CLADE_SCALAR, value); }

/* Scale for the largest magnitude. */
static clade_val step_of(clade_graph *g, clade_val most, int levels) {
  return clade_max(g, clade_mul(g, most, number(g, 1.0 / levels)), number(g, LEAST));
}

/* Straight-through rounding: the derivative is 1. Exact, since the difference of x and its rounded value is
 * representable. */
static clade_val through(clade_graph *g, clade_val x) {
  return clade_add(g, x, clade_stop_gradient(g, clade_sub(g, clade_round(g, x), x)));
}

/* ---- input ---- */
typedef struct input {
  clade_dtype type;
  clade_val least, most; /* variables; `least` for i8 only */
} input;

static int levels_of(clade_dtype type) { return type == CLADE_U8 ? 255 : 127; }

static clade_val range_variable(clade_graph *g, const clade__quant_layer *l, const char *which, double initial) {
  char name[CLADE__QUANT_PART + sizeof CLADE__RANGES];
  snprintf(name, sizeof name, NAME_OF, which, l->name);
  return clade_variable(g, name, CLADE_F32, CLADE_SCALAR, (clade_initial){CLADE_INIT_FILL, initial, 0});
}

static input input_of(clade_graph *g, const clade__quant_layer *l, const clade__quant_entry *e) {
  const double most = e->scale * levels_of(e->input);
  input in = {.type = e->input, .most = range_variable(g, l, "max", most)};
  if (e->input == CLADE_I8) in.least = range_variable(g, l, "min", -most);
  return in;
}

static clade_val scale_of(clade_graph *g, const input *in) {
  const clade_val most = in->type == CLADE_I8 ? clade_max(g, in->most, clade_neg(g, in->least)) : in->most;
  return step_of(g, most, levels_of(in->type));
}

/* Moving average of the variable toward this batch; returns its next value. */
static clade_val follow(clade_graph *g, clade_val variable, clade_val now, clade_val rate) {
  const clade_val next = clade_add(g, variable, clade_mul(g, rate, clade_sub(g, now, variable)));
  clade_assign(g, variable, next);
  return next;
}

/* ---- training ---- */
static clade_val learnt_input(clade_graph *g, clade_val x, input in, clade_val rate) {
  const clade_val seen = clade_stop_gradient(g, x);
  in.most = follow(g, in.most, clade_reduce_max(g, seen), rate);
  if (in.type == CLADE_I8) in.least = follow(g, in.least, clade_reduce_min(g, seen), rate);
  const clade_val scale = scale_of(g, &in);
  const bool is_signed = in.type == CLADE_I8;
  const clade_val levels =
      clade_clip(g, clade_mul(g, x, clade_reciprocal(g, scale)), is_signed ? -128 : 0, is_signed ? 127 : 255);
  return clade_mul(g, through(g, levels), scale);
}

/* Per output, in the weight's rank. */
static clade_val weight_step(clade_graph *g, clade_val weight, int rank) {
  clade_reduce_opt opt = {.size = sizeof opt, .x = clade_abs(g, clade_stop_gradient(g, weight)), .keep = true};
  for (int i = 1; i < rank; i++) opt.axes[opt.n_axes++] = i;
  return step_of(g, clade_reduce_max_(g, &opt), LEVELS);
}

static clade_val learnt_weight(clade_graph *g, clade_val weight, int rank) {
  const clade_val step = weight_step(g, weight, rank);
  return clade_mul(g, through(g, clade_mul(g, weight, clade_reciprocal(g, step))), step);
}

/* ---- inference ---- */
typedef struct parts {
  clade_val weight, scale, bias; /* i8; f32 in the weight's rank; f32 per output, invalid if none */
} parts;

/* A layer's operands in the graph under construction; invalid if absent. */
typedef struct operands {
  clade_val weight, bias, norm[CLADE__NORM_PARTS];
} operands;

/* Folds the normalization's factor per output. Its sign moves to the weights, as scales are positive. */
static parts parts_of(clade_graph *g, const clade__quant_layer *l, const operands *o, const clade_shape *shape,
                      clade_val input_scale) {
  const clade_val step = weight_step(g, o->weight, shape->rank), *norm = o->norm;
  clade_val inverse = clade_reciprocal(g, step);
  parts p = {.scale = step, .bias = o->bias};
  if (clade_val_ok(norm[CLADE__NORM_VAR])) {
    clade_shape along = {.rank = shape->rank, .dim = {shape->dim[0]}};
    for (int i = 1; i < along.rank; i++) along.dim[i] = 1;
    const clade_val root = clade_rsqrt(g, clade_add(g, norm[CLADE__NORM_VAR], number(g, l->eps)));
    const clade_val slope = clade_mul(g, norm[CLADE__NORM_WEIGHT], root), wide = clade_reshape(g, slope, along);
    inverse = clade_mul(g, inverse, clade_sign(g, wide));
    p.scale = clade_mul(g, step, clade_abs(g, wide));
    p.bias =
        clade_val_ok(o->bias) ? clade_sub(g, o->bias, norm[CLADE__NORM_MEAN]) : clade_neg(g, norm[CLADE__NORM_MEAN]);
    p.bias = clade_add(g, clade_mul(g, p.bias, slope), norm[CLADE__NORM_BIAS]);
  }
  p.weight = clade_cast(g, clade_round(g, clade_mul(g, o->weight, inverse)), CLADE_I8);
  p.scale = clade_mul(g, p.scale, input_scale);
  return p;
}

static clade_val small_input(clade_graph *g, clade_val x, const input *in, clade_val scale) {
  const clade_val levels = clade_round(g, clade_mul(g, x, clade_reciprocal(g, scale)));
  return clade_cast(g, clade_cast(g, levels, in->type), CLADE_F32);
}

/* ---- rewriting ---- */
typedef struct simulator {
  clade__quant_layers layers;
  clade__quant_entry *entries; /* by layer */
  size_t *layer;               /* by node: 1 + index of the layer that is rewritten there; 0: none */
  clade_val rate;              /* variable: rate of the moving averages; invalid: not created yet */
} simulator;

static clade_val mapped(const clade_graph *g, const clade__id *map, clade__id value) {
  return value ? clade__graph_val(g, map[value]) : (clade_val){0};
}

static operands operands_of(const clade_graph *g, const clade__id *map, const clade__quant_layer *l) {
  operands o = {mapped(g, map, l->weight), mapped(g, map, l->bias), {{0}}};
  for (int i = 0; i < CLADE__NORM_PARTS; i++) o.norm[i] = mapped(g, map, l->norm[i]);
  return o;
}

static clade_status compute(const clade__node *n, clade_graph *g, clade_val x, clade_val weight, clade_val *y) {
  clade__id node;
  CLADE_TRY(clade_graph_status(g));
  CLADE_TRY(clade__node_new(g, n->op, n->name, n->attrs, 2, (clade__id[]){x.id, weight.id}, &node));
  *y = clade__graph_val(g, g->nodes[node].first_out);
  return CLADE_OK;
}

static clade_status build_training(simulator *s, const clade_graph *old, size_t layer, clade_graph *g, clade__id *map) {
  const clade__quant_layer *l = &s->layers.at[layer];
  const clade__node *n = &old->nodes[l->node];
  clade_val y;
  g->device = n->device;
  if (!clade_val_ok(s->rate))
    s->rate =
        clade_variable(g, CLADE__RANGES "rate", CLADE_F32, CLADE_SCALAR, (clade_initial){CLADE_INIT_FILL, RATE, 0});
  const clade_val x = learnt_input(g, mapped(g, map, l->x), input_of(g, l, &s->entries[layer]), s->rate);
  const clade_val weight = learnt_weight(g, mapped(g, map, l->weight), clade__type(old, l->weight)->shape.rank);
  CLADE_TRY(compute(n, g, x, weight, &y));
  map[n->first_out] = y.id;
  return CLADE_OK;
}

static clade_status build_inference(const simulator *s, const clade_graph *old, size_t layer, clade_graph *g,
                                    clade__id *map) {
  const clade__quant_layer *l = &s->layers.at[layer];
  const clade__node *n = &old->nodes[l->node];
  const clade_shape *shape = &clade__type(old, l->weight)->shape;
  clade_val y;
  g->device = n->device;
  const input in = input_of(g, l, &s->entries[layer]);
  const clade_val scale = scale_of(g, &in);
  const operands o = operands_of(g, map, l);
  const parts p = parts_of(g, l, &o, shape, scale);
  const clade_val weight = clade_mul(g, clade_cast(g, p.weight, CLADE_F32), p.scale);
  CLADE_TRY(compute(n, g, small_input(g, mapped(g, map, l->x), &in, scale), weight, &y));
  if (clade_val_ok(p.bias)) {
    const clade_shape along = {.rank = n->op == &clade__op_gemm ? 1 : 3, .dim = {shape->dim[0], 1, 1}};
    y = clade_add(g, y, clade_reshape(g, p.bias, along));
  }
  map[old->nodes[l->end].first_out] = y.id;
  return clade_graph_status(g);
}

/* For inference, the nodes of a layer are copied too; they are dead after the replacement. */
static clade_status build(void *user, const clade_graph *old, clade__id node, clade_graph *g, clade__id *map) {
  simulator *s = user;
  const size_t layer = s->layer[node];
  if (layer && old->trains) return build_training(s, old, layer - 1, g, map);
  if (layer) return build_inference(s, old, layer - 1, g, map);
  return clade__node_copy(old, node, g, map);
}

/* Must be closed even after a failure. */
static clade_status open_simulator(const clade_graph *model, const char *text, simulator *s) {
  *s = (simulator){.entries = NULL};
  CLADE_TRY(clade_graph_status(model));
  CLADE_TRY(clade__quant_layers_find(model, &s->layers));
  CLADE_TRY(clade__quant_entries(&s->layers, text, &s->entries));
  s->layer = clade__new(model->n_nodes, sizeof *s->layer);
  if (!s->layer) return CLADE_NO_MEMORY;
  for (size_t i = 0; i < s->layers.n; i++)
    if (s->entries[i].input) s->layer[model->trains ? s->layers.at[i].node : s->layers.at[i].end] = i + 1;
  return CLADE_OK;
}

static void close_simulator(simulator *s) {
  clade__free(s->layers.at);
  clade__free(s->entries);
  clade__free(s->layer);
}

clade_status clade__simulate(const clade_graph *model, const char *text, clade_graph *g, clade__id *map) {
  simulator s;
  clade_status status = open_simulator(model, text, &s);
  if (status == CLADE_OK) status = clade__graph_append(model, build, &s, g, map);
  close_simulator(&s);
  return status;
}

clade_status clade__pass_simulate(clade__pass_ctx *ctx) {
  simulator s;
  clade_status status = open_simulator(ctx->graph, ctx->quantization, &s);
  if (status == CLADE_OK) status = clade__pass_rewrite(ctx, build, &s);
  close_simulator(&s);
  return status;
}

/* ---- quantized parts of a layer ---- */
static clade_val same_variable(const clade_graph *model, clade__id value, clade_graph *g) {
  const clade_type *type = value ? clade__type(model, value) : NULL;
  return value ? clade_parameter(g, model->nodes[model->values[value].node].name, type->dtype, type->shape,
                                 (clade_initial){CLADE_INIT_ZERO, 0, 0})
               : (clade_val){0};
}

static void add_output(clade_graph *g, const clade__quant_layer *l, const char *part, clade_val value) {
  char name[CLADE__QUANT_PART];
  clade_output(g, clade__quant_part(l, part, name), value);
}

clade_status clade__simulate_layer(const clade_graph *model, const clade__quant_layer *l, const clade__quant_entry *e,
                                   clade_graph *g) {
  const clade_shape *shape = &clade__type(model, l->weight)->shape;
  operands o = {same_variable(model, l->weight, g), same_variable(model, l->bias, g), {{0}}};
  for (int i = 0; i < CLADE__NORM_PARTS; i++) o.norm[i] = same_variable(model, l->norm[i], g);
  const input in = input_of(g, l, e);
  const clade_val scale = scale_of(g, &in);
  const parts p = parts_of(g, l, &o, shape, scale);
  add_output(g, l, CLADE__LAYER_WEIGHT, p.weight);
  add_output(g, l, CLADE__LAYER_SCALE, clade_reshape(g, p.scale, CLADE_SHAPE(shape->dim[0])));
  if (clade_val_ok(p.bias)) add_output(g, l, CLADE__LAYER_BIAS, p.bias);
  add_output(g, l, CLADE__LAYER_INPUT_SCALE, scale);
  return clade_graph_status(g);
}
