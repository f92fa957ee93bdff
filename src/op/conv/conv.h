/* Interface between convolution's three passes and their implementations. y = conv2d(x, w) is linear in both operands,
 * so the gradients of each pass consist of the other two.
 *
 * A `place` is a position of the output plane, `inner` counts the input channels of a group, and `rows` the output
 * channels. In conv2d_data input and output are exchanged. A `phase` is the set of output positions with the same
 * remainder modulo the stride. */
#ifndef CLADE_CONV_H
#define CLADE_CONV_H

#include "op/window.h"

/* Attributes of conv2d (x, w), conv2d_data (y, w) and conv2d_weights (x, y). Further operands belong to the epilogue;
 * along height and width together they are either as large as the result or broadcast. */
typedef struct clade__conv_attrs {
  clade__window window;
  int32_t groups;
  clade_shape shape; /* shape of the result: of x in conv2d_data, of w in conv2d_weights; operands do not imply it */
  clade__elt epilogue;
} clade__conv_attrs;
extern const clade_attr clade__conv_table[];
static inline const clade__window *clade__conv_window(const clade_node *n) {
  return &((const clade__conv_attrs *)n->attrs)->window;
}
/* True for 1 x 1 windows without stride and padding, whose convolution is a matrix product in NCHW. */
static inline bool clade__conv_is_point(const clade_node *n) {
  const clade__window *w = clade__conv_window(n);
  bool pads = w->pad[0] || w->pad[1] || w->pad[2] || w->pad[3];
  return w->kernel[0] * w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 && !pads;
}

/* Checks the shapes of y = conv2d(x, w). If `y` is NULL, writes its shape to *out. */
clade_status clade__conv_check(const clade_node *n, const clade_shape *x, const clade_shape *w, const clade_shape *y,
                               clade_shape *out);
/* Checks that two operands are dense floats of one type, then clade__conv_check and the epilogue. */
clade_status clade__conv_operands(const clade_node *n, const char *first, const char *second); /* their names */
/* Pruning ties and dimensions of y = conv2d(x, w), where x and y are these operands or results. */
void clade__conv_ties(clade_ties *t, const clade_node *n, int x, int y);
void clade__conv_dims(clade_dims *d, const clade_node *n, int x, int y, bool shape); /* .shape: that of x */
clade_val clade__conv_node(clade_graph *g, const clade_op *op, const clade__conv_attrs *like, clade_val a, clade_val b,
                           const clade_shape *shape);
/* Checks that a node has no epilogue: gradients are taken before fusion. */
clade_status clade__conv_plain(const clade_grad *g);

/* ---- implementations ---- */
extern const clade_impl *const clade__conv_impls[]; /* of conv2d; from the third on, of conv2d_data */
/* conv2d and conv2d_data share one form, which gathers: result (n, group, row, place) is the sum over inner channels
 * and taps of source(n, group, channel, map(place, tap)) * weight(group, row, channel, tap). */
typedef struct clade__gather {
  int64_t n, groups, rows, inner, source[2], result[2], kernel[2];
  int64_t w_group, w_row, w_inner; /* strides of the weights */
  clade__map_1d (*map)(const clade__window *, int axis);
} clade__gather;
clade__gather clade__gather_of(const clade_node *n);
/* Begins a kernel that takes any layout: arguments up to the weights' sizes; then the epilogue's operands. */
clade_status clade__gather_begin(clade_emit *e, const clade_node *n, const clade__gather *p, const char *kernel,
                                 clade_kernel_step **out);
void clade__gather_epilogue(clade_kernel_step *s, const clade_node *n);
/* Strides of the epilogue's operands, dense or with channels last, along images, channels and pixels ([5] to [7]). */
void clade__gather_strides(const clade_node *n, int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK]);
/* Whether an operand of the epilogue has the result's channels, height and width, and thus its layout. */
bool clade__gather_whole(const clade_shape *operand, const clade_shape *y);
const char *clade__gather_ref_accept(const clade_query *q);
double clade__gather_ref_cost(const clade_query *q);
clade_status clade__gather_ref_emit(clade_emit *e, const clade_query *q);
/* ---- clblast: another library, if CLADE_LIBRARIES allows it ---- */
const char *clade__conv_clblast_accept(const clade_query *q);
clade_status clade__conv_clblast_emit(clade_emit *e, const clade_query *q);
/* ---- shared by the CPU implementations ---- */
#define CLADE__CONV_VEC CLADE__LONG_VEC, .needs_lanes = 4 /* SIMD is required */
const char *clade__conv_vec_accept(const clade_query *q); /* floats, with 32-bit element counts */
const char *clade__conv_few(const clade_query *q);        /* 32-bit element counts */
/* Converts cycles, summed over all cores, to seconds; a core starts two vector operations per cycle. */
double clade__conv_vec_cost(const clade_query *q, double cycles);
/* Additional cycles that matrix products take for an epilogue: results are stored and loaded again, and the epilogue's
 * operands are read. */
double clade__conv_epilogue_cycles(const clade_node *n);
/* Numbering of positions along one axis, for the phase that begins at `first`. pitch: positions per line; taps: taps of
 * the phase; span: distance between the first and the last position that they reach; kinds: different remainders modulo
 * the stride among them. */
typedef struct clade__conv_axis {
  int64_t pitch, taps, span, kinds;
} clade__conv_axis;
clade__conv_axis clade__conv_axis_of(clade__map_1d map, int64_t result, int64_t source, int64_t kernel, int64_t first);

/* Alternatives in layouts (clade_impl.alternatives): images in blocks of channels; dense ones with a blocked result;
 * dense ones with a dense result. conv2d_weights, whose result is dense, has blocked images, or else dense ones. */
enum { CLADE__BLOCKED, CLADE__TO_BLOCKED, CLADE__DENSE, CLADE__ALTERNATIVES };
/* Spaces of implementations without other parameters: the first two of the alternatives, or all. */
extern const clade_space clade__conv_two_layouts, clade__conv_three_layouts;

/* ---- direct, for CPUs: images with blocked channels, or dense ---- */
extern const clade_space clade__gather_direct_space;
const char *clade__conv_small(const clade_query *q);   /* offsets fit into 32 bits, also in blocked layouts */
const char *clade__gather_small(const clade_query *q); /* the same for floats */
const char *clade__gather_direct_accept(const clade_query *q);
const char *clade__gather_blocked_accept(const clade_query *q); /* for blocked results */
void clade__gather_direct_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
/* Layouts of all but the weights in an alternative. */
void clade__gather_images(const clade_query *q, int alternative, clade_layout *in, clade_layout *out);
/* Result in blocks, and with it the epilogue's operands of the same shape. */
void clade__gather_blocked_result(const clade_query *q, clade_layout *in, clade_layout *out);
/* Emits `dims`. */
void clade__gather_sizes(clade_kernel_step *s, const clade__gather *g);
/* Emits the result's strides and the epilogue's operands, blocked or dense. */
void clade__gather_result(clade_kernel_step *s, const clade_node *n);
double clade__gather_direct_cost(const clade_query *q);
clade_status clade__gather_direct_emit(clade_emit *e, const clade_query *q);
/* ---- depthwise, for CPUs: groups of one channel; images with blocked channels, or dense ---- */
bool clade__depthwise(const clade__gather *g);
const char *clade__depthwise_accept(const clade_query *q);
void clade__depthwise_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
double clade__depthwise_cost(const clade_query *q);
clade_status clade__depthwise_emit(clade_emit *e, const clade_query *q);
#define CLADE__DEPTHWISE                                                                                        \
  CLADE_IMPL(.name = "depthwise", CLADE__CONV_VEC, .accept = clade__depthwise_accept,                           \
             .layouts = clade__depthwise_layouts, .cost = clade__depthwise_cost, .emit = clade__depthwise_emit, \
             .space = &clade__conv_three_layouts, .alternatives = 3, .file = "conv2d_depthwise")
/* ---- group: depthwise on GPUs, dense ---- */
const char *clade__depthwise_group_accept(const clade_query *q);
double clade__depthwise_group_cost(const clade_query *q);
clade_status clade__depthwise_group_emit(clade_emit *e, const clade_query *q);
/* ---- lines, for CPUs: dense, few output channels ---- */
const char *clade__gather_lines_accept(const clade_query *q);
double clade__gather_lines_cost(const clade_query *q);
clade_status clade__gather_lines_emit(clade_emit *e, const clade_query *q);
/* ---- window matrices in f32 (im2col): a row per tap and channel; images one after another or, if `beside`, side by
 * side within each row ---- */
enum { CLADE__MOST_UNFOLDED = 1 << 26 };
typedef struct clade__unfolding {
  const clade__window *window;
  int operand;              /* of the node */
  const clade_shape *x, *y; /* the operand's shape; [n, c, h, w] with the height and width of the output */
  bool beside;
} clade__unfolding;
/* Offset of the matrix in the workspace, behind what gemm's `vec` needs for the product. */
size_t clade__conv_matrix_at(const clade_query *product);
void clade__conv_unfold_emit(clade_emit *e, const clade__unfolding *u, size_t to);
/* Estimated cycles for a matrix of `elements` elements, in lines of `line` positions. */
double clade__conv_unfold_cycles(const clade_query *q, const clade__window *w, int64_t line, double elements);
/* Emits col2im, from the matrix to conv2d_data's result. */
clade_status clade__conv_fold_emit(clade_emit *e, const clade_query *q, size_t from);
/* Estimated cycles for a matrix of `elements` elements, computed with `weights` weights. */
double clade__conv_fold_cycles(const clade_query *q, double elements, double weights);
/* ---- gemm, for CPUs: dense ---- */
const char *clade__gather_point_accept(const clade_query *q); /* f32, one group, 1 x 1, no stride */
extern const clade_space clade__gather_gemm_space;
const char *clade__gather_gemm_accept(const clade_query *q);
void clade__gather_gemm_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
double clade__gather_gemm_cost(const clade_query *q);
size_t clade__gather_gemm_workspace(const clade_query *q);
clade_status clade__gather_gemm_emit(clade_emit *e, const clade_query *q);
/* ---- pointwise, for CPUs: 1 x 1 windows, dense; the image is read in place ---- */
enum { CLADE__FEW_INNER = 32 };
extern const clade_space clade__gather_pointwise_space;
const char *clade__gather_pointwise_accept(const clade_query *q);
void clade__gather_pointwise_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
double clade__gather_pointwise_cost(const clade_query *q);
size_t clade__gather_pointwise_workspace(const clade_query *q);
clade_status clade__gather_pointwise_emit(clade_emit *e, const clade_query *q);
#define CLADE__GATHER_POINTWISE                                                                    \
  CLADE_IMPL(.name = "pointwise", CLADE__CONV_VEC, .accept = clade__gather_pointwise_accept,       \
             .layouts = clade__gather_pointwise_layouts, .cost = clade__gather_pointwise_cost,     \
             .workspace = clade__gather_pointwise_workspace, .emit = clade__gather_pointwise_emit, \
             .space = &clade__gather_pointwise_space, .file = "conv2d_pointwise")
/* ---- flat, for CPUs: 1 x 1 windows, images with blocked channels ---- */
extern const clade_space clade__gather_flat_space;
const char *clade__gather_flat_accept(const clade_query *q);
void clade__gather_flat_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
double clade__gather_flat_cost(const clade_query *q);
clade_status clade__gather_flat_emit(clade_emit *e, const clade_query *q);
#define CLADE__GATHER_FLAT                                                                                            \
  CLADE_IMPL(.name = "flat", CLADE__LONG_VEC, .needs_lanes = 8, .accept = clade__gather_flat_accept,                  \
             .layouts = clade__gather_flat_layouts, .cost = clade__gather_flat_cost, .emit = clade__gather_flat_emit, \
             .space = &clade__gather_flat_space, .file = "conv2d_flat")
/* ---- winograd, for CPUs: 3 x 3 windows, images with blocked channels (docs/layouts.md) ---- */
extern const clade_space clade__gather_winograd_space;
const char *clade__gather_winograd_accept(const clade_query *q);
void clade__gather_winograd_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
double clade__gather_winograd_cost(const clade_query *q);
size_t clade__gather_winograd_workspace(const clade_query *q);
clade_status clade__gather_winograd_emit(clade_emit *e, const clade_query *q);
/* For pack: transformation of the weights. */
double clade__winograd_weights_cost(const clade_query *q);
clade_status clade__winograd_weights_emit(clade_emit *e, const clade_query *q);

/* ---- winograd_group, for GPUs: 3 x 3 windows, dense images ---- */
extern const clade_space clade__winograd_group_space;
const char *clade__winograd_group_accept(const clade_query *q);
double clade__winograd_group_cost(const clade_query *q);
size_t clade__winograd_group_workspace(const clade_query *q);
clade_status clade__winograd_group_emit(clade_emit *e, const clade_query *q);
enum { CLADE__WINOGRAD_LOCAL = 24 << 10 }; /* of its smallest groups */
#define CLADE__WINOGRAD_GROUP                                                                  \
  CLADE_IMPL(.name = "winograd_group", .family = CLADE_FAMILY_GROUP, .devices = CLADE_ON_GPU,  \
             .needs_local = CLADE__WINOGRAD_LOCAL, .accept = clade__winograd_group_accept,     \
             .cost = clade__winograd_group_cost, .workspace = clade__winograd_group_workspace, \
             .emit = clade__winograd_group_emit, .space = &clade__winograd_group_space,        \
             .file = "conv2d_winograd_group", .loose = true)

/* ---- fft, for CPUs: larger windows, images with blocked channels (docs/layouts.md) ---- */
extern const clade_space clade__gather_fft_space;
const char *clade__gather_fft_accept(const clade_query *q);
void clade__gather_fft_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
double clade__gather_fft_cost(const clade_query *q);
size_t clade__gather_fft_workspace(const clade_query *q);
clade_status clade__gather_fft_emit(clade_emit *e, const clade_query *q);
/* For pack: transformation of the weights. */
double clade__fft_weights_cost(const clade_query *q);
clade_status clade__fft_weights_emit(clade_emit *e, const clade_query *q);

/* ---- bytes, for CPUs: dense ---- */
const char *clade__gather_bytes_accept(const clade_query *q);
double clade__gather_bytes_cost(const clade_query *q);
size_t clade__gather_bytes_workspace(const clade_query *q);
clade_status clade__gather_bytes_emit(clade_emit *e, const clade_query *q);

/* ---- mma: bytes and bf16 by units of CPUs, which multiply vectors or, if the configuration says so, tiles ---- */
#define CLADE__UNITS_I8   (1 << CLADE_UNIT_VNNI | 1 << CLADE_UNIT_AMX_INT8)
#define CLADE__UNITS_BF16 (1 << CLADE_UNIT_AVX512_BF16 | 1 << CLADE_UNIT_AMX_BF16)
const clade_unit_info *clade__conv_unit(const clade_query *q, bool tiles); /* for the node's types */
/* Whether to use tiles, for an instruction that takes so many words of the inner axis. Does not depend on the number of
 * cores, since the units round differently. */
bool clade__conv_by_tiles(const clade_query *q, int64_t words);
/* Images in blocks of channels, or dense. */
extern const clade_space clade__gather_mma_space;
bool clade__gather_mma_units(const clade_query *q);
const char *clade__gather_mma_accept(const clade_query *q);
void clade__gather_mma_layouts(const clade_query *q, clade_layout *in, clade_layout *out);
double clade__gather_mma_cost(const clade_query *q);
size_t clade__gather_mma_workspace(const clade_query *q);
clade_status clade__gather_mma_emit(clade_emit *e, const clade_query *q);
#define CLADE__GATHER_MMA                                                                                              \
  CLADE_IMPL(.name = "mma", .family = CLADE_FAMILY_MMA, .devices = CLADE_ON_CPU, .needs_long_loops = true,             \
             .units = clade__gather_mma_units, .needs_units = CLADE__UNITS_I8 | CLADE__UNITS_BF16,                     \
             .accept = clade__gather_mma_accept, .layouts = clade__gather_mma_layouts, .cost = clade__gather_mma_cost, \
             .workspace = clade__gather_mma_workspace, .emit = clade__gather_mma_emit,                                 \
             .space = &clade__gather_mma_space, .alternatives = 2, .file = "conv2d_mma")

/* gemm, winograd, fft: with layouts, scratch memory and a space of their own. */
#define CLADE__GATHER_BY(NAME, WAY, FILE, LOOSE)                                               \
  CLADE_IMPL(.name = NAME, CLADE__CONV_VEC, .accept = clade__gather_##WAY##_accept,            \
             .layouts = clade__gather_##WAY##_layouts, .cost = clade__gather_##WAY##_cost,     \
             .workspace = clade__gather_##WAY##_workspace, .emit = clade__gather_##WAY##_emit, \
             .space = &clade__gather_##WAY##_space, .file = FILE, .loose = LOOSE)
#define CLADE__GATHER_DIRECT                                                             \
  CLADE_IMPL(.name = "direct", CLADE__CONV_VEC, .accept = clade__gather_direct_accept,   \
             .layouts = clade__gather_direct_layouts, .cost = clade__gather_direct_cost, \
             .emit = clade__gather_direct_emit, .space = &clade__gather_direct_space,    \
             .alternatives = CLADE__ALTERNATIVES)

#endif
