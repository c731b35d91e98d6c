/* The system's description of the machine: for records, figures, and to tell machines apart. */
#pragma once

#include <stddef.h>

#include "base/tools_api.h"

/* The processor's name; "unknown" where the system gives none. */
HD_TOOLS_API void hd__cpu_name(char *out, size_t bytes);

/* A text that is unique to this running system and changes at each start; "" if the system provides none. */
void hd__machine_boot(char *out, size_t bytes);
