/* MPI's round trip of bytes between two ranks, measured as heddle bench rpc does: a send, and a receive of the answer;
 * medians; one JSON object, microseconds by bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARM_UP = 200, EMPTY = 20000, MANY = 2000, FEW = 200, MANY_UP_TO = 65536 };

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double time_size(int rank, int bytes) {
  static double times[EMPTY];
  const int turns = bytes == 0 ? EMPTY : bytes <= MANY_UP_TO ? MANY : FEW;
  unsigned char *out = malloc((size_t)bytes + 1), *in = calloc((size_t)bytes + 1, 1);
  for (int i = 0; i < bytes; i++)
    out[i] = (unsigned char)(7 * i + 1);
  for (int t = -WARM_UP; t < turns; t++) {
    const double begin = MPI_Wtime();
    if (rank == 0) {
      MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    if (t >= 0)
      times[t] = 1e6 * (MPI_Wtime() - begin);
  }
  for (int i = 0; i < bytes; i++)
    if (in[i] != out[i])
      MPI_Abort(MPI_COMM_WORLD, 1);
  qsort(times, (size_t)turns, sizeof *times, by_value);
  free(out);
  free(in);
  return times[turns / 2];
}

int main(int argc, char **argv) {
  static const int sizes[] = {0, 64, 4096, 65536, 1 << 20};
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    const double us = time_size(rank, sizes[s]);
    if (rank == 0)
      printf("%s\"%d\": %.3f%s", s ? ", " : "{", sizes[s], us, s + 1 < sizeof sizes / sizeof *sizes ? "" : "}\n");
  }
  MPI_Finalize();
  return 0;
}
