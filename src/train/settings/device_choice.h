/* The text of --device, parsed. */
#pragma once

#include <stdbool.h>

#include "base/reduction.h"
#include "base/status.h"

enum { HD_DEVICE_MOST_GPUS = HD_MAX_SHARDS };

/* `first`: cuda, the first GPU, or with several ranks all of them, like `all`, cuda:all. */
typedef struct hd_device_choice {
  bool automatic, gpus, first, all;
  bool each;                             /* each rank sees one GPU, as number 0; known when the GPUs are counted */
  int count, index[HD_DEVICE_MOST_GPUS]; /* the GPUs that are named */
} hd_device_choice;

/* Reads auto, cpu, cuda, cuda:N, a list of GPUs, each named once, or cuda:all; HD_E_USAGE for another text, which
 * leaves *out as it is. */
hd_status hd__device_read(hd_device_choice *out, hd_ctx *ctx, const char *text);
