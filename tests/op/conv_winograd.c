/* Error bound of Winograd's algorithm: its computation on absolute values, in double. */
#include <math.h>
#include <string.h>

#include "conv_kit.h"

/* Absolute transformation matrices of tiles with `tile` points, for inputs, `taps` of the window, and results. */
typedef struct base {
  int tile, taps, results;
  double places[6][6], window[6][4], back[4][6];
} base;

/* Interpolation points: tile - 1 finite ones and infinity. */
static const double *points_of(int tile) {
  static const double two[] = {0, 1, -1}, four[] = {0, 0.625, -0.625, 1.5, -1.5};
  return tile == 4 ? two : four;
}

/* Coefficient of tap k at point i. */
static double window_at(int tile, int taps, int i, int k) {
  const double *point = points_of(tile);
  double value = 1;
  if (i == tile - 1) return k == taps - 1;
  for (int j = 0; j < tile - 1; j++)
    if (j != i) value *= point[i] - point[j];
  return pow(point[i], k) / value;
}

void conv_winograd_weights(int side, double weights[6][3]) {
  for (int i = 0; i < side + 2; i++)
    for (int k = 0; k < 3; k++) weights[i][k] = window_at(side + 2, 3, i, k);
}

static base base_of(int tile, int taps) {
  base b = {.tile = tile, .taps = taps, .results = tile - taps + 1};
  const double *point = points_of(tile);
  int n = tile - 1;
  for (int i = 0; i <= n; i++) { /* product of x - q over all points q except the i-th */
    double product[6] = {1};
    for (int j = 0, degree = 0; j < n; j++) {
      if (j == i) continue;
      for (int k = ++degree; k >= 0; k--) product[k] = (k ? product[k - 1] : 0) - point[j] * product[k];
    }
    for (int k = 0; k <= n; k++) b.places[i][k] = fabs(product[k]);
    for (int k = 0; k < taps; k++) b.window[i][k] = fabs(window_at(tile, taps, i, k));
    for (int k = 0; k < b.results; k++) b.back[k][i] = i < n ? fabs(pow(point[i], k)) : k == b.results - 1;
  }
  return b;
}

/* Multiplies m by a, then by b; both have rows of six. */
static void both(const double *m, int rows, int cols, const double *a, int outs, int step, double *out) {
  double some[36] = {0};
  for (int i = 0; i < outs; i++)
    for (int k = 0; k < rows; k++)
      for (int j = 0; j < cols; j++) some[i * 6 + j] += a[i * step + k] * m[k * 6 + j];
  for (int i = 0; i < outs; i++)
    for (int j = 0; j < outs; j++) {
      out[i * 6 + j] = 0;
      for (int k = 0; k < cols; k++) out[i * 6 + j] += a[j * step + k] * some[i * 6 + k];
    }
}

typedef struct operand {
  const clade_shape *shape;
  const double *v;
} operand;

static double source_at(operand s, int64_t image, int64_t channel, int64_t y, int64_t x) {
  const clade_dim *d = s.shape->dim;
  bool there = y >= 0 && y < d[2] && x >= 0 && x < d[3];
  return there ? fabs(s.v[((image * d[1] + channel) * d[2] + y) * d[3] + x]) : 0;
}

/* Adds the transformed products of a tile and a window, both in rows of six. */
static void add_products(const base *b, const double *places, const double *window, double *sum) {
  double v[36], u[36];
  both(places, b->tile, b->tile, b->places[0], b->tile, 6, v);
  both(window, b->taps, b->taps, b->window[0], b->tile, 4, u);
  for (int k = 0; k < 36; k++) sum[k] += v[k] * u[k];
}

static void tile_at(operand s, int64_t image, int64_t channel, int64_t y, int64_t x, int side, double *out) {
  for (int i = 0; i < side; i++)
    for (int j = 0; j < side; j++) out[i * 6 + j] = source_at(s, image, channel, y + i, x + j);
}

/* Sums a tile's products over all inner channels. `data`: weights are flipped. */
static void tile_sums(const base *b, operand s, operand w, bool data, int64_t row, const int64_t at[3], double *sum) {
  int64_t inner = s.shape->dim[1], out = w.shape->dim[1];
  for (int64_t c = 0; c < inner; c++) {
    double d[36] = {0}, g[36] = {0};
    const double *one = w.v + (data ? c * out + row : row * out + c) * 9;
    tile_at(s, at[0], c, at[1], at[2], b->tile, d);
    for (int k = 0; k < 9; k++) g[k / 3 * 6 + k % 3] = fabs(one[data ? 8 - k : k]);
    add_products(b, d, g, sum);
  }
}

static void bound_of(const base *b, const conv *v, bool data, operand s, operand w, op_array *out) {
  const clade_dim *y = out->shape.dim;
  const int *pad = v->window.pad;
  for (int64_t i = 0; i < y[0] * y[1]; i++)
    for (int64_t line = 0; line < y[2]; line += b->results)
      for (int64_t place = 0; place < y[3]; place += b->results) {
        int64_t at[3] = {i / y[1], line + (data ? pad[0] - 2 : -pad[0]), place + (data ? pad[1] - 2 : -pad[1])};
        double sum[36] = {0}, result[36];
        tile_sums(b, s, w, data, i % y[1], at, sum);
        both(sum, b->tile, b->tile, b->back[0], b->results, 6, result);
        for (int64_t p = line; p < CLADE_MIN(line + b->results, y[2]); p++)
          for (int64_t q = place; q < CLADE_MIN(place + b->results, y[3]); q++) {
            double *bound = &out->bound[(i * y[2] + p) * y[3] + q];
            double own = result[(p - line) * 6 + q - place] * ((double)s.shape->dim[1] + 24) * 0x1p-24;
            *bound = CLADE_MAX(*bound, own);
          }
      }
}

/* For the weight gradient: the window is a tile of y's gradient, and products of all tiles are added. */
static void weights_bound(const conv *v, operand x, operand y, op_array *out) {
  const base b = base_of(6, 4);
  const clade_dim *d = v->y.dim;
  const int *pad = v->window.pad;
  double tiles = (double)(d[0] * ((d[2] + 3) / 4) * ((d[3] + 3) / 4));
  for (int64_t i = 0; i < v->w.dim[0] * v->w.dim[1]; i++) {
    double sum[36] = {0}, result[36];
    for (int64_t image = 0; image < d[0]; image++)
      for (int64_t line = 0; line < d[2]; line += 4)
        for (int64_t place = 0; place < d[3]; place += 4) {
          double places[36] = {0}, window[36] = {0};
          tile_at(x, image, i % v->w.dim[1], line - pad[0], place - pad[1], 6, places);
          tile_at(y, image, i / v->w.dim[1], line, place, 4, window);
          add_products(&b, places, window, sum);
        }
    both(sum, 6, 6, b.back[0], 3, 6, result);
    for (int k = 0; k < 9; k++) {
      double own = result[k / 3 * 6 + k % 3] * (tiles + 24) * 0x1p-24;
      out->bound[i * 9 + k] = CLADE_MAX(out->bound[i * 9 + k], own);
    }
  }
}

static void plane_bound(const op_case *c, const conv *v, int want, const double *a, const double *b, op_array *out) {
  const bool data = want == CONV_X;
  if (want == CONV_W) {
    weights_bound(v, (operand){&v->x, a}, (operand){&v->y, b}, out);
    return;
  }
  const base own = base_of(c->config[0] + 2, 3); /* its parameter "side" */
  bound_of(&own, v, data, (operand){data ? &v->y : &v->x, a}, (operand){&v->w, b}, out);
}

void conv_winograd_bound(const op_case *c, int want, const double *a, const double *b, op_array *out) {
  if (c->took && strncmp(c->took, "winograd", 8) == 0) conv_planes_bound(c, plane_bound, want, a, b, out);
}
