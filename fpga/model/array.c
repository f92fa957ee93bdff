/* Closed formulas for the array's cycles and beats, the order of its streams, and a reference product. */
#include "array.h"

static const int64_t most = 65535; /* clade_walk.sv counts with 16 bits */

static int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

static int64_t panels(const array_shape *s, const array_work *w) { return ceil_div(w->m, s->rows); }

static int64_t tiles(const array_shape *s, const array_work *w) { return panels(s, w) * ceil_div(w->n, s->cols); }

/* Number of times that a panel of A is sent: once if the queue can hold it. */
static int64_t repeats(const array_shape *s, const array_work *w) {
  return w->k < (int64_t)1 << s->log_depth ? w->n > 0 : ceil_div(w->n, s->cols);
}

bool array_accepts(const array_shape *s, const array_work *w) {
  return w->m >= 0 && w->n >= 0 && w->k >= 0 && w->k <= most && panels(s, w) <= most && ceil_div(w->n, s->cols) <= most;
}

array_beats array_count(const array_shape *s, const array_work *w) {
  return (array_beats){panels(s, w) * repeats(s, w) * w->k, tiles(s, w) * w->k, tiles(s, w) * s->rows};
}

int64_t array_cycles(const array_shape *s, const array_work *w) {
  int64_t t = tiles(s, w), leave = 2 * s->rows + s->cols + 1;
  return t ? (t - 1) * (w->k > leave ? w->k : leave) + w->k + leave + 1 : 1;
}

void array_pack_a(const array_shape *s, const array_work *w, const int8_t *a, int8_t *beats) {
  for (int64_t top = 0; top < w->m; top += s->rows)
    for (int64_t again = 0; again < repeats(s, w); again++)
      for (int64_t k = 0; k < w->k; k++)
        for (int64_t i = top; i < top + s->rows; i++) *beats++ = i < w->m ? a[i * w->k + k] : 0;
}

void array_pack_b(const array_shape *s, const array_work *w, const int8_t *b, int8_t *beats) {
  for (int64_t panel = 0; panel < panels(s, w); panel++)
    for (int64_t left = 0; left < w->n; left += s->cols)
      for (int64_t k = 0; k < w->k; k++)
        for (int64_t j = left; j < left + s->cols; j++) *beats++ = j < w->n ? b[k * w->n + j] : 0;
}

void array_unpack(const array_shape *s, const array_work *w, const int32_t *beats, int32_t *c) {
  for (int64_t top = 0; top < w->m; top += s->rows)
    for (int64_t left = 0; left < w->n; left += s->cols)
      for (int64_t i = top; i < top + s->rows; i++)
        for (int64_t j = left; j < left + s->cols; j++, beats++)
          if (i < w->m && j < w->n) c[i * w->n + j] = *beats;
}

void array_reference(const array_work *w, const int8_t *a, const int8_t *b, int32_t *c) {
  for (int64_t i = 0; i < w->m; i++)
    for (int64_t j = 0; j < w->n; j++) {
      int32_t sum = 0;
      for (int64_t k = 0; k < w->k; k++) sum += a[i * w->k + k] * b[k * w->n + j];
      c[i * w->n + j] = sum;
    }
}
