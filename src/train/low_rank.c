/* PowerSGD (Vogels, Karimireddy and Jaggi, 2019): a gradient of n x m is approximated by a product of thin matrices,
 * and only these are sent between ranks. The error of the approximation is added to the rank's next gradient.
 *
 *     M = gradient + error           on each rank
 *     P = orthonormal(sum of M Q)    [n, r]: approximates the column space of M
 *     S = sum of Mᵀ P                [m, r]
 *     gradient = P Sᵀ, error = M - P (Mᵀ P)ᵀ, Q = S
 *
 * The basis Q is reused, because gradients change little from step to step. */
#include "train/low_rank.h"

#include <stdio.h>

#include <clade/ops.h>

#include "comm/wire.h"

typedef struct thin {
  int at;
  int64_t rows, columns;     /* first dimension, and product of the others */
  clade_val m, error, basis; /* m: the matrix; error, basis: variables */
  clade_val p, sent;         /* sent: the matrix to sum */
} thin;

/* ---- selection ---- */
enum { LEAST = 4096 /* elements */ };

static bool find(const clade__task *t, int i, thin *out) {
  const clade_type type = clade__task_type(t, t->gradients[i]);
  const int64_t rank = t->opt->low_rank;
  int64_t elements;
  *out = (thin){.at = i};
  if (!rank || type.dtype != CLADE_F32 || type.shape.rank < 2 ||
      clade_shape_elements(&type.shape, &elements) != CLADE_OK || !elements)
    return false;
  out->rows = type.shape.dim[0];
  out->columns = elements / out->rows;
  /* Compression must halve the bytes at least: two sums and products replace one sum. Small matrices are left out:
   * they save little, and often belong to the classifier, which suffers most from delayed gradients. */
  return elements >= LEAST && 2 * rank * (out->rows + out->columns) < elements;
}

bool clade__task_is_low_rank(const clade__task *t, int i) {
  thin one;
  return find(t, i, &one);
}

/* ---- steps of the algorithm ---- */
static clade_status begin(clade__task *t, thin *one) {
  char kind[32], name[320];
  const int i = one->at, rank = t->opt->low_rank;
  snprintf(kind, sizeof kind, "low_rank.error.%d", clade_comm_rank(t->opt->comm));
  snprintf(name, sizeof name, CLADE__LOW_RANK "basis:%s", t->names[i]);
  one->error = clade__task_state(t, kind, i); /* moves the graph to the parameter's device */
  one->basis =
      clade_variable(t->g, name, CLADE_F32, CLADE_SHAPE(one->columns, rank), (clade_initial){CLADE_INIT_NORMAL, 0, 1});
  one->m = clade_reshape(t->g, clade_add(t->g, t->gradients[i], one->error), CLADE_SHAPE(one->rows, one->columns));
  one->sent = clade_gemm(t->g, one->m, one->basis);
  return clade_graph_status(t->g);
}

static clade_status project(clade__task *t, thin *one) {
  const clade_shape shape = clade__task_type(t, t->gradients[one->at]).shape;
  t->g->device = clade__task_device(t, one->m);
  one->p = one->sent;
  one->sent = clade_gemm(t->g, one->m, one->p, .trans_a = true);
  clade_val rest = clade_gemm(t->g, one->p, one->sent, .trans_b = true, .bias = one->m, .alpha = -1);
  clade_assign(t->g, one->error, clade_reshape(t->g, rest, shape));
  return clade_graph_status(t->g);
}

static clade_status end(clade__task *t, thin *one) {
  const clade_shape shape = clade__task_type(t, t->gradients[one->at]).shape;
  t->g->device = clade__task_device(t, one->m);
  t->gradients[one->at] = clade_reshape(t->g, clade_gemm(t->g, one->p, one->sent, .trans_b = true), shape);
  clade_assign(t->g, one->basis, one->sent);
  return clade_graph_status(t->g);
}

static clade_status sum(clade__task *t, int n, clade_val *values) {
  return clade_all_reduce(t->g, t->opt->comm, clade__comm_wire(t->opt->compress), n, values);
}

static clade_status orthonormal(clade__task *t, int n, clade_val *values) {
  return clade__orthonormal(t->g, n, values);
}

static clade_status for_each(clade__task *t, int n, thin *all, clade_status (*fn)(clade__task *t, thin *one)) {
  for (int i = 0; i < n; i++) CLADE_TRY(fn(t, &all[i]));
  return CLADE_OK;
}

/* Applies fn to groups of matrices on the same device, as large as an all-reduce allows. */
static clade_status together(clade__task *t, int n, thin *all,
                             clade_status (*fn)(clade__task *t, int n, clade_val *values)) {
  for (int first = 0, count; first < n; first += count) {
    clade_val values[CLADE_ALL_REDUCE_MOST];
    t->g->device = clade__task_device(t, all[first].m);
    for (count = 0; first + count < n && count < CLADE_ALL_REDUCE_MOST; count++) {
      if (clade__task_device(t, all[first + count].m) != t->g->device) break;
      values[count] = all[first + count].sent;
    }
    CLADE_TRY(fn(t, count, values));
    for (int i = 0; i < count; i++) all[first + i].sent = values[i];
  }
  return CLADE_OK;
}

/* Each step runs for all matrices, so that sums overlap with products of the next matrices. */
static clade_status reduce(clade__task *t, int n, thin *all) {
  CLADE_TRY(for_each(t, n, all, begin));
  CLADE_TRY(together(t, n, all, sum));
  CLADE_TRY(together(t, n, all, orthonormal));
  CLADE_TRY(for_each(t, n, all, project));
  CLADE_TRY(together(t, n, all, sum));
  return for_each(t, n, all, end);
}

clade_status clade__task_reduce_low_rank(clade__task *t) {
  int n = 0;
  if (!t->opt->low_rank) return CLADE_OK;
  thin *all = clade__new((size_t)t->n, sizeof *all);
  if (!all) return CLADE_NO_MEMORY;
  for (int i = t->n; i-- > 0;) n += find(t, i, &all[n]);
  const clade_status status = reduce(t, n, all);
  clade__free(all);
  return status;
}
