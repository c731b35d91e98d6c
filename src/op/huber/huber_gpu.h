/* huber by blocks of rows. */
#pragma once

#include "op/huber/huber.h"
#include "op/loss_gpu.h"

HD_LOSS_OF_TERMS(huber, loss_add)
HD_ROWS(huber, g->ci, 1)
