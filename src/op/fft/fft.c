/* Discrete Fourier transform along one axis, complex or real, of any length. Stockham's algorithm, one pass per factor:
 * first all factors of 4, then 2, 3, 5 and larger primes r, which are computed by direct sums, so that a prime length n
 * costs n^2 operations. A complex value is a last axis of size 2. The error is at most the sum of 2 (r + 4) 2^-24 over
 * all factors r, times the sum of absolute values that a result depends on. */
#include "op/fft/fft.h"

#include <inttypes.h>
#include <math.h>

#include "op/group.h"
#include "program/libraries.h"

typedef struct attrs {
  int64_t n; /* length of the axis in complex or real values; a half spectrum has n / 2 + 1 */
  int32_t axis, kind;
  bool inverse; /* uses exp(+2 pi i / n) */
  bool divided; /* divides by n */
  bool doubled; /* counts the elements of a half spectrum twice that stand for themselves and their mirror image */
} attrs;
static const clade_attr table[] = {
    {"n", CLADE_ATTR_I64, offsetof(attrs, n), 1},
    {"axis", CLADE_ATTR_I32, offsetof(attrs, axis), 1},
    {"kind", CLADE_ATTR_I32, offsetof(attrs, kind), 1},
    {"inverse", CLADE_ATTR_BOOL, offsetof(attrs, inverse), 1},
    {"divided", CLADE_ATTR_BOOL, offsetof(attrs, divided), 1},
    {"doubled", CLADE_ATTR_BOOL, offsetof(attrs, doubled), 1},
    {0},
};

enum { X, ROOTS };

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  const clade_shape *x = &n->in[X].shape, *roots = &n->in[ROOTS].shape;
  clade_shape y = *x;
  bool real = a->kind == CLADE__FFT_HALF_OF_REAL;
  int rank = x->rank - !real;
  char text[200];
  CLADE_TRY(clade__want_dense(n));
  for (int i = 0; i < 2; i++)
    if (n->in[i].dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "fft: %s is %s; expected f32", i == X ? "x" : "its table of roots",
                        clade_dtype_name(n->in[i].dtype));
  if (a->kind < 0 || a->kind > CLADE__FFT_REAL_OF_HALF || a->n < 1 || a->n > CLADE__FFT_MOST)
    return CLADE_FAIL(INVALID, "fft: kind %d and length %" PRId64, a->kind, a->n);
  if (roots->rank != 2 || roots->dim[0] != a->n || roots->dim[1] != 2)
    return CLADE_FAIL(BAD_SHAPE, "fft: the table of roots is %s; expected [%" PRId64 ", 2]",
                      clade_shape_text(roots, text, sizeof text), a->n);
  if (a->axis < 0 || a->axis >= rank || (!real && x->dim[rank] != 2) || (real && rank == CLADE_MAX_RANK))
    return CLADE_FAIL(BAD_SHAPE, "fft: x is %s, to be transformed along axis %d; expected %s",
                      clade_shape_text(x, text, sizeof text), a->axis,
                      real ? "real values of 7 dimensions at most" : "complex values: a last axis of 2");
  int64_t half = a->n / 2 + 1, want = a->kind == CLADE__FFT_REAL_OF_HALF ? half : a->n;
  if (x->dim[a->axis] != want)
    return CLADE_FAIL(BAD_SHAPE, "fft: x is %s; expected %" PRId64 " along axis %d",
                      clade_shape_text(x, text, sizeof text), want, a->axis);
  y.rank = a->kind == CLADE__FFT_REAL_OF_HALF ? rank : rank + 1;
  y.dim[a->axis] = real ? half : a->n;
  if (y.rank > rank) y.dim[rank] = 2;
  n->out[0] = (clade_type){.dtype = CLADE_F32, .shape = y};
  return CLADE_OK;
}

static clade_val add(clade_graph *g, const attrs *like, int kind, bool inverse, clade_val x, clade_val roots) {
  attrs a;
  memset(&a, 0, sizeof a); /* attributes are compared and hashed bytewise, padding included */
  a.n = like->n;
  a.axis = like->axis;
  a.kind = kind;
  a.inverse = inverse;
  a.divided = like->divided;
  a.doubled = like->doubled;
  return clade_node_add(g, &clade__op_fft, NULL, &a, 2, (clade_val[]){x, roots}, NULL);
}

/* The transform is linear; its gradient is the transposed transform, with the opposite sign of the exponent. */
static clade_status grad(clade_grad *g) {
  static const int back[] = {CLADE__FFT_COMPLEX, CLADE__FFT_REAL_OF_HALF, CLADE__FFT_HALF_OF_REAL};
  const attrs *a = g->node->attrs;
  g->din[X] = add(g->graph, a, back[a->kind], !a->inverse, g->dout[0], g->in[ROOTS]);
  return CLADE_OK;
}

/* ---- ref: one launch per factor, alternating between two halves of the workspace ---- */
enum { MOST_FACTORS = 28, UNROLLED = 5 }; /* CLADE__FFT_MOST is 2^28; larger radices use direct sums */

static int factors(int64_t n, int64_t *of) {
  static const int small[] = {4, 2, 3, 5};
  int count = 0;
  for (int i = 0; i < 4; i++)
    for (; n % small[i] == 0; n /= small[i]) of[count++] = small[i];
  for (int64_t p = 7; p * p <= n; p += 2)
    for (; n % p == 0; n /= p) of[count++] = p;
  if (n > 1 || !count) of[count++] = n;
  return count;
}

typedef struct plan {
  int count;
  int64_t radix[MOST_FACTORS], outer, inner;
} plan;

static plan plan_of(const clade_node *n) {
  const attrs *a = n->attrs;
  const clade_shape *x = &n->in[X].shape;
  plan p = {.outer = clade__product(x, 0, a->axis),
            .inner = clade__product(x, a->axis + 1, x->rank - (a->kind != CLADE__FFT_HALF_OF_REAL))};
  p.count = factors(a->n, p.radix);
  return p;
}

static const char *accept(const clade_query *q) {
  plan p = plan_of(q->node);
  return clade__cut_short(q->device, 2 * (double)p.radix[p.count - 1] + 4);
}

static double cost(const clade_query *q) {
  plan p = plan_of(q->node);
  double values = (double)p.outer * (double)p.inner * (double)((const attrs *)q->node->attrs)->n, sum = 0;
  for (int i = 0; i < p.count; i++) sum += (double)p.radix[i];
  return clade__cost(q->device, 8 * values * sum, 16 * values * p.count, 0.05);
}

/* Bytes of what passes give to each other. */
static size_t room_of(const clade_query *q, const plan *p) {
  size_t bytes = (size_t)CLADE_MIN(p->count - 1, 2) * 2 * sizeof(float);
  size_t outer = (size_t)p->outer, inner = (size_t)p->inner, n = (size_t)((const attrs *)q->node->attrs)->n;
  bool fits = clade__mul(bytes, n, &bytes) && clade__mul(bytes, inner, &bytes) && clade__mul(bytes, outer, &bytes);
  return fits ? bytes : SIZE_MAX;
}

static size_t workspace(const clade_query *q) {
  const plan p = plan_of(q->node);
  return room_of(q, &p);
}

/* Begins the launch of a pass with the arguments that kernels share. `items` and `piece`: numbers of its own. */
static clade_kernel_step *pass_step(clade_emit *e, const clade_query *q, const plan *p, int number, int64_t done,
                                    const char *kernel, int64_t items, int64_t piece) {
  enum { WHOLE, REAL, HALF, DOUBLED }; /* layout of a row of x or y, as numbered in the kernel */
  const attrs *a = q->node->attrs;
  const int half = a->doubled ? DOUBLED : HALF;
  const bool first = number == 0, last = number == p->count - 1;
  const size_t bytes = (size_t)(p->outer * a->n * p->inner) * 2 * sizeof(float);
  clade_kernel_step *s = clade_emit_kernel(e, kernel);
  if (first)
    clade_emit_in(s, X);
  else
    clade_emit_workspace(s, number % 2 ? 0 : bytes, sizeof(float));
  if (last)
    clade_emit_out(s, 0);
  else
    clade_emit_workspace(s, number % 2 ? bytes : 0, sizeof(float));
  clade_emit_in(s, ROOTS);
  clade_emit_index(s, items);
  clade_emit_index(s, piece);
  clade_emit_index8(s, 4, (int64_t[]){a->n, p->inner, done, p->radix[number]});
  clade_emit_i32(s, !first || a->kind == CLADE__FFT_COMPLEX ? WHOLE : a->kind == CLADE__FFT_HALF_OF_REAL ? REAL : half);
  clade_emit_i32(s, !last || a->kind == CLADE__FFT_COMPLEX ? WHOLE : a->kind == CLADE__FFT_HALF_OF_REAL ? half : REAL);
  clade_emit_f32(s, a->inverse ? -1 : 1);
  clade_emit_f32(s, a->divided && last ? (float)(1 / (double)a->n) : 1);
  return s;
}

/* A work-item computes butterflies of up to UNROLLED inputs, or single results of larger radices. */
static void emit_pass(clade_emit *e, const clade_query *q, const plan *p, int number, int64_t done) {
  const int64_t radix = p->radix[number], values = p->outer * ((const attrs *)q->node->attrs)->n * p->inner;
  const bool unrolled = radix <= UNROLLED;
  int64_t items = unrolled ? values / radix : values, most = unrolled ? 1 << 12 : CLADE_MAX((1 << 12) / radix, 1);
  int64_t piece = clade__piece(q->device, items, 1, !unrolled && q->device->max_passes ? 1 : most);
  clade_kernel_step *s = pass_step(e, q, p, number, done, unrolled ? "fft_butterfly_ref" : "fft_sum_ref", items, piece);
  clade__emit_flat(s, q->device, clade__ceil_div(items, piece));
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  plan p = plan_of(q->node);
  if (p.outer == 0 || p.inner == 0) return CLADE_OK;
  for (int64_t i = 0, done = 1; i < p.count; done *= p.radix[i++]) emit_pass(e, q, &p, (int)i, done);
  return CLADE_OK;
}

/* ---- group: passes of up to ROOM values, whose transforms a work-group computes in local memory ---- */
enum { ROOM = 2048, LARGEST_STEP = 8, MOST_STEPS = 8, FEW_ITEMS = 64, PLENTY = 1024, FEWEST_LINES = 4 };

/* Divides the factors of n among `count` passes, the largest first, each to the pass with the smallest product. */
static bool divide(const plan *factors, int count, plan *p) {
  p->count = count;
  for (int i = 0; i < count; i++) p->radix[i] = 1;
  for (int f = factors->count - 1; f >= 0; f--) {
    int to = 0;
    for (int i = 1; i < count; i++)
      if (p->radix[i] < p->radix[to]) to = i;
    if ((p->radix[to] *= factors->radix[f]) > ROOM) return false;
  }
  return true;
}

/* The fewest passes of at most ROOM values each; false if a factor is larger. */
static bool group_plan(const clade_node *n, plan *p) {
  const plan factors = plan_of(n);
  *p = factors;
  for (int count = 1; count <= factors.count; count++)
    if (divide(&factors, count, p)) return true;
  return false;
}

/* Radices of a pass's steps in local memory: 8 first, then as `factors`. */
static int steps_of(int64_t length, int64_t *radix) {
  int count = 0;
  for (; length % LARGEST_STEP == 0; length /= LARGEST_STEP) radix[count++] = LARGEST_STEP;
  return length > 1 || !count ? count + factors(length, radix + count) : count;
}

static const char *group_accept(const clade_query *q) {
  plan p;
  if (!group_plan(q->node, &p)) return "requires lengths without a prime factor above 2048";
  return clade__group_refuses(q, 2.0 * ROOM);
}

static double group_cost(const clade_query *q) {
  plan p;
  group_plan(q->node, &p);
  const double values = (double)p.outer * (double)p.inner * (double)((const attrs *)q->node->attrs)->n;
  double sum = 0;
  for (int i = 0; i < p.count; i++) {
    int64_t radix[MOST_STEPS];
    for (int k = steps_of(p.radix[i], radix); k-- > 0;) sum += (double)radix[k];
  }
  return clade__cost(q->device, 8 * values * sum, clade__node_bytes(q->node) + 16 * values * (p.count - 1), 0.4);
}

static size_t group_workspace(const clade_query *q) {
  plan p;
  return group_plan(q->node, &p) ? room_of(q, &p) : 0;
}

/* A group transforms `beside` lines. Lines of a row that follow each other are neighbors in memory: `wide` of them in
 * the result, and `run` in the operand. Groups have whole numbers of these, or a part of one. */
static void emit_group_pass(clade_emit *e, const clade_query *q, const plan *p, int number, int64_t done) {
  const int64_t n = ((const attrs *)q->node->attrs)->n, length = p->radix[number];
  const int64_t run = n / (done * length) * p->inner, wide = done * run, lines = p->outer * wide;
  int64_t beside = CLADE_MIN(ROOM / length, CLADE_MAX(clade__ceil_div(lines, PLENTY), FEWEST_LINES));
  int64_t radix[MOST_STEPS] = {0};
  beside = CLADE_MIN(beside, lines);
  beside = beside >= wide ? beside / wide * wide : beside >= run ? beside / run * run : beside;
  const size_t items = beside * length > FEW_ITEMS * LARGEST_STEP ? CLADE__GROUP_ITEMS : FEW_ITEMS;
  const size_t all = (size_t)clade__ceil_div(lines, beside) * items;
  clade_kernel_step *s = pass_step(e, q, p, number, done, "fft_pass_group", lines, beside);
  clade_emit_i32(s, (int32_t)CLADE_MIN(run, beside));
  clade_emit_i32(s, (int32_t)CLADE_MIN(wide, beside));
  clade_emit_i32(s, steps_of(length, radix));
  clade_emit_index8(s, MOST_STEPS, radix);
  clade_emit_range(s, 1, &all, &items);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  plan p;
  group_plan(q->node, &p);
  if (p.outer == 0 || p.inner == 0) return CLADE_OK;
  for (int64_t i = 0, done = 1; i < p.count; done *= p.radix[i++]) emit_group_pass(e, q, &p, (int)i, done);
  return CLADE_OK;
}

/* ---- clfft: the clFFT library, if CLADE_LIBRARIES allows it ---- */
enum { CLFFT_MOST = 1 << 22, CLFFT_RADIX = 13, CLFFT_PARTS = 64 };

/* Upper bound of clFFT's temporary buffers: copies of the data, with padded rows. */
static size_t clfft_room(const clade_query *q) {
  plan p = plan_of(q->node);
  size_t bytes = 6 * sizeof(float), n = (size_t)((const attrs *)q->node->attrs)->n;
  bool fits = clade__mul(bytes, n, &bytes) && clade__mul(bytes, (size_t)(p.inner > 1 ? p.inner : p.outer), &bytes);
  return fits && clade__add(bytes, 1 << 16, &bytes) ? bytes : SIZE_MAX;
}

static clade__clfft_transform clfft_work(const clade_query *q) {
  const attrs *a = q->node->attrs;
  plan p = plan_of(q->node);
  return (clade__clfft_transform){.n = (size_t)a->n,
                                  .inner = (size_t)p.inner,
                                  .outer = (size_t)p.outer,
                                  .room = clfft_room(q),
                                  .real = a->kind == CLADE__FFT_HALF_OF_REAL,
                                  .inverse = a->inverse,
                                  .scale = a->divided ? (float)(1 / (double)a->n) : 1};
}

/* Products of primes for which clFFT has no single kernel, even for short lengths. */
static bool clfft_mixed(int64_t n) {
  const bool three = n % 3 == 0, five = n % 5 == 0, seven = n % 7 == 0, eleven = n % 11 == 0, thirteen = n % 13 == 0;
  const bool small = three || five || seven;
  return (three && five && seven) || (eleven && (small || thirteen)) || (thirteen && small);
}

/* Longest transform that fits into local memory as one kernel. */
static int64_t clfft_at_once(const clade_device_info *device) {
  int64_t most = 1;
  while (2 * most * 8 <= (int64_t)CLADE_MIN(device->local_bytes, 32768u)) most *= 2;
  return most;
}

/* Cases that clFFT does not support as needed:
 *
 *   real from half spectrum     results depend on the imaginary parts of the first and the middle element
 *   more than two kernels, or   the plan owns intermediate buffers, which concurrent runs would share
 *   real and more than one */
static const char *clfft_accept(const clade_query *q) {
  const attrs *a = q->node->attrs;
  plan p = plan_of(q->node);
  clade__clfft_transform work = clfft_work(q);
  if (a->kind == CLADE__FFT_REAL_OF_HALF) return "does not compute real values from half a spectrum";
  if (work.real && (a->doubled || a->inverse))
    return "supports the spectra of real values, not their inverse or gradient";
  if (work.real && a->n > clfft_at_once(q->device))
    return "for real values, requires lengths that one kernel transforms";
  if (clfft_mixed(a->n))
    return "requires lengths with at most one of the factors 11 and 13, and two of 3, 5 and 7, beside 2";
  if (a->n > CLFFT_MOST || p.radix[p.count - 1] > CLFFT_RADIX)
    return "requires lengths up to 2^22 with prime factors up to 13";
  if (!p.outer || !p.inner) return "the transform is empty";
  if (work.room == SIZE_MAX) return "its workspace would be too large";
  size_t bytes[2], parts = clade__clfft_parts(&work, bytes), align = q->device->alignment;
  if (parts > CLFFT_PARTS) return "the axis is not the last, and has more than 64 parts";
  if (parts > 1 && (!align || bytes[0] % align || bytes[1] % align))
    return "the axis is not the last, and its parts are not aligned for buffers";
  return clade__clfft_missing();
}

static clade_status clfft_emit(clade_emit *e, const clade_query *q) {
  const clade__clfft_transform work = clfft_work(q);
  clade_kernel_step *s = clade_emit_library(e, "clfftEnqueueTransform", &clade__clfft, &work, sizeof work);
  clade_emit_in(s, X);
  clade_emit_out(s, 0);
  clade_emit_workspace(s, 0, sizeof(float));
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(.name = "clfft", .family = CLADE_FAMILY_LIBRARY, .accept = clfft_accept, .workspace = clfft_room,
               .emit = clfft_emit),
    CLADE_IMPL(.name = "group", .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU,
               .needs_local = 2 * ROOM * 2 * sizeof(float), .accept = group_accept, .cost = group_cost,
               .workspace = group_workspace, .emit = group_emit),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .accept = accept, .cost = cost, .workspace = workspace,
               .emit = emit),
    NULL,
};

const clade_op clade__op_fft = {
    .size = sizeof(clade_op),
    .name = "fft",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .impls = impls,
};

/* ---- builder of one transform, with its table of roots ---- */
/* exp(-2 pi i k / n), reduced to an angle of at most an eighth of a turn; exact at multiples of a quarter. */
static void root(int64_t k, int64_t n, float *out) {
  int64_t quarter = (8 * k + n) / (2 * n), rest = 4 * k - quarter * n;
  double angle = 1.57079632679489661923 * (double)rest / (double)n, c = cos(angle), s = sin(angle);
  const double re[] = {c, -s, -c, s}, im[] = {s, c, -s, -c};
  out[0] = (float)re[quarter % 4];
  out[1] = (float)-im[quarter % 4];
}

clade_val clade__fft(clade_graph *g, clade_val x, int kind, int axis, int64_t n, bool inverse) {
  attrs a = {.n = n, .axis = axis, .divided = inverse, .doubled = kind == CLADE__FFT_REAL_OF_HALF};
  float *table_of = clade__new((size_t)n * 2, sizeof *table_of);
  if (!table_of) return clade__graph_fail(g, CLADE_NO_MEMORY, "fft");
  for (int64_t k = 0; k < n; k++) root(k, n, table_of + 2 * k);
  clade_val roots = clade_constant(g, CLADE_F32, CLADE_SHAPE(n, 2), table_of);
  clade__free(table_of);
  return add(g, &a, kind, inverse, x, roots);
}
