/* The GPU's kernels as a table, one call after the other, for the tests of tables.
 *
 * By default the stub of the driver runs them; with HD_GPU=real in the environment, as `make check-gpu` sets it, the
 * machine's driver does. Memory of guarded.h is then the driver's, which a GPU reads from the host. */
#ifndef HD_TEST_CUDA_TABLE_H
#define HD_TEST_CUDA_TABLE_H

#include "kernel/kernel.h"

void cuda_table_open(void);
void cuda_table_close(void);

/* "cuda_plain": kernels with a thread for each element; "cuda_small", "cuda_large": block kernels of small and of large
 * parts, where an operation has them. NULL: there is none. */
const hd_kernels *cuda_table(const char *name);
const char *cuda_table_lacks(void); /* why */

/* Sets the environment for the driver and the module that tests use; also for processes that they start. */
void cuda_table_environment(void);

#endif
