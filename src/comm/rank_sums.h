/* Reductions of several ranks' elements, rank by rank: ((x0 + x1) + x2) + ... for every element, so that neither the
 * length nor its division into parts changes a bit. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "heddle/group.h"

/* 0: there is no such type. */
size_t hd__dtype_size(hd_dtype dtype);
const char *hd__dtype_name(hd_dtype dtype);
const char *hd__reduce_name(hd_reduce_op op);

/* output[i] of `count` elements of inputs[0..ranks)[i]; output may be one of the inputs. */
void hd__reduce(void *output, const void *const *inputs, int ranks, int64_t count, hd_dtype dtype, hd_reduce_op op);
