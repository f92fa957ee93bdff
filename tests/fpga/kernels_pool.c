/* Pooling and its gradients against their definitions. */
#include "kernels.h"

#include <math.h>

enum { MOST = 4000, CASES = 40 };

static int pixel(const cl_int8 *size, const cl_int *map, int axis, int window, int tap) {
  int at = window * map[0] + tap * map[1] + map[2];
  return at < 0 || at >= size->s[1 + axis] ? -1 : at;
}

/* Of a window: position of its maximum, its sum and its number of pixels. */
typedef struct window {
  int at, count;
  double sum;
} window;
static window look(const cl_int8 *size, const cl_int8 *map, const double *x, int wy, int wx) {
  window w = {-1, 0, 0};
  for (int ky = 0; ky < size->s[5]; ky++)
    for (int kx = 0; kx < size->s[6]; kx++) {
      int y = pixel(size, map->s, 0, wy, ky), px = pixel(size, map->s + 4, 1, wx, kx);
      if (y < 0 || px < 0) continue;
      int at = y * size->s[2] + px;
      if (w.at < 0 || x[at] > x[w.at]) w.at = at;
      w.sum += x[at];
      w.count++;
    }
  return w;
}

static void compare(const cl_int8 *size, const cl_int8 *map, bool largest, const double *x, const double *y,
                    const double *dy, const double *dx) {
  static double want[MOST], total[MOST];
  int pixels = size->s[1] * size->s[2], windows = size->s[3] * size->s[4];
  for (int p = 0; p < size->s[0]; p++) {
    for (int i = 0; i < pixels; i++) want[i] = total[i] = 0;
    for (int i = 0; i < windows; i++) {
      window w = look(size, map, x + p * pixels, i / size->s[4], i % size->s[4]);
      double by = size->s[7] ? size->s[7] : w.count ? w.count : 1, d = dy[p * windows + i];
      double mean = w.sum / by, best = w.at < 0 ? -INFINITY : x[p * pixels + w.at];
      near("pool2d", (size_t)(p * windows + i), y[p * windows + i], largest ? best : mean, largest ? 0 : 1e-5);
      for (int k = 0; k < size->s[5] * size->s[6]; k++) {
        int ty = pixel(size, map->s, 0, i / size->s[4], k / size->s[6]);
        int tx = pixel(size, map->s + 4, 1, i % size->s[4], k % size->s[6]), at = ty * size->s[2] + tx;
        if (ty < 0 || tx < 0 || (largest && at != w.at)) continue;
        want[at] += largest ? d : d / by;
        total[at] += fabs(d);
      }
    }
    for (int i = 0; i < pixels; i++) near("pool2d_grad", (size_t)i, dx[p * pixels + i], want[i], 1e-6 * total[i]);
  }
}

static void run(bool largest) {
  static double x[MOST], y[MOST], dy[MOST], dx[MOST];
  cl_int8 size = {{(int)draw(4), 1 + (int)draw(12), 1 + (int)draw(12)}}, map = {{0}};
  for (int axis = 0; axis < 2; axis++) {
    int kernel = 1 + (int)draw(4), stride = 1 + (int)draw(3), pad = (int)draw(2), dilation = 1 + (int)draw(2);
    const int row[] = {stride, dilation, -pad, 1};
    int room = size.s[1 + axis] + 2 * pad - (kernel - 1) * dilation - 1;
    size.s[3 + axis] = room < 0 ? 0 : room / stride + 1;
    size.s[5 + axis] = kernel;
    for (int j = 0; j < 4; j++) map.s[4 * axis + j] = row[j];
  }
  if (!largest && draw(2)) size.s[7] = size.s[5] * size.s[6];
  size_t nx = (size_t)(size.s[0] * size.s[1] * size.s[2]), ny = (size_t)(size.s[0] * size.s[3] * size.s[4]);
  cl_int which = largest;
  buffer bx = buffer_floats(nx, -3, 3, x), bdy = buffer_floats(ny, -3, 3, dy);
  buffer by = buffer_new(ny, 4, NULL), bdx = buffer_new(nx, 4, NULL);
  kernels_launch("pool2d", (const void *const[]){&bx, &by, &size, &map, &which});
  kernels_launch("pool2d_grad", (const void *const[]){&bx, &bdy, &bdx, &size, &map, &which});
  buffer_doubles(&by, y);
  buffer_doubles(&bdx, dx);
  compare(&size, &map, largest, x, y, dy, dx);
  buffer_free(&bx);
  buffer_free(&by);
  buffer_free(&bdx);
  buffer_free(&bdy);
}

void test_pool(void) {
  for (int i = 0; i < CASES; i++) run(i & 1);
}
