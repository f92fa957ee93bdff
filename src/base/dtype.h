/* What the host asks of an element type's row (clade/dtypes.h). */
#ifndef CLADE_BASE_DTYPE_H
#define CLADE_BASE_DTYPE_H

#include <clade/types.h>

typedef enum clade__kind { CLADE__SIGNED, CLADE__UNSIGNED, CLADE__REAL, CLADE__TRUTH } clade__kind;
typedef struct clade__dtype {
  const char *name;
  unsigned bits, elements, bytes; /* of an element; of a block */
  clade__kind kind;
  bool stored; /* not computed with by ops at large */
  int exponent, fraction;
  bool infinite;
  const char *compute; /* OpenCL C's */
  clade_dtype product; /* CLADE_DTYPE_NONE: it has none */
  const char *npy, *tensors;
  double tolerance;
} clade__dtype;

const clade__dtype *clade__dtype_row(clade_dtype dtype); /* NULL: there is no such type */
/* The type behind this one, by number; from CLADE_DTYPE_NONE on and back to it. */
clade_dtype clade__dtype_next(clade_dtype dtype);
clade_dtype clade__dtype_named(const char *name);   /* CLADE_DTYPE_NONE: none */
const char *clade__compute_type(clade_dtype dtype); /* of OpenCL C */

bool clade__is_float(clade_dtype dtype);
bool clade__is_integer(clade_dtype dtype);  /* not bool */
bool clade__is_computed(clade_dtype dtype); /* by all ops that take its kind */
bool clade__is_computed_float(clade_dtype dtype);
bool clade__has_blocks(clade_dtype dtype); /* its elements share blocks, as with a common scale */
/* "f32, f16 or bf16": those of which `which` is true. Returns `text`. */
enum { CLADE__DTYPE_NAMES = 128 };
char *clade__dtype_names(bool (*which)(clade_dtype dtype), char text[CLADE__DTYPE_NAMES]);

/* Bytes from one element to the next, where each lies by itself. A type whose elements share a block is refused. */
clade_status clade__dtype_element(clade_dtype dtype, size_t *bytes);

/* Of integers and bool: the least and the largest. */
int64_t clade__dtype_low(clade_dtype dtype);
int64_t clade__dtype_high(clade_dtype dtype);
/* Of floats: the largest number; half a unit in the last place of 1; the smallest number above 0. */
double clade__dtype_most(clade_dtype dtype);
double clade__dtype_unit(clade_dtype dtype);
double clade__dtype_least(clade_dtype dtype);

/* Elements that share blocks (blocks.c), from and to f32; what a last block has more is 0. */
void clade__blocks_load(clade_dtype type, const void *blocks, size_t n, float *x);
void clade__blocks_store(clade_dtype type, void *blocks, size_t n, const float *x);

#endif
