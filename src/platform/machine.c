/* The processor's name and the system's start from /proc: see machine.h. */
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

#include "platform/file.h"

void hd__cpu_name(char *out, size_t bytes) {
  char text[4096]; /* the first processor's lines, and more */
  hd__file_text(text, sizeof text, "/proc/cpuinfo");
  const char *line = strstr(text, "\nmodel name"), *colon = line ? strchr(line, ':') : NULL;
  const char *name = colon ? colon + 2 : "unknown";
  snprintf(out, bytes, "%.*s", (int)strcspn(name, "\n"), name);
}

void hd__machine_boot(char *out, size_t bytes) {
  hd__file_text(out, bytes, "/proc/sys/kernel/random/boot_id");
  out[strcspn(out, "\n")] = 0;
}
