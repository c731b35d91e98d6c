/* Finding NCCL: the module and, through it, NVIDIA's library. */
#pragma once

#include "base/status.h"
#include "exec/exchange/nccl_functions.h"

/* HEDDLE_NCCL names another library than libnccl.so.2. The message of HD_E_UNSUPPORTED says what is missing, that
 * `what` needs it, and the remedies, among them `instead`. */
hd_status hd__nccl_find(const hd_nccl **out, hd_ctx *ctx, const char *what, const char *instead);

/* "NCCL 2.28.3", of a table that was found. */
enum { HD_NCCL_NAME_BYTES = 24 };
void hd__nccl_name(char name[HD_NCCL_NAME_BYTES], const hd_nccl *nccl);

/* The sum over all ranks of a communicator, for all of them; each may read and write the same place. */
hd_nccl_call hd__nccl_sum_of_floats(float *output, const float *input, int64_t count);
