/* The op that sums values over the ranks: a step of the host, which sends and adds while kernels go on. */
#include <stddef.h>

#include "comm/comm.h"
#include "ir/ir.h"

typedef struct attrs {
  int32_t comm, tag; /* comm: its number in this process */
} attrs;
static const clade_attr table[] = {
    {"comm", CLADE_ATTR_I32, offsetof(attrs, comm), 1}, {"tag", CLADE_ATTR_I32, offsetof(attrs, tag), 1}, {0}};

static clade_status infer(clade_node *n) {
  for (int i = 0; i < n->n_in; i++) {
    if (n->in[i].dtype != CLADE_F32)
      return CLADE_FAIL(DTYPE, "value %d is of %s: sums over ranks are of f32", i, clade_dtype_name(n->in[i].dtype));
    n->out[i] = n->in[i];
  }
  return CLADE_OK;
}

static int outputs(const void *given, int n_in) {
  (void)given;
  return n_in;
}

/* ---- the step ---- */
/* Sums of executions that follow each other are on their way at once, and may end in any order: each has a tag of its
 * own, the same one on all ranks, as executions begin in the same order everywhere. */
enum { TAGS = 16 };

typedef struct reducer {
  clade_comm *comm;
  unsigned begun;
} reducer;

static clade_status prepare(const void *work, clade_device *device, void **out) {
  const attrs *a = work;
  (void)device;
  reducer *s = clade__new(1, sizeof *s);
  if (!s) return CLADE_NO_MEMORY;
  *out = s;
  s->comm = clade__comm_numbered(a->comm);
  if (s->comm) return CLADE_OK;
  clade__free(s);
  return CLADE_FAIL(INVALID, "all_reduce: communicator %d was released", (int)a->comm);
}

static void release(void *given) {
  reducer *s = given;
  clade_comm_release(s->comm);
  clade__free(s);
}

static void waited(void *given, double seconds) { clade__comm_waited(((reducer *)given)->comm, seconds); }

/* Values lie one after the other in what is sent; `back`: from there to the outputs. */
static void pack(const clade__reduction *r, bool back) {
  const clade_host_call *call = clade__reduction_user(r);
  char *at = clade__reduction_data(r);
  for (int i = 0, n = call->n / 2; i < n; i++) {
    if (call->bytes[i]) memcpy(back ? call->data[n + i] : at, back ? at : call->data[i], call->bytes[i]);
    at += call->bytes[i];
  }
}

static clade_status begin(const clade_host_call *call, void **out) {
  const attrs *a = call->work;
  reducer *s = call->state;
  clade__reduction *r;
  size_t bytes = 0;
  for (int i = 0; i < call->n / 2; i++) bytes += call->bytes[i];
  const clade__message message = {.n = bytes / sizeof(float), .whole = bytes < CLADE__COMM_SHORT};
  CLADE_TRY(clade__reduction_new(s->comm, a->tag + (int)(s->begun++ % TAGS), &message, call, &r));
  pack(r, false);
  *out = r;
  return CLADE_OK;
}

static void end(void *reduction) { clade__reduction_end(reduction); }

static clade_status poll(void *reduction, clade_host_state *state) {
  bool done = false;
  clade_status status = clade__reduction_step(reduction, &done);
  *state = done ? CLADE_HOST_DONE : CLADE_HOST_AGAIN;
  if (done) pack(reduction, true);
  if (done || status != CLADE_OK) end(reduction);
  return status;
}

static const clade_host host = {.size = sizeof(clade_host),
                                .prepare = prepare,
                                .begin = begin,
                                .poll = poll,
                                .cancel = end,
                                .release = release,
                                .poll_us = 50,
                                .waited = waited};

static clade_status emit(clade_emit *e, const clade_query *q) {
  clade_kernel_step *s = clade_emit_host(e, "all_reduce", &host, q->node->attrs, sizeof(attrs));
  for (int i = 0; i < q->node->n_in; i++) clade_emit_in(s, i);
  for (int i = 0; i < q->node->n_out; i++) clade_emit_out(s, i);
  return CLADE_OK;
}

static const clade_impl *const impls[] = {CLADE_IMPL(.name = "host", .emit = emit), NULL};
static const clade_op op = {.size = sizeof(clade_op),
                            .name = "comm.all_reduce",
                            .flags = CLADE_OP_EFFECT,
                            .min_in = 1,
                            .max_in = CLADE_ALL_REDUCE_MOST,
                            .attr_bytes = sizeof(attrs),
                            .attrs = table,
                            .infer = infer,
                            .impls = impls,
                            .outputs = outputs};

clade_status clade_all_reduce(clade_graph *g, clade_comm *comm, int n, clade_val *values) {
  if (!clade__graph_ok(g)) return clade_graph_status(g);
  if (n < 0 || n > CLADE_ALL_REDUCE_MOST || (n && !values)) {
    clade_status status =
        CLADE_FAIL(INVALID, "%d values; 0 to %d are expected, and no NULL", n, (int)CLADE_ALL_REDUCE_MOST);
    clade__graph_fail(g, status, "clade_all_reduce");
    return status;
  }
  if (!n || clade_comm_size(comm) == 1) return CLADE_OK;
  const attrs a = {comm->number, comm->next_tag};
  comm->next_tag += TAGS;
  clade_node_add(g, &op, NULL, &a, n, values, values);
  return clade_graph_status(g);
}
