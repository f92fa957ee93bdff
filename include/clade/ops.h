/* Builders of Clade's ops. Where an op has options, the macro's last plain argument is followed by them:
 * clade_gemm(g, a, b, .trans_b = true), see options.h. */
#ifndef CLADE_OPS_H
#define CLADE_OPS_H

#include <clade/graph.h>

CLADE_BEGIN_DECLS

/* ---- elementwise: rows of src/op/eltwise.def ---- */
/* Any row by name: operands are broadcast as in NumPy. Parameters as the row declares (leaky_relu: slope, clip: lo,
 * hi); those beyond n are the row's defaults. */
CLADE_API clade_val clade_eltwise(clade_graph *g, const char *fn, int n_in, const clade_val *in, int n,
                                  const double *params);
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
#define CLADE_X(name) CLADE_API clade_val clade_##name(clade_graph *g, clade_val x);
CLADE_UNARY_MAP(CLADE_X)
#undef CLADE_X
#define CLADE_X(name) CLADE_API clade_val clade_##name(clade_graph *g, clade_val a, clade_val b);
CLADE_BINARY_MAP(CLADE_X)
#undef CLADE_X
CLADE_API clade_val clade_leaky_relu(clade_graph *g, clade_val x, double slope);
CLADE_API clade_val clade_elu(clade_graph *g, clade_val x, double alpha);
CLADE_API clade_val clade_clip(clade_graph *g, clade_val x, double lo, double hi);
/* condition (bool) ? a : b */
CLADE_API clade_val clade_select(clade_graph *g, clade_val condition, clade_val a, clade_val b);
CLADE_API clade_val clade_cast(clade_graph *g, clade_val x, clade_dtype dtype);

/* ---- reductions ---- */
typedef struct clade_reduce_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_reduce_opt));
  clade_val x CLADE_UNSET;
  int n_axes CLADE_UNSET; /* 0: all axes */
  int axes[CLADE_MAX_RANK] CLADE_UNSET;
  bool keep CLADE_UNSET; /* reduced axes stay with size 1 */
} clade_reduce_opt;
#define CLADE_REDUCE_MAP(X) X(sum) X(mean) X(reduce_max) X(reduce_min)
#define CLADE_X(name)       CLADE_API clade_val clade_##name##_(clade_graph *g, const clade_reduce_opt *opt);
CLADE_REDUCE_MAP(CLADE_X)
#undef CLADE_X
#define CLADE_REDUCE_OPT(...)    CLADE_OPT(clade_reduce_opt, .x = __VA_ARGS__)
#define clade_sum(g, ...)        clade_sum_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
#define clade_mean(g, ...)       clade_mean_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
#define clade_reduce_max(g, ...) clade_reduce_max_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
#define clade_reduce_min(g, ...) clade_reduce_min_(g, CLADE_REDUCE_OPT(__VA_ARGS__))
/* i32 index of the first largest element along one axis (negative: from the end); the axis goes. */
CLADE_API clade_val clade_arg_max(clade_graph *g, clade_val x, int axis);
/* exp(x) along an axis (negative: from the end) by its sum there; and the logarithm of that, without overflow. */
CLADE_API clade_val clade_softmax(clade_graph *g, clade_val x, int axis);
CLADE_API clade_val clade_log_softmax(clade_graph *g, clade_val x, int axis);

/* ---- whole numbers of 8 bits for floats, as in docs/quantization.md ---- */
/* x / scale as i8 or u8: rounded to the nearest, ties to even; what the type cannot hold becomes the nearest that it
 * can, NaN becomes 0. Computed as a product with the reciprocal of `scale`, rounded to f32, so that all devices give
 * the same numbers. */
CLADE_API clade_val clade_quantize(clade_graph *g, clade_val x, double scale, clade_dtype dtype);
/* x times `scale`, in f32: a scalar, or one for each place along `axis`, as for the outputs of a weight. */
CLADE_API clade_val clade_dequantize(clade_graph *g, clade_val x, clade_val scale, int axis);

/* ---- shape ---- */
/* One dimension may be CLADE_DIM_REST. */
CLADE_API clade_val clade_reshape(clade_graph *g, clade_val x, clade_shape shape);
CLADE_API clade_val clade_flatten(clade_graph *g, clade_val x,
                                  int axis); /* to two dimensions: before axis, from axis */
CLADE_API clade_val clade_transpose(clade_graph *g, clade_val x, int rank, const int *permutation);
CLADE_API clade_val clade_broadcast(clade_graph *g, clade_val x, clade_shape shape);
/* The part of x that begins at `begin` in each dimension; one of `size` may be CLADE_DIM_REST: to the end. */
CLADE_API clade_val clade_slice(clade_graph *g, clade_val x, clade_shape begin, clade_shape size);
/* x with so many elements of `value` before and after it in each dimension. */
CLADE_API clade_val clade_pad(clade_graph *g, clade_val x, clade_shape before, clade_shape after, double value);
/* Side by side along an axis (negative: from the end); at most 64. */
CLADE_API clade_val clade_concat(clade_graph *g, int n, const clade_val *xs, int axis);
typedef struct clade_gather_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_gather_opt));
  clade_val ids CLADE_UNSET; /* i32 */
  int axis CLADE_UNSET;      /* of x; negative: from the end */
} clade_gather_opt;
/* x[ids[...], ...], or with an axis x[..., ids[...], ...]: rows by their numbers; a number that names no row gives
 * zeros. clade_gather(g, x, ids, .axis = -1) */
#define clade_gather(g, x, ...) clade_gather_(g, x, CLADE_OPT(clade_gather_opt, .ids = __VA_ARGS__))
CLADE_API clade_val clade_gather_(clade_graph *g, clade_val x, const clade_gather_opt *opt);
typedef struct clade_scatter_add_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_scatter_add_opt));
  clade_val updates CLADE_UNSET; /* as clade_gather(g, x, ids, .axis = axis) */
  int axis CLADE_UNSET;          /* of x; negative: from the end */
} clade_scatter_add_opt;
/* x with row after row of `updates` added to the row that its number in ids names, in their order, so that sums have
 * the same bits each time; a number that names no row adds nothing. clade_scatter_add(g, x, ids, updates, .axis = 1) */
#define clade_scatter_add(g, x, ids, ...) \
  clade_scatter_add_(g, x, ids, CLADE_OPT(clade_scatter_add_opt, .updates = __VA_ARGS__))
CLADE_API clade_val clade_scatter_add_(clade_graph *g, clade_val x, clade_val ids, const clade_scatter_add_opt *opt);
/* To and from a blocked layout. */
CLADE_API clade_val clade_pack(clade_graph *g, clade_val x, clade_layout layout);
CLADE_API clade_val clade_unpack(clade_graph *g, clade_val x);

/* ---- matrices ---- */
typedef struct clade_gemm_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_gemm_opt));
  bool filled CLADE_DEFAULT(true); /* by CLADE_GEMM_OPT */
  clade_val b CLADE_UNSET;
  bool trans_a CLADE_UNSET, trans_b CLADE_UNSET; /* the last two axes swapped */
  clade_val bias CLADE_UNSET;                    /* broadcast against the result; invalid: none */
  float alpha CLADE_DEFAULT(1), beta CLADE_DEFAULT(1);
} clade_gemm_opt;
#define CLADE_GEMM_OPT CLADE_FILLED(clade_gemm_opt, .alpha = 1, .beta = 1)
/* alpha * op(a) op(b) + beta * bias over the last two axes, without the bias where beta is 0; the axes before them are
 * batches and broadcast. Of a part of a value, clade_slice(). Bytes (i8, or u8 by i8) give i32, f8e4m3
 * gives f32, other types their own. Weights in q4_0 and q8_0 are b, with .trans_b and rows of a multiple of 32, for an
 * a of f32, and give f32. */
#define clade_gemm(g, a, ...) \
  CLADE_FROM_DEFAULTS(clade_gemm_(g, a, CLADE_OPT_FROM(clade_gemm_opt, CLADE_GEMM_OPT, .b = __VA_ARGS__)))
CLADE_API clade_val clade_gemm_(clade_graph *g, clade_val a, const clade_gemm_opt *opt);

/* ---- Fourier transforms, f32; a complex value is a last axis of 2: its real and its imaginary part ---- */
typedef struct clade_fft_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_fft_opt));
  clade_val x CLADE_UNSET;
  int n_axes CLADE_UNSET; /* 0: the last one of values, which is before the axis of parts */
  int axes[CLADE_MAX_RANK -
           1] CLADE_UNSET; /* of values, from 0 on or, negative, from the end; all different; sizes, not symbols */
  int64_t n CLADE_UNSET;   /* irfft: how long the last of the axes becomes; 0: 2 (its length in x - 1) */
} clade_fft_opt;
/* fft and ifft: complex to complex. rfft: real values to the first n / 2 + 1 along the last of the axes, which the
 * others mirror; irfft: back, from these alone. The inverse ones are divided by the number of values. clade_rfft(g,
 * image, .n_axes = 2, .axes = {-2, -1}) */
#define CLADE_FFT_MAP(X) X(fft) X(ifft) X(rfft) X(irfft)
#define CLADE_X(name)    CLADE_API clade_val clade_##name##_(clade_graph *g, const clade_fft_opt *opt);
CLADE_FFT_MAP(CLADE_X)
#undef CLADE_X
#define CLADE_FFT_OPT(...)  CLADE_OPT(clade_fft_opt, .x = __VA_ARGS__)
#define clade_fft(g, ...)   clade_fft_(g, CLADE_FFT_OPT(__VA_ARGS__))
#define clade_ifft(g, ...)  clade_ifft_(g, CLADE_FFT_OPT(__VA_ARGS__))
#define clade_rfft(g, ...)  clade_rfft_(g, CLADE_FFT_OPT(__VA_ARGS__))
#define clade_irfft(g, ...) clade_irfft_(g, CLADE_FFT_OPT(__VA_ARGS__))

/* ---- random: Philox4x32-10 of (key, counter, element); the same bits everywhere ---- */
/* `counter`: an i64 scalar value, usually a variable that the graph assigns counter + 1. */
CLADE_API clade_val clade_random_uniform(clade_graph *g, clade_shape shape, uint64_t key,
                                         clade_val counter); /* [0, 1) */
CLADE_API clade_val clade_random_normal(clade_graph *g, clade_shape shape, uint64_t key, clade_val counter);

/* ---- devices ---- */
/* The value on device `index` of those that the graph is compiled for. Inserted where a node needs it; seldom called.
 */
CLADE_API clade_val clade_transfer(clade_graph *g, clade_val x, int index);

/* ---- layers: a weight variable NAME.weight and a bias NAME.bias, and the op ---- */
typedef struct clade_linear_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_linear_opt));
  clade_val x CLADE_UNSET; /* [..., in] */
  int64_t out CLADE_UNSET;
  bool no_bias CLADE_UNSET;
  clade_dtype dtype CLADE_UNSET; /* of the variables; unset: f32 */
  clade_initial weight_init
      CLADE_UNSET; /* unset: as PyTorch, uniform within 1 / sqrt(elements that go into a result) */
} clade_linear_opt;
/* clade_nn_linear(g, "fc", x, .out = 10) */
#define clade_nn_linear(g, name, ...) clade_nn_linear_(g, name, CLADE_OPT(clade_linear_opt, .x = __VA_ARGS__))
CLADE_API clade_val clade_nn_linear_(clade_graph *g, const char *name, const clade_linear_opt *opt);

CLADE_END_DECLS
#endif
