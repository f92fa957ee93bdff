/* Batch normalization and its derivatives against their definitions. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 4000, CHANNELS = 8, CASES = 20 };

typedef struct layer {
  cl_int samples, channels, inner;
  int count;
  size_t all, each;
  double x[MOST], mean[CHANNELS], square[CHANNELS]; /* square: sum of squared deviations */
} layer;

static int element(const layer *l, int c, int i) { return (i / l->inner * l->channels + c) * l->inner + i % l->inner; }

static buffer draw_layer(layer *l) {
  double center = draw_real(-50, 50);
  l->samples = 1 + (cl_int)draw(9);
  l->channels = 1 + (cl_int)draw(CHANNELS);
  l->inner = 1 + (cl_int)draw(50);
  l->count = l->samples * l->inner;
  l->each = (size_t)l->channels;
  l->all = (size_t)l->count * l->each;
  buffer x = buffer_floats(l->all, center - 2, center + 2, l->x);
  for (int c = 0; c < l->channels; c++) {
    l->mean[c] = l->square[c] = 0;
    for (int i = 0; i < l->count; i++) l->mean[c] += l->x[element(l, c, i)] / l->count;
    for (int i = 0; i < l->count; i++) l->square[c] += pow(l->x[element(l, c, i)] - l->mean[c], 2);
  }
  return x;
}

static void run_forward(void) {
  static layer l;
  static double y[MOST];
  double weight[CHANNELS], bias[CHANNELS], old[2][CHANNELS], out[4][CHANNELS];
  const cl_float eps = 1e-2f, momentum = 0.25f;
  buffer x = draw_layer(&l), by = buffer_new(l.all, 4, NULL), b[8];
  b[0] = buffer_floats(l.each, -2, 2, weight);
  b[1] = buffer_floats(l.each, -2, 2, bias);
  for (int i = 0; i < 2; i++) b[2 + i] = buffer_floats(l.each, 0.5, 2, old[i]);
  for (int i = 4; i < 8; i++) b[i] = buffer_new(l.each, 4, NULL);
  kernels_launch("batch_norm", (const void *const[]){&x, &b[0], &b[1], &b[2], &b[3], &by, &b[4], &b[5], &b[6], &b[7],
                                                     &l.samples, &l.channels, &l.inner, &eps, &momentum});
  buffer_doubles(&by, y);
  for (int i = 0; i < 4; i++) buffer_doubles(&b[4 + i], out[i]);
  for (int c = 0; c < l.channels; c++) {
    size_t at = (size_t)c;
    double rstd = 1 / sqrt(l.square[c] / l.count + (double)eps);
    double var = l.square[c] / (l.count > 1 ? l.count - 1 : 1);
    near("batch_norm: mean", at, out[0][c], l.mean[c], 1e-5);
    near("batch_norm: rstd", at, out[1][c], rstd, 1e-5 * rstd);
    near("batch_norm: new mean", at, out[2][c], 0.75 * old[0][c] + 0.25 * l.mean[c], 1e-5);
    near("batch_norm: new variance", at, out[3][c], 0.75 * old[1][c] + 0.25 * var, 1e-5);
    for (int i = 0; i < l.count; i++) {
      int e = element(&l, c, i);
      near("batch_norm", (size_t)e, y[e], (l.x[e] - l.mean[c]) * rstd * weight[c] + bias[c], 2e-4);
    }
  }
  buffer_free(&x);
  buffer_free(&by);
  for (int i = 0; i < 8; i++) buffer_free(&b[i]);
}

static void run_backward(void) {
  static layer l;
  static double dy[MOST], dx[MOST];
  double weight[CHANNELS], mean[CHANNELS], rstd[CHANNELS], dweight[CHANNELS], dbias[CHANNELS];
  buffer x = draw_layer(&l), bdy = buffer_floats(l.all, -1, 1, dy), bdx = buffer_new(l.all, 4, NULL);
  buffer bw = buffer_floats(l.each, -2, 2, weight), br = buffer_floats(l.each, 0.5, 2, rstd);
  buffer bm = buffer_floats(l.each, l.mean[0] - 1, l.mean[0] + 1, mean);
  buffer bdw = buffer_new(l.each, 4, NULL), bdb = buffer_new(l.each, 4, NULL);
  kernels_launch("batch_norm_grad",
                 (const void *const[]){&x, &bdy, &bw, &bm, &br, &bdx, &bdw, &bdb, &l.samples, &l.channels, &l.inner});
  buffer_doubles(&bdx, dx);
  buffer_doubles(&bdw, dweight);
  buffer_doubles(&bdb, dbias);
  for (int c = 0; c < l.channels; c++) {
    double by_weight = 0, by_bias = 0;
    for (int i = 0; i < l.count; i++) {
      int e = element(&l, c, i);
      by_bias += dy[e];
      by_weight += dy[e] * (l.x[e] - mean[c]) * rstd[c];
    }
    near("batch_norm_grad: weight", (size_t)c, dweight[c], by_weight, 1e-5 * l.count);
    near("batch_norm_grad: bias", (size_t)c, dbias[c], by_bias, 1e-5 * l.count);
    for (int i = 0; i < l.count; i++) {
      int e = element(&l, c, i);
      double want = dy[e] - by_bias / l.count - (l.x[e] - mean[c]) * rstd[c] * by_weight / l.count;
      near("batch_norm_grad", (size_t)e, dx[e], want * rstd[c] * weight[c], 2e-4);
    }
  }
  buffer *const used[] = {&x, &bdy, &bdx, &bw, &br, &bm, &bdw, &bdb};
  for (size_t i = 0; i < sizeof used / sizeof *used; i++) buffer_free(used[i]);
}

void test_norm(void) {
  for (int i = 0; i < CASES; i++) {
    run_forward();
    run_backward();
  }
}
