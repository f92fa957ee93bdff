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

/* ---- the ops, of which each computes one of x, w and y from the other two (conv2d.c) ---- */
clade_status clade__conv_infer(clade_node *n);
clade_status clade__conv_grad(clade_grad *g);
void clade__conv_ties(clade_ties *t, const clade_node *n); /* of conv2d and conv2d_data, as are the dimensions */
void clade__conv_dims(clade_dims *d, const clade_node *n);
/* Fields that the ops share: all of them; conv2d and conv2d_data, whose further operands belong to the epilogue. */
#define CLADE__CONV_OP                                                           \
  .size = sizeof(clade_op), .min_in = 2, .n_out = 1, .infer = clade__conv_infer, \
  .attr_bytes = sizeof(clade__conv_attrs), .attrs = clade__conv_table, .autocast = CLADE_AUTOCAST_NARROW
#define CLADE__CONV_GATHER_OP                                                                     \
  CLADE__CONV_OP, .max_in = 2 + CLADE__ELT_INPUTS - 1, .problem_in = 2, .ties = clade__conv_ties, \
                  .dims = clade__conv_dims

clade_val clade__conv_node(clade_graph *g, const clade_op *op, const clade__conv_attrs *like, clade_val a, clade_val b,
                           const clade_shape *shape);

/* ---- a pass as sums of products (problem.c) ---- */
/* conv2d and conv2d_data `gather`: result (n, group, row, place) is the sum over inner channels and taps of
 * source(n, group, channel, map(place, tap)) * weight(group, row, channel, tap). conv2d_weights is described as the
 * conv2d with these operands: its result has `rows` times `columns` weights in each group, `outputs` in total. */
typedef struct clade__conv {
  int64_t n, groups, rows, inner, source[2], result[2], kernel[2];
  int64_t taps, columns, outputs;
  int64_t w_group, w_row, w_inner; /* strides of the weights */
  clade__map_1d map[2];
  int64_t grid[2], phases; /* positions of the largest phase; number of phases */
  bool forward;            /* not conv2d_data */
  bool depthwise;          /* groups of one channel */
  bool point;              /* 1 x 1 windows without stride and padding: a matrix product in NCHW */
} clade__conv;
clade__conv clade__conv_of(const clade_node *n);
clade__conv clade__conv_flat(const clade_node *n); /* with each image as one line if windows are points */

/* What an implementation needs of a node. clade__conv_refuses returns NULL, or the reason of the first need that is not
 * met. FEW: 32-bit element counts; SMALL: also in blocked layouts. BLOCKS: groups of whole blocks of channels. */
enum {
  CLADE__CONV_POINT = 1,
  CLADE__CONV_STEPS_1 = 2, /* no stride */
  CLADE__CONV_3X3 = 4,     /* without stride and dilation */
  CLADE__CONV_ONE_GROUP = 8,
  CLADE__CONV_DEPTHWISE = 16,
  CLADE__CONV_JOINED = 32, /* not depthwise */
  CLADE__CONV_BLOCKS = 64,
  CLADE__CONV_FLOATS = 128,
  CLADE__CONV_F32 = 256,
  CLADE__CONV_FEW = 512,
  CLADE__CONV_SMALL = 1024,
  CLADE__CONV_TAPS = 2048, /* at most CLADE__MOST_TAPS */
  CLADE__CONV_SOME = 4096, /* products */
};
enum { CLADE__MOST_TAPS = 128 };
const char *clade__conv_refuses(const clade_query *q, unsigned needs);
/* For functions that return NULL or a reason: returns a reason that another one has. */
#define CLADE__REFUSE(reason)   \
  do {                          \
    const char *why = (reason); \
    if (why) return why;        \
  } while (0)

/* Seconds for cycles that are summed over all cores; a core starts two vector operations per cycle. */
double clade__conv_cost(const clade_query *q, double cycles);
static inline int64_t clade__conv_units(const clade_query *q) { return CLADE_MAX(q->device->compute_units, 1u); }

/* Configurations of which the one with the fewest cycles is the default. Parameters in the mask `sums` determine the
 * order of sums; they are chosen first, for `units` 0, which stands for no particular number of cores. */
typedef struct clade__choices {
  int params;
  unsigned sums;
  bool (*nth)(const clade_query *q, const void *problem, int i, int32_t *config); /* as clade_space.configs */
  double (*cycles)(const clade_query *q, const void *problem, const int32_t *config, double units);
} clade__choices;
void clade__conv_choose(const clade__choices *c, const clade_query *q, const void *problem, int32_t *config);

/* ---- layouts and launches (launch.c) ---- */
/* Alternatives in layouts (clade_impl.alternatives): images in blocks of channels; dense ones with a blocked result;
 * dense ones with a dense result. conv2d_weights, whose result is dense, has blocked images, or else dense ones. */
enum { CLADE__BLOCKED, CLADE__TO_BLOCKED, CLADE__DENSE, CLADE__ALTERNATIVES };
/* Spaces of implementations without other parameters: the first two of the alternatives, or all. */
extern const clade_space clade__conv_two_layouts, clade__conv_three_layouts;
/* Layouts of all but the weights in an alternative. */
void clade__gather_images(const clade_query *q, int alternative, clade_layout *in, clade_layout *out);
/* Whether an operand of the epilogue has the result's channels, height and width, and thus its layout. */
bool clade__gather_whole(const clade_shape *operand, const clade_shape *y);
/* Weights in blocks of rows; as panels, they are consecutive for each inner channel. */
clade_layout clade__gather_weights(const clade_query *q, int block, int tile);
clade_layout clade__gather_panels(const clade_query *q, int block);

/* Begins a launch that computes the result of conv2d or conv2d_data: defines the element types, the epilogue and the
 * vector width that it is computed in, and `defines`. WIDE: also sixteen results at once. */
typedef enum clade__gather_wide { CLADE__SINGLE, CLADE__WIDE } clade__gather_wide;
clade_status clade__gather_begin(clade_emit *e, const clade_query *q, const char *kernel, clade__gather_wide wide,
                                 const clade__number *defines, clade_kernel_step **out);
void clade__conv_operands(clade_kernel_step *s);                    /* both operands and the result */
void clade__conv_sizes(clade_kernel_step *s, const clade__conv *c); /* n to result[1] */
void clade__conv_maps(clade_kernel_step *s, const clade__conv *c);
/* Sizes; the kernel's height and width, and `count` more numbers; maps. */
void clade__conv_problem(clade_kernel_step *s, const clade__conv *c, int count, const int64_t *more);
/* Strides of the epilogue's operands along blocks of channels, images, channels and pixels ([4] to [7]). */
void clade__gather_strides(const clade_node *n, int64_t strides[CLADE__ELT_INPUTS][CLADE_MAX_RANK]);
void clade__gather_epilogue(clade_kernel_step *s, const clade_node *n);
/* Ends a launch of `items` work-items on a CPU with the result's strides and the epilogue's operands. */
clade_status clade__gather_end(clade_kernel_step *s, const clade_query *q, int64_t items);

/* ---- partial sums of conv2d_weights, in the workspace (conv2d_weights.c) ----
 *
 *   scratch  size of the workspace
 *   open     begins the launch that computes the parts: its operands, `first` (0 or 1) before the other, and the target
 *   begin    the same with x first, followed by sizes, window and map
 *   join     the launch that adds the parts in order
 *
 * Parts are `turned` if their rows are columns of w. A single f32 part that is not turned is the result itself. */
size_t clade__weights_scratch(const clade_query *q, int64_t parts, bool turned);
clade_kernel_step *clade__weights_open(clade_emit *e, const clade_query *q, const char *kernel, int first,
                                       int64_t parts, bool turned);
clade_kernel_step *clade__weights_begin(clade_emit *e, const clade_query *q, const char *kernel, const clade__conv *c,
                                        int64_t parts);
clade_status clade__weights_join(clade_emit *e, const clade_query *q, int64_t parts, bool turned, bool spaced);
/* Row stride of parts that are `spaced`, which avoids cache set conflicts. */
int64_t clade__weights_pitch(const clade_query *q, int64_t parts, bool turned);
double clade__weights_join_cycles(const clade__conv *c, int64_t parts);
double clade__weights_flops(const clade__conv *c);
/* The partition of sums depends only on the sizes, for reproducibility. It is chosen for this number of cores: by the
 * sum of all work-items, plus the longest one for each core. */
enum { CLADE__WEIGHTS_UNITS = 8 };
/* That, if `units` is 0, and else the cycles of so many cores that share the work-items and the join. */
double clade__weights_cycles(double items, double item, double join, double units);
/* Images in blocks of channels: always; by the alternative. */
void clade__weights_blocked(const clade_query *q, clade_layout *in, clade_layout *out);
void clade__weights_images(const clade_query *q, clade_layout *in, clade_layout *out);
/* Register tile of `flat` and `vec`: rows by two vectors. */
static inline int clade__weights_lanes(const clade_query *q) { return q->device->vector_f32 >= 16 ? 16 : 8; }
static inline int clade__weights_panel(const clade_query *q) { return 2 * clade__weights_lanes(q); }
static inline int clade__weights_rows(const clade_query *q) { return clade__weights_lanes(q) == 16 ? 12 : 6; }

/* ---- implementations: clade__gather_NAME of conv2d and conv2d_data, clade__weights_NAME of conv2d_weights, in NAME.c
 * or weights_NAME.c ---- */
#define CLADE__CONV_VEC CLADE__LONG_VEC, .needs_lanes = 4 /* SIMD is required */
#define CLADE__CONV_IMPL(...) \
  { .size = sizeof(clade_impl), __VA_ARGS__ }
extern const clade_impl *const clade__conv_impls[], *const clade__conv_data_impls[]; /* of conv2d and conv2d_data */
extern const clade_impl clade__gather_bytes, clade__gather_clblast, clade__gather_direct, clade__gather_depthwise,
    clade__gather_lines, clade__gather_gemm, clade__gather_flat, clade__gather_winograd, clade__gather_fft,
    clade__gather_mma, clade__gather_winograd_group, clade__gather_depthwise_group;
extern const clade_impl clade__weights_flat, clade__weights_winograd, clade__weights_mma, clade__weights_vec,
    clade__weights_gemm, clade__weights_lines, clade__weights_depthwise, clade__weights_depthwise_group;
/* Transformation of the weights, for pack. */
double clade__transformed_weights_cost(const clade_query *q);
clade_status clade__transformed_weights_emit(clade_emit *e, const clade_query *q);

#endif
