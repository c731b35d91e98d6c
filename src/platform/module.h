/* Modules: the code of heddle that needs an optional library, each a file heddle-NAME.so, loaded on first use.
 *
 * They are searched beside the library, in its folder heddle/, and in the configured installation folder.
 * HEDDLE_MODULE_PATH, folders separated by colons, replaces these where it is set. */
#pragma once

#include "base/status.h"

/* The address of `symbol` in module `name`, which stays loaded. HD_E_UNSUPPORTED: the module is missing or cannot be
 * loaded; the message names its purpose, what was found, and `remedy`. */
hd_status hd__module_find(void **out, hd_ctx *ctx, const char *name, const char *symbol, const char *what,
                          const char *remedy);
