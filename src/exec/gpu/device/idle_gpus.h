/* Idle GPUs, for a run on the CPU. Without NVIDIA's libraries, or without a module of GPU kernels, the call costs next
 * to nothing. */
#pragma once

#include "heddle/monitor.h"

/* The number of idle GPUs that --device cuda could use, and the first one's name. GPUs hidden by CUDA_VISIBLE_DEVICES
 * are not counted. */
int hd__idle_gpus(char name[HD_LOOK_TEXT_BYTES]);
