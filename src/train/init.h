/* A parameter's first values: PyTorch's defaults, drawn by heddle's counters. */
#ifndef HD_TRAIN_INIT_H
#define HD_TRAIN_INIT_H

#include <stdint.h>

#include "exec/store.h"
#include "plan/plan.h"

/* Fills every parameter of version 0 uniformly in +-1/sqrt(fan_in): what PyTorch's kaiming_uniform_(a=sqrt(5)) comes to
 * for weights, and its rule for biases. Element i of a parameter (in file order) is drawn from (seed, node as written,
 * parameter of the node, i), so neither layout nor home order touches it. Packed copies are refreshed. */
void hd__init_params(hd_store *store, const hd_plan *plan, uint64_t seed);

#endif
