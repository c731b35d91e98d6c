/* The version from configure.ac. */
#include "base/version.h"

#include "heddle/status.h"

const char *hd__version(void) { return PACKAGE_VERSION; }

const char *hd_version(void) { return hd__version(); }

int hd_version_number(void) { return HD_VERSION_NUMBER; }
