/* The double version of ref_pool.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_pool.c" /* IWYU pragma: keep */
