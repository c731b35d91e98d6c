/* The processor's name, as the system tells it: for records and figures. */
#ifndef HD_SYS_CPU_NAME_H
#define HD_SYS_CPU_NAME_H

#include <stddef.h>

/* "unknown" where the system says none. */
void hd__cpu_name(char *out, size_t bytes);

#endif
