/* Gradients of a linear layer's weight that are formed inside the reduction, element by element: the reference. */
#pragma once

#include "kernel/kernel.h"

/* A shard's term of element (j, k): its chain over the rows row0 to row1 - 1. */
typedef float hd_shard_chain(const hd_form *f, int j, int k, int row0, int row1);

/* Forms the rectangle from the terms of all shards. */
void hd__form_each(const hd_form *f, hd_shard_chain *chain);
