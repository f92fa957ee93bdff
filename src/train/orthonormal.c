/* The op that orthonormalizes columns of matrices, by Gram-Schmidt on the host: the matrices are thin, and all ranks
 * need the same bits. */
#include <math.h>
#include <stddef.h>

#include "ir/ir.h"
#include "train/low_rank.h"

typedef struct attrs {
  int32_t columns;
} attrs;
static const clade_attr table[] = {{"columns", CLADE_ATTR_I32, offsetof(attrs, columns), 1}, {0}};

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  for (int i = 0; i < n->n_in; i++) {
    const clade_shape *shape = &n->in[i].shape;
    if (n->in[i].dtype != CLADE_F32 || shape->rank != 2 || shape->dim[1] != a->columns || shape->dim[0] < a->columns)
      return CLADE_FAIL(BAD_SHAPE, "matrix %d is none of f32 with %d columns and no fewer rows", i, (int)a->columns);
    n->out[i] = n->in[i];
  }
  return CLADE_OK;
}

static int outputs(const void *given, int n_in) { return given ? n_in : 0; }

/* ---- the host step ---- */
static double dot(const float *x, int i, int k, size_t rows, int columns) {
  double sum = 0;
  for (size_t row = 0; row < rows; row++)
    sum += (double)x[row * (size_t)columns + (size_t)i] * (double)x[row * (size_t)columns + (size_t)k];
  return sum;
}

/* Subtracts from column k its projections on earlier columns; twice, because rounding errors of the first pass are
 * large relative to a short remainder. */
static void project(float *x, int k, size_t rows, int columns) {
  for (int turn = 0; turn < 2; turn++)
    for (int i = 0; i < k; i++) {
      const double part = dot(x, i, k, rows, columns);
      for (size_t row = 0; row < rows; row++)
        x[row * (size_t)columns + (size_t)k] -= (float)(part * (double)x[row * (size_t)columns + (size_t)i]);
    }
}

static void scale(float *x, int k, size_t rows, int columns, double by) {
  for (size_t row = 0; row < rows; row++)
    x[row * (size_t)columns + (size_t)k] = (float)(by * (double)x[row * (size_t)columns + (size_t)k]);
}

/* Replaces column k by the first unit vector with a long enough remainder. The squared lengths of all remainders add
 * up to rows - k, so one is at least 1 / rows. */
static void take_unit(float *x, int k, size_t rows, int columns) {
  double square = 0;
  for (size_t one = 0; one < rows && square * (double)rows < 0.5; one++) {
    for (size_t row = 0; row < rows; row++) x[row * (size_t)columns + (size_t)k] = row == one;
    project(x, k, rows, columns);
    square = dot(x, k, k, rows, columns);
  }
  scale(x, k, rows, columns, 1 / sqrt(square));
}

void clade__orthonormalize(float *x, size_t rows, int columns) {
  const double negligible = 1e-5; /* relative to a column of length 1: rounding errors of f32 */
  for (int k = 0; k < columns; k++) {
    double length = sqrt(dot(x, k, k, rows, columns));
    if (length > 0) {
      scale(x, k, rows, columns, 1 / length);
      project(x, k, rows, columns);
      length = sqrt(dot(x, k, k, rows, columns));
    }
    if (length <= negligible)
      take_unit(x, k, rows, columns);
    else
      scale(x, k, rows, columns, 1 / length);
  }
}

static clade_status begin(const clade_host_call *call, void **pending) {
  const attrs *a = call->work;
  const int n = call->n / 2;
  *pending = NULL;
  for (int i = 0; i < n; i++) {
    memcpy(call->data[n + i], call->data[i], call->bytes[i]);
    clade__orthonormalize(call->data[n + i], call->bytes[i] / sizeof(float) / (size_t)a->columns, a->columns);
  }
  return CLADE_OK;
}

static const clade_host host = {.size = sizeof(clade_host), .begin = begin};

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_host(e, "orthonormal", &host, q->node->attrs, sizeof(attrs));
  for (int i = 0; i < q->node->n_in; i++) clade_emit_in(s, i);
  for (int i = 0; i < q->node->n_out; i++) clade_emit_out(s, i);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "host", .emit = emit), NULL};
static const clade_op op = {.size = sizeof(clade_op),
                            .name = "orthonormal",
                            .min_in = 1,
                            .max_in = CLADE_MAX_OPERANDS / 2,
                            .attr_bytes = sizeof(attrs),
                            .attrs = table,
                            .infer = infer,
                            .impls = impls,
                            .outputs = outputs};

clade_status clade__orthonormal(clade_graph *g, int n, clade_val *values) {
  clade_type type;
  clade_val out[CLADE_MAX_OPERANDS / 2];
  CLADE_TRY(clade_graph_status(g));
  CLADE_TRY(clade_val_type(g, values[0], &type));
  clade_node_add(g, &op, NULL, &(attrs){(int32_t)type.shape.dim[1]}, n, values, out);
  memcpy(values, out, (size_t)n * sizeof *out);
  return clade_graph_status(g);
}
