/* Processes that compute together: a communicator, and values of a graph that are summed over its ranks
 * (docs/distributed.md). The library carries bytes between threads of a process; between processes <clade/mpi.h> does,
 * and a program may bring its own. */
#ifndef CLADE_COMM_H
#define CLADE_COMM_H

#include <clade/graph.h>

CLADE_BEGIN_DECLS

typedef struct clade_comm clade_comm;

/* What carries bytes between ranks. The functions are called by one thread at a time, from any thread, and may not
 * wait. Messages from one rank to another with the same tag arrive in the order in which they were sent. */
typedef struct clade_comm_impl {
  size_t size;
  const char *name; /* "mpi" */
  /* The memory is left alone until `test` says that the request is done, which ends the request. */
  clade_status (*send)(void *user, int to, int tag, const void *data, size_t bytes, void **request);
  clade_status (*receive)(void *user, int from, int tag, void *data, size_t bytes, void **request);
  clade_status (*test)(void *user, void *request, bool *done);
  void (*cancel)(void *user, void *request);
  const char *(*error)(void *user);                /* of the last call that failed; NULL: no text is known */
  void (*abort)(void *user);                       /* ends all ranks. NULL: there is no such means */
  void (*release)(void *user);                     /* with the communicator */
  void (*abort_with)(void *user, int exit_status); /* as `abort`, which it goes before; NULL: the status is lost */
  /* Sums over all ranks by means of the implementation's own; NULL, any of the three: it has none. A channel keeps its
   * sums apart from all others: those of one begin in the same order on all ranks, those of several in any. Channels
   * are opened in the same order on all ranks, and may be used once the request is done (NULL: at once). They are
   * closed before `release`; one whose request was canceled is not. */
  clade_status (*open_channel)(void *user, void **channel, void **request);
  void (*close_channel)(void *user, void *channel);
  /* sum[i] becomes the sum of all ranks' data[i]: the same bits on all of them, and again where as many sum the same.
   * Both arrays are left alone until the request is done. A sum that was canceled may go on: they are left alone for
   * good then. */
  clade_status (*all_reduce)(void *user, void *channel, const float *data, float *sum, size_t n, void **request);
} clade_comm_impl;

/* `impl` must outlive the communicator. Where it is refused, `user` stays the caller's. */
CLADE_API clade_status clade_comm_new(const clade_comm_impl *impl, void *user, int rank, int size, clade_comm **out);
/* Ranks that are threads of one process: puts `size` communicators into out[], by rank, each to be used by its own rank
 * and to be released. Messages are copied from one rank's memory to another's. clade_comm_abort on one of them returns;
 * whatever is under way on any of them, or begins later, then fails with CLADE_CANCELED and names the rank that did it.
 */
CLADE_API clade_status clade_comm_new_local(int size, clade_comm **out);
/* A communicator of some ranks of another one: ranks[i] of `comm`, each once and the caller among them, becomes rank i
 * of n. No message is sent for it: each of these ranks calls it with the same list, and those that are in several lists
 * come to them in the same order. It keeps `comm`, whose timeout and abort are its own; what is counted for it is
 * counted for `comm` as well, and messages name ranks by their numbers in the job. It has no sums by the
 * implementation's own means. */
CLADE_API clade_status clade_comm_split(clade_comm *comm, int n, const int *ranks, clade_comm **out);
CLADE_API clade_comm *clade_comm_retain(clade_comm *comm);
CLADE_API void clade_comm_release(clade_comm *comm); /* NULL is fine */
CLADE_API int clade_comm_rank(const clade_comm *comm);
CLADE_API int clade_comm_size(const clade_comm *comm);
/* How long a rank may leave another one waiting before that fails and names it; 60 s at first, 0: for ever. */
CLADE_API clade_status clade_comm_set_timeout(clade_comm *comm, double seconds);
/* Ends all ranks, where the implementation can; returns where it cannot, or where ranks are threads. */
CLADE_API void clade_comm_abort(clade_comm *comm);
/* The job's exit status becomes this one, where the implementation can tell it. */
CLADE_API void clade_comm_abort_with(clade_comm *comm, int exit_status);

/* What was done for values of graphs since the communicator was made. Set .size. */
typedef struct clade_comm_stats {
  size_t size;
  uint64_t sent_bytes, received_bytes; /* of sums by the implementation's own means: the least that these take */
  double busy_seconds;                 /* in which some value was on its way */
  double exposed_seconds;              /* of these, in which the device had nothing to do but to wait for one */
} clade_comm_stats;
CLADE_API clade_status clade_comm_get_stats(clade_comm *comm, clade_comm_stats *out);

/* ---- on the calling thread, which waits; all ranks call the same functions in the same order ---- */
CLADE_API clade_status clade_comm_broadcast(clade_comm *comm, int root, void *data, size_t bytes);
/* `all` on the root: size times `bytes`, by rank; ignored elsewhere. */
CLADE_API clade_status clade_comm_gather(clade_comm *comm, int root, const void *data, size_t bytes, void *all);
CLADE_API clade_status clade_comm_barrier(clade_comm *comm);

/* ---- in graphs ----
 * Replaces each of n values, all of one type, by its sum over the ranks, each of which builds the same graph. Sums are
 * of f32, f16, bf16, i32 or i64; those of 16 bits are added as f32 and rounded at the end. Ranks are summed in
 * pairs, (0 + 1) + (2 + 3), as shares of a graph are (clade_graph_share): the bits depend on the number of ranks alone.
 * Kernels that do not need the sums run meanwhile. The communicator is kept by the funcs. Without a communicator, or
 * with one rank, the values stay as they are.
 *
 * `wire`: what travels between ranks, CLADE_F32, or CLADE_BF16 or CLADE_F16 for half the bytes: whoever sends a part of
 * a sum rounds it, and ranks that sum in k steps round as often. All get the same bits. Of F16, sums beyond 65504
 * become infinite. Sums of less than 16 KiB travel as f32; whole numbers always travel as they are, and take no other
 * `wire`. Derivatives flow through: gradients of sums are summed
 * as well. */
enum { CLADE_ALL_REDUCE_MOST = 32 };
CLADE_API clade_status clade_all_reduce(clade_graph *g, clade_comm *comm, clade_dtype wire, int n, clade_val *values);

/* Layers that are built for training from here on and look at the batch, as batch normalization does, look at that of
 * all ranks, and need shapes without symbols; NULL, as at first: at this rank's alone. The communicator must live until
 * the graph is compiled. */
CLADE_API void clade_graph_sync(clade_graph *g, clade_comm *comm);

/* Where each of the n values belongs to a rank: owners[i], the same on all ranks.
 * Replaces the values that this rank owns by their sums, with the bits of clade_all_reduce, and the others by none. */
CLADE_API clade_status clade_reduce_scatter(clade_graph *g, clade_comm *comm, clade_dtype wire, int n,
                                            const int *owners, clade_val *values);
/* Replaces the values that other ranks own by theirs, of any types; of what stands there before, the type alone counts.
 */
CLADE_API clade_status clade_all_gather(clade_graph *g, clade_comm *comm, int n, const int *owners, clade_val *values);

CLADE_END_DECLS
#endif
