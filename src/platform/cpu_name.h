/* The processor's name, from the system: for records and figures. */
#pragma once

#include <stddef.h>

#include "base/tools_api.h"

/* "unknown" where the system gives none. */
HD_TOOLS_API void hd__cpu_name(char *out, size_t bytes);
