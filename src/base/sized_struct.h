/* Structs that a program allocates: their first field, struct_bytes, is their size in the headers that the program was
 * compiled with. A later version has more fields, at the end. docs/api.md states the rule for programs. */
#pragma once

#include <stddef.h>

#include "base/status.h"

/* Checks struct_bytes, of any version: HD_E_USAGE names the struct. */
HD_TOOLS_API hd_status hd__struct_check(hd_ctx *ctx, const void *given, size_t known_bytes, const char *name);

/* Copies a program's struct to one of this version, known_bytes long: fields that the program does not know become 0.
 * HD_E_UNSUPPORTED where the program sets fields that this version does not know. */
HD_TOOLS_API hd_status hd__struct_read(void *to, hd_ctx *ctx, const void *given, size_t known_bytes, const char *name);

/* Copies a result of this version to a program's struct, which was checked; fields that this version does not know
 * become 0. */
HD_TOOLS_API void hd__struct_write(void *given, const void *from, size_t known_bytes);
