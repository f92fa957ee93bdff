/* Small networks in double, forward and backward, by their definitions: the reference for training. */
#ifndef TRAIN_NET_H
#define TRAIN_NET_H

#include "train_kit.h"

typedef enum net_kind { NET_LINEAR, NET_CONV, NET_POOL } net_kind;
typedef struct net_layer {
  net_kind kind;
  const char *name; /* prefix of its parameters; NULL: none */
  int out, kernel, pad;
  bool relu; /* follows the layer */
  /* input and output sizes per image */
  int in_c, in_h, in_w, out_c, out_h, out_w;
  double *y, *dy; /* after ReLU; gradient of the result before ReLU */
} net_layer;

enum { NET_LAYERS = 8, NET_TENSORS = 2 * NET_LAYERS, NET_CLASSES = 10 };
typedef struct net {
  int batch, n_layers, n_tensors;
  net_layer layer[NET_LAYERS];
  ref_tensor tensor[NET_TENSORS]; /* weight and bias of each layer that has them, in order */
  double *x;
  int *label;
  bool near_kink; /* an element of the last pass is so close to a kink that f32 may take the other branch */
} net;

static const double kink = 4e-6;

static inline int net_size(const net_layer *l) { return l->out_c * l->out_h * l->out_w; }

static inline void net_new(net *n, int batch, int c, int h, int w, int n_layers, const net_layer *layers) {
  *n = (net){.batch = batch, .n_layers = n_layers};
  n->x = calloc((size_t)(batch * c * h * w), sizeof(double));
  n->label = calloc((size_t)batch, sizeof(int));
  assert_true(n->x && n->label);
  for (int i = 0; i < n_layers; i++) {
    net_layer *l = &n->layer[i];
    char name[32];
    *l = layers[i];
    l->in_c = c, l->in_h = h, l->in_w = w;
    if (l->kind == NET_LINEAR) l->out_c = l->out, l->out_h = l->out_w = 1;
    if (l->kind == NET_CONV) l->out_c = l->out, l->out_h = h + 2 * l->pad - l->kernel + 1, l->out_w = l->out_h;
    if (l->kind == NET_POOL) l->out_c = c, l->out_h = h / 2, l->out_w = w / 2;
    l->y = calloc((size_t)(batch * net_size(l)), sizeof(double));
    l->dy = calloc((size_t)(batch * net_size(l)), sizeof(double));
    assert_true(l->y && l->dy);
    if (l->name) {
      snprintf(name, sizeof name, "%s.weight", l->name);
      ref_tensor_new(&n->tensor[n->n_tensors++], name,
                     l->kind == NET_CONV ? CLADE_SHAPE(l->out, c, l->kernel, l->kernel)
                                         : CLADE_SHAPE(l->out, c * h * w));
      snprintf(name, sizeof name, "%s.bias", l->name);
      ref_tensor_new(&n->tensor[n->n_tensors++], name, CLADE_SHAPE(l->out));
    }
    c = l->out_c, h = l->out_h, w = l->out_w;
  }
}

static inline void net_free(net *n) {
  for (int i = 0; i < n->n_layers; i++) free(n->layer[i].y), free(n->layer[i].dy);
  for (int i = 0; i < n->n_tensors; i++) ref_tensor_free(&n->tensor[i]);
  free(n->x), free(n->label);
}

/* Builds the same layers as nodes. */
static inline clade_val net_build(const net *n, clade_graph *g, clade_val x) {
  for (int i = 0; i < n->n_layers; i++) {
    const net_layer *l = &n->layer[i];
    if (l->kind == NET_CONV)
      x = clade_nn_conv2d(g, l->name, x, .out = l->out, .kernel = {l->kernel, l->kernel}, .pad = {l->pad, l->pad});
    if (l->kind == NET_POOL) x = clade_max_pool2d(g, x, .kernel = {2, 2});
    if (l->kind == NET_LINEAR) x = clade_nn_linear(g, l->name, clade_flatten(g, x, 1), .out = l->out);
    if (l->relu) x = clade_relu(g, x);
  }
  return x;
}

/* ---- convolution; a linear layer is one with a window of the whole image ---- */
typedef struct net_window {
  int k_h, k_w, pad;
} net_window;
static inline net_window net_window_of(const net_layer *l) {
  return l->kind == NET_CONV ? (net_window){l->kernel, l->kernel, l->pad} : (net_window){l->in_h, l->in_w, 0};
}

/* For every product of an input and a weight: y += w x, or backward dw += dy x, dx += dy w (dx may be NULL). */
static inline void net_multiply(const net_layer *l, const double *x, const double *w, double *y, const double *dy,
                                double *dw, double *dx) {
  net_window k = net_window_of(l);
  for (int at = 0; at < l->out_c * l->in_c * k.k_h * k.k_w; at++) {
    int j = at % k.k_w - k.pad, i = at / k.k_w % k.k_h - k.pad, c = at / (k.k_w * k.k_h) % l->in_c;
    int o = at / (k.k_w * k.k_h * l->in_c), begin = CLADE_MAX(0, -j), end = CLADE_MIN(l->out_w, l->in_w - j);
    for (int r = CLADE_MAX(0, -i); r < CLADE_MIN(l->out_h, l->in_h - i); r++) {
      int to = (o * l->out_h + r) * l->out_w, from = (c * l->in_h + r + i) * l->in_w + j;
      for (int s = begin; y && s < end; s++) y[to + s] += w[at] * x[from + s];
      for (int s = begin; dw && s < end; s++) dw[at] += dy[to + s] * x[from + s];
      for (int s = begin; dx && s < end; s++) dx[from + s] += dy[to + s] * w[at];
    }
  }
}

/* Position of a window's maximum. */
static inline int net_largest(net *n, const net_layer *l, const double *x, int c, int r, int s) {
  int best = -1;
  double scale = 0, second = -INFINITY;
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      int at = (c * l->in_h + 2 * r + i) * l->in_w + 2 * s + j;
      scale = fmax(scale, fabs(x[at]));
      if (best < 0 || x[at] > x[best]) {
        if (best >= 0) second = fmax(second, x[best]);
        best = at;
      } else {
        second = fmax(second, x[at]);
      }
    }
  n->near_kink |= x[best] > 0 && x[best] - second < kink * scale; /* zeros pass no gradient on */
  return best;
}

static inline void net_relu(net *n, const net_layer *l) {
  double square = 0;
  int count = n->batch * net_size(l);
  for (int i = 0; i < count; i++) square += l->y[i] * l->y[i];
  for (int i = 0; i < count; i++) {
    n->near_kink |= fabs(l->y[i]) < kink * sqrt(square / count);
    l->y[i] = fmax(l->y[i], 0);
  }
}

static inline void net_layer_forward(net *n, net_layer *l, const double *x, const ref_tensor *t) {
  int in = l->in_c * l->in_h * l->in_w, out = net_size(l);
  for (int b = 0; b < n->batch; b++) {
    double *y = l->y + b * out;
    if (l->kind == NET_POOL) {
      for (int i = 0; i < out; i++) {
        int c = i / (l->out_h * l->out_w), r = i / l->out_w % l->out_h;
        y[i] = x[b * in + net_largest(n, l, x + b * in, c, r, i % l->out_w)];
      }
    } else {
      for (int i = 0; i < out; i++) y[i] = t[1].p[i / (l->out_h * l->out_w)];
      net_multiply(l, x + b * in, t[0].p, y, NULL, NULL, NULL);
    }
  }
  if (l->relu) net_relu(n, l);
}

/* Mean softmax cross-entropy, and its gradient by the last layer's result. */
static inline double net_loss(net *n) {
  net_layer *last = &n->layer[n->n_layers - 1];
  double loss = 0;
  for (int b = 0; b < n->batch; b++) {
    const double *y = last->y + b * NET_CLASSES;
    double top = y[0], sum = 0;
    for (int i = 1; i < NET_CLASSES; i++) top = fmax(top, y[i]);
    for (int i = 0; i < NET_CLASSES; i++) sum += exp(y[i] - top);
    loss += (log(sum) + top - y[n->label[b]]) / n->batch;
    for (int i = 0; i < NET_CLASSES; i++)
      last->dy[b * NET_CLASSES + i] = (exp(y[i] - top) / sum - (i == n->label[b])) / n->batch;
  }
  return loss;
}

static inline void net_layer_backward(net *n, const net_layer *l, const double *x, double *dx, ref_tensor *t) {
  int in = l->in_c * l->in_h * l->in_w, out = net_size(l);
  for (int b = 0; b < n->batch; b++) {
    const double *dy = l->dy + b * out;
    double *to = dx ? dx + b * in : NULL;
    if (l->kind == NET_POOL) {
      for (int i = 0; to && i < out; i++) {
        int c = i / (l->out_h * l->out_w), r = i / l->out_w % l->out_h;
        to[net_largest(n, l, x + b * in, c, r, i % l->out_w)] += dy[i];
      }
    } else {
      for (int i = 0; i < out; i++) t[1].g[i / (l->out_h * l->out_w)] += dy[i];
      net_multiply(l, x + b * in, t[0].p, NULL, dy, t[0].g, to);
    }
  }
}

/* Loss and gradients for the batch in x and label. */
static inline double net_step(net *n) {
  int at = 0;
  n->near_kink = false;
  for (int i = 0; i < n->n_layers; i++) {
    net_layer_forward(n, &n->layer[i], i ? n->layer[i - 1].y : n->x, &n->tensor[at]);
    if (n->layer[i].name) at += 2;
  }
  double loss = net_loss(n);
  for (int i = 0; i < n->n_tensors; i++) memset(n->tensor[i].g, 0, sizeof(double) * (size_t)n->tensor[i].n);
  for (int i = n->n_layers - 1; i >= 0; i--) {
    net_layer *l = &n->layer[i], *before = i ? l - 1 : NULL;
    if (l->name) at -= 2;
    if (before) memset(before->dy, 0, sizeof(double) * (size_t)(n->batch * net_size(before)));
    net_layer_backward(n, l, before ? before->y : n->x, before ? before->dy : NULL, &n->tensor[at]);
    for (int k = 0; before && before->relu && k < n->batch * net_size(before); k++)
      if (before->y[k] <= 0) before->dy[k] = 0;
  }
  return loss;
}

#endif
