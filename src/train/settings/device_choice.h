/* The text of --device, parsed. */
#ifndef HD_TRAIN_SETTINGS_DEVICE_CHOICE_H
#define HD_TRAIN_SETTINGS_DEVICE_CHOICE_H

#include <stdbool.h>

#include "base/status.h"
#include "reduce/reduction_tree.h"

enum { HD_DEVICE_MOST_GPUS = HD_MAX_SHARDS };

/* `first`: cuda, the first GPU, or with several ranks all of them, like `all`, cuda:all. */
typedef struct hd_device_choice {
  bool automatic, gpus, first, all;
  bool each;                             /* each rank sees one GPU, as number 0; known when the GPUs are counted */
  int count, index[HD_DEVICE_MOST_GPUS]; /* the GPUs that are named */
} hd_device_choice;

/* auto, cpu, cuda, cuda:N, a list of GPUs or cuda:all; false for another text. */
bool hd__device_parse(hd_device_choice *choice, const char *text);

/* Checks the text of the option, each GPU named once. */
hd_status hd__device_check(hd_ctx *ctx, const char *text);

#endif
