/* Dropout: zeroes elements with probability p and scales the others by 1 / (1 - p). The random numbers are a pure
 * function of key, counter and element index (Philox4x32-10), so the gradient regenerates the mask instead of storing
 * it. */
#include <clade/nn.h>

#include <inttypes.h>
#include <math.h>

#include "ir/dimensions.h"
#include "ir/ties.h"
#include "op/group.h"

typedef struct attrs {
  int64_t key;
  float p;
  /* If run is not 0, x is a slice of a larger tensor (tensor parallelism): each `run` elements of x are the elements
   * from `first` on of each `whole` elements. */
  int64_t run, whole, first;
} attrs;
static const clade_attr table[] = {
    {"key", CLADE_ATTR_I64, offsetof(attrs, key), 1},     {"p", CLADE_ATTR_F32, offsetof(attrs, p), 1},
    {"run", CLADE_ATTR_I64, offsetof(attrs, run), 1},     {"whole", CLADE_ATTR_I64, offsetof(attrs, whole), 1},
    {"first", CLADE_ATTR_I64, offsetof(attrs, first), 1}, {0}};

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  const clade_type *counter = &n->in[1];
  char text[200];
  CLADE_TRY(clade__want_dense(n));
  CLADE_TRY(clade__want_float(n, 0, "x"));
  if (!(a->p >= 0 && a->p < 1))
    return CLADE_FAIL(INVALID, "dropout: p is %g; expected 0 or more, and less than 1", (double)a->p);
  if (counter->dtype != CLADE_I64)
    return CLADE_FAIL(DTYPE, "dropout: counter is %s; expected i64", clade_dtype_name(counter->dtype));
  if (counter->shape.rank != 0)
    return CLADE_FAIL(BAD_SHAPE, "dropout: counter is %s; expected a scalar",
                      clade_shape_text(&counter->shape, text, sizeof text));
  if (a->run < 0 || a->first < 0 || (a->run && (a->first > a->whole || a->run > a->whole - a->first)))
    return CLADE_FAIL(INVALID, "dropout: runs of %" PRId64 " from %" PRId64 " on do not lie in %" PRId64 " elements",
                      a->run, a->first, a->whole);
  n->out[0] = n->in[0];
  return CLADE_OK;
}

/* A slice uses the random numbers of its elements' positions in the whole tensor. */
static void dims(clade_dims *d, const clade_node *n) {
  const clade_shape *x = &n->in[0].shape;
  if (((const attrs *)n->attrs)->run) return;
  for (int i = 0; i < x->rank; i++) {
    const int dim = clade__dims_axis(d, n, i, i);
    const int64_t inner = clade__product(x, i + 1, x->rank);
    clade_dims_attr(d, dim, offsetof(attrs, run), 0, 0, inner);
    clade_dims_attr(d, dim, offsetof(attrs, whole), x->dim[i] * inner, 0, 0);
    clade_dims_attr(d, dim, offsetof(attrs, first), 0, inner, 0);
  }
}

static clade_val add(clade_graph *g, clade_val x, const attrs *a, clade_val counter) {
  return clade_node_add(g, &clade__op_dropout, NULL, a, 2, (clade_val[]){x, counter}, NULL);
}

/* The gradient is the same mask applied to dy. */
static clade_status grad(clade_grad *g) {
  if (g->wanted[0]) g->din[0] = add(g->graph, g->dout[0], g->node->attrs, g->in[1]);
  return CLADE_OK;
}

static int64_t elements(const clade_query *q) {
  const clade_shape *x = &q->node->in[0].shape;
  return clade__product(x, 0, x->rank);
}

static double cost(const clade_query *q) {
  return clade__cost(q->device, 60.0 * (double)elements(q), clade__node_bytes(q->node), 0.2);
}

static void emit_numbers(clade_kernel_step *s, const attrs *a) {
  clade_emit_u32(s, (uint32_t)((uint64_t)a->key & 0xffffffffu));
  clade_emit_u32(s, (uint32_t)((uint64_t)a->key >> 32));
  clade_emit_u32(s, (uint32_t)(a->p * 0x1p32)); /* numbers below this threshold drop an element */
  clade_emit_f32(s, 1 / (1 - a->p));
}

static clade_status emit_part(clade_emit *e, const clade_query *q) {
  const attrs *a = q->node->attrs;
  const int64_t n = elements(q), piece = clade__piece(q->device, n, 1, 1 << 12);
  clade_kernel_step *s = clade_emit_kernel(e, "dropout_forward_part");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  clade_emit_index(s, piece);
  clade_emit_index(s, a->run);
  clade_emit_index(s, a->whole);
  clade_emit_index(s, a->first);
  emit_numbers(s, a);
  clade__emit_flat(s, q->device, clade__ceil_div(n, piece));
  return CLADE_OK;
}

static clade_status emit(clade_emit *e, const clade_query *q) {
  enum { BLOCK = 64 }; /* elements for which a work-item generates numbers at once */
  const attrs *a = q->node->attrs;
  if (a->run) return emit_part(e, q);
  int64_t n = elements(q), blocks = clade__ceil_div(n, BLOCK), piece = clade__piece(q->device, blocks, 1, 1 << 8);
  clade_kernel_step *s = clade_emit_kernel(e, "dropout_forward_ref");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  clade_emit_index(s, piece);
  emit_numbers(s, a);
  clade__emit_flat(s, q->device, clade__ceil_div(blocks, piece));
  return CLADE_OK;
}

/* ---- group: a work-item computes four elements, interleaved with those of its neighbors ---- */
static const char *group_accept(const clade_query *q) {
  return ((const attrs *)q->node->attrs)->run ? "x is a part" : clade__group_refuses(q, 10);
}

static double group_cost(const clade_query *q) {
  return clade__cost(q->device, 30.0 * (double)elements(q), clade__node_bytes(q->node), 0.5);
}

static clade_status group_emit(clade_emit *e, const clade_query *q) {
  enum { BLOCK = 64, ITEMS = 16 }; /* elements, and the work-items that share them */
  const int64_t n = elements(q);
  const size_t items = (size_t)(clade__ceil_div(n, BLOCK) * ITEMS), group = CLADE__GROUP_ITEMS;
  clade_kernel_step *s = clade_emit_kernel(e, "dropout_forward_group");
  clade_emit_define_text(s, "T", clade_dtype_name(q->node->in[0].dtype));
  clade_emit_in(s, 0);
  clade_emit_in(s, 1);
  clade_emit_out(s, 0);
  clade_emit_index(s, n);
  emit_numbers(s, q->node->attrs);
  clade_emit_range(s, 1, &items, &group);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {
    CLADE_IMPL(CLADE__GROUP_PLAIN, .accept = group_accept, .cost = group_cost, .emit = group_emit,
               .file = "dropout_group"),
    CLADE_IMPL(.name = "ref", .family = CLADE_FAMILY_REF, .cost = cost, .emit = emit), NULL};

/* In-place execution is allowed: each element is read before it is overwritten. */
static uint64_t in_place(const clade_node *n, int out) {
  (void)n, (void)out;
  return 1;
}

const clade_op clade__op_dropout = {
    .size = sizeof(clade_op),
    .name = "dropout",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .attr_bytes = sizeof(attrs),
    .attrs = table,
    .infer = infer,
    .grad = grad,
    .in_place = in_place,
    .impls = impls,
    .ties = clade__tie_same,
    .autocast = CLADE_AUTOCAST_CARRY,
    .carries = 1, /* x */
    .dims = dims,
};

clade_val clade_dropout(clade_graph *g, clade_val x, double p, uint64_t key, clade_val counter) {
  attrs a;
  memset(&a, 0, sizeof a);
  memcpy(&a.key, &key, sizeof key);
  a.p = (float)p;
  return add(g, x, &a, counter);
}

/* The graph's step counter, shared by all dropout layers and incremented by each execution. Its initial value depends
 * on the seed of the variables, so the masks do too. */
static clade_val counter_of(clade_graph *g) {
  static const char name[] = "optimizer.dropout";
  size_t index;
  if (clade__map_get(&g->variables.by_name, clade__hash_bytes(name, sizeof name - 1), &index))
    return clade__graph_val(g, g->variables.at[index].value);
  clade_val counter = clade_variable(g, name, CLADE_I64, CLADE_SCALAR,
                                     (clade_initial){CLADE_INIT_UNIFORM, 0, 0x1p62}); /* multiples of 2^38 */
  clade_assign(g, counter, clade_add(g, counter, clade_fill(g, CLADE_I64, CLADE_SCALAR, 1)));
  return counter;
}

clade_val clade_nn_dropout_(clade_graph *g, const char *name, const clade_dropout_opt *given) {
  clade_dropout_opt opt;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = clade__opt_copy(&opt, sizeof opt, given, "nn_dropout");
  if (status == CLADE_OK) status = clade__name_check("nn_dropout", name);
  if (status == CLADE_OK && !(opt.p >= 0 && opt.p < 1))
    status =
        CLADE_FAIL(INVALID, "nn_dropout \"%s\": .p is %g; expected 0 or more, and less than 1", name, (double)opt.p);
  if (status == CLADE_OK) {
    clade_type x;
    status = clade_val_type(g, opt.x, &x);
    if (status != CLADE_OK) clade__fail_in(status, "nn_dropout \"%s\": x", name);
  }
  if (status != CLADE_OK) return clade__graph_fail(g, status, NULL);
  if (!clade_graph_trains(g) || opt.p == 0) return opt.x;
  int32_t share = g->share; /* each share of the batch has its own mask */
  clade__hash key = clade__hash_more_text(clade__hash_bytes(&share, sizeof share), name);
  return clade_dropout(g, opt.x, opt.p, key.lo, counter_of(g));
}
