/* Comparing a run with another program's results of the same run: bisect.c. */
#pragma once

#include "heddle/evidence.h"

/* Repeats the run and compares each result that the dump also has, and each loss. The dump is a safetensors file:
 *
 *   losses           F64, the sum of each step's losses over its batch
 *   STEP/LAYER       F32, a layer's output in that step, counted from 1: the batch's samples first, then as PyTorch
 *   STEP/PARAM.grad  F32, the gradient of a parameter
 *   STEP/PARAM       F32, the parameter after the update
 *
 * Two elements are equal if they differ by at most the tolerance times the largest element of the tensor. Fills in all
 * of *out but its size. */
hd_status hd__compare_dump(hd_bisection *out, hd_ctx *ctx, const hd_config *layout, const hd_bisect_request *request);
