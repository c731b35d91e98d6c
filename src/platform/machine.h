/* What the system says of the machine: for records, figures, and to tell machines apart. */
#pragma once

#include <stddef.h>

#include "base/tools_api.h"

/* The processor's name; "unknown" where the system gives none. */
HD_TOOLS_API void hd__cpu_name(char *out, size_t bytes);

/* What no other running system has, a new one after each start; "" where the system gives none. */
void hd__machine_boot(char *out, size_t bytes);
