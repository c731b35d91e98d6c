/* Constants of gelu, in double: each table rounds them to its type. */
#ifndef HD_KERNEL_GELU_CONSTANTS_H
#define HD_KERNEL_GELU_CONSTANTS_H

#define HD_SQRT_HALF 0.70710678118654752
#define HD_ONE_BY_SQRT_2PI 0.39894228040143268
#define HD_SQRT_2_BY_PI 0.79788456080286536
#define HD_GELU_CUBIC 0.044715

#endif
