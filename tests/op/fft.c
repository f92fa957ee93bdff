/* Fourier transforms of random shapes along one or two axes: complex and real, forward and inverse. */
#include <clade/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "op_test.h"

static const clade_dtype dtypes[] = {CLADE_F32, CLADE_DTYPE_NONE};
enum { FFT, IFFT, RFFT, IRFFT };
enum { KIND, RANK, FROM_END, N_AXES, AXES, SIZES = AXES + 2 }; /* sizes of the transformed axes */

static int length(op_random *r, const op_case *c) {
  static const int few[] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const int many[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13, 15, 16, 17,  19,
                             20, 25, 27, 30, 31, 32, 37, 40, 49, 60, 64, 75, 97, 98, 105, 128};
  if (c->small && c->number % 3 == 0) return 7; /* a prime without a butterfly */
  return c->small || c->gradient ? few[op_integer(r, 0, 7)] : many[op_integer(r, 0, 31)];
}

static void draw(op_case *c, op_random *r) {
  int rank = (int)op_integer(r, 1, 4), *size = c->i + SIZES;
  int64_t most = c->gradient ? 60 : c->small ? 400 : 20000, total = 1;
  c->i[KIND] = (int)op_integer(r, 0, 3);
  c->i[FROM_END] = op_chance(r, 0.5);
  c->i[RANK] = rank;
  c->i[N_AXES] = rank > 1 && op_chance(r, 0.4) ? 2 : 1;
  c->i[AXES] = (int)op_integer(r, 0, rank - 1);
  c->i[AXES + 1] = (c->i[AXES] + (int)op_integer(r, 1, rank > 1 ? rank - 1 : 1)) % rank;
  for (int i = 0; i < rank; i++) {
    bool along = i == c->i[AXES] || (c->i[N_AXES] == 2 && i == c->i[AXES + 1]);
    size[i] = along ? length(r, c) : op_chance(r, 0.04) && !c->gradient ? 0 : (int)op_integer(r, 1, c->small ? 3 : 7);
    while (size[i] > 1 && total * size[i] > most) size[i] /= 2;
    total *= size[i] ? size[i] : 1;
  }
  if (rank == 2 && c->i[AXES] == 1 && c->i[N_AXES] == 1 && !c->small && !c->gradient && op_chance(r, 0.05))
    size[0] = 5, size[1] = 6144; /* the size for which clFFT pads rows most */
  if (rank == 2 && c->i[AXES] == 0 && c->i[N_AXES] == 1 && !c->small && !c->gradient && op_chance(r, 0.05))
    size[0] = 4096, size[1] = 3;                                   /* more than one pass of `group`, not along rows */
  if (rank == 1 && !c->small && !c->gradient && op_chance(r, 0.3)) /* primes, including large ones */
    size[0] = (int[]){1009, 1024, 1000, 2187, 2 * 3 * 5 * 7 * 11, 4099, 8192}[op_integer(r, 0, 6)];
  clade_shape x = {.rank = rank};
  for (int i = 0; i < rank; i++) x.dim[i] = size[i];
  int last = c->i[AXES + c->i[N_AXES] - 1];
  if (c->i[KIND] == IRFFT) x.dim[last] = x.dim[last] / 2 + 1;
  if (c->i[KIND] != RFFT) x.dim[x.rank++] = 2;
  c->n_in = 1;
  c->in[0] = (op_input){.dtype = c->dtype, .shape = x, .low = -2, .high = 2};
  snprintf(c->note, sizeof c->note, "%s along %d axes, %d and %d",
           (const char *[]){"fft", "ifft", "rfft", "irfft"}[c->i[KIND]], c->i[N_AXES], c->i[AXES], c->i[AXES + 1]);
}

static void build(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out) {
  clade_fft_opt opt = {.size = sizeof opt, .x = in[0], .n_axes = c->i[N_AXES]};
  for (int i = 0; i < opt.n_axes; i++) opt.axes[i] = c->i[AXES + i] - (c->i[FROM_END] ? c->i[RANK] : 0);
  if (c->i[KIND] == IRFFT) opt.n = c->i[SIZES + c->i[AXES + opt.n_axes - 1]];
  switch (c->i[KIND]) {
  case FFT: out[0] = clade_fft_(g, &opt); break;
  case IFFT: out[0] = clade_ifft_(g, &opt); break;
  case RFFT: out[0] = clade_rfft_(g, &opt); break;
  default: out[0] = clade_irfft_(g, &opt); break;
  }
}

/* Direct transform of n values with a stride; `size` receives the sum of absolute values. */
static void row(double *re, double *im, double *size, int64_t n, int64_t step, double sign) {
  double *to = calloc(2 * (size_t)n, sizeof *to), *turn = calloc(2 * (size_t)n, sizeof *turn), sum = 0;
  if (!to || !turn) abort();
  for (int64_t k = 0; k < n; k++) {
    turn[2 * k] = cos(2 * acos(-1.0) * (double)k / (double)n);
    turn[2 * k + 1] = sign * sin(2 * acos(-1.0) * (double)k / (double)n);
    sum += size[k * step];
  }
  for (int64_t k = 0; k < n; k++)
    for (int64_t j = 0, at = 0; j < n; j++, at = (at + k) % n) {
      to[2 * k] += re[j * step] * turn[2 * at] - im[j * step] * turn[2 * at + 1];
      to[2 * k + 1] += re[j * step] * turn[2 * at + 1] + im[j * step] * turn[2 * at];
    }
  for (int64_t k = 0; k < n; k++) {
    double scale = sign > 0 ? 1 / (double)n : 1;
    re[k * step] = to[2 * k] * scale;
    im[k * step] = to[2 * k + 1] * scale;
    size[k * step] = sum * scale;
  }
  free(to);
  free(turn);
}

static double factor(int64_t n) { /* the error factor that the op states */
  double sum = 0;
  for (int64_t p = 2; n > 1; p++)
    for (; n % p == 0; n /= p) sum += 2 * (double)(p + 4) * 0x1p-24;
  return sum;
}

/* Expands half spectra by symmetry; the parts that real results ignore become 0. */
static void spread(const op_case *c, const op_array *in, const clade_shape *full, double *re, double *im,
                   double *size) {
  int last = c->i[AXES + c->i[N_AXES] - 1], rank = c->i[RANK];
  int64_t n = full->dim[last], total = op_elements(full);
  for (int64_t i = 0; i < total; i++) {
    int64_t at[CLADE_MAX_RANK], from = 0;
    op_unravel(full, i, at);
    bool mirrored = c->i[KIND] == IRFFT && at[last] > n / 2;
    for (int a = 0; a < rank; a++) {
      int64_t place = at[a]; /* in a 2D spectrum both indices are mirrored */
      for (int k = 0; mirrored && k < c->i[N_AXES]; k++)
        if (c->i[AXES + k] == a) place = (full->dim[a] - at[a]) % full->dim[a];
      from = from * in->shape.dim[a] + place;
    }
    re[i] = c->i[KIND] == RFFT ? in->v[from] : in->v[2 * from];
    im[i] = c->i[KIND] == RFFT ? 0 : in->v[2 * from + 1] * (mirrored ? -1 : 1);
    size[i] = fabs(re[i]) + fabs(im[i]);
  }
}

static void reference(const op_case *c, const op_array *in, op_array *out) {
  clade_shape full = {.rank = c->i[RANK]}, y;
  for (int i = 0; i < full.rank; i++) full.dim[i] = c->i[SIZES + i];
  int last = c->i[AXES + c->i[N_AXES] - 1];
  int64_t total = op_elements(&full);
  double *v = calloc(3 * (size_t)total + 1, sizeof *v), bound = 0;
  if (!v) abort();
  double *re = v, *im = v + total, *size = v + 2 * total;
  spread(c, in, &full, re, im, size);
  for (int k = 0; k < c->i[N_AXES]; k++) {
    int axis = c->i[AXES + k];
    int64_t n = full.dim[axis], step = 1;
    for (int a = axis + 1; a < full.rank; a++) step *= full.dim[a];
    for (int64_t i = 0; i < total; i++)
      if (i / step % n == 0) row(re + i, im + i, size + i, n, step, c->i[KIND] % 2 ? 1 : -1);
    bound += factor(n);
  }
  y = full;
  if (c->i[KIND] == RFFT) y.dim[last] = y.dim[last] / 2 + 1;
  if (c->i[KIND] != IRFFT) y.dim[y.rank++] = 2;
  op_result(out, c->dtype, y);
  for (int64_t i = 0; i < out->n; i++) {
    int64_t at[CLADE_MAX_RANK], from = 0;
    op_unravel(&y, i, at);
    for (int a = 0; a < full.rank; a++) from = from * full.dim[a] + at[a];
    out->v[i] = y.rank > full.rank && at[full.rank] ? im[from] : re[from];
    out->bound[i] = bound * size[from] + 1e-30;
  }
  free(v);
}

const op_test op_test_fft = {"fft", dtypes, draw, build, reference, NULL, 0, NULL};
