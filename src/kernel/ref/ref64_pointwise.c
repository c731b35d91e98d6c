/* The double version of ref_pointwise.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_pointwise.c" /* IWYU pragma: keep */
