/* Modules: parts of heddle that need a library which not every machine has, each a file heddle-NAME.so, loaded when it
 * is used.
 *
 * They lie beside the library, in its folder heddle/, or where it was configured to be installed. HEDDLE_MODULE_PATH,
 * folders separated by colons, is looked at instead where it is set. */
#ifndef HD_SYS_MODULE_H
#define HD_SYS_MODULE_H

#include "base/status.h"

/* The address of `symbol` in module `name`, which stays loaded. HD_E_UNSUPPORTED: it is not there, or cannot be loaded;
 * the message says what it is for, what was found, and `remedy`. */
hd_status hd__module_find(void **out, hd_ctx *ctx, const char *name, const char *symbol, const char *what,
                          const char *remedy);

#endif
