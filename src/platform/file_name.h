/* Temporary names of what is being written beside its final name: .NAME.tmp- or .NAME.old- and 16 random hexadecimal
 * digits; see file.h. */
#pragma once

#include "platform/file.h"

#define HD_TMP_MARK ".tmp-"
#define HD_OLD_MARK ".old-"

/* A new temporary name beside a path. */
hd_status hd__temporary_name(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *path, const char *mark);

/* The final name of a temporary one; NULL for any other name. */
const char *hd__name_behind(char name[HD_NAME_MAX + 1], const char *temporary, const char *mark);

/* Removes what hd__file_write_cache of killed processes of this user left beside a path. */
void hd__file_remove_given_up(const char *path);
