/* Which heddle this is. */
#ifndef HD_BASE_VERSION_H
#define HD_BASE_VERSION_H

/* "0.1.0": what hd_version tells, and what ranks on other hosts and modules are held to. One string in the library, so
 * that a test can make another version of it. */
const char *hd__version(void);

#endif
