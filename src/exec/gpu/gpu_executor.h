/* The executor on GPUs, with the contract of cpu_executor.h. See gpu_executor.c. */
#ifndef HD_EXEC_GPU_GPU_EXECUTOR_H
#define HD_EXEC_GPU_GPU_EXECUTOR_H

#include "exec/gpu/device/cuda_device.h"
#include "exec/cpu/cpu_executor.h"

typedef struct hd_exec_cuda hd_exec_cuda;

hd_status hd__exec_cuda_create(hd_exec_cuda **out, hd_ctx *ctx, const hd_plan *plan, hd_store *store,
                               hd_threads *threads, const hd_exec_settings *settings);
void hd__exec_cuda_destroy(hd_exec_cuda *exec); /* NULL is allowed */
hd_status hd__exec_cuda_run(hd_exec_cuda *exec, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags);
hd_status hd__exec_cuda_evaluate(hd_exec_cuda *exec, hd_ctx *ctx, const hd_driver *driver, int64_t samples,
                                 const hd_exec_outcome *out, uint32_t *flags);

/* See hd__exec_spent: of a rank's host thread, which waits for its GPU. */
void hd__exec_cuda_spent(int64_t *sums, const hd_exec_cuda *exec);

/* See hd__exec_gpu_sums. */
const char *hd__exec_cuda_sums(const hd_exec_cuda *exec);
const char *hd__exec_cuda_sums_why(const hd_exec_cuda *exec);

/* See hd__exec_fetches. */
bool hd__exec_cuda_fetches(const hd_exec_cuda *exec, int64_t samples, int64_t first, int64_t rows);

/* As those of cpu_executor.h. The trace's tracks are the host's, copies' and computing's. */
hd_status hd__exec_cuda_trace(hd_exec_cuda *exec, hd_ctx *ctx, hd_trace *trace);
hd_trace_size hd__exec_cuda_trace_size(const hd_exec_cuda *exec, int64_t slices);

#endif
