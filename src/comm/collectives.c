/* Collective ops: all-reduce, reduce-scatter and all-gather. Each is a host step that communicates while kernels
 * run. */
#include <stddef.h>

#include "comm/comm.h"
#include "ir/ir.h"

typedef struct attrs {
  int32_t comm, series; /* comm: its number in this process */
  int32_t what, type, wire, channel, rank, n, owner[CLADE_ALL_REDUCE_MOST];
} attrs;
static const clade_attr table[] = {{"comm", CLADE_ATTR_I32, offsetof(attrs, comm), 1},
                                   {"series", CLADE_ATTR_I32, offsetof(attrs, series), 1},
                                   {"what", CLADE_ATTR_I32, offsetof(attrs, what), 1},
                                   {"type", CLADE_ATTR_I32, offsetof(attrs, type), 1},
                                   {"wire", CLADE_ATTR_I32, offsetof(attrs, wire), 1},
                                   {"channel", CLADE_ATTR_I32, offsetof(attrs, channel), 1},
                                   {"rank", CLADE_ATTR_I32, offsetof(attrs, rank), 1},
                                   {"n", CLADE_ATTR_I32, offsetof(attrs, n), 1},
                                   {"owner", CLADE_ATTR_I32, offsetof(attrs, owner), CLADE_ALL_REDUCE_MOST},
                                   {0}};

/* Whether this rank provides value i, and whether it receives it. All values are inputs of the node, some for their
 * types only. */
static bool gives(const attrs *a, int i) { return a->what != CLADE__ALL_GATHER || a->owner[i] == a->rank; }
static bool gets(const attrs *a, int i) {
  return a->what == CLADE__ALL_REDUCE || (a->owner[i] == a->rank) == (a->what == CLADE__REDUCE_SCATTER);
}

clade_dtype clade__comm_sums_as(clade_dtype type) {
  switch (type) {
  case CLADE_F32:
  case CLADE_F16:
  case CLADE_BF16: return CLADE_F32;
  case CLADE_I32:
  case CLADE_I64: return type;
  default: return CLADE_DTYPE_NONE;
  }
}

static clade_status check_type(const attrs *a, clade_dtype type, int i) {
  const char *name = clade_dtype_name(type);
  if (a->what == CLADE__ALL_GATHER) return CLADE_OK;
  const clade_dtype sums = clade__comm_sums_as(type);
  if (!sums) return CLADE_FAIL(DTYPE, "value %d is of %s: sums over ranks are of f32, f16, bf16, i32 or i64", i, name);
  if ((int32_t)type != a->type)
    return CLADE_FAIL(DTYPE, "value %d is of %s, the first one of %s: a call sums values of one type", i, name,
                      clade_dtype_name((clade_dtype)a->type));
  if (sums != CLADE_F32 && a->wire != CLADE_F32)
    return CLADE_FAIL(DTYPE, "value %d is of %s: sums of it do not travel as %s", i, name,
                      clade_dtype_name((clade_dtype)a->wire));
  if (sums != CLADE_F32 && a->channel)
    return CLADE_FAIL(DTYPE, "value %d is of %s: the carrier's sums are of f32", i, name);
  return CLADE_OK;
}

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  int out = 0;
  for (int i = 0; i < n->n_in; i++) {
    CLADE_TRY(check_type(a, n->in[i].dtype, i));
    if (gets(a, i)) n->out[out++] = n->in[i];
  }
  return CLADE_OK;
}

static int outputs(const void *given, int n_in) {
  int n = 0;
  for (int i = 0; given && i < n_in; i++) n += gets(given, i);
  return n;
}

/* A value owned by another rank is received in the memory of the input that it replaces, which this rank does not
 * send. */
static uint64_t in_place(const clade_node *n, int out) {
  const attrs *a = n->attrs;
  for (int i = 0; i < n->n_in; i++)
    if (gets(a, i) && out-- == 0) return UINT64_C(1) << i;
  return 0;
}

/* Each rank's output depends on all ranks' operands, so the gradients are all-reduced as well. */
static clade_status grad_of_sums(clade_grad *g) {
  const attrs *a = g->node->attrs;
  clade_val sums[CLADE_ALL_REDUCE_MOST];
  int n = 0;
  for (int i = 0; i < g->node->n_in; i++)
    if (clade_val_ok(g->dout[i])) sums[n++] = g->dout[i];
  clade_comm *comm = clade__comm_numbered(a->comm);
  if (!comm) return CLADE_FAIL(INVALID, "communicator %d was released", (int)a->comm);
  clade_status status = clade__all_reduce(g->graph, comm, a->channel, (clade_dtype)a->wire, n, sums);
  clade_comm_release(comm);
  for (int i = g->node->n_in; i-- > 0 && status == CLADE_OK;)
    if (clade_val_ok(g->dout[i])) g->din[i] = sums[--n];
  return status;
}

/* ---- host step ---- */
/* Operand indices of a value in the call; -1: absent. */
typedef struct place {
  int in, out, owner;
} place;

typedef struct reducer {
  clade_comm *comm;
  clade__reduction *idle; /* usually one, since steps of a run do not overlap */
  int n;
  place at[CLADE_ALL_REDUCE_MOST]; /* in message order */
  size_t *ends;                    /* of the owners' slots, in elements; NULL: no owners */
} reducer;

/* Sorts values by the slots of their owners. */
static void order(reducer *s) {
  const int size = s->comm->size;
  for (int i = 1; i < s->n; i++)
    for (int k = i; k && clade__schedule_slot(s->at[k].owner, size) < clade__schedule_slot(s->at[k - 1].owner, size);
         k--) {
      const place first = s->at[k];
      s->at[k] = s->at[k - 1];
      s->at[k - 1] = first;
    }
}

static void find_places(reducer *s, const attrs *a) {
  int operand = 0;
  s->n = a->n;
  for (int i = 0; i < a->n; i++) s->at[i] = (place){gives(a, i) ? operand++ : -1, -1, a->owner[i]};
  for (int i = 0; i < a->n; i++)
    if (gets(a, i)) s->at[i].out = operand++;
}

static const char *name_of(const attrs *a) {
  static const char *const names[] = {"all_reduce", "reduce_scatter", "all_gather"};
  return a->channel ? "carrier_all_reduce" : names[a->what];
}

static void release(void *given) {
  reducer *s = given;
  clade__reductions_free(s->idle);
  clade_comm_release(s->comm);
  clade__free(s->ends);
  clade__free(s);
}

static clade_status prepare(const void *work, clade_device *device, void **out) {
  const attrs *a = work;
  (void)device;
  reducer *s = clade__new(1, sizeof *s);
  if (!s) return CLADE_NO_MEMORY;
  *out = s;
  s->comm = clade__comm_numbered(a->comm);
  if (!s->comm) {
    clade__free(s);
    return CLADE_FAIL(INVALID, "%s: communicator %d was released", name_of(a), (int)a->comm);
  }
  find_places(s, a);
  if (a->what == CLADE__ALL_REDUCE) return CLADE_OK;
  order(s);
  s->ends = clade__new((size_t)clade__schedule_slots(s->comm->size), sizeof *s->ends);
  if (s->ends) return CLADE_OK;
  release(s);
  return CLADE_NO_MEMORY;
}

static size_t bytes_of(const clade_host_call *call, const place *p) { return call->bytes[p->in >= 0 ? p->in : p->out]; }

static void waited(void *given, double seconds) { clade__comm_waited(((reducer *)given)->comm, seconds); }

/* Element type within a collective: f32 for 16-bit values that are summed, bytes for gathered values. */
static clade_dtype inside_type(const attrs *a) {
  return a->what == CLADE__ALL_GATHER ? CLADE_U8 : clade__comm_sums_as((clade_dtype)a->type);
}

static clade_dtype outside_type(const attrs *a) {
  return a->what == CLADE__ALL_GATHER ? CLADE_U8 : (clade_dtype)a->type;
}

/* Number of elements of a value within the collective. */
static size_t elements(const clade_host_call *call, const place *p) {
  return bytes_of(call, p) / clade__comm_element(outside_type(call->work));
}

/* Concatenates the values into the message; `back`: the reverse, into the outputs. */
static clade_status pack(const clade__reduction *r, bool back) {
  const clade_host_call *call = clade__reduction_user(r);
  const reducer *s = call->state;
  const attrs *a = call->work;
  const clade_dtype inside = inside_type(a), outside = outside_type(a);
  char *at = clade__reduction_data(r);
  for (int i = 0; i < s->n; i++) {
    const size_t n = elements(call, &s->at[i]);
    const int operand = back ? s->at[i].out : s->at[i].in;
    if (n && operand >= 0 && back) CLADE_TRY(clade_convert(outside, call->data[operand], inside, at, n));
    if (n && operand >= 0 && !back) CLADE_TRY(clade_convert(inside, at, outside, call->data[operand], n));
    at += n * clade__comm_element(inside);
  }
  return CLADE_OK;
}

/* Computes the message length and the ends of the owners' slots. */
static size_t measure(const clade_host_call *call) {
  const reducer *s = call->state;
  const int size = s->comm->size, slots = clade__schedule_slots(size);
  size_t n = 0;
  int slot = 0;
  for (int i = 0; i < s->n; i++) {
    while (s->ends && slot < clade__schedule_slot(s->at[i].owner, size)) s->ends[slot++] = n;
    n += elements(call, &s->at[i]);
  }
  while (s->ends && slot < slots) s->ends[slot++] = n;
  return n;
}

static clade_status begin(const clade_host_call *call, void **out) {
  const attrs *a = call->work;
  reducer *s = call->state;
  const size_t n = measure(call);
  const clade__message message = {.what = (clade__collective)a->what,
                                  .n = n,
                                  .ends = s->ends,
                                  .whole = a->what == CLADE__ALL_REDUCE &&
                                           n * clade__comm_element(inside_type(a)) < CLADE__COMM_SHORT,
                                  .type = inside_type(a),
                                  .wire = (clade_dtype)a->wire,
                                  .channel = a->channel};
  return clade__collective_begin(s->comm, &s->idle, a->series, &message, call, pack, out);
}

static clade_status poll(void *reduction, clade_host_state *state) {
  return clade__collective_poll(reduction, pack, state);
}

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
  clade_kernel_step *s = clade_emit_host(e, name_of(a), &host, a, sizeof *a);
  for (int i = 0; i < q->node->n_in; i++)
    if (gives(a, i)) clade_emit_in(s, i);
  for (int i = 0; i < q->node->n_out; i++) clade_emit_out(s, i);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "host", .emit = emit), NULL};
#define OP(NAME, GRAD, IN_PLACE)                                                                                    \
  {                                                                                                                 \
    .size = sizeof(clade_op), .name = NAME, .flags = CLADE_OP_EFFECT, .min_in = 1, .max_in = CLADE_ALL_REDUCE_MOST, \
    .attr_bytes = sizeof(attrs), .attrs = table, .infer = infer, .impls = impls, .outputs = outputs, .grad = GRAD,  \
    .in_place = IN_PLACE                                                                                            \
  }
static const clade_op ops[] = {[CLADE__ALL_REDUCE] = OP("comm.all_reduce", grad_of_sums, NULL),
                               [CLADE__REDUCE_SCATTER] = OP("comm.reduce_scatter", NULL, NULL),
                               [CLADE__ALL_GATHER] = OP("comm.all_gather", NULL, in_place)};

/* ---- builders ---- */
static clade_status check(const clade_comm *comm, clade_dtype wire, int n, const clade_val *values, const int *owners,
                          bool owned) {
  if (n < 0 || n > CLADE_ALL_REDUCE_MOST || (n && !values))
    return CLADE_FAIL(INVALID, "%d values; 0 to %d are expected, and no NULL", n, (int)CLADE_ALL_REDUCE_MOST);
  if (!clade__comm_carries(wire))
    return CLADE_FAIL(DTYPE, "sums that travel as %s: f32, bf16 and f16 are possible", clade_dtype_name(wire));
  if (owned && n && !owners) return CLADE_FAIL(INVALID, "the owners are NULL");
  for (int i = 0; owned && i < n; i++)
    if (owners[i] < 0 || owners[i] >= clade_comm_size(comm))
      return CLADE_FAIL(INVALID, "value %d is owned by rank %d of %d", i, owners[i], clade_comm_size(comm));
  return CLADE_OK;
}

static clade_status collect(clade_graph *g, clade_comm *comm, clade__collective what, int channel, clade_dtype wire,
                            int n, const int *owners, clade_val *values) {
  static const char *const calls[] = {"clade_all_reduce", "clade_reduce_scatter", "clade_all_gather"};
  clade_val out[CLADE_ALL_REDUCE_MOST];
  if (!clade__graph_ok(g)) return clade_graph_status(g);
  clade_status status = check(comm, wire, n, values, owners, what != CLADE__ALL_REDUCE);
  if (status != CLADE_OK) {
    clade__graph_fail(g, status, calls[what]);
    return status;
  }
  if (!n || clade_comm_size(comm) == 1) return CLADE_OK;
  attrs a = {.comm = comm->number,
             .what = (int32_t)what,
             .type = clade_val_ok(values[0]) ? (int32_t)clade__type(g, values[0].id)->dtype : 0,
             .wire = (int32_t)wire,
             .channel = channel,
             .rank = comm->rank,
             .n = n};
  for (int i = 0; owners && i < n; i++) a.owner[i] = owners[i];
  status = clade__comm_reserve(comm, 1, &a.series);
  if (status != CLADE_OK) {
    clade__graph_fail(g, status, calls[what]);
    return status;
  }
  clade_node_add(g, &ops[what], NULL, &a, n, values, out);
  for (int i = 0, k = 0; i < n; i++)
    if (gets(&a, i))
      values[i] = out[k++];
    else if (what == CLADE__REDUCE_SCATTER)
      values[i] = (clade_val){0};
  return clade_graph_status(g);
}

clade_status clade__all_reduce(clade_graph *g, clade_comm *comm, int channel, clade_dtype wire, int n,
                               clade_val *values) {
  return collect(g, comm, CLADE__ALL_REDUCE, channel, wire, n, NULL, values);
}

clade_status clade_all_reduce(clade_graph *g, clade_comm *comm, clade_dtype wire, int n, clade_val *values) {
  return clade__all_reduce(g, comm, 0, wire, n, values);
}

void clade_graph_sync(clade_graph *g, clade_comm *comm) {
  if (clade__graph_ok(g)) g->sync = clade_comm_size(comm) > 1 ? comm : NULL;
}

clade_status clade_reduce_scatter(clade_graph *g, clade_comm *comm, clade_dtype wire, int n, const int *owners,
                                  clade_val *values) {
  return collect(g, comm, CLADE__REDUCE_SCATTER, 0, wire, n, owners, values);
}

clade_status clade_all_gather(clade_graph *g, clade_comm *comm, int n, const int *owners, clade_val *values) {
  return collect(g, comm, CLADE__ALL_GATHER, 0, CLADE_F32, n, owners, values);
}
