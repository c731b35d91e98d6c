/* The processor's name, from the system: for records and figures. */
#ifndef HD_PLATFORM_CPU_NAME_H
#define HD_PLATFORM_CPU_NAME_H

#include <stddef.h>

/* "unknown" where the system gives none. */
void hd__cpu_name(char *out, size_t bytes);

#endif
