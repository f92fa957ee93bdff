/* The array kernel of fpga/array.cl against its definition. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { A, S, Y, E0, E1, E2, OPERANDS = 6 };
enum { CASES = 90 };

/* A case in the form of the kernel's arguments, and its operands as numbers. */
typedef struct sums {
  cl_int8 size, a_s, s_s, map, code;
  cl_int4 inner, e_s[3];
  cl_float alpha;
  cl_float16 param;
  size_t length[OPERANDS];
  double *value[OPERANDS];
} sums;

/* Dense strides of axes in random order, the first two optionally broadcast; returns the number of elements. */
static size_t lay_out(int n, const int *extent, cl_int *stride, bool repeat) {
  int order[6], used = 0;
  size_t size = 1;
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0 && draw(2); i--) {
    int j = (int)draw((uint32_t)i + 1), swap = order[i];
    order[i] = order[j];
    order[j] = swap;
  }
  bool repeated[6] = {repeat && draw(3) == 0, repeat && draw(3) == 0};
  for (int i = n - 1; i >= 0; i--) {
    int axis = order[i];
    stride[axis] = repeated[axis] ? 0 : (cl_int)size;
    if (!repeated[axis]) size *= (size_t)extent[axis], used++;
  }
  return size;
}

static int some(int most) { return draw(12) == 0 ? (int)draw(2) : 1 + (int)draw((uint32_t)most); }

/* A product: the source counts as one image. */
static void draw_product(sums *c) {
  int k = draw(8) ? some(90) : 0, batches[2] = {1 + (int)draw(2), 1 + (int)draw(2)};
  c->size = (cl_int8){{batches[0], batches[1], some(80), 1, 1, some(80), k, 0}};
  c->size.s[7] = c->size.s[5];
  c->inner = (cl_int4){{1, k, 1, 0}};
  c->map = (cl_int8){{0, 1, 0, 1, 1, 0, 0, 1}};
}

/* A convolution over images, from results to inputs or the reverse. */
static void draw_window(sums *c) {
  c->size = (cl_int8){{some(2), some(2), some(12), some(3), some(12), some(12), some(14), some(14)}};
  c->inner = (cl_int4){{some(3), some(9), some(9), 0}};
  for (int i = 0; i < 8; i += 4) {
    bool back = draw(2);
    int stride = 1 + (int)draw(3), dilation = 1 + (int)draw(2), pad = (int)draw(3);
    const int row[] = {back ? 1 : stride, back ? -dilation : dilation, back ? pad : -pad, back ? stride : 1};
    for (int j = 0; j < 4; j++) c->map.s[i + j] = row[j];
  }
}

static int result_columns(const sums *c) { return c->size.s[3] * c->size.s[4] * c->size.s[5]; }

static void draw_case(sums *c, bool bytes) {
  memset(c, 0, sizeof *c);
  if (draw(2))
    draw_product(c);
  else
    draw_window(c);
  const cl_int *z = c->size.s, *k = c->inner.s;
  const int columns = result_columns(c);
  c->length[A] = lay_out(6, (int[]){z[0], z[1], z[2], k[0], k[1], k[2]}, c->a_s.s, true);
  c->length[S] = lay_out(6, (int[]){z[0], z[1], z[3], k[0], z[6], z[7]}, c->s_s.s, true);
  c->length[Y] = (size_t)(z[0] * z[1] * z[2] * columns);
  for (int i = 0; i < 3; i++) c->length[E0 + i] = lay_out(4, (int[]){z[0], z[1], z[2], columns}, c->e_s[i].s, true);
  c->alpha = bytes || draw(2) ? 1 : (cl_float)draw_real(-2, 2);
  for (int i = 0; i < OPERANDS; i++) {
    c->value[i] = calloc(c->length[i] + 1, sizeof(double));
    for (size_t j = 0; j < c->length[i]; j++)
      c->value[i][j] = bytes && i <= S ? (double)draw(256) - 128 : (float)draw_real(-2, 2);
  }
  /* no epilogue; relu(sum + e0); (sum + e0) * e1 + e2; an integer sum is converted to float first */
  int ops = 0, program = (int)draw(3), v = 0;
  c->inner.s[3] = program == 0 ? 0 : program == 1 ? 1 : 3;
  if (!program) return;
  if (bytes) c->code.s[ops++] = instruction(274, 0, v, 0, 0, 1, 0), v = 8;
  c->code.s[ops] = instruction(160, 0, v, 1, 0, 0, 0), v = 8 + ops++;
  if (program == 1) c->code.s[ops] = instruction(1, 0, v, 0, 0, 0, 0), v = 8 + ops++;
  if (program == 2) c->code.s[ops] = instruction(162, 0, v, 2, 0, 0, 0), v = 8 + ops++;
  if (program == 2) c->code.s[ops] = instruction(160, 0, 3, v, 0, 0, 0);
}

/* Source position along an axis for a result and a tap; -1: padding. */
static int place(const cl_int *map, int j, int k, int size) {
  int at = j * map[0] + k * map[1] + map[2];
  return at < 0 || at % map[3] || at / map[3] >= size ? -1 : at / map[3];
}

/* Sum, and sum of absolute values, for (b0, b1, i, j). */
static void reference(const sums *c, const int *b, int i, int j, double *sum, double *size) {
  const cl_int *z = c->size.s, *as = c->a_s.s, *ss = c->s_s.s, *n = c->inner.s;
  const int jx = j % z[5], jy = j / z[5] % z[4], jo = j / z[5] / z[4];
  *sum = *size = 0;
  for (int o = 0; o < n[0]; o++)
    for (int ky = 0; ky < n[1]; ky++)
      for (int kx = 0; kx < n[2]; kx++) {
        int y = place(c->map.s, jy, ky, z[6]), x = place(c->map.s + 4, jx, kx, z[7]);
        if (y < 0 || x < 0) continue;
        double v = c->value[A][b[0] * as[0] + b[1] * as[1] + i * as[2] + o * as[3] + ky * as[4] + kx * as[5]] *
                   c->value[S][b[0] * ss[0] + b[1] * ss[1] + jo * ss[2] + o * ss[3] + y * ss[4] + x * ss[5]];
        *sum += v;
        *size += fabs(v);
      }
}

static double finish(const sums *c, const int *b, int i, int j, double sum, double *bound) {
  double e[3];
  for (int k = 0; k < 3; k++) {
    const cl_int *s = c->e_s[k].s;
    e[k] = c->value[E0 + k][b[0] * s[0] + b[1] * s[1] + i * s[2] + j * s[3]];
  }
  if (!c->inner.s[3]) return sum;
  sum += e[0];
  *bound += 0x1p-22 * fabs(sum);
  if (c->inner.s[3] == 1) return sum < 0 ? 0 : sum;
  *bound = *bound * fabs(e[1]) + 0x1p-22 * (fabs(sum * e[1]) + fabs(e[2]));
  return sum * e[1] + e[2];
}

static void compare(const sums *c, const uint32_t *words, bool bytes) {
  const int columns = result_columns(c);
  size_t at = 0;
  double terms = (double)c->inner.s[0] * c->inner.s[1] * c->inner.s[2];
  for (int b0 = 0; b0 < c->size.s[0]; b0++)
    for (int b1 = 0; b1 < c->size.s[1]; b1++)
      for (int i = 0; i < c->size.s[2]; i++)
        for (int j = 0; j < columns; j++, at++) {
          double sum, size, got;
          int b[2] = {b0, b1}, whole;
          float real;
          reference(c, b, i, j, &sum, &size);
          double bound = bytes ? 0x1p-23 * fabs(sum) : (terms + 4) * 0x1p-24 * size * fabs((double)c->alpha);
          if (bytes && !c->inner.s[3]) bound = 0;
          double want = finish(c, b, i, j, sum * (double)c->alpha, &bound);
          memcpy(&real, &words[at], 4);
          memcpy(&whole, &words[at], 4);
          got = bytes && !c->inner.s[3] ? whole : (double)real;
          near(bytes ? "array_i8" : "array_f32", at, got, want, bound);
        }
}

static buffer upload(const sums *c, int operand, bool bytes) {
  size_t n = c->length[operand], element = bytes && operand <= S ? 1 : 4;
  unsigned char *data = calloc(n + 1, element);
  for (size_t i = 0; i < n; i++) {
    float real = (float)c->value[operand][i];
    if (element == 1)
      data[i] = (unsigned char)(int)real;
    else
      memcpy(data + 4 * i, &real, 4);
  }
  buffer b = buffer_new(n, element, operand == Y ? NULL : data);
  free(data);
  return b;
}

static void run_case(bool bytes) {
  sums c;
  buffer b[OPERANDS];
  draw_case(&c, bytes);
  for (int i = 0; i < OPERANDS; i++) b[i] = upload(&c, i, bytes);
  kernels_launch(bytes ? "array_i8" : "array_f32",
                 (const void *const[]){&b[A], &b[S], &b[Y], &c.size, &c.inner, &c.a_s, &c.s_s, &c.map, &c.alpha,
                                       &c.code, &c.param, &b[E0], &c.e_s[0], &b[E1], &c.e_s[1], &b[E2], &c.e_s[2]});
  uint32_t *words = malloc(4 * c.length[Y] + 4);
  buffer_read(&b[Y], words);
  compare(&c, words, bytes);
  free(words);
  for (int i = 0; i < OPERANDS; i++) {
    buffer_free(&b[i]);
    free(c.value[i]);
  }
}

void test_array(void) {
  for (int i = 0; i < CASES; i++) run_case(i % 3 == 0);
}

void test_array_i8(void) {
  for (int i = 0; i < CASES / 3; i++) run_case(true);
}
