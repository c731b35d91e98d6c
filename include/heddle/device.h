/* Devices: what computes a session, and where a tensor's elements are.
 *
 *     for (int i = 0; i < hd_device_count(ctx); i++)
 *       if (hd_device_name(name, ctx, (hd_device){HD_CUDA, i}) == HD_OK)
 *         printf("cuda:%d is %s\n", i, name);
 *     hd_config_set(config, ctx, "device", "cuda:0");       // of a session that is made
 *     hd_session_to(session, ctx, (hd_device){HD_CPU, 0});  // of one that is there
 *     hd_tensor_to(&there, ctx, here, (hd_device){HD_CUDA, 0});
 *
 * GPUs are counted as NVIDIA's driver counts them, from 0: those that CUDA_VISIBLE_DEVICES leaves, in the order of
 * CUDA_DEVICE_ORDER. The driver reads both, once per process.
 *
 * Thread safety: any thread, each with a context of its own. */
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

/* How many GPUs can be used; 0, with a line in the context that says what is missing: driver, GPU or module. */
HD_API int32_t hd_device_count(hd_ctx *ctx);

/* The name of a device: of a GPU as the driver calls it, "cpu" for the CPU. HD_E_UNSUPPORTED: there is no such. */
HD_API hd_status hd_device_name(char name[HD_DEVICE_NAME_BYTES], hd_ctx *ctx, hd_device device);

/* "cpu", "cuda:1"; and back, where "cuda" is the first GPU. HD_E_USAGE: it is none of these. Neither asks whether there
 * is such a device. */
HD_API const char *hd_device_text(char text[HD_DEVICE_TEXT_BYTES], hd_device device);
HD_API hd_status hd_device_parse(hd_device *out, hd_ctx *ctx, const char *text);

/* What memory of a GPU is for. */
enum { HD_GPU_PARTS = 9 };

typedef struct hd_gpu_part {
  const char *name; /* static: "weights", "optimizer", "samples and activations", ... */
  int64_t bytes, peak_bytes;
} hd_gpu_part;

/* The memory of a GPU as a session uses it, in bytes. What the driver keeps for itself is not in it. */
typedef struct hd_gpu_memory {
  int32_t rank, index;             /* whose it is, and which one of those that rank sees */
  int64_t allocated_bytes;         /* that are used: the sum of the parts */
  int64_t reserved_bytes;          /* taken from the driver */
  int64_t peak_bytes;              /* the most that were reserved at a time */
  int64_t host_bytes;              /* of the host's memory, pinned for copies */
  int64_t free_bytes, total_bytes; /* of the whole GPU, as the driver says */
  hd_gpu_part part[HD_GPU_PARTS];
} hd_gpu_memory;

#ifdef __cplusplus
}
#endif
#endif
