/* Cycles of fpga/array.cl, by walking its loops: each tile of the result, each slice of the inner axis. */
#include "model/cycles_kernel.h"

static const double most = 1 << 26; /* largest number of tiles times slices */

typedef struct range {
  int64_t low, high;
} range;

/* A tile's number of columns, and the range of results along y and x that they cover. */
typedef struct tile {
  int64_t rows, columns;
  range y, x;
} tile;

/* Taps of the inner axis that are multiplied at a time, and the pixels to load for them. */
typedef struct slice {
  int64_t length, pixels;
} slice;

static int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

static tile tile_at(const kernel_work *w, int64_t rows, int64_t first, int64_t columns) {
  int64_t width = w->x.results, last = first + columns - 1;
  bool is_one_row = first / width == last / width;
  return (tile){rows,
                columns,
                {first / width, last / width},
                {is_one_row ? first % width : 0, is_one_row ? last % width : width - 1}};
}

/* Pixels of the image from the first tap of the first result to the last tap of the last. */
static int64_t pixels(const kernel_axis *a, range results, range taps) {
  int64_t from = CLADE_MAX(results.low * a->step + taps.low * a->tap_step - a->pad, 0);
  int64_t to = CLADE_MIN(results.high * a->step + taps.high * a->tap_step - a->pad, a->size - 1);
  return CLADE_MAX(to - from + 1, 0);
}

static slice slice_at(const cycles_device *d, const kernel_work *w, const tile *t, int64_t i) {
  int64_t area = w->y.taps * w->x.taps, first = i * (int64_t)d->slice;
  int64_t length = CLADE_MIN((int64_t)d->slice, area - first), last = first + length - 1;
  range ky = {first / w->x.taps, last / w->x.taps}, kx = {0, w->x.taps - 1};
  if (ky.low == ky.high) kx = (range){first % w->x.taps, last % w->x.taps};
  return (slice){length, pixels(&w->y, t->y, ky) * pixels(&w->x, t->x, kx)};
}

/* Cycles in which one slice is multiplied, one filled and one loaded; length 0 means none. */
static double together(const cycles_device *d, const tile *t, slice multiplied, slice filled, slice loaded) {
  int64_t down = ceil_div(t->rows, (int64_t)d->rows), across = ceil_div(t->columns, (int64_t)d->columns);
  int64_t steps = CLADE_MAX(down * across, (int64_t)d->latency);
  int64_t panel = CLADE_MAX(down * (int64_t)d->rows, across * (int64_t)d->columns);
  int64_t longest = CLADE_MAX(multiplied.length * steps, filled.length * panel);
  return (double)CLADE_MAX(longest, loaded.pixels);
}

static kernel_cost of_tile(const cycles_device *d, const kernel_work *w, const tile *t) {
  const slice none = {0, 0};
  int64_t slices = ceil_div(w->y.taps * w->x.taps, (int64_t)d->slice), total = w->outer * slices;
  double rows = (double)t->rows, columns = (double)t->columns, e = (double)d->element_bytes, loaded = 0;
  double cycles = columns + (double)(d->tile_rows / d->rows * (d->tile_columns / d->columns)) + rows * columns;
#define SLICE(i) ((i) < total ? slice_at(d, w, t, (i) % slices) : none)
  if (total) {
    cycles += together(d, t, none, none, SLICE(0)) + together(d, t, none, SLICE(0), SLICE(1));
    /* the same for each step of the outer dimension, except that the last ones have nothing to fill and to load */
    for (int64_t i = 0; i < slices; i++) {
      slice a = SLICE(i), b = slice_at(d, w, t, (i + 1) % slices), c = slice_at(d, w, t, (i + 2) % slices);
      cycles += (double)w->outer * together(d, t, a, b, c);
      loaded += (double)w->outer * (double)a.pixels;
    }
    for (int64_t i = CLADE_MAX(total - 2, 0); i < total; i++) {
      slice a = SLICE(i), b = slice_at(d, w, t, (i + 1) % slices), c = slice_at(d, w, t, (i + 2) % slices);
      cycles += together(d, t, a, SLICE(i + 1), SLICE(i + 2)) - together(d, t, a, b, c);
    }
  }
#undef SLICE
  double inner = (double)w->outer * (double)(w->y.taps * w->x.taps), loops = 5 + (double)total;
  return (kernel_cost){cycles * (double)d->ii + loops * (double)d->loop_cycles,
                       (loaded + rows * inner) * e + rows * columns * (double)d->result_bytes};
}

clade_status cycles_kernel(const cycles_device *d, const kernel_work *w, kernel_cost *out) {
  int64_t columns = w->y.results * w->x.results, wide = (int64_t)d->tile_columns, high = (int64_t)d->tile_rows;
  double slices = (double)w->y.taps * (double)w->x.taps / (double)d->slice;
  *out = (kernel_cost){0};
  if ((double)w->y.results * (double)w->x.results / (double)wide * (1 + slices) > most)
    return CLADE_FAIL(OVERFLOW, "%s: a work of %lld x %lld results is too large to be walked", d->name,
                      (long long)w->y.results, (long long)w->x.results);
  for (int64_t first = 0; first < columns; first += wide)
    for (int part = 0; part < 2; part++) { /* whole tiles, then the remainder below */
      int64_t rows = part ? w->rows % high : high, count = part ? rows > 0 : w->rows / high;
      if (!count) continue;
      tile t = tile_at(w, rows, first, CLADE_MIN(wide, columns - first));
      kernel_cost one = of_tile(d, w, &t);
      out->cycles += (double)count * (double)w->batches * one.cycles;
      out->bytes += (double)count * (double)w->batches * one.bytes;
    }
  return CLADE_OK;
}
