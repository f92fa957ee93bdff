/* Properties of element types, from the table in clade/dtypes.h. */
#ifndef CLADE_BASE_DTYPE_H
#define CLADE_BASE_DTYPE_H

#include <clade/types.h>

typedef enum clade__kind { CLADE__SIGNED, CLADE__UNSIGNED, CLADE__REAL, CLADE__TRUTH } clade__kind;
typedef struct clade__dtype {
  const char *name;
  unsigned bits, elements, bytes; /* bits of an element; elements and bytes of a block */
  clade__kind kind;
  bool stored; /* storage only: few ops compute with it */
  int exponent, fraction;
  bool infinite;
  const char *compute; /* type in OpenCL C */
  clade_dtype product; /* type of sums of products; CLADE_DTYPE_NONE: no products */
  const char *npy, *tensors;
  double tolerance;
} clade__dtype;

const clade__dtype *clade__dtype_row(clade_dtype dtype); /* NULL: unknown type */
/* Iterates over the types by number, beginning and ending with CLADE_DTYPE_NONE. */
clade_dtype clade__dtype_next(clade_dtype dtype);
clade_dtype clade__dtype_named(const char *name);   /* CLADE_DTYPE_NONE: unknown */
const char *clade__compute_type(clade_dtype dtype); /* in OpenCL C */

bool clade__is_float(clade_dtype dtype);
bool clade__is_integer(clade_dtype dtype);  /* excludes bool */
bool clade__is_computed(clade_dtype dtype); /* by every op that accepts this kind of number */
bool clade__is_computed_float(clade_dtype dtype);
bool clade__has_blocks(clade_dtype dtype); /* elements share a block with one scale */
/* Lists the types for which `which` is true: "f32, f16 or bf16". Returns `text`. */
enum { CLADE__DTYPE_NAMES = 128 };
char *clade__dtype_names(bool (*which)(clade_dtype dtype), char text[CLADE__DTYPE_NAMES]);

/* Distance between elements in bytes. Fails for types whose elements share a block. */
clade_status clade__dtype_element(clade_dtype dtype, size_t *bytes);

/* Integers and bool: the smallest and the largest value. */
int64_t clade__dtype_low(clade_dtype dtype);
int64_t clade__dtype_high(clade_dtype dtype);
/* Floats: the largest finite value, half a unit in the last place of 1, and the smallest positive value. */
double clade__dtype_most(clade_dtype dtype);
double clade__dtype_unit(clade_dtype dtype);
double clade__dtype_least(clade_dtype dtype);

/* Converts block-quantized elements (blocks.c) from and to f32. Padding of the last block is 0. */
void clade__blocks_load(clade_dtype type, const void *blocks, size_t n, float *x);
void clade__blocks_store(clade_dtype type, void *blocks, size_t n, const float *x);

#endif
