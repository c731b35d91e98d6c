/* The double version of ref_dropout.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_dropout.c" /* IWYU pragma: keep */
