/* Times MPI's all-reduce for comparison with `clade bench comm`: one line of JSON per size, with seconds by
 * MPI_Allreduce and by MPI_Iallreduce polled with pauses. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TIMES = 7, MOST = 16 << 20 };

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void waits(const float *in, float *out, int n) { MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

static void looks(const float *in, float *out, int n) {
  MPI_Request request;
  MPI_Iallreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done) return;
    nanosleep(&(struct timespec){0, 50000}, NULL);
  }
}

static double median(void (*sum)(const float *, float *, int), const float *in, float *out, int n) {
  double seconds[TIMES];
  for (int k = -1; k < TIMES; k++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    sum(in, out, n);
    if (k >= 0) seconds[k] = MPI_Wtime() - start;
  }
  qsort(seconds, TIMES, sizeof *seconds, ascending);
  return seconds[TIMES / 2];
}

int main(int argc, char **argv) {
  static const int sizes[] = {1 << 18, 2 << 20, MOST};
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float *in = calloc(MOST, sizeof *in), *out = calloc(MOST, sizeof *out);
  if (!in || !out) MPI_Abort(MPI_COMM_WORLD, 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const double blocking = median(waits, in, out, sizes[i]), polled = median(looks, in, out, sizes[i]);
    if (!rank)
      printf("{\"bytes\": %zu, \"allreduce\": %.6f, \"iallreduce\": %.6f}\n", (size_t)sizes[i] * sizeof *in, blocking,
             polled);
  }
  free(in);
  free(out);
  return MPI_Finalize();
}
