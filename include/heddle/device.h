/* Devices: the CPU or GPU on which a session runs, or on which a tensor's elements are.
 *
 *     for (int i = 0; i < hd_device_count(ctx); i++)
 *       if (hd_device_name(name, ctx, (hd_device){HD_CUDA, i}) == HD_OK)
 *         printf("cuda:%d is %s\n", i, name);
 *     hd_config_set_text(config, ctx, HD_OPT_DEVICE, "cuda:0"); // of a new session
 *     hd_session_to(session, ctx, (hd_device){HD_CPU, 0});     // of an existing one
 *     hd_tensor_to(&there, ctx, here, (hd_device){HD_CUDA, 0});
 *
 * GPUs are counted as NVIDIA's driver counts them, from 0: those that CUDA_VISIBLE_DEVICES leaves, in the order of
 * CUDA_DEVICE_ORDER. The driver reads both, once per process.
 *
 * Thread safety: any thread, each with another context. */
#ifndef HEDDLE_DEVICE_H
#define HEDDLE_DEVICE_H

#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hd_device_kind { HD_CPU, HD_CUDA } hd_device_kind;

typedef struct hd_device {
  hd_device_kind kind;
  int32_t index; /* which GPU; 0 for the CPU */
} hd_device;

enum { HD_DEVICE_NAME_BYTES = 96, HD_DEVICE_TEXT_BYTES = 32 };

/* The number of GPUs that can be used; 0, with a line in the context that names what is missing: driver, GPU or
 * module. */
HD_API int32_t hd_device_count(hd_ctx *ctx);

/* The name of a device: of a GPU the driver's name, "cpu" for the CPU. HD_E_UNSUPPORTED: there is no such device. */
HD_API hd_status hd_device_name(char name[HD_DEVICE_NAME_BYTES], hd_ctx *ctx, hd_device device);

/* "cpu", "cuda:1"; and back, where "cuda" is the first GPU. HD_E_USAGE: it is none of these. Neither checks whether
 * the device exists. */
HD_API const char *hd_device_text(char text[HD_DEVICE_TEXT_BYTES], hd_device device);
HD_API hd_status hd_device_parse(hd_device *out, hd_ctx *ctx, const char *text);

/* What memory of a GPU is for. */
typedef enum hd_gpu_purpose {
  HD_GPU_WEIGHTS,
  HD_GPU_OPTIMIZER,
  HD_GPU_SAMPLES, /* and activations: memory proportional to the batch */
  HD_GPU_GRADIENTS,
  HD_GPU_TABLES,    /* read by kernels: chunks, constants, a step's description */
  HD_GPU_LIBRARIES, /* NVIDIA's libraries, for --arithmetic native */
  HD_GPU_DATA,      /* a data set kept on the GPU */
  HD_GPU_EVALUATION,
  HD_GPU_TENSORS
} hd_gpu_purpose;

enum { HD_GPU_PARTS = 16 }; /* purposes, and room for later ones */

typedef struct hd_gpu_part {
  const char *name; /* static: "weights", "optimizer", "samples and activations", ...; NULL behind the last */
  int64_t bytes, peak_bytes;
} hd_gpu_part;

/* The memory of a GPU that a session uses, in bytes. Memory that the driver uses is not included. */
typedef struct hd_gpu_memory {
  int32_t rank, index;             /* the rank that uses the GPU, and the GPU's number in that rank */
  int64_t allocated_bytes;         /* in use: the sum of the parts */
  int64_t reserved_bytes;          /* allocated from the driver */
  int64_t peak_bytes;              /* the most that were reserved at a time */
  int64_t host_bytes;              /* of the host's memory, pinned for copies */
  int64_t free_bytes, total_bytes; /* of the whole GPU, from the driver */
  hd_gpu_part part[HD_GPU_PARTS];  /* by hd_gpu_purpose */
} hd_gpu_memory;

#ifdef __cplusplus
}
#endif
#endif
