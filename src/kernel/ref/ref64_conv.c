/* The double version of ref_conv.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_conv.c" /* IWYU pragma: keep */
