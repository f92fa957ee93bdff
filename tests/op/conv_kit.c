/* Random convolutions and their three passes in double, by the definition. */
#include "conv_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const clade_dtype conv_dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_DTYPE_NONE};
/* Where a convolution is kept in op_case.i. */
enum { KERNEL = 0, STRIDE = 2, PAD = 4, DILATION = 8, GROUPS = 10, IMAGES, INNER, ROWS, SIZE, LAST = SIZE + 1 };
_Static_assert(LAST < 20, "tests keep numbers of their own from 20 on");

conv conv_of(const op_case *c) {
  conv v = {.groups = c->i[GROUPS]};
  const int *i = c->i;
  for (int k = 0; k < 4; k++) v.window.pad[k] = i[PAD + k];
  v.x = CLADE_SHAPE(i[IMAGES], i[GROUPS] * i[INNER], i[SIZE], i[SIZE + 1]);
  v.w = CLADE_SHAPE(i[GROUPS] * i[ROWS], i[INNER], i[KERNEL], i[KERNEL + 1]);
  v.y = CLADE_SHAPE(i[IMAGES], i[GROUPS] * i[ROWS], 0, 0);
  for (int k = 0; k < 2; k++) {
    v.window.kernel[k] = i[KERNEL + k];
    v.window.stride[k] = i[STRIDE + k];
    v.window.dilation[k] = i[DILATION + k];
    int room = i[SIZE + k] + i[PAD + k] + i[PAD + 2 + k] - (i[KERNEL + k] - 1) * i[DILATION + k] - 1;
    v.y.dim[2 + k] = room / i[STRIDE + k] + 1;
  }
  return v;
}

static int among(op_random *r, int n, const int *of) { return of[op_integer(r, 0, n - 1)]; }
#define AMONG(r, ...) among(r, (int)CLADE_COUNT(((int[]){__VA_ARGS__})), (int[]){__VA_ARGS__})

conv conv_draw(op_case *c, op_random *r) {
  bool few = c->small || c->gradient;
  int *i = c->i;
  i[GROUPS] = op_chance(r, 0.3) ? AMONG(r, 2, 3, 5) : 1;
  i[IMAGES] = !c->gradient && op_chance(r, 0.05) ? 0 : (int)op_integer(r, 1, few ? 2 : 4);
  i[INNER] = few ? (int)op_integer(r, 1, 2) : op_chance(r, 0.1) ? AMONG(r, 33, 64, 100) : AMONG(r, 1, 2, 3, 4, 7, 16);
  i[ROWS] = few                 ? (int)op_integer(r, 1, 3)
            : op_chance(r, 0.1) ? AMONG(r, 48, 65, 100)
                                : AMONG(r, 1, 2, 6, 8, 9, 16, 17);
  if (op_chance(r, 0.1)) { /* depthwise */
    i[INNER] = i[ROWS] = 1;
    if (!few) i[GROUPS] = AMONG(r, 3, 16, 33);
  }
  bool one = op_chance(r, 0.2); /* a window of one place, without padding */
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = one ? 1 : few ? (int)op_integer(r, 1, 3) : AMONG(r, 1, 1, 2, 3, 3, 3, 5, 7);
    i[STRIDE + k] = op_chance(r, 0.5) ? 1 : (int)op_integer(r, 1, 4);
    i[DILATION + k] = op_chance(r, 0.7) ? 1 : (int)op_integer(r, 1, 4);
    i[SIZE + k] = few ? (int)op_integer(r, 1, 5) : AMONG(r, 1, 4, 7, 8, 10, 14, 16, 17, 28, 32, 33);
    for (int side = 0; side < 2; side++)
      i[PAD + k + 2 * side] = one || op_chance(r, 0.3) ? 0 : (int)op_integer(r, 0, i[KERNEL + k] + 1);
    if (op_chance(r, 0.3)) { /* "same" */
      i[STRIDE + k] = 1;
      i[PAD + k] = (i[KERNEL + k] - 1) / 2 * i[DILATION + k];
      i[PAD + k + 2] = (i[KERNEL + k] - 1) * i[DILATION + k] - i[PAD + k];
    }
    int least = (i[KERNEL + k] - 1) * i[DILATION + k] + 1 - i[PAD + k] - i[PAD + k + 2];
    i[SIZE + k] = CLADE_MAX(i[SIZE + k], least);
  }
  while ((double)op_elements(&(clade_shape){4, {i[IMAGES], i[GROUPS] * i[ROWS], i[SIZE], i[SIZE + 1]}}) * i[INNER] *
             i[KERNEL] * i[KERNEL + 1] >
         (c->light ? 2e5 : 4e6))
    i[i[ROWS] > i[INNER] ? ROWS : INNER] /= 2;
  snprintf(c->note, sizeof c->note, "stride %d %d pads %d %d %d %d dilation %d %d groups %d", i[STRIDE], i[STRIDE + 1],
           i[PAD], i[PAD + 1], i[PAD + 2], i[PAD + 3], i[DILATION], i[DILATION + 1], i[GROUPS]);
  return conv_of(c);
}

void conv_common(op_case *c, op_random *r) {
  int *i = c->i, taps = (int)op_integer(r, 2, 3), pad = op_chance(r, 0.6) ? 0 : 1;
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = taps;
    i[STRIDE + k] = 2;
    i[DILATION + k] = 1;
    i[PAD + k] = pad;
    i[PAD + k + 2] = op_chance(r, 0.7) ? pad : 1;
    i[SIZE + k] = (int)op_integer(r, 3, c->small || c->gradient ? 6 : 70);
  }
  snprintf(c->note, sizeof c->note, "%d x %d stride 2 pads %d %d %d %d", taps, taps, i[PAD], i[PAD + 1], i[PAD + 2],
           i[PAD + 3]);
}

clade__conv_attrs conv_attrs(const conv *v) {
  clade__conv_attrs at;
  memset(&at, 0, sizeof at);
  at.window = v->window;
  at.groups = (int32_t)v->groups;
  return at;
}

typedef struct place {
  int64_t x, w, y;
} place;

/* For each product of the convolution: of which element of x and w, to which of y. */
static void each_product(const conv *v, void (*fn)(void *, place), void *user) {
  int64_t out = v->w.dim[0] / v->groups, in = v->w.dim[1], kh = v->w.dim[2], kw = v->w.dim[3];
  int64_t h = v->x.dim[2], w = v->x.dim[3], results = op_elements(&v->y);
  for (int64_t y = 0; y < results; y++) {
    int64_t at[CLADE_MAX_RANK];
    op_unravel(&v->y, y, at);
    for (int64_t c = 0; c < in; c++)
      for (int64_t k = 0; k < kh * kw; k++) {
        int64_t sy = at[2] * v->window.stride[0] - v->window.pad[0] + k / kw * v->window.dilation[0];
        int64_t sx = at[3] * v->window.stride[1] - v->window.pad[1] + k % kw * v->window.dilation[1];
        if (sy < 0 || sy >= h || sx < 0 || sx >= w) continue;
        int64_t channel = at[1] / out * in + c;
        fn(user, (place){((at[0] * v->x.dim[1] + channel) * h + sy) * w + sx, (at[1] * in + c) * kh * kw + k, y});
      }
  }
}

typedef struct sums {
  int want;
  const double *x, *w, *y;
  op_array *out;
  double *count;
} sums;

static void add(void *user, place p) {
  sums *s = user;
  int64_t to = s->want == CONV_X ? p.x : s->want == CONV_W ? p.w : p.y;
  double a = s->want == CONV_X ? s->y[p.y] : s->x[p.x], b = s->want == CONV_W ? s->y[p.y] : s->w[p.w];
  s->out->v[to] += a * b;
  s->out->bound[to] += fabs(a * b);
  s->count[to]++;
}

void conv_reference(const conv *v, int want, const double *x, const double *w, const double *y, op_array *out) {
  double *count = calloc((size_t)out->n + 1, sizeof *count);
  if (!count) abort();
  each_product(v, add, &(sums){want, x, w, y, out, count});
  for (int64_t i = 0; i < out->n; i++) out->bound[i] *= (count[i] + 4) * 0x1p-24;
  free(count);
}
