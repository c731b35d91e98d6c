/* The double version of ref_linear.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_linear.c" /* IWYU pragma: keep */
