/* Communication ops of tensor parallelism, each with its derivative. Those that communicate are host steps, which
 * overlap with kernels; the others are views. A slice along an axis is not contiguous: it is packed on the host so
 * that each rank's slice is its slot of the message (schedule.c). */
#include <stddef.h>

#include "comm/comm.h"
#include "ir/ir.h"
#include "op/dims.h"

enum { MOST_PARTS = CLADE__COMM_MOST_PARTS };
typedef enum move { SHARE, SUM, JOIN, SUM_PART, PART } move;
static const char *const names[] = {"share", "sum", "join", "sum_part", "part"};

typedef struct attrs {
  int32_t comm, series; /* comm: its number in this process */
  int32_t move, wire, axis, in_parts, rank, n;
  int64_t cuts[MOST_PARTS + 1]; /* boundaries for n ranks; zeros if there is no axis */
} attrs;
static const clade_attr table[] = {{"comm", CLADE_ATTR_I32, offsetof(attrs, comm), 1},
                                   {"series", CLADE_ATTR_I32, offsetof(attrs, series), 1},
                                   {"move", CLADE_ATTR_I32, offsetof(attrs, move), 1},
                                   {"wire", CLADE_ATTR_I32, offsetof(attrs, wire), 1},
                                   {"axis", CLADE_ATTR_I32, offsetof(attrs, axis), 1},
                                   {"in_parts", CLADE_ATTR_I32, offsetof(attrs, in_parts), 1},
                                   {"rank", CLADE_ATTR_I32, offsetof(attrs, rank), 1},
                                   {"n", CLADE_ATTR_I32, offsetof(attrs, n), 1},
                                   {"cuts", CLADE_ATTR_I64, offsetof(attrs, cuts), MOST_PARTS + 1},
                                   {0}};

static bool has_axis(const attrs *a) { return a->move != SHARE && a->move != SUM; }
static bool sends(const attrs *a) { return a->move != SHARE && a->move != PART; }
static int64_t length(const attrs *a, int rank) { return a->cuts[rank + 1] - a->cuts[rank]; }

/* ---- types ---- */
clade_status clade__comm_check_axis(const clade_shape *shape, int axis, int64_t expected, int rank, int ranks) {
  if (axis < 0 || axis >= shape->rank)
    return CLADE_FAIL(BAD_SHAPE, "axis %d of a value of %d dimensions", axis, shape->rank);
  const clade_dim have = shape->dim[axis];
  if (clade_dim_is_symbol(have)) return CLADE_FAIL(BAD_SHAPE, "axis %d is a symbol; parts are of a size", axis);
  if (have == expected) return CLADE_OK;
  return CLADE_FAIL(BAD_SHAPE, "axis %d has %lld places; by the cuts rank %d of %d has %lld", axis, (long long)have,
                    rank, ranks, (long long)expected);
}

static clade_status check_axis(const attrs *a, const clade_type *type, int64_t expected) {
  return clade__comm_check_axis(&type->shape, a->axis, expected, a->rank, a->n);
}

static clade_status check_type(const attrs *a, clade_dtype type) {
  size_t bytes;
  const clade_dtype sums = clade__comm_sums_as(type);
  if (a->move == JOIN) return clade__dtype_element(type, &bytes);
  if (a->move != SUM && a->move != SUM_PART) return CLADE_OK;
  if (!sums)
    return CLADE_FAIL(DTYPE, "the value is of %s: sums over ranks are of f32, f16, bf16, i32 or i64",
                      clade_dtype_name(type));
  if (sums != CLADE_F32 && a->wire != CLADE_F32)
    return CLADE_FAIL(DTYPE, "the value is of %s: sums of it do not travel as %s", clade_dtype_name(type),
                      clade_dtype_name((clade_dtype)a->wire));
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  n->out[0] = n->in[0];
  CLADE_TRY(check_type(a, n->in[0].dtype));
  if (!has_axis(a)) return CLADE_OK;
  CLADE_TRY(check_axis(a, &n->in[0], a->move == SUM_PART ? a->cuts[a->n] : length(a, a->rank)));
  if (a->move != PART) n->out[0].shape.dim[a->axis] = a->move == JOIN ? a->cuts[a->n] : length(a, a->rank);
  return CLADE_OK;
}

/* Gradient of x from that of the result. */
static clade_val back(clade_graph *g, clade_comm *comm, const attrs *a, clade_val dy) {
  const clade_dtype wire = (clade_dtype)a->wire;
  switch ((move)a->move) {
  case SHARE: return clade__comm_sum(g, comm, wire, dy);
  case SUM: return dy;
  case JOIN:
    return a->in_parts ? clade__comm_sum_part(g, comm, wire, dy, a->axis, a->cuts)
                       : clade__comm_part(g, comm, wire, dy, a->axis, a->cuts);
  default: return clade__comm_join(g, comm, wire, dy, a->axis, a->cuts, false);
  }
}

static clade_status grad(clade_grad *g) {
  const attrs *a = g->node->attrs;
  clade_comm *comm = clade__comm_numbered(a->comm);
  if (!comm) return CLADE_FAIL(INVALID, "communicator %d was released", (int)a->comm);
  g->din[g->node->n_in - 1] = back(g->graph, comm, a, g->dout[0]);
  clade_comm_release(comm);
  return clade_graph_status(g->graph);
}

/* ---- host step ---- */
typedef struct work {
  attrs a;
  clade_dtype type;
  size_t outer, inner; /* elements before and behind the axis; without an axis, `inner` is all */
} work;

typedef struct mover {
  clade_comm *comm;
  clade__reduction *idle;
  size_t *ends; /* of the ranks' slots, in elements; NULL: no owners */
} mover;

static const clade__collective collectives[] = {
    [SUM] = CLADE__ALL_REDUCE, [JOIN] = CLADE__ALL_GATHER, [SUM_PART] = CLADE__REDUCE_SCATTER};

static void release(void *given) {
  mover *s = given;
  clade__reductions_free(s->idle);
  clade_comm_release(s->comm);
  clade__free(s->ends);
  clade__free(s);
}

static size_t elements(const work *w, int rank) { return w->outer * (size_t)length(&w->a, rank) * w->inner; }

static clade_status find_ends(mover *s, const work *w) {
  const int size = w->a.n, slots = clade__schedule_slots(size);
  s->ends = clade__new((size_t)slots, sizeof *s->ends);
  if (!s->ends) return CLADE_NO_MEMORY;
  for (int rank = 0; rank < size; rank++) s->ends[clade__schedule_slot(rank, size)] = elements(w, rank);
  for (int slot = 1; slot < slots; slot++) s->ends[slot] += s->ends[slot - 1];
  return CLADE_OK;
}

static clade_status prepare(const void *given, clade_device *device, void **out) {
  const work *w = given;
  (void)device;
  mover *s = clade__new(1, sizeof *s);
  if (!s) return CLADE_NO_MEMORY;
  clade_status status = CLADE_OK;
  s->comm = clade__comm_numbered(w->a.comm);
  if (!s->comm) status = CLADE_FAIL(INVALID, "%s: communicator %d was released", names[w->a.move], (int)w->a.comm);
  if (status == CLADE_OK && has_axis(&w->a)) status = find_ends(s, w);
  if (status == CLADE_OK)
    *out = s;
  else
    release(s);
  return status;
}

/* ---- message contents: sums in the accumulation type, gathered values unchanged ---- */
static clade_dtype inside_type(const work *w) { return w->a.move == JOIN ? w->type : clade__comm_sums_as(w->type); }

static size_t all_elements(const work *w) {
  return has_axis(&w->a) ? w->outer * (size_t)w->a.cuts[w->a.n] * w->inner : w->inner;
}

static char *slot_of(const clade__reduction *r, const mover *s, const work *w, int rank) {
  const int slot = clade__schedule_slot(rank, w->a.n);
  return (char *)clade__reduction_data(r) + (slot ? s->ends[slot - 1] : 0) * clade__comm_element(inside_type(w));
}

/* Copies between a rank's slot and its slice of the whole value. */
static clade_status copy_rows(const work *w, int rank, char *slot, char *whole, bool to_slot) {
  const clade_dtype inside = inside_type(w);
  const size_t n = (size_t)length(&w->a, rank) * w->inner;
  const size_t stride = (size_t)w->a.cuts[w->a.n] * w->inner * clade__comm_element(w->type);
  char *row = whole + (size_t)w->a.cuts[rank] * w->inner * clade__comm_element(w->type);
  for (size_t i = 0; n && i < w->outer; i++, row += stride, slot += n * clade__comm_element(inside))
    CLADE_TRY(to_slot ? clade_convert(inside, slot, w->type, row, n) : clade_convert(w->type, row, inside, slot, n));
  return CLADE_OK;
}

static clade_status copy_all_rows(const clade__reduction *r, const mover *s, const work *w, char *whole,
                                  bool to_slots) {
  for (int rank = 0; rank < w->a.n; rank++) CLADE_TRY(copy_rows(w, rank, slot_of(r, s, w, rank), whole, to_slots));
  return CLADE_OK;
}

static clade_status pack(const clade__reduction *r, bool back) {
  const clade_host_call *call = clade__reduction_user(r);
  const work *w = call->work;
  const mover *s = call->state;
  const bool slots = w->a.move == (back ? JOIN : SUM_PART); /* all ranks' slots; otherwise only this rank's */
  void *outside = call->data[back];
  if (slots) return copy_all_rows(r, s, w, outside, !back);
  void *inside = has_axis(&w->a) ? slot_of(r, s, w, w->a.rank) : clade__reduction_data(r);
  const size_t n = has_axis(&w->a) ? elements(w, w->a.rank) : all_elements(w);
  return back ? clade_convert(w->type, outside, inside_type(w), inside, n)
              : clade_convert(inside_type(w), inside, w->type, outside, n);
}

static clade_status begin(const clade_host_call *call, void **out) {
  const work *w = call->work;
  mover *s = call->state;
  const clade_dtype type = inside_type(w);
  const size_t n = all_elements(w);
  const clade__message message = {.what = collectives[w->a.move],
                                  .n = n,
                                  .ends = s->ends,
                                  .whole = w->a.move == SUM && n * clade__comm_element(type) < CLADE__COMM_SHORT,
                                  .type = type,
                                  .wire = w->a.move == JOIN ? CLADE_F32 : (clade_dtype)w->a.wire};
  return clade__collective_begin(s->comm, &s->idle, w->a.series, &message, call, pack, out);
}

static clade_status poll(void *reduction, clade_host_state *state) {
  return clade__collective_poll(reduction, pack, state);
}

static void waited(void *given, double seconds) { clade__comm_waited(((mover *)given)->comm, seconds); }

static const clade_host host = {.size = sizeof(clade_host),
                                .prepare = prepare,
                                .begin = begin,
                                .poll = poll,
                                .cancel = clade__collective_cancel,
                                .release = release,
                                .poll_us = CLADE__COMM_POLL_US,
                                .waited = waited};

static clade_status emit(clade_emit *e, const clade_query *q) {
  const attrs *a = q->node->attrs;
  const clade_shape *shape = &q->node->in[0].shape;
  work w;
  memset(&w, 0, sizeof w);
  w.a = *a;
  w.type = q->node->in[0].dtype;
  w.outer = has_axis(a) ? (size_t)clade__product(shape, 0, a->axis) : 1;
  w.inner = (size_t)clade__product(shape, has_axis(a) ? a->axis + 1 : 0, shape->rank);
  clade_kernel_step *s = clade_emit_host(e, names[a->move], &host, &w, sizeof w);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "host", .emit = emit), NULL};
#define OP(NAME, FLAGS, N_IN, IMPLS)                                                                    \
  {                                                                                                     \
    .size = sizeof(clade_op), .name = NAME, .flags = FLAGS, .min_in = N_IN, .max_in = N_IN, .n_out = 1, \
    .attr_bytes = sizeof(attrs), .attrs = table, .infer = infer, .impls = IMPLS, .grad = grad,          \
    .autocast = CLADE_AUTOCAST_CARRY                                                                    \
  }
static const clade_op ops[] = {[SHARE] = OP("comm.share", CLADE_OP_VIEW, 1, NULL),
                               [SUM] = OP("comm.sum", CLADE_OP_EFFECT, 1, impls),
                               [JOIN] = OP("comm.join", CLADE_OP_EFFECT, 1, impls),
                               [SUM_PART] = OP("comm.sum_part", CLADE_OP_EFFECT, 1, impls),
                               /* result is a slice of the second operand, which carries the derivative */
                               [PART] = OP("comm.part", CLADE_OP_VIEW, 2, NULL)};

/* ---- builders ---- */
clade_status clade__comm_check_cuts(const clade_comm *comm, const int64_t *cuts) {
  if (comm->size > MOST_PARTS)
    return CLADE_FAIL(UNSUPPORTED, "parts for %d ranks; %d are possible", comm->size, (int)MOST_PARTS);
  if (!cuts || cuts[0]) return CLADE_FAIL(INVALID, "the cuts %s", cuts ? "do not begin with 0" : "are NULL");
  for (int i = 0; i < comm->size; i++)
    if (cuts[i] > cuts[i + 1])
      return CLADE_FAIL(INVALID, "the part of rank %d begins at %lld and ends at %lld", i, (long long)cuts[i],
                        (long long)cuts[i + 1]);
  return CLADE_OK;
}

static clade_status check(const clade_comm *comm, clade_dtype wire, bool cut, const int64_t *cuts) {
  if (!clade__comm_carries(wire))
    return CLADE_FAIL(DTYPE, "sums that travel as %s: f32, bf16 and f16 are possible", clade_dtype_name(wire));
  return cut ? clade__comm_check_cuts(comm, cuts) : CLADE_OK;
}

static clade_status fill(clade_comm *comm, move what, clade_dtype wire, int axis, const int64_t *cuts, bool in_parts,
                         attrs *a) {
  memset(a, 0, sizeof *a); /* attributes are compared and hashed bytewise */
  a->move = (int32_t)what;
  CLADE_TRY(check(comm, wire, has_axis(a), cuts));
  a->comm = comm->number;
  a->wire = (int32_t)wire;
  a->axis = axis;
  a->in_parts = in_parts;
  a->rank = comm->rank;
  a->n = comm->size;
  if (cuts) memcpy(a->cuts, cuts, ((size_t)comm->size + 1) * sizeof *cuts);
  return CLADE_OK;
}

static clade_val add(clade_graph *g, clade_comm *comm, move what, clade_dtype wire, int n, const clade_val *x, int axis,
                     const int64_t *cuts, bool in_parts) {
  attrs a;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = fill(comm, what, wire, axis, cuts, in_parts, &a);
  if (status == CLADE_OK && sends(&a)) status = clade__comm_reserve(comm, 1, &a.series);
  if (status != CLADE_OK) return clade__graph_fail(g, status, ops[what].name);
  return clade_node_add(g, &ops[what], NULL, &a, n, x, NULL);
}

/* This rank's slice of x along the axis; invalid on failure. */
static clade_val own_slice(clade_graph *g, const clade_comm *comm, clade_val x, const attrs *a) {
  clade_type type;
  clade_status status = clade_val_type(g, x, &type);
  if (status == CLADE_OK) status = check_axis(a, &type, a->cuts[a->n]);
  if (status != CLADE_OK) return clade__graph_fail(g, status, ops[PART].name);
  clade_shape begin = {.rank = type.shape.rank}, size = type.shape;
  begin.dim[a->axis] = a->cuts[comm->rank];
  size.dim[a->axis] = length(a, comm->rank);
  return clade_slice(g, x, begin, size);
}

static bool stays(const clade_comm *comm) { return clade_comm_size(comm) == 1; }

clade_val clade__comm_share(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x) {
  return stays(comm) ? x : add(g, comm, SHARE, wire, 1, &x, 0, NULL, false);
}

clade_val clade__comm_sum(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x) {
  return stays(comm) ? x : add(g, comm, SUM, wire, 1, &x, 0, NULL, false);
}

clade_val clade__comm_join(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                           const int64_t *cuts, bool in_parts) {
  return stays(comm) ? x : add(g, comm, JOIN, wire, 1, &x, axis, cuts, in_parts);
}

clade_val clade__comm_sum_part(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                               const int64_t *cuts) {
  return stays(comm) ? x : add(g, comm, SUM_PART, wire, 1, &x, axis, cuts, false);
}

clade_val clade__comm_part(clade_graph *g, clade_comm *comm, clade_dtype wire, clade_val x, int axis,
                           const int64_t *cuts) {
  attrs a;
  if (stays(comm)) return x;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = fill(comm, PART, wire, axis, cuts, false, &a);
  if (status != CLADE_OK) return clade__graph_fail(g, status, ops[PART].name);
  const clade_val both[] = {own_slice(g, comm, x, &a), x};
  return clade_node_add(g, &ops[PART], NULL, &a, 2, both, NULL);
}
