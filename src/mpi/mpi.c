/* libclade_mpi: carries a communicator's bytes by MPI. It is linked with MPI and not with libclade, which therefore
 * runs where no MPI is; <clade/mpi.h> joins both. */
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

#include <clade/mpi.h>

enum { IDLE = 64 };

typedef struct carrier {
  MPI_Comm comm;
  bool initialized; /* by this library, which then finalizes */
  int n_idle;
  MPI_Request *idle[IDLE]; /* to be used again */
  char error[MPI_MAX_ERROR_STRING];
} carrier;

static clade_status told(carrier *c, int code) {
  int length = 0;
  if (code == MPI_SUCCESS) return CLADE_OK;
  MPI_Error_string(code, c->error, &length);
  return CLADE_IO;
}

static MPI_Request *take(carrier *c) { return c->n_idle ? c->idle[--c->n_idle] : malloc(sizeof(MPI_Request)); }

static void give(carrier *c, MPI_Request *request) {
  if (c->n_idle < IDLE)
    c->idle[c->n_idle++] = request;
  else
    free(request);
}

static clade_status begin(carrier *c, bool sends, int rank, int tag, void *data, size_t bytes, void **request) {
  c->error[0] = 0;
  if (bytes > INT_MAX) return CLADE_OVERFLOW;
  MPI_Request *r = take(c);
  if (!r) return CLADE_NO_MEMORY;
  clade_status status = told(c, sends ? MPI_Isend(data, (int)bytes, MPI_BYTE, rank, tag, c->comm, r)
                                      : MPI_Irecv(data, (int)bytes, MPI_BYTE, rank, tag, c->comm, r));
  if (status == CLADE_OK)
    *request = r;
  else
    give(c, r);
  return status;
}

static clade_status send(void *user, int to, int tag, const void *data, size_t bytes, void **request) {
  return begin(user, true, to, tag, (void *)(uintptr_t)data, bytes, request);
}

static clade_status receive(void *user, int from, int tag, void *data, size_t bytes, void **request) {
  return begin(user, false, from, tag, data, bytes, request);
}

static clade_status test(void *user, void *request, bool *done) {
  int flag = 0;
  clade_status status = told(user, MPI_Test(request, &flag, MPI_STATUS_IGNORE));
  *done = flag;
  if (flag || status != CLADE_OK) give(user, request);
  return status;
}

static void cancel(void *user, void *request) {
  MPI_Cancel(request);
  MPI_Request_free(request);
  give(user, request);
}

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

/* Open MPI first asks the receiver of a longer message, and a link that is busy in both directions then carries half of
 * what it could, likely since the answer comes behind the data that is on its way over the same TCP connection. A sum's
 * pieces (comm/reduce.c) go without being asked for. What the environment or mpirun's --mca says is left alone, and
 * other MPIs do not know the name. */
static bool send_pieces_at_once(void) {
  return setenv("OMPI_MCA_btl_tcp_eager_limit", "655360", false) == 0; /* 512 KiB, and room for headers */
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
  TRY(MPI_Comm_rank(c->comm, rank));
  TRY(MPI_Comm_size(c->comm, size));
  return CLADE_OK;
}

static const clade_comm_impl impl = {sizeof impl, "mpi", send,      receive, test,
                                     cancel,      error, abort_all, release, abort_with};

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
