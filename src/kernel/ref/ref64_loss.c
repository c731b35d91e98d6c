/* The double version of ref_loss.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_loss.c" /* IWYU pragma: keep */
