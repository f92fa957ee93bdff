/* How conv2d and conv2d_data are computed on CPUs: how the work is cut up, and what that costs. */
#include "op/conv.h"

#include <math.h>

const char *clade__conv_vec_accept(const clade_query *q) {
  if (q->device->device_class != CLADE_CPU) return "made for CPUs";
  if (q->device->vector_f32 < 4) return "made for CPUs with vectors of their own";
  if (q->device->max_passes) return "the device cuts the loops of a work-item short before they are through";
  for (int i = 0; i < q->node->n_in + q->node->n_out; i++) {
    const clade_type *t = i < q->node->n_in ? &q->node->in[i] : &q->node->out[i - q->node->n_in];
    if (clade__product(&t->shape, 0, t->shape.rank) > INT32_MAX / 2) return "made for fewer than 2^30 elements";
  }
  return NULL;
}

static int64_t down(int64_t a, int64_t b) { return (a >= 0 ? a : a - b + 1) / b; }

clade__conv_axis clade__conv_axis_of(clade__map_1d m, int64_t result, int64_t source, int64_t kernel, int64_t first) {
  int64_t grid = (result - first + m.div - 1) / m.div, least = INT64_MAX, most = INT64_MIN;
  clade__conv_axis a = {.pitch = grid, .kinds = 1};
  for (int64_t k = 0; k < kernel; k++) {
    int64_t at = first * m.mul + m.add + k * m.delta;
    if (at % m.div) continue;
    int64_t to = down(at / m.div, m.mul);
    least = CLADE_MIN(least, to);
    most = CLADE_MAX(most, to);
    a.taps++;
  }
  if (!a.taps) return a;
  int64_t zeros = CLADE_MIN(-least, grid + most - (source - 1) / m.mul - 1);
  a.span = most - least;
  a.pitch = grid + a.span - CLADE_MAX(CLADE_MIN(zeros, a.span), 0);
  while (a.kinds < a.taps && a.kinds * m.delta % m.mul) a.kinds++;
  return a;
}

/* What the kernel keeps in private memory, in floats; places of a strip; pieces of lines; channels and taps at once. */
enum { LINES = 32768, WEIGHTS = 24576, BLOCK = 32768, STRIP = 384, PIECES = 512, DEPTH = 512, TAPS = 128, ROWS = 128 };

typedef struct tile {
  int width, rows, vectors;
} tile;
static tile tile_of(const clade_query *q, const clade__gather *p) { /* with 32 registers, or 16 */
  int width = q->device->vector_f32 >= 16 ? 16 : 8;
  if (p->rows == 1) return (tile){width, 1, 64 / width};
  return width == 16 ? (tile){16, 12, 2} : (tile){8, q->device->vector_f32 >= 8 ? 6 : 3, 2};
}

/* As clade__gather_of; where each place has one tap, its own, an image is one line. */
static clade__gather problem_of(const clade_node *n) {
  const clade__conv_attrs *a = n->attrs;
  clade__gather p = clade__gather_of(n);
  for (int i = 0; i < 2; i++)
    if (p.kernel[i] != 1 || a->window.stride[i] != 1 || p.source[i] != p.result[i] || a->window.pad[i]) return p;
  p.source[1] = p.result[1] = p.source[0] * p.source[1];
  p.source[0] = p.result[0] = 1;
  return p;
}

/* Of the largest phase: places, and how far taps reach; taps of a phase on average. */
typedef struct sizes {
  double places, reach, taps;
  int64_t phases;
  bool spread; /* the first phase alone has taps, and stores the zeros of the others */
} sizes;
static sizes sizes_of(const clade_query *q, const clade__gather *p) {
  const clade__window *w = &((const clade__conv_attrs *)q->node->attrs)->window;
  clade__map_1d y = p->map(w, 0), x = p->map(w, 1);
  sizes s = {.phases = y.div * x.div};
  if (s.phases > 1 && p->kernel[0] == 1 && p->kernel[1] == 1 && y.add == 0 && x.add == 0) {
    s.phases = 1;
    s.spread = true;
  }
  for (int64_t f = 0; f < (s.spread ? 1 : y.div) && f < p->result[0]; f++) {
    clade__conv_axis high = clade__conv_axis_of(y, p->result[0], p->source[0], p->kernel[0], f);
    for (int64_t g = 0; g < (s.spread ? 1 : x.div) && g < p->result[1]; g++) {
      clade__conv_axis wide = clade__conv_axis_of(x, p->result[1], p->source[1], p->kernel[1], g);
      s.places = CLADE_MAX(s.places, (double)p->n * (double)(high.pitch * wide.pitch));
      s.reach = CLADE_MAX(s.reach, (double)(high.span * wide.pitch + wide.span));
      s.taps += (double)(high.taps * wide.taps) / (double)s.phases;
    }
  }
  return s;
}

/* Cycles of a core that begins two vector operations in each, for strips and blocks of so many places, rows, groups. */
static double cycles(const clade_query *q, const clade__gather *p, const sizes *s, const int32_t *row) {
  tile t = tile_of(q, p);
  double panel = t.width * t.vectors, strip = row[CLADE__CONV_STRIP], rows = row[CLADE__CONV_ROWS];
  double units = CLADE_MAX(q->device->compute_units, 1u), depth = (double)p->inner * s->taps;
  double tiles = ceil(rows / t.rows), panels = strip / panel;
  double arithmetic = t.rows * t.vectors / 2.0, loads = (1.3 * t.vectors + t.rows) / 2;
  double multiply = tiles * panels * (depth * CLADE_MAX(arithmetic, loads) * 1.05 + 30);
  double copy = 0.4 * (double)p->inner * (strip + s->reach) + 1.2 * t.rows * tiles * depth;
  double group = multiply + copy + rows * strip * 0.3 + 300;
  double batches = ceil((double)p->groups / row[CLADE__CONV_GROUPS]);
  double items = ceil(s->places / strip) * ceil((double)p->rows / rows) * batches * (double)s->phases;
  return (ceil(items / units) + 0.01 * items) * (group * row[CLADE__CONV_GROUPS] + 3000);
}

/* strip: of whole panels; rows: of whole tiles. */
static void cut(const clade_query *q, const clade__gather *p, const sizes *s, int64_t across, int64_t blocks,
                int32_t *row) {
  tile t = tile_of(q, p);
  int64_t panel = t.width * t.vectors, strip = clade__up((int64_t)ceil(s->places / (double)across), panel);
  row[CLADE__CONV_STRIP] = (int32_t)CLADE_MAX(CLADE_MIN(strip, STRIP / panel * panel), panel);
  int64_t rows = clade__up((p->rows + blocks - 1) / blocks, t.rows);
  rows = CLADE_MIN(rows, CLADE_MIN(BLOCK / row[CLADE__CONV_STRIP], ROWS) / t.rows * t.rows);
  row[CLADE__CONV_ROWS] = (int32_t)CLADE_MAX(rows, t.rows);
  row[CLADE__CONV_GROUPS] = 1;
  if (p->groups < 2) return;
  double one = cycles(q, p, s, row) / CLADE_MAX(s->places / row[CLADE__CONV_STRIP] * (double)p->groups, 1);
  double most =
      (double)p->groups * ceil(s->places / row[CLADE__CONV_STRIP]) / (8.0 * CLADE_MAX(q->device->compute_units, 1u));
  row[CLADE__CONV_GROUPS] =
      (int32_t)CLADE_MAX(CLADE_MIN(CLADE_MIN(1e5 / CLADE_MAX(one, 1), most), (double)p->groups), 1);
}

enum { CUTS = 12 };
static bool nth(const clade_query *q, const clade__gather *p, const sizes *s, int i, int32_t *row) {
  int64_t least = CLADE_MAX((int64_t)ceil(s->places / STRIP), 1), blocks = CLADE_MAX((p->rows + ROWS - 1) / ROWS, 1);
  int64_t a = i % CUTS, b = i / CUTS;
  if (b >= CUTS) return false;
  cut(q, p, s, least + a + least * a / 8, CLADE_MIN(blocks + b + blocks * b / 8, CLADE_MAX(p->rows, 1)), row);
  return true;
}

static void start(const clade_query *q, int32_t *row) {
  clade__gather p = problem_of(q->node);
  sizes s = sizes_of(q, &p);
  int32_t own[CLADE_MAX_PARAMS];
  double best = INFINITY;
  for (int i = 0; nth(q, &p, &s, i, own); i++) {
    double now = cycles(q, &p, &s, own);
    if (now >= best) continue;
    best = now;
    memcpy(row, own, CLADE__CONV_PARAMS * sizeof *row);
  }
}

static bool rows(const clade_query *q, int i, int32_t *row) {
  clade__gather p = problem_of(q->node);
  sizes s = sizes_of(q, &p);
  return nth(q, &p, &s, i, row);
}

static const char *const params[] = {"strip", "rows", "groups", NULL};
const clade_space clade__gather_vec_space = {sizeof(clade_space), params, start, rows};

double clade__gather_vec_cost(const clade_query *q) {
  clade__gather p = problem_of(q->node);
  sizes s = sizes_of(q, &p);
  double flops = cycles(q, &p, &s, q->row) * 2 * q->device->vector_f32 * q->device->compute_units;
  return clade__cost(q->device, flops, clade__node_bytes(q->node), 1);
}

clade_status clade__gather_vec_emit(clade_emit *e, const clade_query *q) {
  clade__gather p = problem_of(q->node);
  sizes s = sizes_of(q, &p);
  tile t = tile_of(q, &p);
  const int32_t *row = q->row;
  int64_t across = (int64_t)ceil(s.places / row[CLADE__CONV_STRIP]);
  int64_t blocks = (p.rows + row[CLADE__CONV_ROWS] - 1) / row[CLADE__CONV_ROWS];
  int64_t batches = (p.groups + row[CLADE__CONV_GROUPS] - 1) / row[CLADE__CONV_GROUPS];
  clade_kernel_step *k;
  CLADE_TRY(clade__gather_begin(e, q->node, &p, "conv2d_gather_vec", &k));
  clade_emit_define(k, "WIDTH", t.width);
  clade_emit_define(k, "ROWS", t.rows);
  clade_emit_define(k, "VECTORS", t.vectors);
  clade_emit_define(k, "LINES", LINES);
  clade_emit_define(k, "WEIGHTS", WEIGHTS);
  clade_emit_define(k, "BLOCK", BLOCK);
  clade_emit_define(k, "STRIP", STRIP);
  clade_emit_define(k, "PIECES", PIECES);
  clade_emit_define(k, "DEPTH", DEPTH);
  clade_emit_define(k, "TAPS", TAPS);
  clade_emit_index8(
      k, 6,
      (int64_t[]){row[CLADE__CONV_STRIP], row[CLADE__CONV_ROWS], across, blocks, row[CLADE__CONV_GROUPS], s.spread});
  clade__gather_end(k, q->node);
  size_t global = (size_t)(s.phases * across * blocks * batches), local = 1;
  clade_emit_range(k, 1, &global, &local);
  return CLADE_OK;
}
