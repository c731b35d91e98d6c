/* The double version of ref_concat.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_concat.c" /* IWYU pragma: keep */
