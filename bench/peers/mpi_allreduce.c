/* MPI's sum of float32 by size, measured as heddle bench allreduce does: private buffers that were written before, a
 * barrier, the slowest rank, medians; one JSON object, microseconds by bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 5, MANY = 500, FEW = 30, MANY_UP_TO = 65536 };

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double time_one(const float *in, float *out, int count) {
  double begin, seconds, worst;
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  seconds = MPI_Wtime() - begin;
  MPI_Allreduce(&seconds, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return 1e6 * worst;
}

static double time_size(int rank, int ranks, int count) {
  static double times[MANY];
  const int turns = count * 4 <= MANY_UP_TO ? MANY : FEW;
  float *in = malloc((size_t)count * sizeof *in), *out = calloc((size_t)count, sizeof *out);
  for (int i = 0; i < count; i++)
    in[i] = (float)(rank + 1 + i % 7);
  for (int t = -WARM_UP; t < turns; t++) {
    const double us = time_one(in, out, count);
    if (t >= 0)
      times[t] = us;
  }
  for (int i = 0; i < count; i++)
    if (out[i] != (float)(ranks * (ranks + 1) / 2 + ranks * (i % 7)))
      MPI_Abort(MPI_COMM_WORLD, 1);
  qsort(times, (size_t)turns, sizeof *times, by_value);
  free(in);
  free(out);
  return times[turns / 2];
}

int main(int argc, char **argv) {
  static const int sizes[] = {4, 64, 1024, 16384, 65536, 262144, 1 << 20, 4 << 20, 32 << 20};
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const double us = time_size(rank, ranks, sizes[s] / 4);
    if (rank == 0)
      printf("%s\"%d\": %.3f%s", s ? ", " : "{", sizes[s], us, s + 1 < sizeof sizes / sizeof *sizes ? "" : "}\n");
  }
  MPI_Finalize();
  return 0;
}
