/* l1 by blocks of rows. */
#pragma once

#include "op/l1/l1.h"
#include "op/loss_gpu.h"

HD_LOSS_OF_TERMS(l1, loss_add)
HD_ROWS(l1, g->ci, 1)
