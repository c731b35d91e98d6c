/* Files of the cache's folder: ~/.cache/heddle, or $HEDDLE_CACHE.
 *
 * A file is used if this user or root owns it and no other user may write it; if another user's file has the name, this
 * user's is called NAME-USER. The folder may be shared if it is sticky, as /tmp is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "platform/file.h"

/* The path of PREFIX-KEY, and its folder, which need not exist. HD_E_USAGE if no variable names a folder, HD_E_IO if
 * others may rename files in it. */
hd_status hd__cache_file_path(char path[HD_PATH_BYTES], char folder[HD_PATH_BYTES], hd_ctx *ctx, const char *prefix,
                              uint64_t key);

/* Reads an array of `bytes` bytes from the file PREFIX-KEY, which has its checksum; *found is false if there is no such
 * file or it is not intact. And writes it. */
hd_status hd__cache_file_read(void *array, bool *found, hd_ctx *ctx, const char *prefix, uint64_t key, size_t bytes);
hd_status hd__cache_file_write(hd_ctx *ctx, const char *prefix, uint64_t key, const void *array, size_t bytes);
