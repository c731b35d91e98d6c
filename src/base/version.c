/* The version from configure.ac. */
#include "base/version.h"

#include "heddle/status.h"

const char *hd__version(void) { return PACKAGE_VERSION; }

uint32_t hd__version_hash(void) { /* FNV-1a */
  uint32_t sum = UINT32_C(0x811c9dc5);
  for (const char *c = hd__version(); *c; c++)
    sum = (sum ^ (unsigned char)*c) * UINT32_C(0x01000193);
  return sum;
}

const char *hd_version(void) { return hd__version(); }

int hd_version_number(void) { return HD_VERSION_NUMBER; }
