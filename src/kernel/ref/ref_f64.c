/* The reference operations once more, in double: for gradient checks by finite differences. The sources are included, so
 * that there is one text for both. */
#define HD_REF_F64 1

#include "kernel/ref/ref_conv.c"
#include "kernel/ref/ref_linear.c"
#include "kernel/ref/ref_loss.c"
#include "kernel/ref/ref_pointwise.c"
#include "kernel/ref/ref_pool.c"

static const hd_kernels reference_f64 = {
    .name = "reference-f64",
    .isa = "reference",
#define OP_ROWS(op) .run[HD_OP_##op] = HD_REF(op),
#define OP_REDUCE(op) .run[HD_OP_##op] = HD_REF(op),
#define OP_UPDATE(op)
#define OP(op, class) OP_##class(op)
#include "graph/ops.def"
#undef OP
#undef OP_ROWS
#undef OP_REDUCE
#undef OP_UPDATE
};

const hd_kernels *hd__kernels_reference_f64(void) { return &reference_f64; }
