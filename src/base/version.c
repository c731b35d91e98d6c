/* The version from configure.ac. */
#include "base/version.h"

#include "heddle/status.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "0.1.0"
#endif

const char *hd__version(void) { return PACKAGE_VERSION; }

const char *hd_version(void) { return hd__version(); }
