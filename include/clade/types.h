/* Element types, shapes and memory layouts of values. */
#ifndef CLADE_TYPES_H
#define CLADE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <clade/dtypes.h>
#include <clade/options.h>
#include <clade/status.h>

CLADE_BEGIN_DECLS

/* ---- element types ---- */
/* The type of an element. <clade/dtypes.h> has one row of properties per type. */
typedef enum clade_dtype {
  CLADE_DTYPE_NONE = 0, /* no type */
#define CLADE_DTYPE_ROW(NAME, number, ...) CLADE_##NAME = number,
  CLADE_DTYPE_MAP(CLADE_DTYPE_ROW)
#undef CLADE_DTYPE_ROW
} clade_dtype;

CLADE_API const char *clade_dtype_name(clade_dtype dtype); /* the name, such as "f32"; "?" if there is no such type */
/* Stores the bytes that `elements` of a type occupy. Fails with CLADE_OVERFLOW or CLADE_DTYPE. */
CLADE_API clade_status clade_dtype_bytes(clade_dtype dtype, int64_t elements, size_t *bytes);

/* ---- dimensions and shapes ---- */
enum { CLADE_MAX_RANK = 8 }; /* the largest rank */

/* A dimension: a size (>= 0), or a symbol whose size is given when a func is specialized. Symbols are interned for the
 * lifetime of the process, so two dimensions are equal exactly if their numbers are. Arithmetic on symbols gives
 * derived symbols that are named by their expression. */
typedef int64_t clade_dim;
/* The symbol of this name: CLADE_DIM("batch"). */
#define CLADE_DIM(name) clade_dim_symbol(name)
/* In clade_reshape and clade_slice: the remaining size. */
#define CLADE_DIM_REST INT64_MIN

/* The symbol of this name; CLADE_DIM_ERROR if the name is not an identifier. */
CLADE_API clade_dim clade_dim_symbol(const char *name);
CLADE_API bool clade_dim_is_symbol(clade_dim dim); /* whether the dimension is a symbol */
/* The symbol's name, valid for the lifetime of the process; NULL for a size. */
CLADE_API const char *clade_dim_name(clade_dim dim);

/* The result of arithmetic that failed. */
#define CLADE_DIM_ERROR (INT64_MIN + 1)
/* Sum, difference, product and quotient (rounded down). CLADE_DIM_ERROR if the result overflows or is negative, or on
 * division by zero. */
CLADE_API clade_dim clade_dim_add(clade_dim a, clade_dim b);
CLADE_API clade_dim clade_dim_sub(clade_dim a, clade_dim b);
CLADE_API clade_dim clade_dim_mul(clade_dim a, clade_dim b);
CLADE_API clade_dim clade_dim_div(clade_dim a, clade_dim b);

/* The dimensions of a value in row-major order. */
typedef struct clade_shape {
  int rank;                      /* number of dimensions; 0 for a scalar */
  clade_dim dim[CLADE_MAX_RANK]; /* the last one is contiguous in memory */
} clade_shape;

/* A shape from an array of dimensions. A rank above 8 is refused by the function that uses the shape. */
CLADE_API clade_shape clade_shape_of(size_t rank, const clade_dim *dims);
/* The shape of a scalar. */
#define CLADE_SCALAR clade_shape_of(0, NULL)
#ifdef __cplusplus
CLADE_END_DECLS
static inline clade_shape clade_shape_list(std::initializer_list<clade_dim> dims) {
  return clade_shape_of(dims.size(), dims.begin());
}
#define CLADE_SHAPE(...) clade_shape_list({__VA_ARGS__})
CLADE_BEGIN_DECLS
#else
/* A shape from its dimensions: CLADE_SHAPE(32, 3, 224, 224). */
#define CLADE_SHAPE(...) \
  clade_shape_of(sizeof((clade_dim[]){__VA_ARGS__}) / sizeof(clade_dim), (clade_dim[]){__VA_ARGS__})
#endif

CLADE_API bool clade_shape_equal(const clade_shape *a, const clade_shape *b); /* whether both shapes are equal */
CLADE_API bool clade_shape_is_constant(const clade_shape *shape);             /* whether no dimension is a symbol */
/* Counts the elements, 1 for a scalar. Fails on symbols, negative sizes, overflow and ranks above 8. */
CLADE_API clade_status clade_shape_elements(const clade_shape *shape, int64_t *elements);
/* Writes "[batch, 3, 28]" into a buffer of `size` bytes, always with a terminating zero. Returns `text`. */
CLADE_API char *clade_shape_text(const clade_shape *shape, char *text, size_t size);

/* ---- layouts ---- */
/* Values of clade_layout.tile: panels, and the smallest tile of a spectrum. */
enum { CLADE_PANELS = 1, CLADE_SPECTRUM = 16 };

/* The memory layout of a value. All fields zero: dense and row-major.
 *
 * Blocked: axis `axis` is split into blocks of `block` elements. The block index takes the place of the axis, and the
 * position within a block becomes the innermost dimension. With `interleave` > 1, that many consecutive elements of the
 * axis before `axis` are adjacent (pairs for bf16, groups of four for i8). Padding elements of the last block have
 * unspecified values.
 *
 * Panels (`tile` is CLADE_PANELS): a matrix of the last two axes is stored block after block. A block holds everything
 * along the other axis, of which `interleave` elements are adjacent; padding is zero. Convolution weights (four axes)
 * are blocked along axis 1; a block holds axis 0, then the kernel window. With `interleave` > 1 they are blocked along
 * axis 0 or 1; a block holds the kernel window, then the other axis. */
typedef struct clade_layout {
  int16_t axis;        /* the blocked axis */
  uint16_t block;      /* elements per block; 0: dense */
  uint16_t interleave; /* adjacent elements of the other axis */
  /* 0: none. CLADE_PANELS: panels. 4 or 6: 3 x 3 weights, transformed for Winograd's algorithm with tiles of that size.
   * 16, 32 or 64: weights as one half of the spectrum of a tile, tile x (tile / 2 + 1) complex values. Implementations
   * ask for the last five (docs/layouts.md); clade_pack refuses them. */
  uint16_t tile;
} clade_layout;

/* Everything about a value but its contents. */
typedef struct clade_type {
  clade_dtype dtype;   /* element type */
  clade_layout layout; /* memory layout */
  clade_shape shape;   /* dimensions */
} clade_type;

/* Whether both types are equal in element type, layout and shape. */
CLADE_API bool clade_type_equal(const clade_type *a, const clade_type *b);
/* Stores the bytes that a value occupies in memory, padding included. */
CLADE_API clade_status clade_type_bytes(const clade_type *type, size_t *bytes);

/* ---- conversion ---- */
/* Converts `n` elements on the host, with the results of clade_cast on a device:
 *
 * - to floats: rounded to nearest, ties to even; a value beyond the largest number becomes an infinity, or NaN if the
 *   type has no infinities (f8e4m3, as in PyTorch; clip first to saturate);
 * - from floats to integers: rounded toward zero and saturated; NaN becomes 0;
 * - between integers: wrapped around. */
CLADE_API clade_status clade_convert(clade_dtype to, void *dst, clade_dtype from, const void *src, size_t n);

CLADE_END_DECLS
#endif
