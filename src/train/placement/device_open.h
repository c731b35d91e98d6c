/* The device that computes a run: opening the GPUs that --device names. */
#pragma once

#include "exec/exchange/local_group.h"
#include "exec/gpu/device/cuda_device.h"
#include "exec/gpu/device/cuda_products.h"
#include "train/settings/config.h"

/* Opens the GPUs that --device names; *out is NULL for the CPU, and for `auto`, which starts there. Each rank of a host
 * takes one, in the order of the list; without a list, in the driver's order. `text` gets the GPUs of all ranks of the
 * host, "cuda:0,1". HD_E_UNSUPPORTED if the run has a setting that only the CPU supports, or there are too few GPUs. */
hd_status hd__device_open(hd_cuda **out, char *text, size_t bytes, hd_ctx *ctx, const hd_config *config,
                          const hd_local_group *local);

/* The same for a device given as text, or for that of the settings if it is NULL. */
hd_status hd__device_open_named(hd_cuda **out, hd_ctx *ctx, const hd_config *config, const char *device);

/* What a run needs to know of its device, `cuda`; NULL: the CPU. `of_threads`: the kernels of this process's threads.
 * `shard_rows`: the most samples of a shard in training on one GPU; else 0. */
const char *hd__device_kind(const hd_cuda *cuda); /* "cuda" or "cpu" */
hd_status hd__device_thread_kernels(const hd_kernels **of_threads, hd_ctx *ctx, const hd_config *config,
                                    const hd_cuda *cuda);
const hd_kernels *hd__device_kernels(const hd_cuda *cuda, const hd_kernels *of_threads, int64_t shard_rows);
const char *hd__device_isa(const hd_cuda *cuda, const hd_kernels *of_threads);
bool hd__device_is_native(const hd_cuda *cuda); /* its libraries compute */
bool hd__device_runs_stages(const hd_cuda *cuda);

/* Whether cheap values are computed again for gradients: not where each node is a launch. */
bool hd__device_recomputes(const hd_cuda *cuda);
bool hd__device_is_one_gpu(const hd_cuda *cuda);
const char *hd__device_library(const hd_cuda *cuda, const hd_config *config);

/* --precision, in the form that a GPU's libraries take. */
hd_cuda_precision hd__device_precision(const hd_config *config);
