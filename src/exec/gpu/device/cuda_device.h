/* A GPU for the executor: memory, ordered streams, kernels by number, recorded lists of launches.
 *
 * Every error of the driver is returned as one line. After a kernel has failed, the device's context is lost: every
 * later call fails, and only a new process can continue; the host's data stays valid.
 *
 * Not thread-safe: only the thread that opened a device may use it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "base/status.h"
#include "exec/gpu/device/cuda_driver.h"
#include "heddle/device.h"

enum { HD_CUDA_TEXT_BYTES = 96 };

/* What memory is for: hd_gpu_purpose. */
enum { HD_GPU_PURPOSES = HD_GPU_TENSORS + 1 };

typedef struct hd_cuda_bytes {
  int64_t of[HD_GPU_PURPOSES];
} hd_cuda_bytes;

/* The account of this device's memory by purpose: see cuda_memory.c. */
typedef struct hd_cuda_account {
  struct cuda_block *blocks;
  int64_t reserved, allocated, peak, host;
  hd_cuda_bytes now, most;
} hd_cuda_account;

/* Events after launches: for each the kernel's number and the label, if any. */
enum { HD_CUDA_NO_LABEL = -1 };
typedef struct hd_cuda_marks {
  cu_event *event;
  int32_t *kernel, *label;
  int32_t count, room, next_label;
} hd_cuda_marks;

typedef struct hd_cuda {
  hd_cuda_driver driver;
  int index; /* in the driver's numbering under CUDA_VISIBLE_DEVICES */
  char name[HD_CUDA_TEXT_BYTES];
  char arch[16]; /* "sm_90" */
  int processors;
  int64_t memory_bytes;
  cu_device device;
  cu_context context;
  cu_module module;
  cu_function *kernel; /* by number, see kernel/cuda/cuda_names.h */
  cu_stream compute, copy, beside;
  cu_event forked, joined;
  struct hd_cuda_native *native; /* NVIDIA's libraries, for --arithmetic native; closed with the GPU */
  int precision;                 /* of their factors: hd_cuda_precision */
  hd_cuda_account account;
  hd_cuda_marks *marks; /* for timing launches; NULL: no timing */
  struct hd_cuda *next; /* of the run's GPUs in this process; NULL: the last */
} hd_cuda;

/* Opens GPU `index` with the module's kernels. HD_E_UNSUPPORTED names what is missing: driver, GPU, module, or machine
 * code for this GPU. */
hd_status hd__cuda_open(hd_cuda **out, hd_ctx *ctx, int index);

/* Opens several, as a list; they copy to each other directly if the machine supports it. */
hd_status hd__cuda_open_all(hd_cuda **out, hd_ctx *ctx, const int *index, int count);
void hd__cuda_close(hd_cuda *cuda); /* also closes those that follow in the list; NULL is allowed */

/* Makes this GPU the current one for driver calls of this thread. The functions below do so themselves. */
void hd__cuda_use(const hd_cuda *cuda);

/* Loads the driver and reads the name of GPU `index`; nothing is opened that must be closed. */
hd_status hd__cuda_find(hd_cuda *out, hd_ctx *ctx, int index);

/* Whether a driver and a module can be loaded; nothing is opened. */
bool hd__cuda_installed(void);

/* The permanent names of GPUs, "GPU-...", in the driver's order of the visible ones; returns their number. */
enum { HD_CUDA_MOST = 64 };
typedef struct hd_cuda_uuid {
  char text[48];
} hd_cuda_uuid;
HD_TOOLS_API int hd__cuda_uuids(hd_cuda_uuid out[HD_CUDA_MOST]);

/* Whether the only visible GPU may belong to this rank alone: batch systems make a different one visible to each
 * rank. */
bool hd__cuda_is_shown_one(int count);

/* The number of usable GPUs; 0 with a line that gives the reason, without a remedy. */
HD_TOOLS_API int hd__cuda_count(hd_ctx *ctx);

/* HD_OK, or an error with the action and the driver's text. */
hd_status hd__cuda_check(const hd_cuda *cuda, hd_ctx *ctx, cu_result error, const char *doing);

/* Memory of the GPU, cleared: one block of `bytes`, with the bytes of each purpose in `parts`. HD_E_NOMEM states the
 * requested bytes, the free ones and those that this process holds. Free it with the function below, which accepts
 * 0. */
hd_status hd__cuda_take(cu_pointer *out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, const hd_cuda_bytes *parts);
hd_status hd__cuda_take_for(cu_pointer *out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, hd_gpu_purpose purpose);
void hd__cuda_free(hd_cuda *cuda, cu_pointer memory);

/* Pinned memory of the host, which a GPU copies at full speed; NULL may be freed. */
hd_status hd__cuda_take_host(void **out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes);
void hd__cuda_free_host(hd_cuda *cuda, void *memory);

/* The driver's free memory. */
int64_t hd__cuda_free_bytes(hd_cuda *cuda);

/* The account for the public interface; and bytes as text: "weights 1.7, gradients 0.4 MiB", "nothing". */
void hd__cuda_memory(hd_gpu_memory *out, hd_cuda *cuda);
enum { HD_CUDA_BYTES_TEXT = 320 };
const char *hd__cuda_bytes_text(char text[HD_CUDA_BYTES_TEXT], const hd_cuda_bytes *bytes);

/* Launches a kernel on the compute stream over columns times rows of work. The arguments are copied. */
hd_status hd__cuda_launch(hd_cuda *cuda, hd_ctx *ctx, int kernel, int64_t columns, int64_t rows, const void *arguments);

/* Launches a kernel beside those that are launched until the join, after those before it. While launches are timed it
 * runs in order. One at a time. */
hd_status hd__cuda_launch_beside(hd_cuda *cuda, hd_ctx *ctx, int kernel, int64_t columns, int64_t rows,
                                 const void *arguments);
hd_status hd__cuda_join(hd_cuda *cuda, hd_ctx *ctx);

/* Sets the label of the next launches, for timing. */
static inline void hd__cuda_label(const hd_cuda *cuda, int32_t label) {
  if (cuda->marks)
    cuda->marks->next_label = label;
}

/* Between the two calls launches are recorded, not executed. */
hd_status hd__cuda_record(hd_cuda *cuda, hd_ctx *ctx);
hd_status hd__cuda_recorded(cu_graph_exec *out, hd_cuda *cuda, hd_ctx *ctx);
