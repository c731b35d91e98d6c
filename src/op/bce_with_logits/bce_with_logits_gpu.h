/* bce_with_logits by blocks of rows. */
#pragma once

#include "op/bce_with_logits/bce_with_logits.h"
#include "op/loss_gpu.h"

HD_LOSS_OF_TERMS(bce_with_logits, loss_add)
HD_ROWS(bce_with_logits, g->ci, 1)
