/* The executor on GPUs, for settings with a GPU. See gpu_executor.c. */
#ifndef HD_EXEC_GPU_GPU_EXECUTOR_H
#define HD_EXEC_GPU_GPU_EXECUTOR_H

#include "exec/executor.h"

extern const hd_executor hd__gpu_executor;

#endif
