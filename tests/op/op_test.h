/* The test of all ops. An op brings a way to draw random cases, the nodes of a case, and a reference in double; the
 * harness (op_test.c) feeds each case to a device between guard zones of NaN, compares every result within its bound,
 * and compares gradients with central differences. */
#ifndef CLADE_OP_TEST_H
#define CLADE_OP_TEST_H

#include "op/op.h"

enum { OP_INPUTS = 32, OP_OUTPUTS = 96, OP_FORMS = 5 };

/* ---- random choices; the same seed gives the same case ---- */
typedef struct op_random {
  uint64_t seed, count;
  uint32_t four[4]; /* they are made in fours */
} op_random;
double op_uniform(op_random *r, double low, double high);
int64_t op_integer(op_random *r, int64_t low, int64_t high); /* both included */
bool op_chance(op_random *r, double probability);
double op_not_finite(op_random *r); /* NaN or an infinity */

/* ---- cases ---- */
typedef struct op_input {
  clade_dtype dtype;
  clade_shape shape;
  double low, high; /* of the values; both 0: the harness' choice for the dtype */
  int64_t ties;     /* not 0: values are multiples of 1/ties, so that equal ones occur */
} op_input;

/* So that few elements are for kernels what many are on some device. */
typedef struct op_told {
  uint32_t units;
  uint64_t second_cache, last_cache; /* bytes */
} op_told;

typedef struct op_case {
  /* given to draw */
  clade_dtype dtype; /* one of the test's */
  int number;        /* 0, 1, 2, … of that dtype: for rows that are gone through in turn */
  int form;          /* which of the test's */
  bool small;        /* no axis above 8 and few elements: this one runs under Oclgrind */
  bool light;        /* fewer elements, on a device that is slow at them */
  bool brief;        /* fewer kernels, on a device whose compiler takes seconds for each */
  bool gradient;     /* derivatives are wanted: few elements, away from kinks */
  bool more;         /* one of those that make up an implementation's number: not run by another one */
  bool tiles;        /* all rows compute it, whose blocks are larger than most cases: some shall have several of them */
  const char *impl;  /* whose turn it is; it may refuse the case. "": the op has none */
  bool fp64;         /* the device has doubles, and so correctly rounded libraries */
  /* written by draw */
  int n_in, n_out; /* n_out is 1 at first */
  op_told told;    /* what the device is said to have; at first what it has */
  bool any_units;  /* whether the same bits are wanted of a device of another number of units */
  op_input in[OP_INPUTS];
  uint32_t differentiable; /* mask of inputs whose gradients are compared; all float ones at first */
  int i[32];               /* the test's own: axes, flags, rows */
  double f[8];
  char note[96]; /* printed when the case fails */
  /* known to reference: the implementation that was given to the op's node, and its parameters (NULL: none) */
  const char *took;
  const int32_t *config;
} op_case;

/* What an input holds, or what a result must be. */
typedef struct op_array {
  clade_dtype dtype;
  clade_shape shape;
  int64_t n;
  double *v;     /* of inputs: representable in the dtype */
  double *bound; /* of results: how far off a device may be, besides half a unit in the last place of the dtype; 0 at
                    first. HUGE_VAL: anything (where the definition leaves it open) */
  bool signs;    /* of results: those of zeros are compared, too */
} op_array;

/* What ends in nodes of the op: a builder of its own, say. They share the cases of each implementation evenly. */
typedef struct op_form {
  const char *name;
  const char *lacks; /* implementations that can have none of these cases, as words; NULL: all have some */
} op_form;

typedef struct op_test {
  const char *name;          /* of the row in ops.def */
  const clade_dtype *dtypes; /* that the op claims; ends in CLADE_DTYPE_NONE */
  void (*draw)(op_case *c, op_random *r);
  /* Sets n_out values; an error shows in the graph. */
  void (*build)(const op_case *c, clade_graph *g, const clade_val *in, clade_val *out);
  /* Gives each output its type by op_result, and its values. */
  void (*reference)(const op_case *c, const op_array *in, op_array *out);
  void (*fill)(const op_case *c, op_random *r, op_array *in); /* after the harness' filling; may be NULL */
  double gradient_bound;                                      /* relative to the sum of absolute terms; 0: 1e-4 */
  const op_form *forms;                                       /* OP_FORMS at most, ends in {0}; NULL: one */
} op_test;

/* tests/op/<name>.c defines, for each row of ops.def: */
#define CLADE_OP(NAME, name) extern const op_test op_test_##name;
#include "op/ops.def"
#undef CLADE_OP

/* ---- for draw ---- */
/* A shape of 0 to 5 axes: zeros, ones, primes, powers of two and their neighbors; at most `elements` of them. */
clade_shape op_draw_shape(op_random *r, const op_case *c, int min_rank, int max_rank, int64_t elements);
/* Now and then two axes so long, of one or two rows or of few columns, that a work-item reads its share by turns, of a
 * value that the last cache is said not to hold. */
bool op_draw_long(op_random *r, op_case *c, clade_shape *shape);
int64_t op_draw_extent(op_random *r, const op_case *c, int64_t most); /* one such extent */
/* A shape that broadcasts to `shape`: axes become 1 or, in front, go. */
clade_shape op_draw_broadcast(op_random *r, const clade_shape *shape);
bool op_is_float(clade_dtype dtype);
/* What ops claim, by the rows of clade/dtypes.h; each ends in CLADE_DTYPE_NONE. */
enum { OP_TYPES = 64 };
extern clade_dtype op_all_types[OP_TYPES];
extern clade_dtype op_computed_types[OP_TYPES]; /* all but those for storage */
extern clade_dtype op_computed_floats[OP_TYPES];
extern clade_dtype op_number_types[OP_TYPES]; /* computed, and not bool */
extern clade_dtype op_factor_types[OP_TYPES]; /* that have products */

/* ---- for reference ---- */
void op_result(op_array *out, clade_dtype dtype, clade_shape shape); /* allocates v and bound, zeroed */
double op_round(clade_dtype dtype, double value);                    /* as storing it and loading it again */
/* The same of elements that share blocks, all of them. */
void op_round_blocks(clade_dtype dtype, int64_t n, double *v);
double op_tie(clade_dtype dtype, double value); /* a value between two, near this one */
double op_epsilon(clade_dtype dtype);           /* of the compute type: 2^-24 for floats, else 0 */
/* Where in an array of `shape` the element is that broadcasts to `index` (a multi-index of `to`). */
int64_t op_broadcast_at(const clade_shape *shape, const clade_shape *to, const int64_t *index);
void op_unravel(const clade_shape *shape, int64_t at, int64_t index[CLADE_MAX_RANK]);
int64_t op_elements(const clade_shape *shape); /* of a constant shape */

#endif
