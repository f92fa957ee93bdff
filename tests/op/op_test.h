/* Tests of all ops. An op provides a generator of random cases, a function that builds the nodes, and a reference in
 * double. The harness (op_test.c) runs each case between guard zones of NaN, compares every result within its bound,
 * and compares gradients with central differences. */
#ifndef CLADE_OP_TEST_H
#define CLADE_OP_TEST_H

#include "op/op.h"

enum { OP_INPUTS = 32, OP_OUTPUTS = 96, OP_FORMS = 5 };

/* ---- random numbers; the same seed gives the same case ---- */
typedef struct op_random {
  uint64_t seed, count;
  uint32_t four[4]; /* Philox makes four at a time */
} op_random;
double op_uniform(op_random *r, double low, double high);
int64_t op_integer(op_random *r, int64_t low, int64_t high); /* inclusive */
bool op_chance(op_random *r, double probability);
double op_not_finite(op_random *r); /* NaN or an infinity */

/* ---- cases ---- */
typedef struct op_input {
  clade_dtype dtype;
  clade_shape shape;
  double low, high; /* range of values; both 0: the harness's default for the dtype */
  int64_t ties;     /* not 0: values are multiples of 1/ties, which makes ties likely */
} op_input;

/* Device properties that a case assumes, so that few elements take the paths for many. */
typedef struct op_told {
  uint32_t units;
  uint64_t second_cache, last_cache; /* in bytes */
  uint64_t group;                    /* most work-items of a group */
} op_told;

typedef struct op_case {
  /* set before draw */
  clade_dtype dtype; /* one of the test's */
  int number;        /* 0, 1, 2, … within the dtype, to enumerate variants */
  int form;          /* index in the test's forms */
  bool small;        /* no axis above 8 and few elements: suitable for Oclgrind */
  bool light;        /* fewer elements, for slow devices */
  bool brief;        /* fewer kernels, for devices with slow compilers */
  bool gradient;     /* gradients are compared: few elements, away from kinks */
  bool more;         /* an additional case for one implementation: not run by others */
  /* Run with all configurations, whose blocks are larger than most cases: some should have several blocks. */
  bool tiles;
  const char *impl; /* the implementation whose turn it is, which may refuse; "": the op has none */
  int alternative;  /* of its layouts (clade_impl.alternatives) */
  bool fp64;        /* the device supports double, and so has correctly rounded functions */
  /* set by draw */
  int n_in, n_out; /* initially 1 */
  op_told told;    /* assumed device properties; initially the real ones */
  bool any_units;  /* the bits must not depend on the number of compute units */
  op_input in[OP_INPUTS];
  uint32_t differentiable; /* bit mask of inputs whose gradients are compared; initially all floats */
  int i[32];               /* for the test: axes, flags, … */
  double f[8];
  char note[96]; /* printed if the case fails */
  /* set for reference: the implementation used for the op's node, and its configuration (NULL: none) */
  const char *took;
  const int32_t *config;
  bool imitated; /* its matrix units are emulated in software */
} op_case;

/* Values of an input, or expected values of a result. */
typedef struct op_array {
  clade_dtype dtype;
  clade_shape shape;
  int64_t n;
  double *v; /* of inputs: representable in the dtype */
  /* Of results: error bound in addition to half a unit in the last place of the dtype; initially 0. HUGE_VAL: any
   * value is accepted. */
  double *bound;
  bool signs; /* of results: the signs of zeros are compared */
} op_array;

/* A way to build nodes of the op, such as a public builder. Forms share the cases of each implementation evenly. */
typedef struct op_form {
  const char *name;
  const char *lacks; /* names of implementations that never take this form; NULL: all can */
} op_form;

typedef struct op_test {
  const char *name;          /* row in ops.def */
  const clade_dtype *dtypes; /* types that the op supports; ends with CLADE_DTYPE_NONE */
  void (*draw)(op_case *c, op_random *r);
  /* Sets n_out values; errors are sticky in the graph. */
  void (*build)(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out);
  /* Sets the type of each output by op_result, and the expected values. */
  void (*reference)(const op_case *c, const op_array *in, op_array *out);
  /* Called after the harness filled the inputs; may be NULL. */
  void (*fill)(const op_case *c, op_random *r, op_array *in);
  double gradient_bound; /* relative to the sum of absolute terms; 0: 1e-4 */
  const op_form *forms;  /* up to OP_FORMS, ends with {0}; NULL: one form */
} op_test;

/* tests/op/<name>.c defines, for each row of ops.def: */
#define CLADE_OP(NAME, name) extern const op_test op_test_##name;
#include "op/ops.def"
#undef CLADE_OP

/* ---- for draw ---- */
/* A shape of 0 to 5 axes of zeros, ones, primes, powers of two and their neighbors, with at most `elements`
 * elements. */
clade_shape op_draw_shape(op_random *r, const op_case *c, int min_rank, int max_rank, int64_t elements);
/* Sometimes draws two axes of one or two long rows or few columns, long enough for work-items to alternate between
 * parts of their share, and assumes a last-level cache that does not hold the value. */
bool op_draw_long(op_random *r, op_case *c, clade_shape *shape);
int64_t op_draw_extent(op_random *r, const op_case *c, int64_t most); /* one such axis length */
/* A shape that broadcasts to `shape`: axes become 1, leading ones may be dropped. */
clade_shape op_draw_broadcast(op_random *r, const clade_shape *shape);
bool op_is_float(clade_dtype dtype);
/* Type lists by the rows of clade/dtypes.h; each ends with CLADE_DTYPE_NONE. */
enum { OP_TYPES = 64 };
extern clade_dtype op_all_types[OP_TYPES];
extern clade_dtype op_computed_types[OP_TYPES]; /* without storage types */
extern clade_dtype op_computed_floats[OP_TYPES];
extern clade_dtype op_number_types[OP_TYPES]; /* computed types except bool */
extern clade_dtype op_factor_types[OP_TYPES]; /* types with products */

/* ---- for reference ---- */
void op_result(op_array *out, clade_dtype dtype, clade_shape shape); /* allocates zeroed v and bound */
double op_round(clade_dtype dtype, double value);                    /* rounding by storing and loading */
/* The same for block-quantized elements, all n of them. */
void op_round_blocks(clade_dtype dtype, int64_t n, double *v);
double op_tie(clade_dtype dtype, double value); /* a value near this one, halfway between two numbers */
double op_epsilon(clade_dtype dtype);           /* of the compute type: 2^-24 for floats, else 0 */
/* Index in an array of `shape` for the element that broadcasts to `index` of `to`. */
int64_t op_broadcast_at(const clade_shape *shape, const clade_shape *to, const int64_t *index);
void op_unravel(const clade_shape *shape, int64_t at, int64_t index[CLADE_MAX_RANK]);
int64_t op_elements(const clade_shape *shape);

#endif
