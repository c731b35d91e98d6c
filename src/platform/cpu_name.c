/* The processor's name from /proc/cpuinfo: see cpu_name.h. */
#include "platform/cpu_name.h"

#include <stdio.h>
#include <string.h>

void hd__cpu_name(char *out, size_t bytes) {
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(out, bytes, "unknown");
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strncmp(line, "model name", 10) ? NULL : strchr(line, ':');
    if (!colon)
      continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(out, bytes, "%s", colon + 2);
    break;
  }
  if (file)
    fclose(file);
}
