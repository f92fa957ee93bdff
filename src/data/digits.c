/* The generated set "digits": strokes with random jitter, affine distortion, elastic warp, thickness, contrast,
 * stray strokes and noise. Integer arithmetic, so that every machine gets the same bits. */
#include <stdlib.h>
#include <unistd.h>

#include "data/data.h"

/* Lengths are in 1/256 of a pixel, factors in 1/4096. */
enum { SIDE = CLADE__DIGIT_SIDE, PIXELS = CLADE__DIGIT_PIXELS, PX = 256, ONE = 4096 };
enum { TRAIN = 12000, TEST = 2000, THREADS = 8, GRID = 4 };
static const uint64_t set_seed = 20;

typedef struct vec {
  int x, y;
} vec;
typedef struct hand { /* how an image is written */
  int xx, xy, yx, yy; /* matrix from units of 1/16 of a shape's hundredth to 1/256 of a pixel, times ONE */
  vec center;
  vec warp[GRID + 1][GRID + 1];
  int jitter; /* of points, in 1/16 of a hundredth */
  int radius, taper, ink;
} hand;

static int clamp(int v, int low, int high) { return v < low ? low : v > high ? high : v; }

/* A random number around 0, triangularly distributed. */
static int around(clade__draw *d, int most) {
  return (clade__draw_int(d, -most, most) + clade__draw_int(d, -most, most)) / 2;
}

/* Each draw is a statement of its own: the order of evaluation within an expression is unspecified. */
static vec around_point(clade__draw *d, int most, vec p) {
  p.x += around(d, most);
  p.y += around(d, most);
  return p;
}

/* Scales, slants and then rotates by an angle whose half has the tangent t. */
static void draw_affine(hand *h, clade__draw *d) {
  int64_t t = around(d, 560), norm = (int64_t)ONE * ONE + t * t; /* up to ±15.6 degrees */
  int64_t c = ((int64_t)ONE * ONE - t * t) * ONE / norm, s = 2 * t * ONE * ONE / norm;
  int64_t slant = around(d, 1100), width = clade__draw_int(d, 40, 66), height = clade__draw_int(d, 48, 68);
  /* columns (width, 0) and (slant * height, height), rotated */
  int64_t bx = slant * height / 16, by = height * ONE / 16;
  int64_t ax = width * ONE / 16;
  h->xx = (int)(c * ax / ONE);
  h->yx = (int)(s * ax / ONE);
  h->xy = (int)((c * bx - s * by) / ONE);
  h->yy = (int)((s * bx + c * by) / ONE);
  h->center = around_point(d, PX * 10 / 3, (vec){SIDE * PX / 2, SIDE * PX / 2});
}

static void draw_hand(hand *h, clade__draw *d) {
  draw_affine(h, d);
  for (int i = 0; i <= GRID; i++)
    for (int k = 0; k <= GRID; k++) h->warp[i][k] = around_point(d, PX * 3 / 2, (vec){0, 0});
  h->jitter = 16 * 4;
  h->radius = clade__draw_int(d, PX * 3 / 4, PX * 7 / 4);
  h->taper = clade__draw_int(d, -PX / 3, PX / 3);
  h->ink = clade__draw_int(d, 190, 255);
}

static vec between(vec a, vec b, int t, int whole) {
  return (vec){a.x + (b.x - a.x) * t / whole, a.y + (b.y - a.y) * t / whole};
}

/* Moves a point by the warp grid, with bilinear interpolation. */
static vec warped(const hand *h, vec p) {
  enum { CELL = SIDE * PX / GRID };
  int x = clamp(p.x, 0, SIDE * PX - 1), y = clamp(p.y, 0, SIDE * PX - 1);
  const vec *upper = &h->warp[y / CELL][x / CELL], *lower = &h->warp[y / CELL + 1][x / CELL];
  vec move =
      between(between(upper[0], upper[1], x % CELL, CELL), between(lower[0], lower[1], x % CELL, CELL), y % CELL, CELL);
  return (vec){p.x + move.x, p.y + move.y};
}

static vec placed(const hand *h, clade__draw *d, int x, int y) {
  int64_t px = (x - 50) * 16 + around(d, h->jitter), py = (y - 50) * 16 + around(d, h->jitter);
  vec p = {h->center.x + (int)((h->xx * px + h->xy * py) / ONE), h->center.y + (int)((h->yx * px + h->yy * py) / ONE)};
  return warped(h, p);
}

/* Draws a disc with a soft edge: full within radius - 1/2 pixel, 0 beyond radius + 1/2. Overlapping discs keep the
 * maximum. */
static void dab(unsigned char *pixel, vec at, int radius, int ink) {
  int reach = radius + PX / 2, inner = CLADE_MAX(radius - PX / 2, 0);
  int outer2 = reach * reach, inner2 = inner * inner;
  int x0 = clamp((at.x - reach) / PX, 0, SIDE), x1 = clamp((at.x + reach) / PX + 1, 0, SIDE);
  int y0 = clamp((at.y - reach) / PX, 0, SIDE), y1 = clamp((at.y + reach) / PX + 1, 0, SIDE);
  for (int y = y0; y < y1; y++) {
    for (int x = x0; x < x1; x++) {
      int dx = x * PX + PX / 2 - at.x, dy = y * PX + PX / 2 - at.y, d2 = dx * dx + dy * dy;
      if (d2 >= outer2) continue;
      int v = d2 <= inner2 ? ink : ink * ((outer2 - d2) / 16) / ((outer2 - inner2) / 16);
      if (v > pixel[y * SIDE + x]) pixel[y * SIDE + x] = (unsigned char)v;
    }
  }
}

/* Catmull-Rom spline from b to c with tangents c - a and d - b; t: 0 to ONE. */
static int spline(int64_t a, int64_t b, int64_t c, int64_t d, int64_t t) {
  int64_t linear = (c - a) * t, square = (2 * a - 5 * b + 4 * c - d) * t / ONE * t,
          cube = (3 * b - 3 * c + d - a) * t / ONE * t / ONE * t;
  return (int)(b + (linear + square + cube) / (2 * ONE));
}

static void draw_curve(unsigned char *pixel, const vec *p, int n, int radius, int taper, int ink) {
  for (int i = 0; i + 1 < n; i++) {
    vec a = p[CLADE_MAX(i - 1, 0)], b = p[i], c = p[i + 1], e = p[CLADE_MIN(i + 2, n - 1)];
    int steps = (abs(c.x - b.x) + abs(c.y - b.y)) / (PX / 2) + 1;
    for (int k = 0; k <= steps; k++) {
      int t = k * ONE / steps;
      vec at = {spline(a.x, b.x, c.x, e.x, t), spline(a.y, b.y, c.y, e.y, t)};
      dab(pixel, at, CLADE_MAX(radius + taper * (i * steps + k) / (n * steps), PX / 4), ink);
    }
  }
}

/* A short, thin and pale line that belongs to no digit. */
static void draw_stray(unsigned char *pixel, clade__draw *d) {
  vec p[2];
  p[0].x = clade__draw_int(d, 0, SIDE * PX);
  p[0].y = clade__draw_int(d, 0, SIDE * PX);
  p[1] = around_point(d, 10 * PX, p[0]);
  int radius = clade__draw_int(d, PX / 4, PX * 3 / 4), ink = clade__draw_int(d, 60, 160);
  draw_curve(pixel, p, 2, radius, 0, ink);
}

static void draw_noise(unsigned char *pixel, clade__draw *d) {
  int most = clade__draw_int(d, 4, 28);
  for (int i = 0; i < PIXELS; i += 2) {
    uint32_t bits = clade__draw_bits(d);
    for (int k = 0; k < 2; k++, bits >>= 16) {
      int noise = ((int)(bits & 255) + (int)(bits >> 8 & 255) - 255) * most / 128;
      pixel[i + k] = (unsigned char)clamp(pixel[i + k] + noise, 0, 255);
    }
  }
}

int clade__digit_draw(uint64_t seed, uint64_t index, unsigned char pixel[CLADE__DIGIT_PIXELS]) {
  clade__draw d = clade__draw_of(seed, CLADE__DRAW_DIGIT, 0, index);
  hand h;
  int digit = (int)(index % 10), n;
  memset(pixel, 0, PIXELS);
  draw_hand(&h, &d);
  const clade__shape *shape = clade__digit_shapes(digit, &n);
  shape += clade__draw_int(&d, 0, n - 1);
  for (int strays = clade__draw_int(&d, 0, 1); strays > 0; strays--) draw_stray(pixel, &d);
  for (int s = 0; s < CLADE__STROKES && shape->stroke[s].n; s++) {
    const clade__stroke *stroke = &shape->stroke[s];
    vec p[CLADE_COUNT(stroke->point)];
    for (int i = 0; i < stroke->n; i++) { /* a corner's two points coincide */
      bool corner = i > 0 && memcmp(&stroke->point[i], &stroke->point[i - 1], sizeof stroke->point[i]) == 0;
      p[i] = corner ? p[i - 1] : placed(&h, &d, stroke->point[i].x, stroke->point[i].y);
    }
    draw_curve(pixel, p, stroke->n, h.radius, h.taper, h.ink);
  }
  draw_noise(pixel, &d);
  return digit;
}

/* ---- all images, by several threads ---- */
typedef struct job {
  unsigned char *pixels;
  int32_t *labels;
  int64_t first, count;
  atomic_llong next;
} job;

static void *work(void *user) {
  enum { PIECE = 64 };
  job *j = user;
  for (int64_t from; (from = atomic_fetch_add(&j->next, PIECE)) < j->count;)
    for (int64_t i = from; i < CLADE_MIN(from + PIECE, j->count); i++)
      j->labels[i] = clade__digit_draw(set_seed, (uint64_t)(j->first + i), j->pixels + i * PIXELS);
  return NULL;
}

/* If a thread cannot be created, the others do its work. */
static void draw_all(job *j) {
  pthread_t threads[THREADS];
  int n = 0, want = (int)CLADE_MIN(sysconf(_SC_NPROCESSORS_ONLN), (long)THREADS);
  while (n + 1 < want && pthread_create(&threads[n], NULL, work, j) == 0) n++;
  work(j);
  while (n > 0) pthread_join(threads[--n], NULL);
}

clade_status clade__open_digits(const clade__source *source, const char *directory, bool train, clade_dataset **out) {
  (void)directory;
  int64_t count = train ? TRAIN : TEST;
  const clade_shape shape = CLADE_SHAPE(count, SIDE, SIDE);
  clade__samples samples = {0};
  CLADE_TRY(clade__array_new(source->name, CLADE_U8, &shape, &samples.x));
  samples.labels = clade__new((size_t)count, sizeof *samples.labels);
  if (!samples.labels) {
    clade__samples_free(&samples);
    return CLADE_NO_MEMORY;
  }
  job j = {samples.x.data, samples.labels, train ? 0 : TRAIN, count, 0};
  draw_all(&j);
  return clade__samples_set(source, 0, &samples, out);
}
