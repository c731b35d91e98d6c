/* The double version of ref_layer_norm.c, for gradient checks. */
#define HD_REF_DOUBLE
#include "kernel/ref/ref_layer_norm.c" /* IWYU pragma: keep */
