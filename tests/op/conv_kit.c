/* Random convolutions and their three passes in double, by the definition. */
#include "conv_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const clade_dtype conv_dtypes[] = {CLADE_F32, CLADE_F16, CLADE_BF16, CLADE_DTYPE_NONE};
/* Where a convolution is kept in op_case.i. */
enum {
  KERNEL = 0,
  STRIDE = 2,
  PAD = 4,
  DILATION = 8,
  GROUPS = 10,
  IMAGES,
  INNER,
  ROWS,
  SIZE,
  PROGRAM = SIZE + 2,
  HALVED,
  LAST = HALVED
};
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

/* What Winograd's algorithm takes: 3 x 3, step 1, one group. Says whether all of it is needed. */
static bool winograd(op_case *c, op_random *r) {
  bool few = c->small || c->gradient;
  int *i = c->i;
  i[GROUPS] = 1;
  i[INNER] = few ? (int)op_integer(r, 1, 3) : AMONG(r, 1, 2, 3, 7, 16, 17, 33, 64);
  i[ROWS] = few ? (int)op_integer(r, 1, 3) : AMONG(r, 1, 2, 8, 9, 16, 17, 33, 48);
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = 3;
    i[STRIDE + k] = i[DILATION + k] = 1;
    i[SIZE + k] = few ? (int)op_integer(r, 1, 6) : AMONG(r, 1, 2, 3, 4, 5, 6, 7, 8, 10, 14, 17, 28, 33);
    for (int side = 0; side < 2; side++) i[PAD + k + 2 * side] = (int)op_integer(r, 0, 2);
    i[SIZE + k] = CLADE_MAX(i[SIZE + k], 3 - i[PAD + k] - i[PAD + k + 2]);
  }
  if (few || c->light || op_chance(r, 0.5)) return false;
  bool forward = op_chance(r, 0.5); /* so many that strips of tiles have no room in private memory, or to the data */
  bool strips = op_chance(r, 0.1);  /* and several follow each other in scratch memory */
  i[INNER] = forward ? strips ? 600 : 1200 : 1;
  i[ROWS] = forward ? 1 : strips ? 600 : 1200;
  i[SIZE] = i[SIZE + 1] = strips ? (int)op_integer(r, 28, 33) : (int)op_integer(r, 7, 8);
  if (strips) i[IMAGES] = 4;
  return strips;
}

/* What `fft` takes: steps of one, one group or a channel in each, and windows up to 48 x 48. */
static void large(op_case *c, op_random *r) {
  bool few = c->small || c->gradient;
  int *i = c->i, largest = 0;
  for (int k = 0; k < 2; k++) {
    i[KERNEL + k] = few ? (int)op_integer(r, 1, 4) : AMONG(r, 1, 2, 5, 7, 9, 11, 12, 13, 17, 24, 31, 48);
    i[STRIDE + k] = i[DILATION + k] = 1;
    i[SIZE + k] = few ? (int)op_integer(r, 1, 5) : AMONG(r, 1, 2, 7, 10, 14, 17, 28, 33);
    for (int side = 0; side < 2; side++) i[PAD + k + 2 * side] = (int)op_integer(r, 0, i[KERNEL + k] / 2 + 1);
    i[SIZE + k] = CLADE_MAX(i[SIZE + k], i[KERNEL + k] - i[PAD + k] - i[PAD + k + 2]);
    largest = CLADE_MAX(largest, i[KERNEL + k]);
  }
  i[GROUPS] = op_chance(r, 0.6) ? 1 : few ? 2 : largest > 13 ? 3 : AMONG(r, 3, 16, 33);
  i[INNER] = i[GROUPS] > 1 ? 1 : few || largest > 13 ? (int)op_integer(r, 1, 2) : AMONG(r, 1, 2, 7, 16, 17, 33);
  i[ROWS] = i[GROUPS] > 1 ? 1 : few || largest > 13 ? (int)op_integer(r, 1, 2) : AMONG(r, 1, 2, 9, 16, 17, 33);
}

conv conv_draw(op_case *c, op_random *r) {
  bool few = c->small || c->gradient;
  int *i = c->i;
  i[GROUPS] = op_chance(r, 0.3) ? AMONG(r, 2, 3, 5) : 1;
  i[IMAGES] = !c->gradient && op_chance(r, 0.05) ? 0 : (int)op_integer(r, 1, few ? 2 : 4);
  i[INNER] = few ? (int)op_integer(r, 1, 2) : op_chance(r, 0.1) ? AMONG(r, 33, 64, 100) : AMONG(r, 1, 2, 3, 4, 7, 16);
  i[ROWS] = few                 ? (int)op_integer(r, 1, 3)
            : op_chance(r, 0.1) ? AMONG(r, 48, 65, 100)
                                : AMONG(r, 1, 2, 6, 8, 9, 16, 17);
  if (op_chance(r, 0.1) || strncmp(c->impl, "depthwise", 9) == 0) {
    i[INNER] = i[ROWS] = 1;
    if (!few) i[GROUPS] = AMONG(r, 3, 16, 33);
  }
  bool product = strcmp(c->impl, "gemm") == 0 || strcmp(c->impl, "pointwise") == 0,
       one = product || op_chance(r, 0.2); /* a window of one place, unpadded */
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
  bool whole = strcmp(c->impl, "winograd") == 0 && c->dtype == CLADE_F32 && winograd(c, r);
  if (strcmp(c->impl, "fft") == 0 && c->dtype == CLADE_F32) large(c, r);
  if (product) i[GROUPS] = 1;
  if (product) i[STRIDE] = i[STRIDE + 1] = strcmp(c->impl, "gemm") || op_chance(r, 0.7) ? 1 : 2;
  for (int k = 0; k < 2 && strcmp(c->impl, "lines") == 0; k++) i[STRIDE + k] = op_chance(r, 0.8) ? 1 : 2;
  if (strcmp(c->impl, "lines") == 0 && !few) i[ROWS] = AMONG(r, 1, 2, 3, 6, 7, 8);
  while ((double)op_elements(&(clade_shape){4, {i[IMAGES], i[GROUPS] * i[ROWS], i[SIZE], i[SIZE + 1]}}) * i[INNER] *
             i[KERNEL] * i[KERNEL + 1] >
         (whole      ? 3e7
          : c->light ? 2e5
                     : 4e6))
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

void conv_program_add(op_case *c, op_random *r, const clade_shape *result) {
  c->i[PROGRAM] = 1;
  c->i[HALVED] = c->dtype == CLADE_F32 && op_chance(r, 0.5);
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = CLADE_SHAPE(result->dim[1], 1, 1), .low = -2, .high = 2};
  c->in[c->n_in++] = (op_input){.dtype = c->dtype, .shape = *result, .low = -2, .high = 2};
}

bool conv_has_program(const op_case *c) { return c->i[PROGRAM]; }

static clade__elt program(const op_case *c) {
  uint8_t type = (uint8_t)c->dtype;
  uint16_t add = clade__elt_by_name("add")->number;
  clade__elt p;
  memset(&p, 0, sizeof p);
  p.n_in = 3;
  p.n_insn = c->i[HALVED] ? 4 : 3;
  for (int i = 0; i < 3; i++) p.in_dtype[i] = type;
  p.insn[0] = (clade__elt_insn){.fn = add, .dtype = type, .arg = {0, 1}};
  p.insn[1] = (clade__elt_insn){.fn = add, .dtype = type, .arg = {3, 2}};
  p.insn[2] = (clade__elt_insn){.fn = clade__elt_by_name("relu")->number, .dtype = type, .arg = {4}};
  if (c->i[HALVED])
    p.insn[3] = (clade__elt_insn){.fn = clade__elt_by_name("cast")->number, .dtype = CLADE_BF16, .arg = {5}};
  return p;
}

void conv_program_reference(const op_case *c, const op_array *in, op_array *out) {
  int64_t channels = out->shape.dim[1], pixels = out->shape.dim[2] * out->shape.dim[3];
  for (int64_t i = 0; i < out->n; i++) {
    double more = in[2].v[i / pixels % channels] + in[3].v[i];
    out->bound[i] += 0x1p-22 * (fabs(out->v[i]) + fabs(more) + 4);
    out->v[i] = fmax(0, out->v[i] + more);
  }
  if (c->i[HALVED]) out->dtype = CLADE_BF16;
}

clade__conv_attrs conv_attrs(const op_case *c, const conv *v) {
  clade__conv_attrs at;
  memset(&at, 0, sizeof at);
  at.window = v->window;
  at.groups = (int32_t)v->groups;
  if (c->i[PROGRAM]) at.epilogue = program(c);
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

/* ---- Winograd's algorithm ---- */
/* How places, the window's `taps` and results go into a base of `tile` points and back: absolute values. */
typedef struct base {
  int tile, taps, results;
  double places[6][6], window[6][4], back[4][6];
} base;

/* Of polynomials at tile - 1 points and infinity. */
static const double *points_of(int tile) {
  static const double two[] = {0, 1, -1}, four[] = {0, 0.625, -0.625, 1.5, -1.5};
  return tile == 4 ? two : four;
}

/* What tap k gives to point i. */
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
  for (int i = 0; i <= n; i++) { /* the product of x - q over all points q but the i-th */
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

/* m by a, then by b: both are rows of six. */
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

/* Adds the products of a tile of places and a window, both rows of six, in the base. */
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

/* A tile's products of all inner channels. `data`: weights are turned. */
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

/* Of w: the window is a tile of y's derivative, and products of all tiles are added. */
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

void conv_winograd_bound(const op_case *c, int want, const double *a, const double *b, op_array *out) {
  if (!c->took || strcmp(c->took, "winograd") != 0) return;
  const conv v = conv_of(c);
  const bool data = want == CONV_X;
  if (want == CONV_W) {
    weights_bound(&v, (operand){&v.x, a}, (operand){&v.y, b}, out);
    return;
  }
  const base own = base_of(c->row[0] + 2, 3); /* its parameter "side" */
  bound_of(&own, &v, data, (operand){data ? &v.y : &v.x, a}, (operand){&v.w, b}, out);
}
