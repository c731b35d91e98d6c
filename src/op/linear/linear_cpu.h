/* Shared by the kernels of linear layers. */
#pragma once

#include "kernel/cpu/cpu_fill.h"

/* The bias of hd_form: per shard a chain of `acc + dy[j]` from +0, samples ascending. */
void HD_SYM(linear_form_bias)(const hd_form *f);
