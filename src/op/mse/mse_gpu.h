/* mse by blocks of rows. */
#pragma once

#include "op/mse/mse.h"
#include "op/loss_gpu.h"

HD_LOSS_OF_TERMS(mse, loss_add_square)
HD_ROWS(mse, g->ci, 1)
