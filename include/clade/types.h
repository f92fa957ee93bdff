/* Element types, shapes and layouts: what every value has. */
#ifndef CLADE_TYPES_H
#define CLADE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <clade/dtypes.h>
#include <clade/options.h>
#include <clade/status.h>

CLADE_BEGIN_DECLS

typedef enum clade_dtype {
  CLADE_DTYPE_NONE = 0,
#define CLADE_DTYPE_ROW(NAME, number, ...) CLADE_##NAME = number,
  CLADE_DTYPE_MAP(CLADE_DTYPE_ROW)
#undef CLADE_DTYPE_ROW
} clade_dtype;

CLADE_API const char *clade_dtype_name(clade_dtype dtype); /* "f32"; "?" when there is no such type */
/* Bytes that `elements` of a type occupy, or CLADE_OVERFLOW / CLADE_DTYPE. */
CLADE_API clade_status clade_dtype_bytes(clade_dtype dtype, int64_t elements, size_t *bytes);

enum { CLADE_MAX_RANK = 8 };

/* A dimension is a size (>= 0) or a symbol: a named size that is given when a func is specialized. Symbols are interned
 * for the life of the process, so that two dimensions are the same exactly when their numbers are. Arithmetic on
 * symbols makes derived symbols named by their expression. */
typedef int64_t clade_dim;
#define CLADE_DIM(name) clade_dim_symbol(name)
#define CLADE_DIM_REST  INT64_MIN /* in clade_reshape: whatever is left */

CLADE_API clade_dim clade_dim_symbol(const char *name); /* CLADE_DIM_ERROR when the name is not an identifier */
CLADE_API bool clade_dim_is_symbol(clade_dim dim);
/* The symbol's name; NULL for a size. Static for the process. */
CLADE_API const char *clade_dim_name(clade_dim dim);
/* Sums, differences, products and quotients (rounded down); CLADE_DIM_ERROR where a size would overflow, become
 * negative or divide by zero. */
#define CLADE_DIM_ERROR (INT64_MIN + 1)
CLADE_API clade_dim clade_dim_add(clade_dim a, clade_dim b);
CLADE_API clade_dim clade_dim_sub(clade_dim a, clade_dim b);
CLADE_API clade_dim clade_dim_mul(clade_dim a, clade_dim b);
CLADE_API clade_dim clade_dim_div(clade_dim a, clade_dim b);

typedef struct clade_shape {
  int rank;
  clade_dim dim[CLADE_MAX_RANK]; /* row-major: the last one is contiguous */
} clade_shape;

CLADE_API clade_shape clade_shape_of(size_t rank,
                                     const clade_dim *dims); /* a rank above 8 is refused where it is used */
#define CLADE_SCALAR clade_shape_of(0, NULL)
#ifdef __cplusplus
CLADE_END_DECLS
static inline clade_shape clade_shape_list(std::initializer_list<clade_dim> dims) {
  return clade_shape_of(dims.size(), dims.begin());
}
#define CLADE_SHAPE(...) clade_shape_list({__VA_ARGS__})
CLADE_BEGIN_DECLS
#else
#define CLADE_SHAPE(...) \
  clade_shape_of(sizeof((clade_dim[]){__VA_ARGS__}) / sizeof(clade_dim), (clade_dim[]){__VA_ARGS__})
#endif

CLADE_API bool clade_shape_equal(const clade_shape *a, const clade_shape *b);
CLADE_API bool clade_shape_is_constant(const clade_shape *shape); /* no symbols */
/* The product of the dimensions; 1 for a scalar. Fails on symbols, negative sizes, overflow and ranks above 8. */
CLADE_API clade_status clade_shape_elements(const clade_shape *shape, int64_t *elements);
/* "[batch, 3, 28]" into a buffer of `size` bytes, always terminated. Returns `text`. */
CLADE_API char *clade_shape_text(const clade_shape *shape, char *text, size_t size);

/* How a value's elements lie in memory. All zero is dense row-major. Blocked: axis `axis` is split into blocks of
 * `block`; the block index stays in the axis' place, the position inside becomes the innermost dimension, and of
 * `interleave` > 1 consecutive elements along the axis before it stand next to one another (pairs for bf16, fours for
 * int8). Lanes that pad the last block hold unspecified values. With CLADE_PANELS as its tile, a matrix of the last two
 * axes lies block after block: all that a block has along the other axis, of which `interleave` stand next to one
 * another, and zeros fill those up. So do weights of windows (four axes), blocked along axis 1: of each block, axis 0
 * and then the window. From CLADE_SPECTRUM on a tile is of weights as their spectrum. */
enum { CLADE_PANELS = 1, CLADE_SPECTRUM = 16 };
typedef struct clade_layout {
  int16_t axis;
  uint16_t block; /* 0: dense */
  uint16_t interleave;
  /* 0: none. CLADE_PANELS. 4, 6: weights of 3 x 3 in a base of tile x tile, in which Winograd's algorithm convolves.
   * 16, 32, 64: weights of windows, each half the spectrum of tile x tile places, tile x (tile / 2 + 1) complex values.
   * Implementations ask for the last five (docs/layouts.md); clade_pack does not take them. */
  uint16_t tile;
} clade_layout;

typedef struct clade_type {
  clade_dtype dtype;
  clade_layout layout;
  clade_shape shape;
} clade_type;

CLADE_API bool clade_type_equal(const clade_type *a, const clade_type *b);
/* Bytes in memory, padding included. */
CLADE_API clade_status clade_type_bytes(const clade_type *type, size_t *bytes);

/* Converts `n` elements on the host, as clade_cast does on a device: to floats to nearest even, what rounds to more
 * than the largest number to an infinity, or to NaN where the type has none (f8e4m3, as PyTorch's cast does: clip first
 * to saturate); floats are cut towards zero and saturate to integers (NaN becomes 0); integers wrap. */
CLADE_API clade_status clade_convert(clade_dtype to, void *dst, clade_dtype from, const void *src, size_t n);

CLADE_END_DECLS
#endif
