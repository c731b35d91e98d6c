/* The version of heddle, and that of its arithmetic. */
#pragma once

#include <stdint.h>

/* "1.2.3": returned by hd_version and required of ranks on other hosts and of modules. A single string in the
 * library, so that a test can build another version. */
const char *hd__version(void);

/* A hash of it, for what processes of one machine compare. */
uint32_t hd__version_hash(void);

/* The version of the arithmetic, raised whenever any digest may have changed. docs/arithmetic.md lists the changes,
 * train/run/arithmetic_version.c the networks. */
enum { HD_ARITHMETIC_VERSION = 6 };
