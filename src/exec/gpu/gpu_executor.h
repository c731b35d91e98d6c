/* The executor on GPUs, for settings with a GPU. See gpu_executor.c. */
#pragma once

#include "exec/executor.h"

extern const hd_executor hd__gpu_executor;
