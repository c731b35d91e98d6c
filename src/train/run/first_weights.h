/* The first weights of a run, by the rule of each parameter (`init` in op/op.h): drawn from the seed, constants, or
 * made from the training samples. They depend on neither layout nor memory order. */
#pragma once

#include "exec/weight_store.h"
#include "plan/plan.h"
#include "train/run/whitening.h"

/* Fills every parameter of version 0 whose stage is here (NULL: all are). Fails as reading a sample does. */
hd_status hd__first_weights(hd_store *store, hd_ctx *ctx, const hd_plan *plan, uint64_t seed,
                            const hd_first_samples *samples, const bool *here);
