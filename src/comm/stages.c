/* Point-to-point transfers of values between pipeline stages: host steps, a send without output and a receive
 * without input. A receive starts in its turn among the effects and waits beside kernels. Long values are divided
 * into pieces that a transport can send eagerly. */
#include <stddef.h>

#include "comm/comm.h"
#include "ir/ir.h"

enum { WINDOW = 4 /* pieces in flight */ };

typedef struct attrs {
  int32_t comm, series, peer, dtype; /* comm: its number in this process; dtype, shape: of the received value */
  clade_shape shape;
} attrs;
static const clade_attr table[] = {
    {"comm", CLADE_ATTR_I32, offsetof(attrs, comm), 1},     {"series", CLADE_ATTR_I32, offsetof(attrs, series), 1},
    {"peer", CLADE_ATTR_I32, offsetof(attrs, peer), 1},     {"dtype", CLADE_ATTR_I32, offsetof(attrs, dtype), 1},
    {"shape", CLADE_ATTR_SHAPE, offsetof(attrs, shape), 1}, {0}};

static clade_status infer(clade_node *n) {
  const attrs *a = n->attrs;
  if (!n->n_out) return CLADE_OK;
  n->out[0] = (clade_type){.dtype = (clade_dtype)a->dtype, .shape = a->shape};
  return clade__type_check(&n->out[0], false);
}

/* ---- host step ---- */
typedef struct port port;

/* A transfer in progress. */
typedef struct transfer {
  struct transfer *next; /* in the list of idle transfers */
  port *port;
  const clade_host_call *call;
  int tag;
  size_t begun, ended; /* in pieces */
  void *request[WINDOW];
  double since; /* time of the last completed piece */
} transfer;

struct port {
  clade_comm *comm;
  int series, peer;
  bool receives;
  transfer *idle; /* under the communicator's lock */
};

static void release(void *given) {
  port *p = given;
  for (transfer *next; p->idle; p->idle = next) {
    next = p->idle->next;
    clade__free(p->idle);
  }
  clade_comm_release(p->comm);
  clade__free(p);
}

static clade_status prepare(const attrs *a, bool receives, void **out) {
  port *p = clade__new(1, sizeof *p);
  if (!p) return CLADE_NO_MEMORY;
  *p = (port){clade__comm_numbered(a->comm), a->series, a->peer, receives, NULL};
  *out = p;
  if (p->comm) return CLADE_OK;
  clade__free(p);
  return CLADE_FAIL(INVALID, "%s: communicator %d was released", receives ? "receive" : "send", (int)a->comm);
}

static clade_status prepare_send(const void *work, clade_device *device, void **out) {
  (void)device;
  return prepare(work, false, out);
}

static clade_status prepare_receive(const void *work, clade_device *device, void **out) {
  (void)device;
  return prepare(work, true, out);
}

static transfer *take(port *p) {
  pthread_mutex_lock(&p->comm->lock);
  transfer *t = p->idle;
  if (t) p->idle = t->next;
  pthread_mutex_unlock(&p->comm->lock);
  return t ? t : clade__new(1, sizeof *t);
}

static void end(void *given) {
  transfer *t = given;
  port *p = t->port;
  for (int i = 0; i < WINDOW; i++) clade__comm_cancel(p->comm, &t->request[i]);
  clade__comm_leave(p->comm);
  pthread_mutex_lock(&p->comm->lock);
  t->next = p->idle;
  p->idle = t;
  pthread_mutex_unlock(&p->comm->lock);
}

static size_t pieces(const transfer *t) { return (t->call->bytes[0] + CLADE__COMM_PIECE - 1) / CLADE__COMM_PIECE; }

static clade_status begin_pieces(transfer *t) {
  const port *p = t->port;
  for (; t->begun < pieces(t) && t->begun - t->ended < WINDOW; t->begun++) {
    const size_t from = t->begun * CLADE__COMM_PIECE;
    const size_t bytes = CLADE_MIN(t->call->bytes[0] - from, (size_t)CLADE__COMM_PIECE);
    void **request = &t->request[t->begun % WINDOW], *data = (char *)t->call->data[0] + from;
    if (p->receives)
      CLADE_TRY(clade__comm_receive(p->comm, p->peer, t->tag, data, bytes, request));
    else
      CLADE_TRY(clade__comm_send(p->comm, p->peer, t->tag, data, bytes, request));
  }
  return CLADE_OK;
}

static clade_status begin(const clade_host_call *call, void **out) {
  port *p = call->state;
  transfer *t = take(p);
  if (!t) return CLADE_NO_MEMORY;
  *t = (transfer){.port = p,
                  .call = call,
                  .tag = clade__comm_take_tag(p->comm, p->series, p->peer, p->receives),
                  .since = clade__now()};
  clade__comm_enter(p->comm);
  clade_status status = begin_pieces(t);
  if (status == CLADE_OK)
    *out = t;
  else
    end(t);
  return status;
}

static clade_status go_on(transfer *t, bool *done) {
  while (t->ended < t->begun) {
    CLADE_TRY(clade__comm_test(t->port->comm, &t->request[t->ended % WINDOW], done));
    if (!*done) return clade__comm_patience(t->port->comm, t->port->peer, t->since);
    t->ended++;
    t->since = clade__now();
    CLADE_TRY(begin_pieces(t));
  }
  *done = true;
  return CLADE_OK;
}

static clade_status poll(void *given, clade_host_state *state) {
  bool done;
  clade_status status = go_on(given, &done);
  if (status == CLADE_OK) *state = done ? CLADE_HOST_DONE : CLADE_HOST_AGAIN;
  if (status != CLADE_OK || done) end(given);
  return status;
}

static void waited(void *given, double seconds) { clade__comm_waited(((port *)given)->comm, seconds); }

#define HOST(PREPARE)                                                                                                \
  {                                                                                                                  \
    .size = sizeof(clade_host), .prepare = PREPARE, .begin = begin, .poll = poll, .cancel = end, .release = release, \
    .poll_us = CLADE__COMM_POLL_US, .waited = waited                                                                 \
  }
static const clade_host sender = HOST(prepare_send), receiver = HOST(prepare_receive);

static clade_status emit(clade_emit *e, const clade_query *q) {
  const attrs *a = q->node->attrs;
  const bool receives = q->node->n_out;
  clade_kernel_step *s =
      clade_emit_host(e, receives ? "receive" : "send", receives ? &receiver : &sender, a, sizeof *a);
  if (receives)
    clade_emit_out(s, 0);
  else
    clade_emit_in(s, 0);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "host", .emit = emit), NULL};
#define OP(NAME, N_IN, N_OUT)                                                                                         \
  {                                                                                                                   \
    .size = sizeof(clade_op), .name = NAME, .flags = CLADE_OP_EFFECT, .min_in = N_IN, .max_in = N_IN, .n_out = N_OUT, \
    .attr_bytes = sizeof(attrs), .attrs = table, .infer = infer, .impls = impls                                       \
  }
static const clade_op send_op = OP("comm.send", 1, 0), receive_op = OP("comm.receive", 0, 1);

/* ---- builders ---- */
static clade_status fill(const clade_comm *comm, int peer, int number, attrs *a) {
  memset(a, 0, sizeof *a); /* attributes are compared and hashed bytewise */
  if (!comm) return CLADE_FAIL(INVALID, "the communicator is NULL");
  if (peer < 0 || peer >= comm->size || peer == comm->rank)
    return CLADE_FAIL(INVALID, "the other side is rank %d, and this one rank %d of %d", peer, comm->rank, comm->size);
  if (number < 0 || number >= comm->next_series) return CLADE_FAIL(INVALID, "message %d was not reserved", number);
  a->comm = comm->number;
  a->series = number;
  a->peer = peer;
  return CLADE_OK;
}

clade_status clade__comm_send_value(clade_graph *g, clade_comm *comm, int to, int number, clade_val x) {
  attrs a;
  if (!clade__graph_ok(g)) return clade_graph_status(g);
  clade_status status = fill(comm, to, number, &a);
  if (status == CLADE_OK)
    clade_node_add(g, &send_op, NULL, &a, 1, &x, NULL);
  else
    clade__graph_fail(g, status, send_op.name);
  return clade_graph_status(g);
}

clade_val clade__comm_receive_value(clade_graph *g, clade_comm *comm, int from, int number, const clade_type *type) {
  attrs a;
  if (!clade__graph_ok(g)) return (clade_val){0};
  clade_status status = fill(comm, from, number, &a);
  if (status == CLADE_OK && !type) status = CLADE_FAIL(INVALID, "the type is NULL");
  if (status != CLADE_OK) return clade__graph_fail(g, status, receive_op.name);
  a.dtype = (int32_t)type->dtype;
  a.shape.rank = type->shape.rank;
  for (int i = 0; i < type->shape.rank && i < CLADE_MAX_RANK; i++) a.shape.dim[i] = type->shape.dim[i];
  return clade_node_add(g, &receive_op, NULL, &a, 0, NULL, NULL);
}
