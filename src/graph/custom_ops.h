/* The custom operations of a context: hd_custom_op_add adds one, model files name it. Their rule is in
 * op/custom/custom.c. */
#pragma once

#include "base/status.h"
#include "heddle/custom_op.h"

/* The custom operation of that name in this context, NULL if there is none. */
const hd_custom_op *hd__custom_op_find(const hd_ctx *ctx, const char *name);
