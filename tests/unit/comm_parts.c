/* Communication ops of tensor parallelism, forward and backward, against plain C: along each axis, with uneven and
 * empty slices, in each type. */
#include <math.h>
#include <stdio.h>

#include <clade/ops.h>

#include "comm/parts.h"
#include "comm_kit.h"

enum { MOST_RANKS = 5, MOST_ELEMENTS = 3 * 7 * 1501 };

typedef enum move { SHARE, SUM, JOIN, JOIN_IN_PARTS, SUM_PART, PART, MOVES } move;

static struct {
  move move;
  clade_dtype type, wire;
  clade_shape shape; /* of the whole value */
  int axis;
  int64_t cuts[MOST_RANKS + 1];
  double tolerance; /* 0: exact */
} job;

/* Element of a rank's whole value, or of its result's gradient: small integers whose sums are exact in 16 bits.
 * Replicated values are those of rank 0. */
static float element(int rank, int64_t i, bool gradient) {
  return (float)((i * 7 + rank * 5 + (gradient ? 3 : 0)) % 13) - 6;
}

static float total(int size, int64_t i, bool gradient) {
  float sum = 0;
  for (int rank = 0; rank < size; rank++) sum += element(rank, i, gradient);
  return sum;
}

static int64_t elements(const clade_shape *shape) {
  int64_t n;
  OK(clade_shape_elements(shape, &n));
  return n;
}

/* The shape of a rank's slice; -1: of the whole. */
static clade_shape shape_of(int rank) {
  clade_shape shape = job.shape;
  if (rank >= 0) shape.dim[job.axis] = job.cuts[rank + 1] - job.cuts[rank];
  return shape;
}

/* Index in the whole value of element i of a rank's slice; -1: of the whole. */
static int64_t in_whole(int rank, int64_t i) {
  int64_t inner = 1;
  if (rank < 0) return i;
  for (int d = job.axis + 1; d < job.shape.rank; d++) inner *= job.shape.dim[d];
  const int64_t own = job.cuts[rank + 1] - job.cuts[rank], whole = job.shape.dim[job.axis];
  const int64_t row = i / (own * inner), place = i / inner % own;
  return (row * whole + job.cuts[rank] + place) * inner + i % inner;
}

/* Operand and result of each op: whole or a slice, and their contents. */
typedef enum content { SAME /* that of rank 0, on all ranks */, OWN, TOTAL } content;
typedef struct side {
  bool part;
  content content;
} side;
static const struct {
  side in, out, gradient_in, gradient_out; /* gradient_in: gradient of the result */
} rules[MOVES] = {
    [SHARE] = {{false, SAME}, {false, SAME}, {false, OWN}, {false, TOTAL}},
    [SUM] = {{false, OWN}, {false, TOTAL}, {false, SAME}, {false, SAME}},
    [JOIN] = {{true, SAME}, {false, SAME}, {false, SAME}, {true, SAME}},
    [JOIN_IN_PARTS] = {{true, SAME}, {false, SAME}, {false, OWN}, {true, TOTAL}},
    [SUM_PART] = {{false, OWN}, {true, TOTAL}, {true, SAME}, {false, SAME}},
    [PART] = {{false, SAME}, {true, SAME}, {true, SAME}, {false, SAME}},
};

static float expected(const rank *r, side s, int64_t i, bool gradient) {
  const int64_t at = in_whole(s.part ? r->number : -1, i);
  return s.content == TOTAL ? total(r->size, at, gradient) : element(s.content == OWN ? r->number : 0, at, gradient);
}

static clade_shape shape_at(const rank *r, side s) { return shape_of(s.part ? r->number : -1); }

/* ---- graph ---- */
static clade_val moved(clade_graph *g, const rank *r, clade_val x) {
  switch (job.move) {
  case SHARE: return clade__comm_share(g, r->comm, job.wire, x);
  case SUM: return clade__comm_sum(g, r->comm, job.wire, x);
  case JOIN:
  case JOIN_IN_PARTS: return clade__comm_join(g, r->comm, job.wire, x, job.axis, job.cuts, job.move == JOIN_IN_PARTS);
  case SUM_PART: return clade__comm_sum_part(g, r->comm, job.wire, x, job.axis, job.cuts);
  default: return clade__comm_part(g, r->comm, job.wire, x, job.axis, job.cuts);
  }
}

/* y is the result for x, and dx its gradient for dy; both are outputs in f32. */
static clade_status build(const rank *r, clade_graph *g, bool derived) {
  clade_val dx;
  const clade_val x = clade_input(g, "x", job.type, shape_at(r, rules[job.move].in));
  const clade_val y = moved(g, r, x);
  clade_output(g, "y", clade_cast(g, y, CLADE_F32));
  if (derived) {
    const clade_val dy = clade_input(g, "dy", job.type, shape_at(r, rules[job.move].gradient_in));
    CLADE_TRY(clade_gradients(g, y, dy, 1, &x, &dx));
    clade_output(g, "dx", clade_cast(g, dx, CLADE_F32));
  }
  return clade_graph_status(g);
}

static clade_status fill(const rank *r, side s, bool gradient, char *data, size_t *bytes) {
  const clade_shape shape = shape_at(r, s);
  const int64_t n = elements(&shape);
  CLADE_TRY(clade_dtype_bytes(job.type, n, bytes));
  for (int64_t i = 0; i < n; i++) {
    const float x = expected(r, s, i, gradient);
    size_t each;
    CLADE_TRY(clade__dtype_element(job.type, &each));
    CLADE_TRY(clade_convert(job.type, data + (size_t)i * each, CLADE_F32, &x, 1));
  }
  return CLADE_OK;
}

static bool check(const rank *r, clade_run *run, clade_ticket ticket, const char *name, side s, bool gradient,
                  float *found) {
  const clade_shape shape = shape_at(r, s);
  const int64_t n = elements(&shape);
  bool right = clade_read(run, ticket, name, found, (size_t)n * sizeof *found) == CLADE_OK;
  for (int64_t i = 0; i < n && right; i++) {
    const float x = expected(r, s, i, gradient);
    right = fabsf(found[i] - x) <= job.tolerance * fabsf(x);
    if (!right)
      fprintf(stderr, "move %d, axis %d, rank %d of %d: %s[%lld] is %g, expected %g\n", job.move, job.axis, r->number,
              r->size, name, (long long)i, (double)found[i], (double)x);
  }
  return right;
}

static void *move_it(void *user) {
  rank *r = user;
  clade_graph *g = NULL;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  const bool derived = job.type != CLADE_I32;
  char *x = malloc(MOST_ELEMENTS * sizeof(float)), *dy = malloc(MOST_ELEMENTS * sizeof(float));
  float *found = malloc(MOST_ELEMENTS * sizeof *found);
  size_t bytes = 0, dy_bytes = 0;
  bool right = x && dy && found && clade_graph_new(&g) == CLADE_OK && build(r, g, derived) == CLADE_OK &&
               clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK &&
               fill(r, rules[job.move].in, false, x, &bytes) == CLADE_OK &&
               fill(r, rules[job.move].gradient_in, true, dy, &dy_bytes) == CLADE_OK;
  for (int k = 0; k < 3 && right; k++) {
    const clade_feed feeds[] = {{"x", x, bytes, NULL}, {"dy", dy, dy_bytes, NULL}};
    right = clade_execute(run, derived ? 2 : 1, feeds, &ticket) == CLADE_OK;
    if (k == 1) continue;
    right = right && check(r, run, ticket, "y", rules[job.move].out, false, found);
    right = right && (!derived || check(r, run, ticket, "dx", rules[job.move].gradient_out, true, found));
  }
  if (!right) fprintf(stderr, "rank %d of %d, move %d: %s\n", r->number, r->size, job.move, clade_last_error());
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  free(x);
  free(dy);
  free(found);
  r->right = right;
  return NULL;
}

/* Rank 1 has an empty slice unless it is alone; the last rank has the largest. */
static void cut(int size) {
  const int64_t n = job.shape.dim[job.axis];
  for (int i = 0; i < size; i++) job.cuts[i] = i < 2 ? CLADE_MIN(n, (int64_t)i) : CLADE_MIN(n, (int64_t)i - 1);
  job.cuts[size] = n;
}

static void along(int axis, int size, clade_device *device) {
  job.axis = axis;
  cut(size);
  for (job.move = 0; job.move < MOVES; job.move++) run_ranks(size, device, move_it, NULL);
}

static void each_axis(void **state) {
  job.type = job.wire = CLADE_F32;
  job.tolerance = 0;
  for (int size = 1; size <= 4; size++) {
    job.shape = CLADE_SHAPE(3, 5, 2);
    for (int axis = 0; axis < 3; axis++) along(axis, size, *state);
    job.shape = CLADE_SHAPE(7); /* a vector whose length is not divisible */
    along(0, size, *state);
  }
}

static void nothing(void **state) {
  job.type = job.wire = CLADE_F32;
  job.tolerance = 0;
  job.shape = CLADE_SHAPE(3, 0, 2);
  for (int axis = 0; axis < 2; axis++) along(axis, 3, *state);
}

/* Longer than a piece and than messages exchanged whole. */
static void much(void **state) {
  job.type = job.wire = CLADE_F32;
  job.tolerance = 0;
  job.shape = CLADE_SHAPE(3, 7, 1501);
  along(1, 3, *state);
  along(2, 4, *state);
  job.wire = CLADE_BF16;
  job.tolerance = 0x1p-7;
  along(2, 3, *state);
}

static void types(void **state) {
  static const clade_dtype all[] = {CLADE_F16, CLADE_BF16, CLADE_I32};
  job.wire = CLADE_F32;
  job.tolerance = 0;
  job.shape = CLADE_SHAPE(3, 5, 2);
  for (size_t i = 0; i < CLADE_COUNT(all); i++) {
    job.type = all[i];
    along(1, 3, *state);
  }
}

/* ---- pairwise sums, like all others ---- */
static float rough(int rank, int i) { return ldexpf((float)(1 + (i * 7 + rank * 5) % 11), rank % 3 * 9) + 1e-3f; }

static void *sum_both_ways(void *user) {
  enum { N = 6 };
  rank *r = user;
  clade_graph *g;
  clade_func *func = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x[N], y[3][N];
  int64_t cuts[MOST_RANKS + 1];
  for (int i = 0; i <= r->size; i++) cuts[i] = i * N / r->size;
  for (int i = 0; i < N; i++) x[i] = rough(r->number, i);
  bool right = clade_graph_new(&g) == CLADE_OK;
  clade_val v = clade_input(g, "x", CLADE_F32, CLADE_SHAPE(N)), sum = v;
  right &= clade_all_reduce(g, r->comm, CLADE_F32, 1, &sum) == CLADE_OK;
  clade_output(g, "y0", sum);
  clade_output(g, "y1", clade__comm_sum(g, r->comm, CLADE_F32, v));
  clade_output(
      g, "y2",
      clade__comm_join(g, r->comm, CLADE_F32, clade__comm_sum_part(g, r->comm, CLADE_F32, v, 0, cuts), 0, cuts, false));
  right = right && clade_compile(g, r->device, &func) == CLADE_OK && clade_run_new(func, NULL, &run) == CLADE_OK &&
          clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket) == CLADE_OK;
  for (int i = 0; i < 3 && right; i++)
    right = clade_read(run, ticket, (char[]){'y', (char)('0' + i), 0}, y[i], sizeof y[i]) == CLADE_OK &&
            !memcmp(y[i], y[0], sizeof y[0]);
  clade_run_free(run);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void bits(void **state) {
  for (int size = 1; size <= MOST_RANKS; size++) run_ranks(size, *state, sum_both_ways, NULL);
}

/* ---- a layer in slices: two products whose inner axis is split, against the whole layer; with a symbolic batch
 * size, in f32 and in bf16 ---- */
enum { ROWS = 4, WIDTH = 6, INNER = 8 };

static clade_val feed_forward(clade_graph *g, clade_comm *comm, clade_val x, clade_val up, clade_val down, bool parts) {
  static const int64_t cuts[] = {0, 3, INNER};
  if (parts) {
    up = clade__comm_part(g, comm, CLADE_F32, up, 1, cuts);
    down = clade__comm_part(g, comm, CLADE_F32, down, 0, cuts);
    x = clade__comm_share(g, comm, CLADE_F32, x);
  }
  const clade_val y = clade_gemm(g, clade_relu(g, clade_gemm(g, x, up)), down);
  return parts ? clade__comm_sum(g, comm, CLADE_F32, y) : y;
}

/* Both ways of splitting, with the gradients of the inputs. */
static clade_status build_layers(clade_graph *g, clade_comm *comm) {
  static const char *const names[][4] = {{"y0", "x0", "u0", "d0"}, {"y1", "x1", "u1", "d1"}};
  clade_val dx[3];
  float w[WIDTH * INNER], u[INNER * WIDTH];
  for (int i = 0; i < WIDTH * INNER; i++) w[i] = element(1, i, false), u[i] = element(2, i, false);
  const clade_val in[] = {clade_input(g, "x", CLADE_F32, CLADE_SHAPE(CLADE_DIM("batch"), WIDTH)),
                          clade_constant(g, CLADE_F32, CLADE_SHAPE(WIDTH, INNER), w),
                          clade_constant(g, CLADE_F32, CLADE_SHAPE(INNER, WIDTH), u)};
  for (int parts = 0; parts < 2; parts++) {
    const clade_val y = feed_forward(g, comm, in[0], in[1], in[2], parts);
    clade_output(g, names[parts][0], y);
    CLADE_TRY(clade_gradients(g, clade_mul(g, y, y), (clade_val){0}, 3, in, dx));
    for (int i = 0; i < 3; i++) clade_output(g, names[parts][1 + i], dx[i]);
  }
  return clade_graph_status(g);
}

static bool equal(clade_run *run, clade_ticket ticket, char what, int n, double tolerance) {
  float whole[WIDTH * INNER], parts[WIDTH * INNER];
  const size_t bytes = (size_t)n * sizeof *whole;
  bool right = clade_read(run, ticket, (char[]){what, '0', 0}, whole, bytes) == CLADE_OK &&
               clade_read(run, ticket, (char[]){what, '1', 0}, parts, bytes) == CLADE_OK;
  double most = 0;
  for (int i = 0; i < n; i++) most = fmax(most, fabs(whole[i]));
  for (int i = 0; i < n && right; i++) right = fabs(parts[i] - whole[i]) <= tolerance * most;
  return right && most > 0;
}

static void *compute_layers(void *user) {
  rank *r = user;
  clade_graph *g = NULL;
  clade_func *func = NULL, *shaped = NULL;
  clade_run *run = NULL;
  clade_ticket ticket;
  float x[ROWS * WIDTH];
  const double tolerance = job.type == CLADE_BF16 ? 0x1p-6 : 0;
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = element(0, i, false);
  bool right = clade_graph_new(&g) == CLADE_OK && build_layers(g, r->comm) == CLADE_OK;
  right = right && (tolerance > 0 ? clade_compile(g, r->device, &func, .precision = CLADE_BF16)
                                  : clade_compile(g, r->device, &func)) == CLADE_OK;
  right = right && clade_func_specialize(func, CLADE_DIMS({"batch", ROWS}), &shaped) == CLADE_OK &&
          clade_run_new(shaped, NULL, &run) == CLADE_OK &&
          clade_execute(run, CLADE_FEEDS({"x", x, sizeof x, NULL}), &ticket) == CLADE_OK;
  right = right && equal(run, ticket, 'y', ROWS * WIDTH, tolerance) && equal(run, ticket, 'x', ROWS * WIDTH, tolerance);
  right =
      right && equal(run, ticket, 'u', WIDTH * INNER, tolerance) && equal(run, ticket, 'd', INNER * WIDTH, tolerance);
  if (!right) fprintf(stderr, "rank %d: %s\n", r->number, clade_last_error());
  clade_run_free(run);
  clade_func_release(shaped);
  clade_func_release(func);
  clade_graph_release(g);
  r->right = right;
  return NULL;
}

static void layers(void **state) {
  static const clade_dtype types[] = {CLADE_F32, CLADE_BF16};
  for (int i = 0; i < 2; i++) {
    job.type = types[i];
    run_ranks(2, *state, compute_layers, NULL);
  }
}

/* ---- refusals ---- */
static void refuse(clade_comm *comm, move what, clade_dtype type, clade_dtype wire, int axis, const int64_t *cuts,
                   clade_status status, const char *words) {
  clade_graph *g = graph_new();
  const rank r = {.comm = comm};
  job.move = what;
  job.wire = wire;
  job.axis = axis;
  if (cuts) memcpy(job.cuts, cuts, 3 * sizeof *cuts);
  const clade_val x = clade_input(g, "x", type, CLADE_SHAPE(4, 6));
  const clade_val y = cuts ? moved(g, &r, x) : clade__comm_join(g, comm, wire, x, axis, NULL, false);
  assert_false(clade_val_ok(y));
  assert_int_equal(clade_graph_status(g), status);
  if (!strstr(clade_graph_message(g), words)) fail_msg("\"%s\" instead of \"%s\"", clade_graph_message(g), words);
  clade_graph_release(g);
}

static void refusals(void **state) {
  static const int64_t cuts[] = {0, 4, 6}, late[] = {1, 4, 6}, back[] = {0, 7, 6}, few[] = {0, 4, 5};
  clade_comm *comms[2];
  (void)state;
  OK(clade_comm_new_local(2, comms));
  refuse(comms[0], SUM_PART, CLADE_F32, CLADE_I32, 1, cuts, CLADE_DTYPE, "comm.sum_part: sums that travel as i32");
  refuse(comms[0], JOIN, CLADE_F32, CLADE_F32, 1, NULL, CLADE_INVALID, "comm.join: the cuts are NULL");
  refuse(comms[0], SUM_PART, CLADE_F32, CLADE_F32, 1, late, CLADE_INVALID, "the cuts do not begin with 0");
  refuse(comms[0], PART, CLADE_F32, CLADE_F32, 1, back, CLADE_INVALID,
         "comm.part: the part of rank 1 begins at 7 and ends at 6");
  refuse(comms[0], PART, CLADE_F32, CLADE_F32, 1, few, CLADE_BAD_SHAPE,
         "comm.part: axis 1 has 6 places; by the cuts rank 0 of 2 has 5");
  refuse(comms[0], SUM_PART, CLADE_F32, CLADE_F32, 1, few, CLADE_BAD_SHAPE, "axis 1 has 6 places");
  refuse(comms[1], JOIN, CLADE_F32, CLADE_F32, 0, cuts, CLADE_BAD_SHAPE,
         "axis 0 has 4 places; by the cuts rank 1 of 2 has 2");
  refuse(comms[0], JOIN, CLADE_F32, CLADE_F32, 2, cuts, CLADE_BAD_SHAPE, "axis 2 of a value of 2 dimensions");
  refuse(comms[0], PART, CLADE_F32, CLADE_F32, -1, cuts, CLADE_BAD_SHAPE, "axis -1 of a value of 2 dimensions");
  refuse(comms[0], SUM, CLADE_U8, CLADE_F32, 0, cuts, CLADE_DTYPE, "the value is of u8: sums over ranks are of");
  refuse(comms[0], SUM, CLADE_I32, CLADE_BF16, 0, cuts, CLADE_DTYPE, "of i32: sums of it do not travel as bf16");
  release_all(2, comms);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_axis), cmocka_unit_test(nothing), cmocka_unit_test(much),
                                     cmocka_unit_test(types),     cmocka_unit_test(bits),    cmocka_unit_test(layers),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, open_device, close_device);
}
