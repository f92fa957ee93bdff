/* Checks the results of a convolution. A convolution is linear in both operands: the reference adds images and
 * channels with random signs, computes one small convolution in double, and compares with the result, added with the
 * same signs. Any wrong element changes this sum. */
#include <math.h>

#include "cli/bench/conv.h"

enum { IMAGES = 21, ROWS, COLUMNS }; /* seeds of the signs of images, output channels and input channels */

typedef struct room {
  double *image, *weight, *result, *other; /* signed sums over images and channels */
  float *r;
} room;

static double sign(int seed, int64_t i) { return bench_sign((uint64_t)seed, (uint64_t)i); }

static void add(const float *from, int64_t n, double s, double *to) {
  for (int64_t i = 0; i < n; i++) to[i] += s * (double)from[i];
}

/* to[channel] = signed sum over the images [n, channels, pixels]. */
static void add_images(const float *from, int64_t n, int64_t elements, double *to) {
  memset(to, 0, (size_t)elements * sizeof *to);
  for (int64_t i = 0; i < n; i++) add(&from[i * elements], elements, sign(IMAGES, i), to);
}

/* For a tap along an axis: the range of outputs that it contributes to, and the input of the first of them. */
typedef struct span {
  int64_t first, end, from;
} span;
static span span_of(const bench_axis *a, int64_t tap) {
  const int64_t at = tap * a->dilation - a->pad, first = at < 0 ? (a->stride - 1 - at) / a->stride : 0;
  return (span){first, a->in > at ? CLADE_MIN(a->out, (a->in - 1 - at) / a->stride + 1) : 0, at + first * a->stride};
}

/* For all pairs of an input and an output that a tap connects: adds to one tensor the product of the other two. */
static void meet(const bench_conv_work *w, bench_role result, double *x, double *weight, double *y) {
  const bench_axis *deep = &w->along[0], *down = &w->along[1], *across = &w->along[2];
  for (int64_t tap = 0; tap < w->taps; tap++) {
    const span d = span_of(deep, tap / across->kernel / down->kernel);
    const span h = span_of(down, tap / across->kernel % down->kernel), c = span_of(across, tap % across->kernel);
    if (c.first >= c.end) continue;
    for (int64_t z = d.first; z < d.end; z++)
      for (int64_t l = h.first; l < h.end; l++) {
        double *to = &y[(z * down->out + l) * across->out];
        double *of = &x[((d.from + (z - d.first) * deep->stride) * down->in + h.from + (l - h.first) * down->stride) *
                            across->in +
                        c.from];
        for (int64_t i = c.first; i < c.end; i++, of += across->stride) {
          if (result == BENCH_Y)
            to[i] += *of * weight[tap];
          else if (result == BENCH_X)
            *of += to[i] * weight[tap];
          else
            weight[tap] += *of * to[i];
        }
      }
  }
}

/* Weights with output channels added (over_outputs), or with input channels added. */
static void add_weights(const bench_conv_work *w, bool over_outputs, double *to) {
  int64_t inner = w->c / w->groups, each = w->out / w->groups, taps = w->taps;
  memset(to, 0, (size_t)((over_outputs ? w->c : w->out) * taps) * sizeof *to);
  for (int64_t o = 0; o < w->out; o++)
    for (int64_t i = 0; i < inner; i++) {
      int64_t channel = o / each * inner + i, row = over_outputs ? channel : o;
      double s = over_outputs ? sign(ROWS, o) : sign(COLUMNS, channel);
      add(&w->data[BENCH_W][(o * inner + i) * taps], taps, s, &to[row * taps]);
    }
}

/* Computes the reference in r->result and the signed sum of the contestant's result in r->other. Returns the number
 * of pixels. */
static int64_t forward(const bench_conv_work *w, int64_t call, room *r) {
  int64_t taps = w->taps, pixels = w->target, source = w->source;
  add_images(w->data[BENCH_X] + (size_t)call * w->elements[BENCH_X], w->n, w->c * source, r->image);
  add_weights(w, true, r->weight);
  memset(r->result, 0, (size_t)pixels * sizeof *r->result);
  for (int64_t c = 0; c < w->c; c++) meet(w, BENCH_Y, &r->image[c * source], &r->weight[c * taps], r->result);
  memset(r->other, 0, (size_t)pixels * sizeof *r->other);
  for (int64_t i = 0; i < w->n * w->out; i++)
    add(&r->r[i * pixels], pixels, sign(IMAGES, i / w->out) * sign(ROWS, i % w->out), r->other);
  return pixels;
}

static int64_t backward_data(const bench_conv_work *w, int64_t call, room *r) {
  int64_t taps = w->taps, pixels = w->source, source = w->target;
  add_images(w->data[BENCH_Y] + (size_t)call * w->elements[BENCH_Y], w->n, w->out * source, r->image);
  add_weights(w, false, r->weight);
  memset(r->result, 0, (size_t)pixels * sizeof *r->result);
  for (int64_t o = 0; o < w->out; o++) meet(w, BENCH_X, r->result, &r->weight[o * taps], &r->image[o * source]);
  memset(r->other, 0, (size_t)pixels * sizeof *r->other);
  for (int64_t i = 0; i < w->n * w->c; i++)
    add(&r->r[i * pixels], pixels, sign(IMAGES, i / w->c) * sign(COLUMNS, i % w->c), r->other);
  return pixels;
}

static void add_channels(const float *image, int64_t first, int64_t n, int64_t pixels, int seed, double *to) {
  memset(to, 0, (size_t)pixels * sizeof *to);
  for (int64_t i = first; i < first + n; i++) add(&image[i * pixels], pixels, sign(seed, i), to);
}

static int64_t backward_weights(const bench_conv_work *w, int64_t call, room *r) {
  int64_t taps = w->taps, inner = w->c / w->groups, each = w->out / w->groups;
  const float *xs = w->data[BENCH_X] + (size_t)call * w->elements[BENCH_X];
  const float *ys = w->data[BENCH_Y] + (size_t)call * w->elements[BENCH_Y];
  memset(r->result, 0, (size_t)taps * sizeof *r->result);
  for (int64_t i = 0; i < w->n * w->groups; i++) {
    int64_t image = i / w->groups, group = i % w->groups;
    add_channels(xs + image * w->c * w->source, group * inner, inner, w->source, COLUMNS, r->image);
    add_channels(ys + image * w->out * w->target, group * each, each, w->target, ROWS, r->weight);
    meet(w, BENCH_W, r->image, r->result, r->weight);
  }
  memset(r->other, 0, (size_t)taps * sizeof *r->other);
  for (int64_t i = 0; i < w->out * inner; i++) {
    int64_t o = i / inner, channel = o / each * inner + i % inner;
    add(&r->r[i * taps], taps, sign(ROWS, o) * sign(COLUMNS, channel), r->other);
  }
  return taps;
}

/* Allowed error: `terms` products of deviation `sigma` round like a random walk, and so does the signed sum of
 * `count` results. Eight deviations, and another factor of eight for fast algorithms such as Winograd's. */
static double allowed(const bench_job *job, const bench_conv_work *w) {
  double taps = (double)w->taps, inner = (double)(w->c / w->groups), each = (double)(w->out / w->groups);
  double sigma = sqrt(1 / 3.0) * sqrt(1 / (inner * taps)), terms = inner * taps, count = (double)(w->n * w->out);
  if (w->pass == BENCH_BACKWARD_DATA) terms = each * taps, count = (double)(w->n * w->c);
  if (w->pass == BENCH_BACKWARD_WEIGHTS)
    sigma = 1 / 3.0, terms = (double)(w->n * w->target), count = (double)w->out * inner;
  if (bench_conv_bytes(w)) sigma = 128 * 128; /* exact, but for the rounding of sums to floats */
  double size = sigma * sqrt(terms), stored = job->dtype == CLADE_F32 ? 0 : bench_unit(job->dtype);
  return 64 * (0x1p-24 * size * (sqrt(terms / 6) + 2) + stored * size) * sqrt(count);
}

static clade_status check_one(const bench_job *job, const bench_conv_work *w, const char *who, int64_t call, room *r) {
  double tolerance = allowed(job, w);
  int64_t n = w->pass == BENCH_FORWARD         ? forward(w, call, r)
              : w->pass == BENCH_BACKWARD_DATA ? backward_data(w, call, r)
                                               : backward_weights(w, call, r);
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(r->result[i] - r->other[i]) <= tolerance))
      return CLADE_FAIL(INTERNAL,
                        "%s: the convolution is wrong: at %s %lld, images and channels added with random signs, it is "
                        "%g where %g is right (allowed: %g)",
                        who, w->pass == BENCH_BACKWARD_WEIGHTS ? "tap" : "pixel", (long long)i, r->other[i],
                        r->result[i], tolerance);
  return CLADE_OK;
}

clade_status bench_conv_check(const bench_job *job, const void *work, bench_side *side) {
  const bench_conv_work *w = work;
  size_t source = (size_t)(w->c * w->source), target = (size_t)(w->out * w->target);
  size_t weights = (size_t)(CLADE_MAX(w->c, w->out) * w->taps);
  size_t room_for = (size_t)CLADE_MAX(CLADE_MAX(w->source, w->target), w->taps);
  clade__arena arena = {0};
  room r = {.image = clade__arena_new(&arena, CLADE_MAX(source, target) * sizeof(double)),
            .weight = clade__arena_new(&arena, CLADE_MAX(weights, (size_t)w->target) * sizeof(double)),
            .result = clade__arena_new(&arena, room_for * sizeof(double)),
            .other = clade__arena_new(&arena, room_for * sizeof(double)),
            .r = clade__arena_new(&arena, w->elements[bench_conv_result(w)] * sizeof(float))};
  clade_status status = r.image && r.weight && r.result && r.other && r.r ? CLADE_OK : CLADE_NO_MEMORY;
  if (status == CLADE_OK) status = side->refresh(side->state);
  if (status == CLADE_OK) status = side->call(side->state);
  for (int64_t i = 0; i < w->chain && status == CLADE_OK; i++) {
    status = side->read(side->state, (int)i, r.r);
    if (status == CLADE_OK) status = check_one(job, w, side->name, i, &r);
  }
  clade__arena_free(&arena);
  return status;
}
