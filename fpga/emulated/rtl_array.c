/* Computes a launch of array_i8 on the simulated array. The operands are arranged as matrices as fpga/array.cl
 * describes, one RTL product per batch; the elementwise program is interpreted by the kernels' own source text. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tgmath.h>

#include "rtl.h"
#include "sim/sim.h"

/* ---- OpenCL C for fpga/prelude.cl ---- */
typedef uint32_t uint;
static float as_float(uint v) {
  float f;
  memcpy(&f, &v, sizeof f);
  return f;
}
#define as_uint(v)       \
  (((union {             \
     __typeof__(v) from; \
     uint to;            \
   }){.from = (v)})      \
       .to)
#define as_int(v) ((int)(v))
static int convert_int_sat(float f) { return f >= 0x1p31f ? INT32_MAX : f < -0x1p31f ? INT32_MIN : (int)f; }
static float rsqrt(float f) { return 1 / sqrt(f); }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "prelude.cl"
#pragma GCC diagnostic pop

/* ---- sizes of a launch ---- */
typedef struct rtl_array_i8 arguments;

static int64_t product_of(const int32_t *v, int n) { /* or more than the array supports */
  int64_t product = 1;
  for (int i = 0; i < n; i++) product = v[i] <= 0 ? 0 : product > INT32_MAX ? product : product * v[i];
  return product;
}

static array_work work_of(const arguments *g) {
  return (array_work){g->size[2] > 0 ? g->size[2] : 0, product_of(g->size + 3, 3), product_of(g->inner, 3)};
}

static unsigned char *tensor(const rtl_launch *l, unsigned which, int64_t element, size_t bytes) {
  return (unsigned char *)l->memory[l->tensor[which].memory] + l->tensor[which].offset + element * (int64_t)bytes;
}

static bool is_there(const rtl_launch *l, unsigned which) { return l->tensor[which].memory < l->memories; }

cl_int rtl_accepts(const rtl_launch *l) {
  const arguments *g = &l->given;
  const array_shape shape = array_sim_shape();
  const array_work w = work_of(g);
  bool there =
      is_there(l, RTL_Y) && (!w.k || (is_there(l, RTL_A) && is_there(l, RTL_S) && g->map[3] > 0 && g->map[7] > 0));
  for (int i = 0; i < 3 && i < g->inner[3]; i++) there = there && is_there(l, RTL_E0 + (unsigned)i);
  return array_accepts(&shape, &w) && (there || !w.m || !w.n) ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

/* ---- matrices of a batch, row by row ---- */
static void fill_a(const rtl_launch *l, const int32_t batch[2], int8_t *to) {
  const arguments *g = &l->given;
  const int32_t *s = g->a_s;
  const int8_t *from = (const int8_t *)tensor(l, RTL_A, g->a_at[0] + batch[0] * s[0] + batch[1] * s[1], 1);
  for (int i = 0; i < g->size[2]; i++)
    for (int o = 0; o < g->inner[0]; o++)
      for (int y = 0; y < g->inner[1]; y++)
        for (int x = 0; x < g->inner[2]; x++) *to++ = from[i * s[2] + o * s[3] + y * s[4] + x * s[5]];
}

/* The pixel for both digits along an axis; -1: none. */
static int place(const int32_t map[4], int j, int k, int size) {
  int at = j * map[0] + k * map[1] + map[2];
  return at < 0 || at % map[3] || at / map[3] >= size ? -1 : at / map[3];
}

/* One row, for a given k. */
static int8_t *fill_row(const arguments *g, const int8_t *from, int ky, int kx, int8_t *to) {
  const int32_t *s = g->s_s;
  for (int o = 0; o < g->size[3]; o++)
    for (int jy = 0; jy < g->size[4]; jy++)
      for (int jx = 0; jx < g->size[5]; jx++) {
        int y = place(g->map, jy, ky, g->size[6]), x = place(g->map + 4, jx, kx, g->size[7]);
        *to++ = y < 0 || x < 0 ? 0 : from[o * s[2] + y * s[4] + x * s[5]];
      }
  return to;
}

static void fill_b(const rtl_launch *l, const int32_t batch[2], int8_t *to) {
  const arguments *g = &l->given;
  const int32_t *s = g->s_s;
  const int8_t *from = (const int8_t *)tensor(l, RTL_S, g->s_at[0] + batch[0] * s[0] + batch[1] * s[1], 1);
  for (int o = 0; o < g->inner[0]; o++)
    for (int y = 0; y < g->inner[1]; y++)
      for (int x = 0; x < g->inner[2]; x++) to = fill_row(g, from + o * s[3], y, x, to);
}

static uint extra(const rtl_launch *l, unsigned which, const int32_t at[1], const int32_t s[4], const int32_t batch[2],
                  int64_t i, int64_t j) {
  uint word;
  memcpy(&word, tensor(l, which, at[0] + batch[0] * s[0] + batch[1] * s[1] + i * s[2] + j * s[3], 4), 4);
  return word;
}

static void store(const rtl_launch *l, const array_work *w, const int32_t batch[2], const int32_t *sum) {
  const arguments *g = &l->given;
  const int64_t first = ((int64_t)batch[0] * g->size[1] + batch[1]) * w->m * w->n + g->y_at[0];
  for (int64_t i = 0; i < w->m; i++)
    for (int64_t j = 0; j < w->n; j++) {
      uint v[16] = {(uint)sum[i * w->n + j]};
      if (g->inner[3] > 0) v[1] = extra(l, RTL_E0, g->e0_at, g->e0_s, batch, i, j);
      if (g->inner[3] > 1) v[2] = extra(l, RTL_E1, g->e1_at, g->e1_s, batch, i, j);
      if (g->inner[3] > 2) v[3] = extra(l, RTL_E2, g->e2_at, g->e2_s, batch, i, j);
      const uint result = program_run(g->code, g->param, v);
      memcpy(tensor(l, RTL_Y, first + i * w->n + j, 4), &result, 4);
    }
}

/* ---- the array ---- */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* there is only one array */
static array_sim *sim;

typedef struct room {
  int32_t *out, *sum;
  int8_t *a, *b, *a_beats, *b_beats;
} room;

static void *room_new(const array_shape *s, const array_work *w, room *r) {
  const array_beats n = array_count(s, w);
  const int64_t words = n.out * s->cols + w->m * w->n;
  const int64_t bytes = 4 * words + (w->m + w->n) * w->k + n.a * s->rows + n.b * s->cols;
  r->out = malloc((size_t)bytes + 1);
  if (!r->out) return NULL;
  r->sum = r->out + n.out * s->cols;
  r->a = (int8_t *)(r->out + words);
  r->b = r->a + w->m * w->k;
  r->a_beats = r->b + w->k * w->n;
  r->b_beats = r->a_beats + n.a * s->rows;
  return r->out;
}

static const char *run_batch(const rtl_launch *l, const array_shape *s, const array_work *w, const int32_t batch[2],
                             const room *r, int64_t *cycles) {
  static const array_pauses flowing = {0, 0, 0, 1};
  int64_t took = 0;
  if (w->m && w->k) fill_a(l, batch, r->a);
  if (w->n && w->k) fill_b(l, batch, r->b);
  array_pack_a(s, w, r->a, r->a_beats);
  array_pack_b(s, w, r->b, r->b_beats);
  const char *wrong =
      array_sim_run(sim, w, r->a_beats, r->b_beats, r->out, &flowing, 2 * array_cycles(s, w) + 100, &took);
  *cycles += took;
  if (wrong) return wrong;
  array_unpack(s, w, r->out, r->sum);
  store(l, w, batch, r->sum);
  return NULL;
}

static const char *run(const rtl_launch *l, const array_shape *s, const array_work *w, int64_t *cycles) {
  const char *wrong = NULL;
  room r;
  if (!sim && !(sim = array_sim_new())) return "no memory";
  if (!room_new(s, w, &r)) return "no memory";
  for (int32_t b0 = 0; b0 < l->given.size[0]; b0++)
    for (int32_t b1 = 0; b1 < l->given.size[1] && !wrong; b1++)
      wrong = run_batch(l, s, w, (int32_t[2]){b0, b1}, &r, cycles);
  if (wrong) array_sim_reset(sim);
  free(r.out);
  return wrong;
}

/* Logs one line per launch, in order of execution. Errors are always printed, since neither a native kernel nor
 * hardware can refuse at this point. */
static void tell(const rtl_launch *l, const array_work *w, int64_t cycles, const char *wrong) {
  const char *path = getenv("CLADE_RTL_LOG");
  FILE *log = path && *path ? fopen(path, "a") : NULL;
  if (wrong) fprintf(stderr, "array_i8 in RTL: %s\n", wrong);
  if (!log) return;
  fprintf(log, "array_i8 batches %lld m %lld n %lld k %lld cycles %lld\n", (long long)product_of(l->given.size, 2),
          (long long)w->m, (long long)w->n, (long long)w->k, wrong ? -1LL : (long long)cycles);
  fclose(log);
}

void CL_CALLBACK rtl_compute(void *launch) {
  const rtl_launch *l = launch;
  const array_shape shape = array_sim_shape();
  const array_work w = work_of(&l->given);
  int64_t cycles = 0;
  pthread_mutex_lock(&lock);
  const char *wrong = run(l, &shape, &w, &cycles);
  tell(l, &w, cycles, wrong);
  pthread_mutex_unlock(&lock);
}
