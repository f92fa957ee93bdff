/* Communication between ranks, which are processes or threads that compute together: a communicator, and collectives on
 * values of a graph (docs/distributed.md). The library itself connects threads of a process. <clade/mpi.h> connects
 * processes, and a program may bring its own implementation. */
#ifndef CLADE_COMM_H
#define CLADE_COMM_H

#include <clade/graph.h>

CLADE_BEGIN_DECLS

/* A communicator. Reference-counted. */
typedef struct clade_comm clade_comm;

/* ---- implementations ---- */
/* The functions that carry bytes between ranks. They are called by one thread at a time, from any thread, and must not
 * wait. Messages from one rank to another with the same tag arrive in order. */
typedef struct clade_comm_impl {
  size_t size;
  const char *name; /* "mpi" */
  /* Starts sending or receiving a message. The memory is not accessed otherwise until `test` reports that the request
   * is done. */
  clade_status (*send)(void *user, int to, int tag, const void *data, size_t bytes, void **request);
  clade_status (*receive)(void *user, int from, int tag, void *data, size_t bytes, void **request); /* the same */
  clade_status (*test)(void *user, void *request, bool *done); /* whether a request is done, which ends the request */
  void (*cancel)(void *user, void *request);                   /* ends a request that is not done */
  const char *(*error)(void *user);                /* message of the last call that failed; NULL: there is none */
  void (*abort)(void *user);                       /* ends all ranks; NULL: impossible */
  void (*release)(void *user);                     /* called when the communicator is released */
  void (*abort_with)(void *user, int exit_status); /* as `abort`, and preferred; NULL: the status is not passed on */
  /* Opens a channel for sums by the implementation itself. The sums of one channel begin in the same order on all
   * ranks, those of different channels in any order. Channels are opened in the same order on all ranks. A channel may
   * be used once the request is done (NULL: at once). NULL, for any of the three functions: the implementation has no
   * sums. */
  clade_status (*open_channel)(void *user, void **channel, void **request);
  void (*close_channel)(void *user, void *channel); /* before `release`; not if the channel's request was canceled */
  /* Starts a sum: sum[i] becomes the sum of data[i] over all ranks, with the same bits on all ranks, and again whenever
   * as many ranks sum the same numbers. Both arrays are not accessed otherwise until the request is done, and never
   * again if it was canceled, since the sum may go on. */
  clade_status (*all_reduce)(void *user, void *channel, const float *data, float *sum, size_t n, void **request);
} clade_comm_impl;

/* ---- communicators ---- */
/* Makes a communicator of an implementation, which must outlive it. On failure `user` remains the caller's. */
CLADE_API clade_status clade_comm_new(const clade_comm_impl *impl, void *user, int rank, int size, clade_comm **out);
/* Makes `size` communicators for ranks that are threads of this process: out[i] is for rank i, and each is released.
 * Messages are copied from memory to memory. clade_comm_abort on one of them returns; pending and later operations of
 * all of them then fail with CLADE_CANCELED, and name the rank that aborted. */
CLADE_API clade_status clade_comm_new_local(int size, clade_comm **out);
/* Makes a communicator of some ranks of another one: ranks[i] of `comm` becomes rank i of n. The list has no duplicates
 * and includes the caller. All its ranks call this function with the same list, and ranks in several lists in the same
 * order; no message is sent. The new communicator keeps `comm`, shares its timeout, abort and statistics, and names
 * ranks by their numbers in the job. It has no sums by the implementation. */
CLADE_API clade_status clade_comm_split(clade_comm *comm, int n, const int *ranks, clade_comm **out);
/* Adds and drops a reference; NULL may be released. */
CLADE_API clade_comm *clade_comm_retain(clade_comm *comm);
CLADE_API void clade_comm_release(clade_comm *comm);
CLADE_API int clade_comm_rank(const clade_comm *comm); /* this rank's number */
CLADE_API int clade_comm_size(const clade_comm *comm); /* number of ranks */
/* Sets how long a rank may keep another one waiting. Then the operation fails and names the rank. Initially 60 s; 0:
 * for ever. */
CLADE_API clade_status clade_comm_set_timeout(clade_comm *comm, double seconds);
/* Ends all ranks. Returns if the implementation cannot, and if ranks are threads. */
CLADE_API void clade_comm_abort(clade_comm *comm);
/* The same, with an exit status for the job, if the implementation can pass it on. */
CLADE_API void clade_comm_abort_with(clade_comm *comm, int exit_status);

/* Statistics of the collectives of graphs, since the communicator was made. */
typedef struct clade_comm_stats {
  size_t size;
  uint64_t sent_bytes, received_bytes; /* for sums by the implementation: the least possible */
  double busy_seconds;                 /* in which a collective was under way */
  double exposed_seconds;              /* of these, in which the device was idle because of it */
} clade_comm_stats;
/* Reports the statistics. The caller sets out->size. */
CLADE_API clade_status clade_comm_get_stats(clade_comm *comm, clade_comm_stats *out);

/* ---- collectives on host memory ----
 * The calling thread waits. All ranks call the same functions in the same order. */

/* Copies the root's data to all ranks. */
CLADE_API clade_status clade_comm_broadcast(clade_comm *comm, int root, void *data, size_t bytes);
/* Collects the data of all ranks on the root: `all` has room for size times `bytes`, by rank. Elsewhere `all` is
 * ignored. */
CLADE_API clade_status clade_comm_gather(clade_comm *comm, int root, const void *data, size_t bytes, void *all);
CLADE_API clade_status clade_comm_barrier(clade_comm *comm); /* waits until all ranks have called it */

/* ---- collectives in graphs ----
 * All ranks build the same graph. Kernels that do not need the results run during a collective. Funcs keep the
 * communicator. Without a communicator, or with one rank, values stay as they are. */

enum { CLADE_ALL_REDUCE_MOST = 32 }; /* most values per call */
/* Replaces each of n values of one type by its sum over all ranks. Types are f32, f16, bf16, i32 and i64; 16-bit floats
 * are added in f32 and rounded at the end. Ranks are summed in pairs, (0 + 1) + (2 + 3), like the shares of a graph
 * (clade_graph_share), so that the bits depend only on the number of ranks. Gradients of sums are summed, too.
 *
 * `wire` is the type of the messages: CLADE_F32, or CLADE_BF16 or CLADE_F16 for half of the bytes. Each sender rounds
 * its part of a sum, so a sum of k steps is rounded k times, and all ranks get the same bits. In f16, sums beyond 65504
 * become infinite. Sums of less than 16 KiB are sent as f32. Integers are sent unchanged, and refuse another `wire`. */
CLADE_API clade_status clade_all_reduce(clade_graph *g, clade_comm *comm, clade_dtype wire, int n, clade_val *values);

/* Makes layers that use the batch's statistics, such as batch normalization, and are built for training from here on,
 * use those of all ranks' batches. Shapes must be constant. NULL, as initially: this rank's batch only. The
 * communicator must live until the graph is compiled. */
CLADE_API void clade_graph_sync(clade_graph *g, clade_comm *comm);

/* Replaces the values that this rank owns by their sums, with the bits of clade_all_reduce, and the others by invalid
 * values. owners[i] is the rank that owns values[i], the same on all ranks. */
CLADE_API clade_status clade_reduce_scatter(clade_graph *g, clade_comm *comm, clade_dtype wire, int n,
                                            const int *owners, clade_val *values);
/* Replaces the values that other ranks own by theirs, of any type. Only the type of the replaced values matters. */
CLADE_API clade_status clade_all_gather(clade_graph *g, clade_comm *comm, int n, const int *owners, clade_val *values);

/* ---- a model in parts ---- */
/* Options of clade_parallelize. */
typedef struct clade_parallelize_opt {
  size_t size CLADE_DEFAULT(sizeof(struct clade_parallelize_opt));
  clade_comm *comm CLADE_UNSET; /* ranks that compute the graph together, at most 64 */
  /* Values that are used further, such as the loss. Each is replaced by the same value in the new graph, which all
   * ranks have as a whole. */
  int n CLADE_UNSET;
  clade_val *values CLADE_UNSET;    /* these values */
  clade_dtype compress CLADE_UNSET; /* type of sums in messages (clade_all_reduce); unset: f32 */
  uint64_t memory CLADE_UNSET;      /* bytes that a rank's part should fit in, which goes before speed; unset: any */
  /* Latency of a message and bandwidth between the ranks, and speed of a rank's device, by which layers are divided or
   * stay whole. The same on all ranks. Unset: 10 us, 80 Gbit/s, 1 TFLOP/s. */
  double link_us CLADE_UNSET, link_gbits CLADE_UNSET, tflops CLADE_UNSET;
  char **explained CLADE_UNSET; /* place for a text on what is divided and what moves, freed by clade_text_free */
} clade_parallelize_opt;
/* Tensor parallelism: replaces a forward graph by this rank's part of each layer, with communication between them
 * (docs/parallel.md). All ranks build the same graph, then call this function, before clade_minimize. Other values of
 * the graph than .values become invalid; names of inputs, outputs and variables stay. The communicator must live until
 * the graph is compiled. Without a communicator, or with one rank, the graph stays as it is.
 *
 *     clade_parallelize(g, comm, .n = 1, .values = &loss); */
#define clade_parallelize(g, ...) clade_parallelize_(g, CLADE_OPT(clade_parallelize_opt, .comm = __VA_ARGS__))
CLADE_API clade_status clade_parallelize_(clade_graph *g, const clade_parallelize_opt *opt);

CLADE_END_DECLS
#endif
