/* Which device computes a run: --device. */
#ifndef HD_TRAIN_DEVICE_H
#define HD_TRAIN_DEVICE_H

#include "cuda/cuda.h"
#include "cuda/native.h"
#include "train/config.h"

/* Checks what is written: cpu, cuda or cuda:N. */
hd_status hd__device_check(hd_ctx *ctx, const char *text);

/* Opens the GPU that --device names; *out is NULL for the CPU. HD_E_UNSUPPORTED where the run asks for something that
 * only the CPU does. */
hd_status hd__device_open(hd_cuda **out, hd_ctx *ctx, const hd_config *config);

/* --precision, as a GPU's libraries know it. */
hd_cuda_precision hd__device_precision(const hd_config *config);

#endif
