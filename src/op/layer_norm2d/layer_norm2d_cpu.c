/* layer_norm2d by groups of sixteen channels. */
#include "op/line_norm_cpu.h"

LINE_NORM16(layer_norm2d, 1)
