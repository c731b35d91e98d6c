/* upsample with channels in vector lanes. */
#include "op/upsample/upsample.h"
#include "op/resample_cpu.h"

RESAMPLE16(upsample)
