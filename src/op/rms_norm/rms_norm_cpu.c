/* rms_norm by groups of sixteen channels. */
#include "op/line_norm_cpu.h"

LINE_NORM16(rms_norm, 0)
