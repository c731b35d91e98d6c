/* HD_TOOLS_API marks the functions that libheddle shows to libheddle-tools alone: they are exported under the version
 * HEDDLE_PRIVATE (src/libheddle.map), which no program may use. tools/check-symbols compares the marks with what
 * libheddle-tools calls. */
#pragma once

#include "heddle/status.h"

#define HD_TOOLS_API HD_API
