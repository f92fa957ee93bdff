/* All-to-all: of a value of which each rank has a part along one axis, its part along another one, and the derivative,
 * by all pairs of axes and uneven cuts. */
#include <stdio.h>

#include <clade/ops.h>

#include "comm/parts.h"
#include "comm_kit.h"

enum { MOST_RANKS = 5, MOST_ELEMENTS = 1 << 18 };

static struct {
  clade_dtype type;
  clade_shape shape; /* of the whole value */
  int from, to;
  int64_t from_cuts[MOST_RANKS + 1], to_cuts[MOST_RANKS + 1];
} job;

static clade_shape part_shape(int axis, const int64_t *cuts, int rank) {
  clade_shape shape = job.shape;
  shape.dim[axis] = cuts[rank + 1] - cuts[rank];
  return shape;
}

/* Of element i of a part that begins at `begin` along the axis: whole numbers by its place in the whole value. */
static float element(const clade_shape *part, int axis, int64_t begin, int64_t i, int salt) {
  int64_t place = 0, stride = 1;
  for (int d = part->rank - 1; d >= 0; d--) {
    const int64_t at = i % part->dim[d] + (d == axis ? begin : 0);
    i /= part->dim[d];
    place += at * stride;
    stride *= job.shape.dim[d];
  }
  return (float)((place * 7 + salt) % 251) - 100;
}

static int64_t elements(const clade_shape *shape) {
  int64_t n;
  OK(clade_shape_elements(shape, &n));
  return n;
}

static void fill(const clade_shape *part, int axis, int64_t begin, int salt, float *out) {
  const int64_t n = elements(part);
  for (int64_t i = 0; i < n; i++) out[i] = element(part, axis, begin, i, salt);
}

static bool same(const char *what, const rank *r, clade_run *run, clade_ticket ticket, const clade_shape *part,
                 int axis, int64_t begin, int salt, float *found) {
  const int64_t n = elements(part);
  bool right = clade_read(run, ticket, what, found, (size_t)n * sizeof *found) == CLADE_OK;
  for (int64_t i = 0; i < n && right; i++) {
    right = found[i] == element(part, axis, begin, i, salt);
    if (!right)
      fprintf(stderr, "axes %d to %d, rank %d of %d: %s[%lld] is %g\n", job.from, job.to, r->number, r->size, what,
              (long long)i, (double)found[i]);
  }
  return right;
}

static void *turn(void *user) {
  rank *r = user;
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  const clade_shape in = part_shape(job.from, job.from_cuts, r->number),
                    out = part_shape(job.to, job.to_cuts, r->number);
  const int64_t in_begin = job.from_cuts[r->number], out_begin = job.to_cuts[r->number];
  float *x = calloc(MOST_ELEMENTS, sizeof *x), *dy = calloc(MOST_ELEMENTS, sizeof *dy),
        *found = calloc(MOST_ELEMENTS, sizeof *found);
  bool right = x && dy && found && clade_graph_new(&g) == CLADE_OK;
  const clade_val given = clade_input(g, "x", CLADE_F32, in), back = clade_input(g, "dy", CLADE_F32, out);
  clade_val v = clade_cast(g, given, job.type), w = clade_cast(g, back, job.type), dx = {0};
  const clade_val y = clade__comm_turn(g, r->comm, v, job.from, job.from_cuts, job.to, job.to_cuts);
  clade_output(g, "y", clade_cast(g, y, CLADE_F32));
  right = right && clade_gradients(g, y, w, 1, &v, &dx) == CLADE_OK;
  clade_output(g, "dx", clade_cast(g, dx, CLADE_F32));
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++) {
    fill(&in, job.from, in_begin, k, x);
    fill(&out, job.to, out_begin, k + 50, dy);
    const clade_feed feeds[] = {{"x", x, (size_t)elements(&in) * sizeof *x, NULL},
                                {"dy", dy, (size_t)elements(&out) * sizeof *dy, NULL}};
    right = clade_execute(run, 2, feeds, &ticket) == CLADE_OK &&
            same("y", r, run, ticket, &out, job.to, out_begin, k, found) &&
            same("dx", r, run, ticket, &in, job.from, in_begin, k + 50, found);
  }
  if (!right) fprintf(stderr, "rank %d of %d: %s\n", r->number, r->size, clade_last_error());
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  free(x);
  free(dy);
  free(found);
  r->right = right;
  return NULL;
}

/* The last rank has most of one axis, and rank 0 of the other; another one has nothing where there are three. */
static void along(int from, int to, int size, clade_device *device) {
  job.from = from;
  job.to = to;
  for (int i = 0; i <= size; i++) {
    job.from_cuts[i] = CLADE_MIN(job.shape.dim[from], (int64_t)(i > 1 ? i - 1 : i));
    job.to_cuts[i] = i ? CLADE_MAX(job.shape.dim[to] - (size - i), (int64_t)0) : 0;
  }
  job.from_cuts[size] = job.shape.dim[from];
  if (size == 1) return; /* the value stays as it is: its whole has another shape than no part */
  run_ranks(size, device, turn, NULL);
}

static void each_pair(void **state) {
  job.type = CLADE_F32;
  job.shape = CLADE_SHAPE(3, 5, 2, 4);
  for (int from = 0; from < 4; from++)
    for (int to = 0; to < 4; to++)
      if (from != to)
        for (int size = 2; size <= 4; size++) along(from, to, size, *state);
  job.shape = CLADE_SHAPE(7, 11);
  along(0, 1, MOST_RANKS, *state);
  job.shape = CLADE_SHAPE(4, 0, 3);
  along(0, 2, 3, *state);
  along(1, 2, 3, *state);
}

/* More than a piece of a message. */
static void much(void **state) {
  job.type = CLADE_F32;
  job.shape = CLADE_SHAPE(5, 3, 16001);
  along(0, 2, 3, *state);
  along(2, 0, 2, *state);
}

static void types(void **state) {
  static const clade_dtype all[] = {CLADE_F16, CLADE_BF16};
  job.shape = CLADE_SHAPE(3, 5, 2);
  for (size_t i = 0; i < CLADE_COUNT(all); i++) {
    job.type = all[i];
    along(0, 1, 3, *state);
  }
}

/* ---- what is refused ---- */
static void refuses(clade_comm *comm, const char *words, clade_shape shape, int from, const int64_t *from_cuts, int to,
                    const int64_t *to_cuts) {
  clade_graph *g;
  OK(clade_graph_new(&g));
  const clade_val x = clade_input(g, "x", CLADE_F32, shape);
  clade_output(g, "y", clade__comm_turn(g, comm, x, from, from_cuts, to, to_cuts));
  assert_int_not_equal(clade_graph_status(g), CLADE_OK);
  if (!strstr(clade_last_error(), words)) fail_msg("no \"%s\" in: %s", words, clade_last_error());
  clade_graph_release(g);
}

static void wrong(void **state) {
  clade_comm *comms[2];
  const int64_t rows[] = {0, 2, 3}, columns[] = {0, 1, 4}, falls[] = {0, 3, 1};
  (void)state;
  OK(clade_comm_new_local(2, comms));
  refuses(comms[0], "axis 0 has 3 places", CLADE_SHAPE(3, 4), 0, rows, 1, columns);
  refuses(comms[0], "axis 1 has 5 places", CLADE_SHAPE(2, 5), 0, rows, 1, columns);
  refuses(comms[0], "axis 2 of a value of 2 dimensions", CLADE_SHAPE(2, 4), 0, rows, 2, columns);
  refuses(comms[0], "both axes are 0", CLADE_SHAPE(2, 4), 0, rows, 0, (const int64_t[]){0, 1, 2});
  refuses(comms[0], "is a symbol", CLADE_SHAPE(CLADE_DIM("n"), 4), 0, rows, 1, columns);
  refuses(comms[0], "begins at 3 and ends at 1", CLADE_SHAPE(2, 4), 0, rows, 1, falls);
  refuses(comms[0], "are NULL", CLADE_SHAPE(2, 4), 0, rows, 1, NULL);
  release_all(2, comms);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_pair), cmocka_unit_test(much), cmocka_unit_test(types),
                                     cmocka_unit_test(wrong)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
