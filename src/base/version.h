/* The version of heddle. */
#pragma once

/* "0.1.0": returned by hd_version and required of ranks on other hosts and of modules. A single string in the
 * library, so that a test can build another version. */
const char *hd__version(void);
