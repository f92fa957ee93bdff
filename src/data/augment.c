/* Augments a sample of channels x height x width in place. */
#include "data/data.h"

typedef struct image {
  int channels, height, width;
  size_t elements, plane;
  float *x, *scratch; /* scratch: as many elements as x */
} image;

typedef struct chosen { /* random choices; all are drawn, so that each is independent of the other options */
  int crop_y, crop_x, shift_y, shift_x, cut_y, cut_x;
  bool flip;
  double angle; /* radians */
} chosen;

static chosen choose(const clade_augment *a, const image *m, clade__draw *d) {
  chosen c;
  c.crop_y = clade__draw_int(d, -a->crop, a->crop);
  c.crop_x = clade__draw_int(d, -a->crop, a->crop);
  c.shift_y = clade__draw_int(d, -a->shift, a->shift);
  c.shift_x = clade__draw_int(d, -a->shift, a->shift);
  c.cut_y = clade__draw_int(d, 0, m->height - 1);
  c.cut_x = clade__draw_int(d, 0, m->width - 1);
  c.flip = clade__draw_int(d, 0, 1) && a->flip;
  c.angle = ((double)clade__draw_bits(d) * 0x1p-31 - 1) * (double)a->rotate * (3.14159265358979323846 / 180);
  return c;
}

/* Source index for position `at` of an axis of length n, after crop, shift and flip; -1: none. */
static int source(int at, int n, bool flip, int shift, int crop) {
  if (flip) at = n - 1 - at;
  at -= shift;
  if (at < 0 || at >= n) return -1;
  at += crop;
  return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
}

static void move(const image *m, const chosen *c) {
  memcpy(m->scratch, m->x, m->elements * sizeof *m->x);
  for (int y = 0; y < m->height; y++) {
    int from_y = source(y, m->height, false, c->shift_y, c->crop_y);
    for (int x = 0; x < m->width; x++) {
      int from_x = source(x, m->width, c->flip, c->shift_x, c->crop_x);
      size_t to = (size_t)y * (size_t)m->width + (size_t)x;
      size_t from = (size_t)from_y * (size_t)m->width + (size_t)from_x;
      for (size_t p = 0; p < m->elements; p += m->plane)
        m->x[p + to] = from_y < 0 || from_x < 0 ? 0 : m->scratch[p + from];
    }
  }
}

/* Sine and cosine by their series: results of the C library differ between machines. */
static void turn(double angle, double *cosine, double *sine) {
  double term = 1, part[4] = {1, 0, 0, 0};
  for (int k = 1; k < 32; k++) {
    term *= angle / k;
    part[k % 4] += term;
  }
  *cosine = part[0] - part[2];
  *sine = part[1] - part[3];
}

static float pixel(const image *m, const float *plane, int y, int x) {
  return y < 0 || y >= m->height || x < 0 || x >= m->width ? 0 : plane[(size_t)y * (size_t)m->width + (size_t)x];
}

static void rotate(const image *m, double angle) {
  double cosine, sine, middle_y = (m->height - 1) / 2.0, middle_x = (m->width - 1) / 2.0;
  turn(angle, &cosine, &sine);
  memcpy(m->scratch, m->x, m->elements * sizeof *m->x);
  for (int y = 0; y < m->height; y++) {
    for (int x = 0; x < m->width; x++) {
      double dy = y - middle_y, dx = x - middle_x;
      double from_y = middle_y + cosine * dy - sine * dx, from_x = middle_x + sine * dy + cosine * dx;
      int y0 = (int)(from_y + m->height) - m->height, x0 = (int)(from_x + m->width) - m->width; /* rounds down */
      float wy = (float)(from_y - y0), wx = (float)(from_x - x0);
      for (size_t p = 0; p < m->elements; p += m->plane) {
        const float *plane = m->scratch + p;
        float upper = (1 - wx) * pixel(m, plane, y0, x0) + wx * pixel(m, plane, y0, x0 + 1);
        float lower = (1 - wx) * pixel(m, plane, y0 + 1, x0) + wx * pixel(m, plane, y0 + 1, x0 + 1);
        m->x[p + (size_t)y * (size_t)m->width + (size_t)x] = (1 - wy) * upper + wy * lower;
      }
    }
  }
}

static void cut_out(const image *m, int side, int middle_y, int middle_x, const float *mean) {
  int y0 = middle_y - side / 2, x0 = middle_x - side / 2;
  for (int c = 0; c < m->channels; c++)
    for (int y = CLADE_MAX(y0, 0); y < CLADE_MIN(y0 + side, m->height); y++)
      for (int x = CLADE_MAX(x0, 0); x < CLADE_MIN(x0 + side, m->width); x++)
        m->x[(size_t)c * m->plane + (size_t)y * (size_t)m->width + (size_t)x] = mean[c];
}

static void normalize(const image *m, const float *mean, const float *std) {
  for (int c = 0; c < m->channels; c++)
    for (size_t i = (size_t)c * m->plane; i < (size_t)(c + 1) * m->plane; i++) m->x[i] = (m->x[i] - mean[c]) / std[c];
}

void clade__augment(const clade_augment *augment, const clade_dataset_info *info, clade__draw *draw, float *x,
                    float *scratch) {
  const clade_dim *dim = info->shape.dim;
  image m = {.channels = (int)dim[0], .height = (int)dim[1], .width = (int)dim[2], .x = x, .scratch = scratch};
  m.plane = (size_t)m.height * (size_t)m.width;
  m.elements = m.plane * (size_t)m.channels;
  chosen c = choose(augment, &m, draw);
  if (augment->crop || augment->shift || augment->flip) move(&m, &c);
  if (augment->rotate > 0) rotate(&m, c.angle);
  if (augment->cutout) cut_out(&m, augment->cutout, c.cut_y, c.cut_x, info->mean);
  if (augment->normalize) normalize(&m, info->mean, info->std);
}

clade_status clade__augment_check(const clade_augment *augment, const clade_dataset_info *info) {
  const clade_dim *dim = info->shape.dim;
  const struct {
    const char *name;
    int value;
    int64_t most;
  } rows[] = {{"crop", augment->crop, CLADE_MIN(dim[1], dim[2]) - 1}, /* a mirror image ends there */
              {"shift", augment->shift, CLADE_MIN(dim[1], dim[2])},
              {"cutout", augment->cutout, CLADE_MAX(dim[1], dim[2])}};
  for (size_t i = 0; i < CLADE_COUNT(rows); i++)
    if (rows[i].value < 0 || rows[i].value > rows[i].most)
      return CLADE_FAIL(INVALID, "clade_loader_new: .augment.%s is %d; for images of %dx%d it is 0 to %d", rows[i].name,
                        rows[i].value, (int)dim[1], (int)dim[2], (int)rows[i].most);
  if (!(augment->rotate >= 0 && augment->rotate <= 180))
    return CLADE_FAIL(INVALID, "clade_loader_new: .augment.rotate is %g; it is 0 to 180 degrees",
                      (double)augment->rotate);
  return CLADE_OK;
}
