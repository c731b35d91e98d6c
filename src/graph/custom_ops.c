/* Adding and finding custom operations; see custom_ops.h. */
#include "graph/custom_ops.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "op/op.h"

enum { MAX_NAME_BYTES = 32 };

const hd_custom_op *hd__custom_op_find(const hd_ctx *ctx, const char *name) {
  for (int i = 0; ctx && i < ctx->custom_op_count; i++)
    if (!strcmp(ctx->custom_op[i]->name, name))
      return ctx->custom_op[i];
  return NULL;
}

static bool is_name(const char *name) {
  size_t length = name ? strlen(name) : 0;
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)name[i]) && name[i] != '_')
      return false;
  return length > 0 && length <= MAX_NAME_BYTES;
}

static hd_status check(hd_ctx *ctx, const hd_custom_op *op) {
  if (!is_name(op->name))
    return hd__fail(ctx, HD_E_USAGE, "expected the name of an operation, 1 to %d letters, digits and '_', found '%s'",
                    MAX_NAME_BYTES, op->name ? op->name : "");
  if (hd__op_find(op->name) < HD_OP_COUNT || hd__op_find_line(op->name) < HD_OP_COUNT ||
      hd__custom_op_find(ctx, op->name))
    return hd__fail(ctx, HD_E_USAGE, "expected a new name for an operation, found '%s' again; choose another",
                    op->name);
  if (op->inputs < 1 || op->inputs > HD_CUSTOM_OP_INPUTS || !op->forward || !op->backward)
    return hd__fail(ctx, HD_E_USAGE,
                    "operation '%s': expected 1 or 2 inputs, forward and backward, found %d inputs%s%s; set the rest",
                    op->name, (int)op->inputs, op->forward ? "" : ", no forward", op->backward ? "" : ", no backward");
  if (ctx->custom_op_count == HD_CUSTOM_OPS)
    return hd__fail(ctx, HD_E_USAGE,
                    "operation '%s': expected at most %d operations in a context, found more; use another context",
                    op->name, HD_CUSTOM_OPS);
  return HD_OK;
}

hd_status hd_custom_op_add(hd_ctx *ctx, const hd_custom_op *op) {
  _Static_assert(sizeof ctx->custom_op / sizeof *ctx->custom_op == HD_CUSTOM_OPS, "the public header says how many");
  hd_custom_op wanted;
  HD_TRY(hd__struct_read(&wanted, ctx, op, sizeof wanted, "hd_custom_op"));
  HD_TRY(check(ctx, &wanted));
  hd_custom_op *kept;
  HD_TRY(HD_NEW(kept, 1, ctx, "operation '%s': out of memory", wanted.name));
  *kept = wanted;
  ctx->custom_op[ctx->custom_op_count++] = kept;
  return HD_OK;
}
