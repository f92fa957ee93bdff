/* LeNet-5 of `clade bench compare`, trained on the generated digits and quantized symmetrically to i8: weights by
 * channel, activations by layer. Each layer is a product of i8 with i32 sums, so an integer array computes all its
 * arithmetic, and results have the same bits on every device. */
#include <math.h>
#include <stdio.h>

#include "cli/compare/compare.h"
#include "models/models.h"

enum { LAYERS = 5, CLASSES = 10, SIDE = 28, PIXELS = SIDE * SIDE, MOST = 120, EPOCHS = 1 };
static const float byte = 127; /* largest quantized magnitude */

/* The first two layers are convolutions on images of `side`; the others take the whole input as one window. */
typedef struct layer {
  const char *name;
  int out, in, kernel, pad, side;
} layer;
static const layer layers[LAYERS] = {{"conv1", 6, 1, 5, 2, SIDE},
                                     {"conv2", 16, 6, 5, 0, 14},
                                     {"fc1", 120, 16, 5, 0, 5},
                                     {"fc2", 84, 120, 1, 0, 1},
                                     {"fc3", CLASSES, 84, 1, 0, 1}};
static int depth(const layer *l) { return l->in * l->kernel * l->kernel; }
static int width(const layer *l) { return l->side + 2 * l->pad - l->kernel + 1; }
static bool slides(int i) { return i < 2; }
static bool is_last(int i) { return i == LAYERS - 1; }

struct compare_net {
  clade_vars *vars; /* in f32; NULL: untrained, all numbers are zeros */
  int8_t *weight[LAYERS];
  int32_t bias[LAYERS][MOST];
  float factor[LAYERS][MOST]; /* turns a sum into the next layer's units, in the last layer into the f32 network's */
  float *image;
  int32_t label[COMPARE_IMAGES];
};

/* ---- the i8 network; the batch is the innermost axis, so that a gather moves rows with an element of each image
 * ---- */
/* Indices of the elements of all windows (im2col), ordered by position in the window; -1: padding. */
static clade_val windows(clade_graph *g, const layer *l) {
  int n = width(l) * width(l);
  int32_t *at = clade__new((size_t)(depth(l) * n), sizeof *at);
  for (int k = 0; at && k < depth(l); k++)
    for (int j = 0; j < n; j++) {
      int channel = k / (l->kernel * l->kernel);
      int y = j / width(l) + k / l->kernel % l->kernel - l->pad, x = j % width(l) + k % l->kernel - l->pad;
      bool inside = y >= 0 && x >= 0 && y < l->side && x < l->side;
      at[k * n + j] = inside ? (channel * l->side + y) * l->side + x : -1;
    }
  clade_val ids = clade_constant(g, CLADE_I32, CLADE_SHAPE(depth(l) * n), at);
  clade__free(at);
  return ids;
}

/* From x, i8 [in * side * side, batch], to [out, positions * batch] in the units of the next layer. */
static clade_val layer_of(const compare_net *net, clade_graph *g, int i, clade_val x) {
  const layer *l = &layers[i];
  clade_shape each = CLADE_SHAPE(l->out, 1);
  if (slides(i)) x = clade_reshape(g, clade_gather(g, x, windows(g, l)), CLADE_SHAPE(depth(l), CLADE_DIM_REST));
  clade_val w = clade_constant(g, CLADE_I8, CLADE_SHAPE(l->out, depth(l)), net->weight[i]);
  clade_val y = clade_gemm(g, w, x, .bias = clade_constant(g, CLADE_I32, each, net->bias[i]));
  if (!is_last(i)) y = clade_relu(g, y);
  return clade_mul(g, clade_cast(g, y, CLADE_F32), clade_constant(g, CLADE_F32, each, net->factor[i]));
}

clade_val compare_net_bytes(const compare_net *net, clade_graph *g, clade_val x, int64_t batch) {
  static const int turned[] = {1, 0};
  x = clade_transpose(g, clade_flatten(g, x, 1), 2, turned);
  for (int i = 0;; i++) {
    const int out = layers[i].out, half = width(&layers[i]) / 2;
    clade_val y = layer_of(net, g, i, x);
    if (is_last(i)) return clade_transpose(g, y, 2, turned);
    y = clade_round(g, y);
    if (slides(i)) { /* max pooling 2 x 2 */
      y = clade_reshape(g, y, CLADE_SHAPE(out, half, 2, half, 2, batch));
      y = clade_reshape(g, clade_reduce_max(g, y, .n_axes = 2, .axes = {2, 4}), CLADE_SHAPE(out * half * half, batch));
    }
    x = clade_cast(g, y, CLADE_I8); /* saturates at 127 */
  }
}

/* ---- quantization ---- */
/* The f32 layers, with the maximum of each layer's result as an output. */
static void largest_of(clade_graph *g) {
  clade_val h = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(COMPARE_IMAGES, 1, SIDE, SIDE));
  for (int i = 0; !is_last(i); i++) {
    const layer *l = &layers[i];
    if (i == 2) h = clade_flatten(g, h, 1);
    h = clade_relu(g, slides(i) ? clade_nn_conv2d(g, l->name, h, .out = l->out, .kernel = {l->kernel, l->kernel},
                                                  .pad = {l->pad, l->pad})
                                : clade_nn_linear(g, l->name, h, .out = l->out));
    clade_output(g, l->name, clade_reduce_max(g, h));
    if (slides(i)) h = clade_max_pool2d(g, h, .kernel = {2, 2});
  }
}

/* Measures the ranges of activations on training images. */
static clade_status measure(const compare_net *net, clade_device *host, const float *image, float largest[LAYERS]) {
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_vars *vars = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  clade_status status;
  CLADE_GOTO(clade_graph_new(&g));
  largest_of(g);
  CLADE_GOTO(clade_compile(g, host, &func));
  CLADE_GOTO(clade_vars_new(func, 1, &vars));
  CLADE_GOTO(compare_net_give(net, vars));
  CLADE_GOTO(clade_run_new(func, vars, &run));
  CLADE_GOTO(clade_execute(run, CLADE_FEEDS({"x", image, sizeof(float) * COMPARE_IMAGES * PIXELS, NULL}), &ticket));
  for (int i = 0; !is_last(i); i++) CLADE_GOTO(clade_read(run, ticket, layers[i].name, &largest[i], sizeof(float)));
fail:
  clade_run_free(run);
  clade_vars_release(vars);
  clade_func_release(func);
  clade_graph_release(g);
  return status;
}

static clade_status get(const clade_vars *vars, const layer *l, const char *what, void *to, size_t bytes) {
  char name[32];
  snprintf(name, sizeof name, "%s.%s", l->name, what);
  return clade_vars_get(vars, name, to, bytes);
}

/* in, out: scales of the layer's input and output. */
static void quantize(compare_net *net, int i, const float *weight, const float *bias, float in, float out) {
  const int k = depth(&layers[i]);
  for (int o = 0; o < layers[i].out; o++) {
    float most = 1e-9f;
    for (int j = 0; j < k; j++) most = fmaxf(most, fabsf(weight[o * k + j]));
    for (int j = 0; j < k; j++) net->weight[i][o * k + j] = (int8_t)lrintf(weight[o * k + j] * byte / most);
    net->bias[i][o] = (int32_t)lrintf(bias[o] * byte / (most * in));
    net->factor[i][o] = most / byte * in / out;
  }
}

static clade_status quantize_all(compare_net *net, const float largest[LAYERS]) {
  float scale = 1 / byte, bias[MOST], *weight = clade__new(MOST * 400, sizeof *weight); /* pixels are in 0 to 1 */
  clade_status status = weight ? CLADE_OK : CLADE_NO_MEMORY;
  for (int i = 0; i < LAYERS && status == CLADE_OK; i++) {
    const layer *l = &layers[i];
    float next = is_last(i) ? 1 : fmaxf(largest[i], 1e-9f) / byte;
    status = get(net->vars, l, "weight", weight, sizeof *weight * (size_t)(l->out * depth(l)));
    if (status == CLADE_OK) status = get(net->vars, l, "bias", bias, sizeof *bias * (size_t)l->out);
    if (status == CLADE_OK) quantize(net, i, weight, bias, scale, next);
    scale = next;
  }
  clade__free(weight);
  return status;
}

/* ---- training ---- */
static clade_status images_of(clade_dataset *from, float *image, int32_t *label) {
  for (int i = 0; i < COMPARE_IMAGES; i++) CLADE_TRY(clade_dataset_get(from, i, image + (size_t)i * PIXELS, label + i));
  return CLADE_OK;
}

static clade_status learn(compare_net *net, clade_device *host, clade_dataset *learnt, clade_dataset *tested) {
  float largest[LAYERS];
  const clade_trainer trainer = {.size = sizeof trainer,
                                 .model = lenet5,
                                 .train = learnt,
                                 .test = tested,
                                 .n_devices = 1,
                                 .devices = &host,
                                 .epochs = EPOCHS,
                                 .seed = 42};
  CLADE_TRY(clade_train(&trainer, NULL, &net->vars));
  CLADE_TRY(images_of(learnt, net->image, net->label));
  CLADE_TRY(measure(net, host, net->image, largest));
  CLADE_TRY(quantize_all(net, largest));
  return images_of(tested, net->image, net->label);
}

clade_status compare_net_new(clade_device *host, compare_net **out) {
  compare_net *net = *out = clade__new(1, sizeof *net);
  clade_dataset *learnt = NULL, *tested = NULL;
  clade_status status = CLADE_OK;
  if (!net || !(net->image = clade__new((size_t)COMPARE_IMAGES * PIXELS, sizeof(float)))) return CLADE_NO_MEMORY;
  for (int i = 0; i < LAYERS; i++)
    if (!(net->weight[i] = clade__new((size_t)(layers[i].out * depth(&layers[i])), 1))) return CLADE_NO_MEMORY;
  if (!host) return CLADE_OK;
  CLADE_GOTO(clade_dataset_open("digits", true, &learnt));
  CLADE_GOTO(clade_dataset_open("digits", false, &tested));
  CLADE_GOTO(learn(net, host, learnt, tested));
fail:
  clade_dataset_release(learnt);
  clade_dataset_release(tested);
  return status;
}

void compare_net_free(compare_net *net) {
  if (!net) return;
  for (int i = 0; i < LAYERS; i++) clade__free(net->weight[i]);
  clade__free(net->image);
  clade_vars_release(net->vars);
  clade__free(net);
}

/* ---- uses of the trained network ---- */
clade_status compare_net_give(const compare_net *net, clade_vars *vars) {
  clade_port_info info = {.size = sizeof info};
  float *room = clade__new(MOST * 400, sizeof *room);
  clade_status status = room ? CLADE_OK : CLADE_NO_MEMORY;
  for (int i = 0; i < clade_vars_count(vars) && status == CLADE_OK; i++) {
    status = clade_vars_describe(vars, i, &info);
    size_t bytes = 0;
    if (status == CLADE_OK) status = clade_type_bytes(&info.type, &bytes);
    if (status == CLADE_OK) status = clade_vars_get(net->vars, info.name, room, bytes);
    if (status == CLADE_OK) status = clade_vars_set(vars, info.name, room, bytes);
  }
  clade__free(room);
  return status;
}

int32_t compare_net_image(const compare_net *net, int at, bool bytes, void *to) {
  const float *from = net->image + (size_t)at * PIXELS;
  for (int i = 0; i < PIXELS; i++)
    if (bytes)
      ((int8_t *)to)[i] = (int8_t)lrintf(from[i] * byte);
    else
      ((float *)to)[i] = from[i];
  return net->label[at];
}
