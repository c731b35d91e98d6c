/* A GPU as the executor sees it: memory, two streams in order, kernels by number, a recorded list of them.
 *
 * Everything that the driver refuses comes back as one line. Once a kernel has failed the device's context is lost:
 * every later call says so, and only a new process can go on; what the host has is whole.
 *
 * Not thread-safe: the thread that opened a device uses it. */
#ifndef HD_CUDA_CUDA_H
#define HD_CUDA_CUDA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cuda/driver.h"

enum { HD_CUDA_TEXT_BYTES = 96 };

typedef struct hd_cuda {
  hd_cuda_driver driver;
  int index; /* as the driver counts those that CUDA_VISIBLE_DEVICES leaves */
  char name[HD_CUDA_TEXT_BYTES];
  char arch[16]; /* "sm_90" */
  int64_t memory_bytes;
  cu_device device;
  cu_context context;
  cu_module module;
  cu_function *kernel; /* by number, see kernel/cuda/cuda_names.h */
  cu_stream compute, copy;
  struct hd_cuda_native *native; /* NVIDIA's libraries, if --arithmetic native asked for them; closed with it */
} hd_cuda;

/* Opens GPU `index` with the module's kernels. HD_E_UNSUPPORTED says what is missing: driver, GPU, module, or machine
 * code for this GPU. */
hd_status hd__cuda_open(hd_cuda **out, hd_ctx *ctx, int index);
void hd__cuda_close(hd_cuda *cuda); /* NULL is allowed */

/* Whether GPUs could be used: how many; 0 with a line that says why not, without a remedy. */
int hd__cuda_count(hd_ctx *ctx);

/* HD_OK, or a line of what was being done and what the driver said. */
hd_status hd__cuda_check(const hd_cuda *cuda, hd_ctx *ctx, cu_result error, const char *doing);

/* Memory of the GPU, cleared; and of the host, which it copies from at full speed. Free with the functions below, which
 * take 0 and NULL. When there is too little, HD_E_NOMEM tells what was asked and what is free. */
hd_status hd__cuda_take(cu_pointer *out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, const char *purpose);
void hd__cuda_free(hd_cuda *cuda, cu_pointer memory);
hd_status hd__cuda_take_host(void **out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes);
void hd__cuda_free_host(hd_cuda *cuda, void *memory);
int64_t hd__cuda_free_bytes(hd_cuda *cuda);

/* Launches a kernel on the compute stream over columns times rows of work. The arguments are copied. */
hd_status hd__cuda_launch(hd_cuda *cuda, hd_ctx *ctx, int kernel, int64_t columns, int64_t rows, const void *arguments);

/* Between the two calls launches are recorded and nothing runs. */
hd_status hd__cuda_record(hd_cuda *cuda, hd_ctx *ctx);
hd_status hd__cuda_recorded(cu_graph_exec *out, hd_cuda *cuda, hd_ctx *ctx);

#endif
