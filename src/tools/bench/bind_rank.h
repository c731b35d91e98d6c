/* A CPU for each rank of a bench. */
#pragma once

/* Binds the calling thread of each rank to a different CPU, as mpirun does, if there are enough. Returns the number of
 * CPUs that it may use. */
int hd__bench_bind_rank(int rank, int ranks);
