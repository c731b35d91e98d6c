/* pad with channels in vector lanes. */
#include "op/pad/pad.h"
#include "op/resample_cpu.h"

RESAMPLE16(pad)
