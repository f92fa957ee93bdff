/* Closed formulas for cycles, bytes and seconds, which docs/fpga.md derives. */
#include "model/array.h"
#include "model/cycles_kernel.h"

const char *const cycles_bound_names[] = {"compute", "memory", "transfer", "reprogramming", NULL};

static const double countable = 9007199254740992.0; /* 2^53: integers up to here are exact */

static int64_t ceil_div(int64_t n, uint64_t d) { return (n + (int64_t)d - 1) / (int64_t)d; }

typedef struct cost {
  double cycles, bytes, flops;
} cost;

static clade_status sizes(const cycles_device *d, const char *what, const int64_t *size, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (size[i] < 0 || size[i] > INT32_MAX)
      return CLADE_FAIL(BAD_SHAPE, "%s: size %zu of a %s is %lld; 0 to %d is expected", d->name, i, what,
                        (long long)size[i], INT32_MAX);
  return CLADE_OK;
}

/* ---- products ---- */
typedef struct product {
  int64_t count; /* number of such products */
  array_work size;
  int64_t dots;        /* steps along k */
  double image, lines; /* in bytes: of A if it is read as an image, and of the line buffer that this takes */
} product;

static cost on_grid(const cycles_device *d, const product *p) {
  double m = (double)p->size.m, n = (double)p->size.n, k = (double)p->size.k, element = (double)d->element_bytes;
  double down = (double)ceil_div(p->size.m, d->tile_rows), across = (double)ceil_div(p->size.n, d->tile_columns);
  double steps = d->edges == CYCLES_CUT
                     ? (double)ceil_div(p->size.m, d->rows) * (double)ceil_div(p->size.n, d->columns)
                     : down * across * (double)(d->tile_rows / d->rows) * (double)(d->tile_columns / d->columns);
  double a = m * k * element;
  if (p->lines > 0 && p->lines <= (double)d->line_bytes && p->image < a) a = p->image;
  return (cost){.cycles = steps * (double)p->dots * (double)d->ii + down * across * (double)d->tile_cycles,
                .bytes = a * across + n * k * element * down + m * n * (double)d->result_bytes};
}

static clade_status on_array(const cycles_device *d, const product *p, cost *out) {
  array_shape s = {(int)d->rows, (int)d->columns, (int)d->log_depth};
  if (!array_accepts(&s, &p->size))
    return CLADE_FAIL(UNSUPPORTED, "%s: a product of %lld x %lld x %lld is more than its counters hold", d->name,
                      (long long)p->size.m, (long long)p->size.n, (long long)p->size.k);
  array_beats beats = array_count(&s, &p->size);
  *out = (cost){.cycles = (double)array_cycles(&s, &p->size),
                .bytes = (double)beats.a * (double)d->rows + (double)beats.b * (double)d->columns +
                         (double)beats.out * (double)d->columns * (double)d->result_bytes};
  return CLADE_OK;
}

/* `k` is the same work as fpga/array.cl takes it. */
static clade_status of_product(const cycles_device *d, const product *p, const kernel_work *k, cost *out) {
  if (d->kind == CYCLES_CLADE) {
    kernel_cost kernel;
    CLADE_TRY(cycles_kernel(d, k, &kernel));
    *out = (cost){.cycles = kernel.cycles, .bytes = kernel.bytes};
  } else {
    if (d->kind == CYCLES_ARRAY)
      CLADE_TRY(on_array(d, p, out));
    else
      *out = on_grid(d, p);
    out->cycles *= (double)p->count;
    out->bytes *= (double)p->count;
  }
  out->flops = 2 * (double)p->count * (double)p->size.m * (double)p->size.n * (double)p->size.k;
  return CLADE_OK;
}

static clade_status of_gemm(const cycles_device *d, const cycles_work *w, cost *out) {
  CLADE_TRY(sizes(d, "product", (const int64_t *)&w->gemm, sizeof w->gemm / sizeof(int64_t)));
  int64_t n = w->gemm.n, k = w->gemm.k;
  product p = {w->gemm.batch, {w->gemm.m, n, k}, ceil_div(k, d->depth), 0, 0};
  kernel_work kernel = {w->gemm.batch, w->gemm.m, 1, {k, n > 0, k, 0, 1, 0}, {n, n, 1, 1, 0, 0}};
  return of_product(d, &p, &kernel, out);
}

/* As a product: rows are positions of the result, columns are filters; one product per group. */
static clade_status of_conv(const cycles_device *d, const cycles_work *w, cost *out) {
  CLADE_TRY(sizes(d, "convolution", (const int64_t *)&w->conv, sizeof w->conv / sizeof(int64_t)));
  int64_t groups = w->conv.groups;
  if (!groups || w->conv.channels % groups || w->conv.filters % groups)
    return CLADE_FAIL(BAD_SHAPE, "%s: a convolution of %lld channels by %lld filters has %lld groups", d->name,
                      (long long)w->conv.channels, (long long)w->conv.filters, (long long)groups);
  int64_t channels = w->conv.channels / groups, window = w->conv.kernel_height * w->conv.kernel_width;
  double m = (double)w->conv.batch * (double)w->conv.out_height * (double)w->conv.out_width;
  double k = (double)channels * (double)window,
         line = (double)w->conv.width * (double)channels * (double)d->element_bytes;
  if (m > countable || k > countable)
    return CLADE_FAIL(OVERFLOW, "%s: a convolution is too large to be counted", d->name);
  product p = {.count = groups,
               .size = {(int64_t)m, w->conv.filters / groups, (int64_t)k},
               .dots =
                   d->along == CYCLES_CHANNELS ? ceil_div(channels, d->depth) * window : ceil_div((int64_t)k, d->depth),
               .image = (double)w->conv.batch * (double)w->conv.height * line,
               .lines = (double)w->conv.kernel_height * line};
  kernel_axis y = {w->conv.height, w->conv.out_height, w->conv.kernel_height, w->conv.stride_height, 1,
                   w->conv.pad_top};
  kernel_axis x = {w->conv.width, w->conv.out_width, w->conv.kernel_width, w->conv.stride_width, 1, w->conv.pad_left};
  kernel_work kernel = {w->conv.batch * groups, w->conv.filters / groups, channels, y, x};
  return of_product(d, &p, &kernel, out);
}

static clade_status of_stream(const cycles_device *d, const cycles_work *w, cost *out) {
  CLADE_TRY(sizes(d, "stream", &w->stream.bytes, 1));
  if (d->kind == CYCLES_ARRAY) return CLADE_FAIL(UNSUPPORTED, "%s: it computes products and nothing else", d->name);
  *out = (cost){.bytes = (double)w->stream.bytes,
                .cycles = d->stream_bytes ? (double)ceil_div(w->stream.bytes, d->stream_bytes) : 0};
  return CLADE_OK;
}

static clade_status of_work(const cycles_device *d, const cycles_work *w, cost *out) {
  switch (w->kind) {
  case CYCLES_GEMM: return of_gemm(d, w, out);
  case CYCLES_CONV: return of_conv(d, w, out);
  case CYCLES_STREAM: return of_stream(d, w, out);
  }
  return CLADE_FAIL(INTERNAL, "%s: a work of kind %d", d->name, (int)w->kind);
}

/* ---- seconds ---- */
static double macs(const cycles_device *d) { return (double)d->rows * (double)d->columns * (double)d->depth; }

double cycles_peak_gflops(const cycles_device *d) { return 2 * macs(d) / (double)d->ii * d->fmax_mhz.value / 1e3; }

const char *cycles_evidence(const cycles_device *d) {
  return d->fmax_mhz.source == CLADE__ROUTED ? "modeled(routed)" : "modeled(report)";
}

/* The highest efficiency is relative to all multipliers of the design, including those outside of the grid, and nothing
 * is faster than its cycles. The lowest is relative to the grid's multipliers. */
static double low_at(const cycles_device *d, double compute, double memory) {
  double share = d->dsps ? macs(d) * d->dsps_per_mac / (double)d->dsps : 1;
  return CLADE_MAX(compute * CLADE_MAX(1, share / CYCLES_EFFICIENCY_MOST), memory / CYCLES_EFFICIENCY_MOST);
}

static void add(const cycles_device *d, const cost *c, cycles_estimate *out) {
  double compute = c->cycles / (d->fmax_mhz.value * 1e6), memory = c->bytes / (d->bandwidth_gbs * 1e9);
  *(compute >= memory ? &out->compute_seconds : &out->memory_seconds) += CLADE_MAX(compute, memory);
  out->low += low_at(d, compute, memory);
  out->high += CLADE_MAX(compute, memory) / CYCLES_EFFICIENCY_LEAST;
  out->launch_seconds += d->launch_seconds;
}

/* Launches count as the host's time, as transfers do. */
static cycles_bound bound_of(const cycles_estimate *e) {
  const double parts[] = {e->compute_seconds, e->memory_seconds, e->transfer_seconds + e->launch_seconds,
                          e->programming_seconds};
  cycles_bound most = CYCLES_COMPUTE;
  for (size_t i = 1; i < CLADE_COUNT(parts); i++)
    if (parts[i] > parts[most]) most = (cycles_bound)i;
  return most;
}

clade_status cycles_of(const cycles_device *d, const cycles_call *call, cycles_estimate *out) {
  cost sum = {0};
  *out = (cycles_estimate){0};
  if (call->moved_bytes < 0 || !(call->programmings >= 0))
    return CLADE_FAIL(BAD_SHAPE, "%s: a call moves %lld bytes and programs %g times", d->name,
                      (long long)call->moved_bytes, call->programmings);
  for (size_t i = 0; i < call->n; i++) {
    cost c = {0};
    CLADE_TRY(of_work(d, &call->works[i], &c));
    sum = (cost){sum.cycles + c.cycles, sum.bytes + c.bytes, sum.flops + c.flops};
    add(d, &c, out);
  }
  if (sum.cycles > countable || sum.bytes > countable)
    return CLADE_FAIL(OVERFLOW, "%s: %zu works are too much to be counted", d->name, call->n);
  out->cycles = (int64_t)sum.cycles;
  out->bytes = (int64_t)sum.bytes;
  out->flops = sum.flops;
  if (d->link_gbs > 0) out->transfer_seconds = (double)call->moved_bytes / (d->link_gbs * 1e9);
  out->programming_seconds = d->programming_seconds * call->programmings;
  double fixed = out->launch_seconds + out->programming_seconds;
  out->low += out->transfer_seconds / CYCLES_EFFICIENCY_MOST + fixed;
  out->high += out->transfer_seconds / CYCLES_EFFICIENCY_LEAST + fixed;
  out->bound = bound_of(out);
  return CLADE_OK;
}
