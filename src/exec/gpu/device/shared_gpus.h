/* GPUs shared by several users in one process, by number: tensors of any context and thread.
 *
 * A device is opened by its first user and closed by its last. Between lock and unlock it belongs to one thread, whose
 * driver context is the device's. */
#pragma once

#include "exec/gpu/device/cuda_device.h"

typedef struct hd_cuda_shared hd_cuda_shared;

hd_status hd__cuda_share(hd_cuda_shared **out, hd_ctx *ctx, int index);
void hd__cuda_unshare(hd_cuda_shared *shared);

hd_cuda *hd__cuda_lock(hd_cuda_shared *shared);
void hd__cuda_unlock(hd_cuda_shared *shared);
