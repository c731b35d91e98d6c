/* A parameter's initial values: PyTorch's defaults, drawn from heddle's counter-based generator. */
#ifndef HD_TRAIN_SESSION_INITIAL_WEIGHTS_H
#define HD_TRAIN_SESSION_INITIAL_WEIGHTS_H

#include <stdint.h>

#include "exec/weight_store.h"
#include "plan/plan.h"

/* Fills every parameter of version 0 uniformly in +-1/sqrt(fan_in): the bound of PyTorch's kaiming_uniform_(a=sqrt(5))
 * for weights, and its rule for biases. Element i of a parameter (in file order) is drawn from (seed, node as written,
 * parameter of the node, i), so neither layout nor home order changes it. Packed copies are refreshed. */
void hd__init_params(hd_store *store, const hd_plan *plan, uint64_t seed);

#endif
