/* Softmax and its derivative, arg_max and cross-entropy against their definitions. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 4000, CASES = 20 };

static void run_lines(void) {
  static double x[MOST], y[MOST], dy[MOST], dx[MOST];
  static cl_int index[MOST];
  cl_int outer = (cl_int)draw(5), n = 1 + (cl_int)draw(40), inner = 1 + (cl_int)draw(5), logarithm = (cl_int)draw(2);
  size_t lines = (size_t)(outer * inner), all = lines * (size_t)n;
  buffer bx = buffer_floats(all, -20, 20, x), by = buffer_new(all, 4, NULL), bi = buffer_new(lines, 4, NULL);
  kernels_launch("softmax", (const void *const[]){&bx, &by, &outer, &n, &inner, &logarithm});
  buffer bdy = buffer_floats(all, -2, 3, dy), bdx = buffer_new(all, 4, NULL);
  kernels_launch("softmax_grad", (const void *const[]){&by, &bdy, &bdx, &outer, &n, &inner, &logarithm});
  kernels_launch("arg_max", (const void *const[]){&bx, &bi, &outer, &n, &inner});
  buffer_doubles(&by, y);
  buffer_doubles(&bdx, dx);
  buffer_read(&bi, index);
  for (int line = 0; line < outer * inner; line++) {
    const int base = line / inner * n * inner + line % inner;
    int best = 0;
    double sum = 0, slope = 0, size = 0;
    for (int i = 1; i < n; i++)
      if (x[base + i * inner] > x[base + best * inner]) best = i;
    for (int i = 0; i < n; i++) sum += exp(x[base + i * inner] - x[base + best * inner]);
    REQUIRE(index[line] == best, "arg_max: line %d is %d, want %d", line, (int)index[line], best);
    for (int i = 0; i < n; i++) {
      double d = x[base + i * inner] - x[base + best * inner], want = logarithm ? d - log(sum) : exp(d) / sum;
      near("softmax", (size_t)(base + i * inner), y[base + i * inner], want, 60 * 0x1p-23 * (logarithm ? 1 : want));
      slope += dy[base + i * inner] * (logarithm ? 1 : y[base + i * inner]);
      size += fabs(dy[base + i * inner]) * (logarithm ? 1 : y[base + i * inner]);
    }
    for (int i = 0; i < n; i++) {
      double v = y[base + i * inner], d = dy[base + i * inner], p = logarithm ? exp(v) : v;
      double want = logarithm ? d - slope * p : (d - slope) * p;
      near("softmax_grad", (size_t)(base + i * inner), dx[base + i * inner], want, 60 * 0x1p-23 * (fabs(d) + p * size));
    }
  }
  buffer_free(&bx);
  buffer_free(&by);
  buffer_free(&bi);
  buffer_free(&bdy);
  buffer_free(&bdx);
}

static void run_loss(void) {
  static double x[MOST], stats[MOST], losses[MOST], dx[MOST], dy[MOST];
  static cl_int label[MOST];
  cl_int rows = (cl_int)draw(30), classes = 1 + (cl_int)draw(30), ignore = (cl_int)draw(2), ignored = -1;
  cl_int mean = (cl_int)draw(2), results = 1, per_sample = !mean;
  cl_float smoothing = draw(2) ? 0.1f : 0;
  size_t n = (size_t)rows, all = n * (size_t)classes, n_y = mean ? 1 : n;
  double count = 0, count_read = 0, sum = 0;
  for (int i = 0; i < rows; i++) {
    label[i] = ignore && draw(4) == 0 ? -1 : (cl_int)draw((uint32_t)classes);
    count += label[i] >= 0;
  }
  buffer bx = buffer_floats(all, -5, 5, x), bl = buffer_new(n, 4, label), by = buffer_new(n_y, 4, NULL);
  buffer bs = buffer_new(2 * n, 4, NULL), bc = buffer_new(1, 4, NULL), bdx = buffer_new(all, 4, NULL);
  buffer bdy = buffer_floats(n_y, 0.5, 2, dy);
  kernels_launch("cross_entropy", (const void *const[]){&bx, &bl, &by, &bs, &bc, &results, &rows, &classes, &smoothing,
                                                        &ignore, &ignored, &mean});
  kernels_launch("cross_entropy_grad", (const void *const[]){&bx, &bl, &bs, &bc, &bdy, &bdx, &rows, &classes,
                                                             &per_sample, &smoothing, &ignore, &ignored});
  buffer_doubles(&by, losses);
  buffer_doubles(&bs, stats);
  buffer_doubles(&bc, &count_read);
  buffer_doubles(&bdx, dx);
  near("cross_entropy: count", 0, count_read, count, 0);
  for (int r = 0; r < rows; r++) {
    const double *row = x + r * classes;
    double top = -INFINITY, others = 0, away = 0;
    for (int i = 0; i < classes; i++) top = fmax(top, row[i]);
    for (int i = 0; i < classes; i++) others += exp(row[i] - top), away += top - row[i];
    double s = (double)smoothing,
           loss = label[r] < 0 ? 0 : (1 - s) * (top - row[label[r]]) + log(others) + s * away / classes;
    sum += loss;
    near("cross_entropy: largest", (size_t)r, stats[2 * r], top, 0);
    near("cross_entropy: others", (size_t)r, stats[2 * r + 1], others - 1, 1e-5 * others);
    if (!mean) near("cross_entropy", (size_t)r, losses[r], loss, 1e-5 * (1 + loss));
    for (int i = 0; i < classes; i++) {
      double d = per_sample ? dy[r] : dy[0] / fmax(count, 1), target = (i == label[r]) * (1 - s) + s / classes;
      double want = label[r] < 0 ? 0 : (exp(row[i] - top) / others - target) * d;
      near("cross_entropy_grad", (size_t)(r * classes + i), dx[r * classes + i], want, 1e-6 * d);
    }
  }
  if (mean) near("cross_entropy", 0, losses[0], sum / fmax(count, 1), 1e-5 * (1 + sum));
  buffer *const used[] = {&bx, &bl, &by, &bs, &bc, &bdx, &bdy};
  for (size_t i = 0; i < sizeof used / sizeof *used; i++) buffer_free(used[i]);
}

void test_rows(void) {
  for (int i = 0; i < CASES; i++) {
    run_lines();
    run_loss();
  }
}
