/* All-to-all: each rank has a part of a value along one axis, and gets its part along another one. A step of the host.
 * The message holds the blocks for the other ranks, one after the other, and behind them those that come from all. */
#include <stddef.h>

#include "comm/comm.h"
#include "ir/ir.h"
#include "op/dims.h"

enum { MOST_PARTS = CLADE__COMM_MOST_PARTS };

typedef struct cut {
  int32_t axis, unused;
  int64_t at[MOST_PARTS + 1]; /* where the ranks' parts begin, and the end */
} cut;

typedef struct attrs {
  int32_t comm, series, rank, n; /* comm: its number in this process; n: ranks */
  cut from, to;
} attrs;
static const clade_attr table[] = {{"comm", CLADE_ATTR_I32, offsetof(attrs, comm), 1},
                                   {"series", CLADE_ATTR_I32, offsetof(attrs, series), 1},
                                   {"rank", CLADE_ATTR_I32, offsetof(attrs, rank), 1},
                                   {"n", CLADE_ATTR_I32, offsetof(attrs, n), 1},
                                   {"from_axis", CLADE_ATTR_I32, offsetof(attrs, from.axis), 1},
                                   {"from_cuts", CLADE_ATTR_I64, offsetof(attrs, from.at), MOST_PARTS + 1},
                                   {"to_axis", CLADE_ATTR_I32, offsetof(attrs, to.axis), 1},
                                   {"to_cuts", CLADE_ATTR_I64, offsetof(attrs, to.at), MOST_PARTS + 1},
                                   {0}};

static int64_t length(const cut *c, int rank) { return c->at[rank + 1] - c->at[rank]; }

/* ---- types ---- */
static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  size_t bytes;
  CLADE_TRY(clade__dtype_element(n->in[0].dtype, &bytes));
  CLADE_TRY(clade__comm_check_axis(&n->in[0].shape, a->from.axis, length(&a->from, a->rank), a->rank, a->n));
  CLADE_TRY(clade__comm_check_axis(&n->in[0].shape, a->to.axis, a->to.at[a->n], a->rank, a->n));
  if (a->from.axis == a->to.axis) return CLADE_FAIL(INVALID, "both axes are %d", (int)a->to.axis);
  n->out[0] = n->in[0];
  n->out[0].shape.dim[a->from.axis] = a->from.at[a->n];
  n->out[0].shape.dim[a->to.axis] = length(&a->to, a->rank);
  return CLADE_OK;
}

static clade_status grad(clade_grad *g) {
  const attrs *a = g->node->attrs;
  clade_comm *comm = clade__comm_numbered(a->comm);
  if (!comm) return CLADE_FAIL(INVALID, "communicator %d was released", (int)a->comm);
  g->din[0] = clade__comm_turn(g->graph, comm, g->dout[0], a->to.axis, a->to.at, a->from.axis, a->from.at);
  clade_comm_release(comm);
  return clade_graph_status(g->graph);
}

/* ---- the step ---- */
/* Elements: along the first of both axes, between them, along the second, and around. */
typedef struct work {
  attrs a;
  clade_dtype type;
  size_t outer, middle, inner;
} work;

typedef struct turner {
  clade_comm *comm;
  clade__reduction *idle;
  size_t *ends; /* [2 n]: of the blocks to each rank, and of those from each */
} turner;

static void release(void *given) {
  turner *s = given;
  clade__reductions_free(s->idle);
  clade_comm_release(s->comm);
  clade__free(s->ends);
  clade__free(s);
}

/* Of the block that rank `giver` has for rank `taker`. */
static size_t elements(const work *w, int giver, int taker) {
  return w->outer * w->middle * w->inner * (size_t)length(&w->a.from, giver) * (size_t)length(&w->a.to, taker);
}

static clade_status prepare(const void *given, clade_device *device, void **out) {
  const work *w = given;
  const int n = w->a.n, own = w->a.rank;
  size_t end = 0;
  (void)device;
  turner *s = clade__new(1, sizeof *s);
  if (!s) return CLADE_NO_MEMORY;
  clade_status status = CLADE_OK;
  s->comm = clade__comm_numbered(w->a.comm);
  if (!s->comm) status = CLADE_FAIL(INVALID, "turn: communicator %d was released", (int)w->a.comm);
  s->ends = clade__new(2 * (size_t)n, sizeof *s->ends);
  if (!s->ends) status = CLADE_NO_MEMORY;
  for (int i = 0; status == CLADE_OK && i < n; i++) s->ends[i] = end += i == own ? 0 : elements(w, own, i);
  for (int i = 0; status == CLADE_OK && i < n; i++) s->ends[n + i] = end += elements(w, i, own);
  if (status == CLADE_OK)
    *out = s;
  else
    release(s);
  return status;
}

/* A block of a value of which this rank has `first` and `second` places along both axes, in the order of the axes. */
typedef struct places {
  int64_t first, second; /* in all */
  int64_t begin[2], n[2];
} places;

static void copy_block(const work *w, const places *p, char *value, char *block, bool to_block) {
  const size_t element = clade__comm_element(w->type), bytes = (size_t)p->n[1] * w->inner * element;
  for (size_t o = 0; bytes && o < w->outer; o++)
    for (int64_t f = 0; f < p->n[0]; f++) {
      const size_t line = (o * (size_t)p->first + (size_t)(p->begin[0] + f)) * w->middle;
      for (size_t m = 0; m < w->middle; m++, block += bytes) {
        char *at = value + ((line + m) * (size_t)p->second + (size_t)p->begin[1]) * w->inner * element;
        memcpy(to_block ? block : at, to_block ? at : block, bytes);
      }
    }
}

/* `cut_by`: where the block is a range of what this rank has; of the other axis it is all. */
static places block_of(const attrs *a, bool of_input, int peer) {
  const cut *cut_by = of_input ? &a->to : &a->from, *whole = of_input ? &a->from : &a->to;
  const int64_t all = length(whole, a->rank);
  if (cut_by->axis < whole->axis)
    return (places){cut_by->at[a->n], all, {cut_by->at[peer], 0}, {length(cut_by, peer), all}};
  return (places){all, cut_by->at[a->n], {0, cut_by->at[peer]}, {all, length(cut_by, peer)}};
}

static clade_status pack(const clade__reduction *r, bool back) {
  const clade_host_call *call = clade__reduction_user(r);
  const work *w = call->work;
  const turner *s = call->state;
  const int n = w->a.n, own = w->a.rank;
  char *data = clade__reduction_data(r);
  for (int i = 0; i < n; i++) {
    const int which = back || i == own ? n + i : i; /* the own block only changes its place */
    const places p = block_of(&w->a, !back, i);
    copy_block(w, &p, call->data[back], data + (which ? s->ends[which - 1] : 0) * clade__comm_element(w->type), !back);
  }
  return CLADE_OK;
}

static clade_status begin(const clade_host_call *call, void **out) {
  const work *w = call->work;
  turner *s = call->state;
  const clade__message message = {
      .what = CLADE__ALL_TO_ALL, .n = s->ends[2 * w->a.n - 1], .ends = s->ends, .type = w->type};
  return clade__collective_begin(s->comm, &s->idle, w->a.series, &message, call, pack, out);
}

static clade_status poll(void *reduction, clade_host_state *state) {
  return clade__collective_poll(reduction, pack, state);
}

static void waited(void *given, double seconds) { clade__comm_waited(((turner *)given)->comm, seconds); }

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
  const int first = CLADE_MIN(a->from.axis, a->to.axis), second = CLADE_MAX(a->from.axis, a->to.axis);
  work w;
  memset(&w, 0, sizeof w);
  w.a = *a;
  w.type = q->node->in[0].dtype;
  w.outer = (size_t)clade__product(shape, 0, first);
  w.middle = (size_t)clade__product(shape, first + 1, second);
  w.inner = (size_t)clade__product(shape, second + 1, shape->rank);
  clade_kernel_step *s = clade_emit_host(e, "all_to_all", &host, &w, sizeof w);
  clade_emit_in(s, 0);
  clade_emit_out(s, 0);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "host", .emit = emit), NULL};
static const clade_op op = {.size = sizeof(clade_op),
                            .name = "comm.turn",
                            .flags = CLADE_OP_EFFECT,
                            .min_in = 1,
                            .max_in = 1,
                            .n_out = 1,
                            .attr_bytes = sizeof(attrs),
                            .attrs = table,
                            .infer = infer,
                            .impls = impls,
                            .grad = grad,
                            .autocast = CLADE_AUTOCAST_CARRY};

/* ---- the builder ---- */
static clade_status take_cut(const clade_comm *comm, int axis, const int64_t *cuts, cut *out) {
  CLADE_TRY(clade__comm_check_cuts(comm, cuts));
  out->axis = axis;
  memcpy(out->at, cuts, ((size_t)comm->size + 1) * sizeof *cuts);
  return CLADE_OK;
}

clade_val clade__comm_turn(clade_graph *g, clade_comm *comm, clade_val x, int from, const int64_t *from_cuts, int to,
                           const int64_t *to_cuts) {
  attrs a;
  if (clade_comm_size(comm) == 1) return x;
  if (!clade__graph_ok(g)) return (clade_val){0};
  memset(&a, 0, sizeof a); /* attributes are compared and hashed by their bytes */
  a.comm = comm->number;
  a.rank = comm->rank;
  a.n = comm->size;
  clade_status status = take_cut(comm, from, from_cuts, &a.from);
  if (status == CLADE_OK) status = take_cut(comm, to, to_cuts, &a.to);
  if (status == CLADE_OK) status = clade__comm_reserve(comm, 1, &a.series);
  if (status != CLADE_OK) return clade__graph_fail(g, status, op.name);
  return clade_node_add(g, &op, NULL, &a, 1, &x, NULL);
}
