/* Whether a GPU has nothing to do, asked in passing by a run on the CPU: without NVIDIA's libraries, or without a
 * module of kernels, the answer costs next to nothing. */
#ifndef HD_MONITOR_IDLE_H
#define HD_MONITOR_IDLE_H

#include "heddle/monitor.h"

/* How many GPUs that --device cuda could use are idle, and the first one's name. Those that CUDA_VISIBLE_DEVICES hides
 * are not counted. */
int hd__idle_gpus(char name[HD_LOOK_TEXT_BYTES]);

#endif
