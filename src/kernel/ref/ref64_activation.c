/* The double version of ref_activation.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_activation.c" /* IWYU pragma: keep */
