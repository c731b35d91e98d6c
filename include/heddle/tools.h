/* Measuring and watching, in a library of its own: libheddle-tools (pkg-config heddle-tools), on top of libheddle,
 * whose core it includes.
 *
 * heddle/bench.h compares speeds with the machine's limits, heddle/doctor.h finds what makes a machine slow,
 * heddle/tune.h finds the best number of threads, heddle/sweep.h trains many runs that differ in some settings,
 * heddle/monitor.h shows what the machine does now. */
#ifndef HEDDLE_TOOLS_H
#define HEDDLE_TOOLS_H

#include "heddle.h"
#include "heddle/bench.h"
#include "heddle/doctor.h"
#include "heddle/monitor.h"
#include "heddle/sweep.h"
#include "heddle/tune.h"

#endif
