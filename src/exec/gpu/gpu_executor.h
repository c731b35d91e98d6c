/* The executor on GPUs: see gpu_executor.c. Its own settings are the open GPUs, a list of hd_cuda; libraries that were
 * opened with them compute the calls of a training where they are faster. */
#pragma once

#include "exec/executor.h"

extern const hd_executor hd__gpu_executor;
