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
#include "heddle/device.h"

enum { HD_CUDA_TEXT_BYTES = 96 };

/* What memory is for, in the order of heddle/device.h's names. */
typedef enum hd_cuda_purpose {
  HD_GPU_WEIGHTS,
  HD_GPU_OPTIMIZER,
  HD_GPU_SAMPLES, /* and activations: what grows with the batch */
  HD_GPU_GRADIENTS,
  HD_GPU_TABLES,    /* that kernels read: chunks, constants, a step's description */
  HD_GPU_LIBRARIES, /* NVIDIA's, for --arithmetic native */
  HD_GPU_DATA,      /* a data set that stays there */
  HD_GPU_EVALUATION,
  HD_GPU_TENSORS,
  HD_GPU_PURPOSES
} hd_cuda_purpose;

typedef struct hd_cuda_bytes {
  int64_t of[HD_GPU_PURPOSES];
} hd_cuda_bytes;

/* The account of what this device's memory is taken for: see cuda_memory.c. */
typedef struct hd_cuda_account {
  struct cuda_block *blocks;
  int64_t reserved, allocated, peak, host;
  hd_cuda_bytes now, most;
} hd_cuda_account;

/* Events behind launches: of each its kernel's number and the label that it was given, if it was. */
enum { HD_CUDA_NO_LABEL = -1 };
typedef struct hd_cuda_marks {
  cu_event *event;
  int32_t *kernel, *label;
  int32_t count, room, next_label;
} hd_cuda_marks;

typedef struct hd_cuda {
  hd_cuda_driver driver;
  int index; /* as the driver counts those that CUDA_VISIBLE_DEVICES leaves */
  char name[HD_CUDA_TEXT_BYTES];
  char arch[16]; /* "sm_90" */
  int processors;
  int64_t memory_bytes;
  cu_device device;
  cu_context context;
  cu_module module;
  cu_function *kernel; /* by number, see kernel/cuda/cuda_names.h */
  cu_stream compute, copy;
  struct hd_cuda_native *native; /* NVIDIA's libraries, if --arithmetic native asked for them; closed with it */
  hd_cuda_account account;
  hd_cuda_marks *marks; /* launches are timed; NULL: they are not */
  struct hd_cuda *next; /* of the run's GPUs in this process; NULL: the last */
} hd_cuda;

/* Opens GPU `index` with the module's kernels. HD_E_UNSUPPORTED says what is missing: driver, GPU, module, or machine
 * code for this GPU. */
hd_status hd__cuda_open(hd_cuda **out, hd_ctx *ctx, int index);

/* The same of several, as a list; they copy to each other directly where the machine lets them. */
hd_status hd__cuda_open_all(hd_cuda **out, hd_ctx *ctx, const int *index, int count);
void hd__cuda_close(hd_cuda *cuda); /* and those that follow it; NULL is allowed */

/* Calls of the driver are for this GPU from now on, in this thread. The functions below do so by themselves. */
void hd__cuda_use(const hd_cuda *cuda);

/* The driver, and the name of GPU `index`, alone: nothing is started, nothing is left to close. */
hd_status hd__cuda_find(hd_cuda *out, hd_ctx *ctx, int index);

/* Whether there are a driver and a module that can be loaded: nothing is started. */
bool hd__cuda_installed(void);

/* The names that a GPU has for ever, "GPU-...", in the driver's order of those that can be seen; returns how many. */
enum { HD_CUDA_MOST = 64 };
typedef struct hd_cuda_uuid {
  char text[48];
} hd_cuda_uuid;
int hd__cuda_uuids(hd_cuda_uuid out[HD_CUDA_MOST]);

/* Whether the one GPU that can be seen may be this rank's alone: batch systems show each rank another one. */
bool hd__cuda_is_shown_one(int count);

/* Whether GPUs could be used: how many; 0 with a line that says why not, without a remedy. */
int hd__cuda_count(hd_ctx *ctx);

/* HD_OK, or a line of what was being done and what the driver said. */
hd_status hd__cuda_check(const hd_cuda *cuda, hd_ctx *ctx, cu_result error, const char *doing);

/* Memory of the GPU, cleared: one block of `bytes`, in which each purpose has its part. When there is too little,
 * HD_E_NOMEM tells what was asked, what is free and what this process holds. Free it with the function below, which
 * takes 0. */
hd_status hd__cuda_take(cu_pointer *out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, const hd_cuda_bytes *parts);
hd_status hd__cuda_take_for(cu_pointer *out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes, hd_cuda_purpose purpose);
void hd__cuda_free(hd_cuda *cuda, cu_pointer memory);

/* Memory of the host, which a GPU copies from at full speed; NULL may be freed. */
hd_status hd__cuda_take_host(void **out, hd_cuda *cuda, hd_ctx *ctx, int64_t bytes);
void hd__cuda_free_host(hd_cuda *cuda, void *memory);

/* What the driver has left. */
int64_t hd__cuda_free_bytes(hd_cuda *cuda);

/* The account, for who asks from outside; and bytes in words: "weights 1.7, gradients 0.4 MiB", "nothing". */
void hd__cuda_memory(hd_gpu_memory *out, hd_cuda *cuda);
enum { HD_CUDA_BYTES_TEXT = 320 };
const char *hd__cuda_bytes_text(char text[HD_CUDA_BYTES_TEXT], const hd_cuda_bytes *bytes);

/* Launches a kernel on the compute stream over columns times rows of work. The arguments are copied. */
hd_status hd__cuda_launch(hd_cuda *cuda, hd_ctx *ctx, int kernel, int64_t columns, int64_t rows, const void *arguments);

/* What the next launches are for, where they are timed. */
static inline void hd__cuda_label(const hd_cuda *cuda, int32_t label) {
  if (cuda->marks)
    cuda->marks->next_label = label;
}

/* Between the two calls launches are recorded and nothing runs. */
hd_status hd__cuda_record(hd_cuda *cuda, hd_ctx *ctx);
hd_status hd__cuda_recorded(cu_graph_exec *out, hd_cuda *cuda, hd_ctx *ctx);

#endif
