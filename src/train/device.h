/* Which device computes a run: --device. */
#ifndef HD_TRAIN_DEVICE_H
#define HD_TRAIN_DEVICE_H

#include "comm/world.h"
#include "cuda/cuda.h"
#include "cuda/native.h"
#include "train/session.h"

/* Checks what is written: auto, cpu, cuda, cuda:N, a list of GPUs or cuda:all. */
hd_status hd__device_check(hd_ctx *ctx, const char *text);

/* Opens the GPUs that --device names; *out is NULL for the CPU, and for `auto`, which begins there. Each rank of a host
 * takes one, in the order in which they are named; without names those that the driver counts. `text` gets what all
 * ranks of the host take, "cuda:0,1". HD_E_UNSUPPORTED where the run asks for something that only the CPU does, or
 * there are not as many GPUs. */
hd_status hd__device_open(hd_cuda **out, char *text, size_t bytes, hd_ctx *ctx, const hd_config *config,
                          const hd_world *world);

/* --precision, as a GPU's libraries know it. */
hd_cuda_precision hd__device_precision(const hd_config *config);

/* The same for a device that is named otherwise. */
hd_status hd__device_open_named(hd_cuda **out, hd_ctx *ctx, const hd_config *config, const char *device);

/* For a session that is set up. --device auto: times a few steps here and on the first GPU, which leave no trace, and
 * goes on where they were faster, or where the run that is resumed was; what cannot be used is said, and is no failure.
 * On the CPU otherwise: says if a GPU is idle meanwhile. */
hd_status hd__device_settle(hd_session *session, hd_ctx *ctx);

#endif
