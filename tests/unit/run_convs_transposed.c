/* Transposed 3D convolution: random small cases against the definition in double, gradients against finite
 * differences, and half precision. */
#include <clade/nn.h>

#include <math.h>

#include "plan_kit.h"

enum { CASES = 40, ELEMENTS = 1 << 15, SIXTYFOURTHS = 64 };

typedef struct solid {
  int images, in, out, groups; /* channels of all groups */
  int kernel[3], stride[3], dilation[3], pads[6], output_pad[3], size[3], result[3];
} solid;

typedef struct dice {
  uint64_t key, at;
} dice;

static int between(dice *d, int low, int high) {
  uint32_t out[4];
  clade__philox(d->key, d->at++, 0, out);
  return low + (int)(out[0] % (uint32_t)(high - low + 1));
}

static bool draw(dice *d, solid *s) {
  *s = (solid){.images = between(d, 0, 8) ? between(d, 1, 2) : 0, .groups = between(d, 1, 2)};
  s->in = s->groups * between(d, 1, 2);
  s->out = s->groups * between(d, 1, 2);
  int kind = between(d, 0, 4); /* 0: a single slice; 1: depth and height form one axis; 2: adjacent windows */
  for (int i = 0; i < 3; i++) {
    s->kernel[i] = between(d, 1, 3);
    s->stride[i] = between(d, 1, 3);
    s->dilation[i] = between(d, 1, 2);
    s->size[i] = between(d, 1, 4);
    s->output_pad[i] = between(d, 0, s->stride[i] - 1);
    for (int side = 0; side < 2; side++) s->pads[i + 3 * side] = between(d, 0, 2);
    if (kind <= 2 && (i == 0 || (i == 1 && kind == 1))) {
      s->dilation[i] = 1;
      s->output_pad[i] = s->pads[i] = s->pads[i + 3] = 0;
      if (kind == 0) s->size[i] = 1;
      if (kind == 1) s->kernel[i] = s->stride[i] = 1;
      if (kind == 2) s->stride[i] = s->kernel[i];
    }
    s->result[i] = (s->size[i] - 1) * s->stride[i] + (s->kernel[i] - 1) * s->dilation[i] + 1 - s->pads[i] -
                   s->pads[i + 3] + s->output_pad[i];
    if (s->result[i] < 1) return false;
  }
  return true;
}

static int places(const int *of) { return of[0] * of[1] * of[2]; }
enum { X, W, BIAS, DY, OPERANDS };
static int count(const solid *s, int operand) {
  const int counts[] = {s->images * s->in * places(s->size), s->in * (s->out / s->groups) * places(s->kernel), s->out,
                        s->images * s->out * places(s->result)};
  return counts[operand];
}

/* Each element of x times its channel's window is added to the covered positions of the result. */
static void reference(const solid *s, double *const *v, bool absolute, double *y) {
  const int each = s->out / s->groups, window = places(s->kernel), inside = places(s->size), all = places(s->result);
  for (int i = 0; i < count(s, DY); i++) y[i] = v[BIAS][i / all % s->out];
  for (int i = 0; i < count(s, X); i++)
    for (int k = 0; k < each * window; k++) {
      int image = i / inside / s->in, channel = i / inside % s->in, to = 0;
      int at[] = {i % inside / (s->size[1] * s->size[2]), i / s->size[2] % s->size[1], i % s->size[2]};
      int tap[] = {k % window / (s->kernel[1] * s->kernel[2]), k / s->kernel[2] % s->kernel[1], k % s->kernel[2]};
      bool within = true;
      for (int axis = 0; axis < 3; axis++) {
        int place = at[axis] * s->stride[axis] + tap[axis] * s->dilation[axis] - s->pads[axis];
        within = within && place >= 0 && place < s->result[axis];
        to = to * s->result[axis] + place;
      }
      int result = channel / (s->in / s->groups) * each + k / window;
      double product = v[X][i] * v[W][channel * each * window + k];
      if (within) y[(image * s->out + result) * all + to] += absolute ? fabs(product) : product;
    }
}

/* Linear in each operand, so the difference is the exact derivative of the sum of y dy. */
static double difference(const solid *s, double *const *v, int operand, int i, double *y) {
  double sum = 0, was = v[operand][i];
  for (int side = -1; side <= 1; side += 2) {
    v[operand][i] = was + side;
    reference(s, v, false, y);
    for (int k = 0; k < count(s, DY); k++) sum += side * y[k] * v[DY][k] / 2;
  }
  v[operand][i] = was;
  return sum;
}

static clade_func *function(const solid *s, clade_device *device, clade_dtype half) {
  static const char *const names[] = {"x", "w", "bias", "dy"}, *const out[] = {"dx", "dw", "dbias"};
  const clade_shape shapes[] = {CLADE_SHAPE(s->images, s->in, s->size[0], s->size[1], s->size[2]),
                                CLADE_SHAPE(s->in, s->out / s->groups, s->kernel[0], s->kernel[1], s->kernel[2]),
                                CLADE_SHAPE(s->out),
                                CLADE_SHAPE(s->images, s->out, s->result[0], s->result[1], s->result[2])};
  clade_graph *g = graph_new();
  clade_func *func;
  clade_val in[OPERANDS], stored[OPERANDS], d[DY];
  for (int i = 0; i < (half == CLADE_F32 ? OPERANDS : DY); i++) {
    in[i] = clade_input(g, names[i], CLADE_F32, shapes[i]);
    stored[i] = clade_cast(g, in[i], half);
  }
  clade_conv3d_transpose_opt opt = {.size = sizeof opt, .w = stored[W], .bias = stored[BIAS], .groups = s->groups};
  for (int i = 0; i < 6; i++) opt.pads[i] = s->pads[i];
  for (int i = 0; i < 3; i++) {
    opt.stride[i] = s->stride[i];
    opt.dilation[i] = s->dilation[i];
    opt.output_pad[i] = s->output_pad[i];
  }
  clade_val y = clade_conv3d_transpose_(g, stored[X], &opt);
  if (half == CLADE_F32) {
    OK(clade_gradients(g, y, in[DY], DY, in, d));
    for (int i = 0; i < DY; i++) clade_output(g, out[i], d[i]);
  }
  clade_output(g, "y", clade_cast(g, y, CLADE_F32));
  OK(clade_compile(g, device, &func, .strict = true));
  clade_graph_release(g);
  return func;
}

static void check_derivatives(const solid *s, clade_run *run, clade_ticket ticket, double *const *v, double *y) {
  static float got[ELEMENTS];
  static const char *const names[] = {"dx", "dw", "dbias"};
  for (int operand = X; operand < DY; operand++) {
    OK(clade_read(run, ticket, names[operand], got, sizeof *got * (size_t)count(s, operand)));
    for (int i = 0; i < count(s, operand); i++) {
      double want = difference(s, v, operand, i, y);
      if ((double)got[i] != want) fail_msg("%s[%d]: got %.9g, want %.9g", names[operand], i, (double)got[i], want);
    }
  }
}

/* Operands are multiples of 1/64 in [-1, 1], representable in each type, so that f32 sums are exact. */
static void check(const solid *s, clade_device *device, clade_dtype dtype, dice *d) {
  static double values[OPERANDS][ELEMENTS], y[ELEMENTS], sums[ELEMENTS];
  static float feeds[OPERANDS][ELEMENTS], got[ELEMENTS];
  double *const v[] = {values[X], values[W], values[BIAS], values[DY]};
  clade_run *run;
  clade_ticket ticket;
  for (int operand = 0; operand < OPERANDS; operand++) {
    assert_true(count(s, operand) <= ELEMENTS);
    for (int i = 0; i < count(s, operand); i++)
      feeds[operand][i] = (float)(v[operand][i] = between(d, -SIXTYFOURTHS, SIXTYFOURTHS) / (double)SIXTYFOURTHS);
  }
#define FEED(name, i) \
  { name, feeds[i], sizeof(float) * (size_t)count(s, i), NULL }
  const clade_feed fed[] = {FEED("x", X), FEED("w", W), FEED("bias", BIAS), FEED("dy", DY)};
  clade_func *func = function(s, device, dtype);
  OK(clade_run_new(func, NULL, &run));
  OK(clade_execute(run, dtype == CLADE_F32 ? OPERANDS : DY, fed, &ticket));
  OK(clade_read(run, ticket, "y", got, sizeof *got * (size_t)count(s, DY)));
  reference(s, v, true, sums);
  reference(s, v, false, y);
  /* Intermediate results are stored and rounded: the slices, their sum, and that with the bias. */
  const double eps = dtype == CLADE_F16 ? 0x1p-11 : dtype == CLADE_BF16 ? 0x1p-8 : 0;
  for (int i = 0; i < count(s, DY); i++) {
    double bias = fabs(v[BIAS][i / places(s->result) % s->out]), sum = sums[i] + 2 * bias, want = y[i];
    if (!(fabs((double)got[i] - want) <= eps * (2 * sum + fabs(want)) * (1 + 2 * eps)))
      fail_msg("y[%d]: got %.9g, want %.9g", i, (double)got[i], want);
  }
  if (dtype == CLADE_F32) check_derivatives(s, run, ticket, v, y);
  clade_run_free(run);
  clade_func_release(func);
}

static void random_ones(clade_device *device, clade_dtype dtype, int cases) {
  dice d = {.key = 7 + (uint64_t)dtype};
  bool empty = false;
  for (int done = 0; done < cases;) {
    solid s;
    if (!draw(&d, &s)) continue;
    empty = empty || !s.images;
    check(&s, device, dtype, &d);
    done++;
  }
  assert_true(empty || cases < CASES); /* includes empty batches */
}

static void exact(void **state) { random_ones(*state, CLADE_F32, CASES); }
static void halves(void **state) {
  random_ones(*state, CLADE_F16, CASES / 2);
  random_ones(*state, CLADE_BF16, CASES / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exact),
      cmocka_unit_test(halves),
  };
  return cmocka_run_group_tests_name("run_convs_transposed", tests, open_device, close_device);
}
