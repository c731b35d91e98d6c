/* Files: mapped for reading; written so that a reader sees the old content or the new, never a half.
 *
 * A new file or folder is made under a temporary name beside its final one, synced, and renamed. Every error names the
 * path, what was expected, what the system said. */
#ifndef HD_SYS_FILE_H
#define HD_SYS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

enum { HD_PATH_BYTES = 4096 };

typedef struct hd_mapping {
  const unsigned char *bytes; /* NULL for an empty file */
  size_t length;
} hd_mapping;

/* Maps a regular file read-only. */
hd_status hd__file_map(hd_mapping *out, hd_ctx *ctx, const char *path);
void hd__file_unmap(hd_mapping *mapping);

/* Writes a whole file atomically: `write` fills it and may fail with its own status. */
typedef hd_status hd_write_fn(FILE *to, hd_ctx *ctx, void *arg);
hd_status hd__file_write(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg);

/* After fwrite, fprintf and the like: turns a failed stream into an error that names `path`. */
hd_status hd__file_check(hd_ctx *ctx, FILE *file, const char *path);

/* Makes a folder and those above it. */
hd_status hd__file_make_folder(hd_ctx *ctx, const char *path);

/* folder/name; HD_E_USAGE if that is too long. */
hd_status hd__file_join(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, const char *name);

/* Starts a folder that will be `path`: makes and names a temporary one beside it. */
hd_status hd__file_folder_begin(char temporary[HD_PATH_BYTES], hd_ctx *ctx, const char *path);

/* Whether a folder, or a link, may take this place: nothing is there, a link, or for a folder one of its kind. Anything
 * else is somebody's, and HD_E_IO. */
hd_status hd__file_check_place(hd_ctx *ctx, const char *path, bool for_link);

/* Syncs it and gives it its final name, replacing a folder of that name, and nothing else. */
hd_status hd__file_folder_commit(hd_ctx *ctx, const char *temporary, const char *path);

/* Removes what processes that were killed left behind in a folder: temporary files and folders. Only for a folder that
 * no one else writes. */
void hd__file_remove_leftovers(const char *folder);

/* Makes this process the only one that writes a folder, until *lock is closed: HD_E_IO if another one does, and goes on
 * doing so for `wait_s` seconds. Where the file system knows no locks *lock is -1. */
hd_status hd__file_lock_folder(int *lock, hd_ctx *ctx, const char *path, double wait_s);

/* Removes a folder of plain files and links and what is in it; silent, for clean-up. */
void hd__file_remove_folder(const char *path);

/* Points the link `path` at `target`, atomically, replacing a link and nothing else. */
hd_status hd__file_link(hd_ctx *ctx, const char *target, const char *path);

int hd__file_exists(const char *path);
int hd__file_is_folder(const char *path);

#endif
