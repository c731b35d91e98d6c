/* The double version of ref_softmax.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_softmax.c" /* IWYU pragma: keep */
