/* Builders of ops: functions that add nodes to a graph and return their value. For a builder with options, the options
 * follow the last plain argument of the macro: clade_gemm(g, a, b, .trans_b = true). See <clade/options.h>. */
#ifndef CLADE_OPS_H
#define CLADE_OPS_H

#include <clade/graph.h>

CLADE_BEGIN_DECLS

/* ---- elementwise ----
 * Operands are broadcast as in NumPy. docs/ops.md lists all elementwise functions; src/op/eltwise.def defines them. */

/* Any elementwise function by its name. `params` are the function's parameters (leaky_relu: slope; clip: lo, hi); those
 * from n on have their defaults. */
CLADE_API clade_val clade_eltwise(clade_graph *g, const char *fn, int n_in, const clade_val *in, int n,
                                  const double *params);
/* The functions of one operand, and of two. */
#define CLADE_UNARY_MAP(X) \
  X(relu)                  \
  X(gelu)                  \
  X(gelu_tanh)             \
  X(silu)                  \
  X(sigmoid)               \
  X(hard_sigmoid)          \
  X(hard_swish)            \
  X(mish)                  \
  X(tanh)                  \
  X(softplus)              \
  X(softsign)              \
  X(selu)                  \
  X(exp)                   \
  X(log)                   \
  X(sqrt)                  \
  X(rsqrt)                 \
  X(reciprocal) X(abs) X(neg) X(erf) X(floor) X(ceil) X(round) X(sin) X(cos) X(sign) X(square) X(logical_not) X(isnan)
#define CLADE_BINARY_MAP(X) \
  X(add) X(sub) X(mul) X(div) X(pow) X(min) X(max) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(logical_and) X(logical_or)
/* One function per row of CLADE_UNARY_MAP: f(x) of each element. */
#define CLADE_X(name) CLADE_API clade_val clade_##name(clade_graph *g, clade_val x);
CLADE_UNARY_MAP(CLADE_X)
#undef CLADE_X
/* One function per row of CLADE_BINARY_MAP: f(a, b) of each pair of elements. Comparisons give bool. */
#define CLADE_X(name) CLADE_API clade_val clade_##name(clade_graph *g, clade_val a, clade_val b);
CLADE_BINARY_MAP(CLADE_X)
#undef CLADE_X
CLADE_API clade_val clade_leaky_relu(clade_graph *g, clade_val x, double slope);   /* x < 0 ? slope x : x */
CLADE_API clade_val clade_elu(clade_graph *g, clade_val x, double alpha);          /* x < 0 ? alpha (exp(x) - 1) : x */
CLADE_API clade_val clade_clip(clade_graph *g, clade_val x, double lo, double hi); /* min(max(x, lo), hi) */
/* condition ? a : b, with a condition of type bool. */
CLADE_API clade_val clade_select(clade_graph *g, clade_val condition, clade_val a, clade_val b);
/* Converts each element, by the rules of clade_convert. */
CLADE_API clade_val clade_cast(clade_graph *g, clade_val x, clade_dtype dtype);

/* ---- reductions ---- */
/* Options of clade_sum and the other reductions. */
typedef struct clade_reduce_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_reduce_opt));
  clade_val x CLADE_UNSET;              /* the operand */
  int n_axes CLADE_UNSET;               /* number of axes to reduce; 0: all axes */
  int axes[CLADE_MAX_RANK] CLADE_UNSET; /* these axes; negative: from the end */
  bool keep CLADE_UNSET;                /* keep reduced axes, with size 1 */
} clade_reduce_opt;
/* The reductions: sum, mean, maximum and minimum over axes. clade_sum(g, x, .n_axes = 2, .axes = {-2, -1}) */
#define CLADE_REDUCE_MAP(X) X(sum) X(mean) X(reduce_max) X(reduce_min)
#define CLADE_X(name)       CLADE_API clade_val clade_##name##_(clade_graph *g, const clade_reduce_opt *opt);
CLADE_REDUCE_MAP(CLADE_X)
#undef CLADE_X
#define CLADE_REDUCE_OPT(...)    CLADE_OPT(clade_reduce_opt, .x = __VA_ARGS__)
#define clade_sum(g, ...)        clade_sum_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
#define clade_mean(g, ...)       clade_mean_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
#define clade_reduce_max(g, ...) clade_reduce_max_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
#define clade_reduce_min(g, ...) clade_reduce_min_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
/* The index (i32) of the first largest element along an axis (negative: from the end). The axis is removed. */
CLADE_API clade_val clade_arg_max(clade_graph *g, clade_val x, int axis);
/* The softmax along an axis (negative: from the end), and its logarithm, computed without overflow. */
CLADE_API clade_val clade_softmax(clade_graph *g, clade_val x, int axis);
CLADE_API clade_val clade_log_softmax(clade_graph *g, clade_val x, int axis);

/* ---- quantization to 8-bit integers ----
 * docs/quantization.md explains the method. */

/* x / scale as i8 or u8: rounded to nearest, ties to even, and saturated; NaN becomes 0. Computed as a product with the
 * reciprocal of `scale`, rounded to f32, so that all devices give the same integers. */
CLADE_API clade_val clade_quantize(clade_graph *g, clade_val x, double scale, clade_dtype dtype);
/* x times `scale`, in f32. `scale` is a scalar, or has one element per position along `axis`, as for the outputs of a
 * weight. */
CLADE_API clade_val clade_dequantize(clade_graph *g, clade_val x, clade_val scale, int axis);

/* ---- shape ---- */
/* The same elements in another shape. One dimension may be CLADE_DIM_REST. */
CLADE_API clade_val clade_reshape(clade_graph *g, clade_val x, clade_shape shape);
/* Flattens to two dimensions: the axes before `axis`, and the axes from `axis` on. */
CLADE_API clade_val clade_flatten(clade_graph *g, clade_val x, int axis);
/* Permutes the axes: axis i of the result is axis permutation[i] of x. */
CLADE_API clade_val clade_transpose(clade_graph *g, clade_val x, int rank, const int *permutation);
/* Repeats x to a larger shape, by NumPy's rules. */
CLADE_API clade_val clade_broadcast(clade_graph *g, clade_val x, clade_shape shape);
/* The part of x that begins at `begin`. Dimensions of `size` may be CLADE_DIM_REST: up to the end. */
CLADE_API clade_val clade_slice(clade_graph *g, clade_val x, clade_shape begin, clade_shape size);
/* Pads each dimension of x with `value`: `before` and `after` are numbers of elements. */
CLADE_API clade_val clade_pad(clade_graph *g, clade_val x, clade_shape before, clade_shape after, double value);
/* Concatenates up to 64 values along an axis (negative: from the end). */
CLADE_API clade_val clade_concat(clade_graph *g, int n, const clade_val *xs, int axis);
/* Options of clade_gather. */
typedef struct clade_gather_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_gather_opt));
  clade_val ids CLADE_UNSET; /* indices, i32 */
  int axis CLADE_UNSET;      /* axis of x that is indexed; negative: from the end */
} clade_gather_opt;
/* Selects positions of x along an axis by their indices: x[ids[...], ...] for axis 0. Indices out of range give zeros.
 * clade_gather(g, x, ids, .axis = -1) */
#define clade_gather(g, x, ...) clade_gather_(g, x, CLADE_OPT(clade_gather_opt, .ids = __VA_ARGS__))
CLADE_API clade_val clade_gather_(clade_graph *g, clade_val x, const clade_gather_opt *opt);
/* Options of clade_scatter_add. */
typedef struct clade_scatter_add_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_scatter_add_opt));
  clade_val updates CLADE_UNSET; /* in the shape of clade_gather(g, x, ids, .axis = axis) */
  int axis CLADE_UNSET;          /* axis of x that is indexed; negative: from the end */
} clade_scatter_add_opt;
/* Adds `updates` to the positions of x that `ids` selects. Indices out of range add nothing. The order of summation is
 * that of `ids`, so results are reproducible. clade_scatter_add(g, x, ids, updates, .axis = 1) */
#define clade_scatter_add(g, x, ids, ...) \
  clade_scatter_add_(g, x, ids, CLADE_OPT(clade_scatter_add_opt, .updates = __VA_ARGS__))
CLADE_API clade_val clade_scatter_add_(clade_graph *g, clade_val x, clade_val ids, const clade_scatter_add_opt *opt);
/* Converts to a blocked layout, and back to dense. */
CLADE_API clade_val clade_pack(clade_graph *g, clade_val x, clade_layout layout);
CLADE_API clade_val clade_unpack(clade_graph *g, clade_val x);

/* ---- matrix products ---- */
/* Options of clade_gemm. */
typedef struct clade_gemm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_gemm_opt));
  bool filled CLADE_DEFAULT(true);                     /* by CLADE_GEMM_OPT */
  clade_val b CLADE_UNSET;                             /* the second matrix */
  bool trans_a CLADE_UNSET, trans_b CLADE_UNSET;       /* transpose the last two axes */
  clade_val bias CLADE_UNSET;                          /* broadcast to the result; unset: none */
  float alpha CLADE_DEFAULT(1), beta CLADE_DEFAULT(1); /* factors of the product and of the bias */
} clade_gemm_opt;
#define CLADE_GEMM_OPT CLADE_FILLED(clade_gemm_opt, .alpha = 1, .beta = 1)
/* alpha op(a) op(b) + beta bias over the last two axes; with a beta of 0, the bias is not read. The axes before them
 * are batches, and are broadcast. For a part of a matrix, use clade_slice.
 *
 *   a, b                        result
 *   f32, f16, bf16, i32         the same type
 *   i8, i8; u8, i8              i32, exact
 *   f8e4m3, f8e4m3              f32
 *   f32, q4_0; f32, q8_0        f32; with .trans_b, and rows of a multiple of 32 elements */
#define clade_gemm(g, a, ...) \
  CLADE_FROM_DEFAULTS(clade_gemm_(g, a, CLADE_OPT_FROM(clade_gemm_opt, CLADE_GEMM_OPT, .b = __VA_ARGS__)))
CLADE_API clade_val clade_gemm_(clade_graph *g, clade_val a, const clade_gemm_opt *opt);

/* ---- Fourier transforms ----
 * In f32. The last axis of a complex value has size 2: real and imaginary part. */

/* Options of the Fourier transforms. */
typedef struct clade_fft_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_fft_opt));
  clade_val x CLADE_UNSET; /* the operand */
  int n_axes CLADE_UNSET;  /* number of axes to transform; 0: the last one, before that of the parts */
  /* These axes, all different; negative: from the end, without the axis of real and imaginary parts. Sizes are
   * constant. */
  int axes[CLADE_MAX_RANK - 1] CLADE_UNSET;
  int64_t n CLADE_UNSET; /* irfft: size of the result along the last of the axes; 0: 2 (size in x - 1) */
} clade_fft_opt;
/* Fourier transforms along axes. fft and ifft: complex to complex. rfft: real to complex, of which the first n / 2 + 1
 * elements along the last of the axes are kept, since the others mirror them. irfft: the inverse of rfft. Inverse
 * transforms divide by the number of elements. clade_rfft(g, image, .n_axes = 2, .axes = {-2, -1}) */
#define CLADE_FFT_MAP(X) X(fft) X(ifft) X(rfft) X(irfft)
#define CLADE_X(name)    CLADE_API clade_val clade_##name##_(clade_graph *g, const clade_fft_opt *opt);
CLADE_FFT_MAP(CLADE_X)
#undef CLADE_X
#define CLADE_FFT_OPT(...)  CLADE_OPT(clade_fft_opt, .x = __VA_ARGS__)
#define clade_fft(g, ...)   clade_fft_(g, CLADE_FFT_OPT(__VA_ARGS__))
#define clade_ifft(g, ...)  clade_ifft_(g, CLADE_FFT_OPT(__VA_ARGS__))
#define clade_rfft(g, ...)  clade_rfft_(g, CLADE_FFT_OPT(__VA_ARGS__))
#define clade_irfft(g, ...) clade_irfft_(g, CLADE_FFT_OPT(__VA_ARGS__))

/* ---- random numbers ----
 * Philox4x32-10 of key, counter and element index: the same bits on every device. `counter` is an i64 scalar, usually a
 * variable to which the graph assigns counter + 1. */

CLADE_API clade_val clade_random_uniform(clade_graph *g, clade_shape shape, uint64_t key,
                                         clade_val counter); /* uniform in [0, 1) */
CLADE_API clade_val clade_random_normal(clade_graph *g, clade_shape shape, uint64_t key,
                                        clade_val counter); /* normal with mean 0 and standard deviation 1 */

/* ---- devices ---- */
/* The value on device `index` of clade_compile. Transfers are inserted where nodes need them, so that this call is
 * seldom necessary. */
CLADE_API clade_val clade_transfer(clade_graph *g, clade_val x, int index);

/* ---- linear layer ---- */
/* Options of clade_nn_linear. */
typedef struct clade_linear_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_linear_opt));
  clade_val x CLADE_UNSET;               /* [..., in] */
  int64_t out CLADE_UNSET;               /* number of output features */
  bool no_bias CLADE_UNSET;              /* without a bias */
  clade_dtype dtype CLADE_UNSET;         /* type of the parameters; unset: f32 */
  clade_initial weight_init CLADE_UNSET; /* unset: as in PyTorch, uniform within 1 / sqrt(in) */
} clade_linear_opt;
/* A linear layer with the parameters NAME.weight and NAME.bias. The result is [..., out].
 * clade_nn_linear(g, "fc", x, .out = 10) */
#define clade_nn_linear(g, name, ...) clade_nn_linear_(g, name, CLADE_OPT(clade_linear_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_linear_(clade_graph *g, const char *name, const clade_linear_opt *opt);

CLADE_END_DECLS
#endif
