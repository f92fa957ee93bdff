/* libclade_mpi: transports a communicator's messages by MPI. It is linked with MPI but not with libclade, which
 * therefore runs without MPI; <clade/mpi.h> connects the two. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include <clade/mpi.h>

enum { IDLE = 64 };

typedef struct request {
  MPI_Request mpi;
  bool collective; /* cannot be canceled */
} request;

typedef struct carrier {
  MPI_Comm comm;
  bool initialized; /* MPI was initialized here and is finalized here */
  int most_tag;
  int n_idle;
  request *idle[IDLE]; /* for reuse */
  char error[MPI_MAX_ERROR_STRING];
} carrier;

static clade_status told(carrier *c, int code) {
  int length = 0;
  if (code == MPI_SUCCESS) return CLADE_OK;
  MPI_Error_string(code, c->error, &length);
  return CLADE_IO;
}

static void give(carrier *c, request *r) {
  if (c->n_idle < IDLE)
    c->idle[c->n_idle++] = r;
  else
    free(r);
}

static request *take(carrier *c, bool collective) {
  request *r = c->n_idle ? c->idle[--c->n_idle] : malloc(sizeof *r);
  if (r) r->collective = collective;
  c->error[0] = 0;
  return r;
}

/* Handles the result of an MPI call that started a request. */
static clade_status begun(carrier *c, int code, request *r, void **out) {
  clade_status status = told(c, code);
  if (status == CLADE_OK)
    *out = r;
  else
    give(c, r);
  return status;
}

static clade_status too_long(carrier *c) {
  c->error[0] = 0;
  return CLADE_OVERFLOW;
}

/* Checks length and tag of a message; MPI guarantees only tags up to 32767. */
static clade_status check(carrier *c, int tag, size_t bytes) {
  if (bytes > INT_MAX) return too_long(c);
  if (tag <= c->most_tag) return CLADE_OK;
  snprintf(c->error, sizeof c->error, "the message has tag %d, and this MPI has tags up to %d (MPI_TAG_UB)", tag,
           c->most_tag);
  return CLADE_OVERFLOW;
}

static clade_status send(void *user, int to, int tag, const void *data, size_t bytes, void **out) {
  carrier *c = user;
  clade_status status = check(c, tag, bytes);
  if (status != CLADE_OK) return status;
  request *r = take(c, false);
  if (!r) return CLADE_NO_MEMORY;
  return begun(c, MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, c->comm, &r->mpi), r, out);
}

static clade_status receive(void *user, int from, int tag, void *data, size_t bytes, void **out) {
  carrier *c = user;
  clade_status status = check(c, tag, bytes);
  if (status != CLADE_OK) return status;
  request *r = take(c, false);
  if (!r) return CLADE_NO_MEMORY;
  return begun(c, MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, c->comm, &r->mpi), r, out);
}

static clade_status test(void *user, void *given, bool *done) {
  request *r = given;
  int flag = 0;
  clade_status status = told(user, MPI_Test(&r->mpi, &flag, MPI_STATUS_IGNORE));
  *done = flag;
  if (flag || status != CLADE_OK) give(user, r);
  return status;
}

/* A collective cannot be canceled, and MPI still writes the communicator of a new channel. */
static void cancel(void *user, void *given) {
  request *r = given;
  if (!r->collective) {
    MPI_Cancel(&r->mpi);
    MPI_Request_free(&r->mpi);
  }
  give(user, r);
}

/* ---- sums ---- */
/* Each channel has a communicator: collectives on one communicator must start in the same order on all ranks. */
static clade_status open_channel(void *user, void **channel, void **out) {
  carrier *c = user;
  MPI_Comm *comm = malloc(sizeof *comm);
  request *r = comm ? take(c, true) : NULL;
  clade_status status = r ? begun(c, MPI_Comm_idup(c->comm, comm, &r->mpi), r, out) : CLADE_NO_MEMORY;
  if (status == CLADE_OK)
    *channel = comm;
  else
    free(comm);
  return status;
}

static void close_channel(void *user, void *channel) {
  int over = 0;
  (void)user;
  MPI_Finalized(&over);
  if (!over) MPI_Comm_free(channel);
  free(channel);
}

static clade_status all_reduce(void *user, void *channel, const float *data, float *sum, size_t n, void **out) {
  carrier *c = user;
  if (n > INT_MAX) return too_long(c);
  request *r = take(c, true);
  if (!r) return CLADE_NO_MEMORY;
  return begun(c, MPI_Iallreduce(data, sum, (int)n, MPI_FLOAT, MPI_SUM, *(MPI_Comm *)channel, &r->mpi), r, out);
}

/* ---- clade_comm_impl ---- */
static const char *error(void *user) { return ((carrier *)user)->error; }
static void abort_with(void *user, int exit_status) { MPI_Abort(((carrier *)user)->comm, exit_status); }
static void abort_all(void *user) { abort_with(user, 1); }

static void release(void *user) {
  carrier *c = user;
  int over = 0;
  MPI_Finalized(&over);
  if (!over) MPI_Comm_free(&c->comm);
  if (!over && c->initialized) MPI_Finalize();
  while (c->n_idle) free(c->idle[--c->n_idle]);
  free(c);
}

#define TRY(call)                               \
  do {                                          \
    if ((call) != MPI_SUCCESS) return CLADE_IO; \
  } while (0)

/* Raises Open MPI's eager limit, unless the user has set it, so that pieces of a sum (comm/reduce.c) are sent
 * without a rendezvous. With a rendezvous, a TCP link that is busy in both directions loses half of its bandwidth,
 * probably because the answer queues behind data on the same connection. Other MPIs ignore the variable. */
static bool send_pieces_at_once(void) {
  return setenv("OMPI_MCA_btl_tcp_eager_limit", "655360", false) == 0; /* 512 KiB and room for headers */
}

static int find_most_tag(carrier *c) {
  int *value = NULL, known = 0;
  const int code = MPI_Comm_get_attr(c->comm, MPI_TAG_UB, &value, &known);
  c->most_tag = code == MPI_SUCCESS && known ? *value : 32767; /* minimum of the MPI standard */
  return code;
}

static clade_status join(carrier *c, int *rank, int *size) {
  int already = 0, level = MPI_THREAD_SINGLE;
  TRY(MPI_Initialized(&already));
  if (!already && !send_pieces_at_once()) return CLADE_NO_MEMORY;
  if (!already) TRY(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level));
  c->initialized = !already;
  TRY(MPI_Query_thread(&level));
  if (level < MPI_THREAD_SERIALIZED) return CLADE_UNSUPPORTED;
  TRY(MPI_Comm_dup(MPI_COMM_WORLD, &c->comm));
  TRY(MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN));
  TRY(find_most_tag(c));
  TRY(MPI_Comm_rank(c->comm, rank));
  TRY(MPI_Comm_size(c->comm, size));
  return CLADE_OK;
}

static const clade_comm_impl impl = {.size = sizeof impl,
                                     .name = "mpi",
                                     .send = send,
                                     .receive = receive,
                                     .test = test,
                                     .cancel = cancel,
                                     .error = error,
                                     .abort = abort_all,
                                     .release = release,
                                     .abort_with = abort_with,
                                     .open_channel = open_channel,
                                     .close_channel = close_channel,
                                     .all_reduce = all_reduce};

clade_status clade_mpi_open(const clade_comm_impl **out, void **user, int *rank, int *size) {
  carrier *c = calloc(1, sizeof *c);
  if (!c) return CLADE_NO_MEMORY;
  clade_status status = join(c, rank, size);
  if (status != CLADE_OK) {
    free(c);
    return status;
  }
  *out = &impl;
  *user = c;
  return CLADE_OK;
}
