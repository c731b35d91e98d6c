/* Files: mapped for reading; written atomically, so that a reader sees the old content or the new.
 *
 * A new file or folder is made under a temporary name beside its final one, synced, and renamed. The temporary name
 * is random, .NAME.tmp- and 16 hexadecimal digits, and is created exclusively: processes of other containers and
 * hosts, whose numbers may be the same, can write the same path at the same time, and a link under a temporary name
 * is never followed. Where names cannot be exchanged a replaced folder is called .NAME.old- and 16 digits for a
 * moment. Every call that gives or changes a name syncs the folder of that name; a failure of the sync is a failure,
 * unless the file system has no sync. Every error names the path, what was expected, and the system's message. */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/status.h"

enum { HD_PATH_BYTES = 4096, HD_NAME_MAX = 255 };

/* A stream, and a folder being read, that end with their scope. */
HD_RELEASER(hd__file_close, FILE, fclose)
HD_RELEASER(hd__folder_close, DIR, closedir)
#define HD_FILE_OWNED HD_RELEASED(hd__file_close) FILE
#define HD_FOLDER_OWNED HD_RELEASED(hd__folder_close) DIR

/* HD_E_IO for a call of the system that failed, by errno; `action`: "write it". */
HD_TOOLS_API hd_status hd__file_error(hd_ctx *ctx, const char *path, const char *action);

/* HD_E_IO where an open file is no regular one. */
hd_status hd__file_check_regular(hd_ctx *ctx, const char *path, int fd);

/* Opens a regular file for reading; *out is NULL where there is none, which is no failure. */
HD_TOOLS_API hd_status hd__file_open_if_there(FILE **out, hd_ctx *ctx, const char *path);

typedef struct hd_mapping {
  const unsigned char *bytes; /* NULL for an empty file */
  size_t length;
  void *memory; /* where they lie, for hd__file_unmap */
} hd_mapping;

/* Maps a regular file read-only. The mapping changes with the file: a value that memory accesses depend on must be
 * read once. */
hd_status hd__file_map(hd_mapping *out, hd_ctx *ctx, const char *path);

/* The same for a file that this user or root owns and no other user may write; no link is followed. */
hd_status hd__file_map_guarded(hd_mapping *out, hd_ctx *ctx, const char *path);

/* For such a file while it is written: no other user may write it, whatever the umask. */
void hd__file_guard(FILE *to);

/* FOLDER/NAME, in a folder that users may share; FOLDER/NAME-USER if another user's file has that name. */
hd_status hd__file_in_shared(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, const char *name);

/* A copy of a regular file instead of a mapping: for parsers that read a byte twice. */
hd_status hd__file_read(hd_mapping *out, hd_ctx *ctx, const char *path);
void hd__file_unmap(hd_mapping *mapping);

/* Reads standard input to its end; `name` is for messages. */
hd_status hd__file_read_input(hd_mapping *out, hd_ctx *ctx, const char *name);

/* A mapping that ends with its scope. */
#define HD_MAPPED HD_RELEASED(hd__file_unmap) hd_mapping

/* Writes a whole file atomically: `write` fills it and may fail with its own status. A link at the path is replaced,
 * not followed; anything that is neither file nor link is HD_E_IO. */
typedef hd_status hd_write_fn(FILE *to, hd_ctx *ctx, void *arg);
HD_TOOLS_API hd_status hd__file_write(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg);

/* The same for a file of a cache, which several processes may write. What killed processes of this user left of
 * it, under its temporary names, is removed first; what others write is locked, and stays. */
hd_status hd__file_write_cache(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg);

/* The same for a path that a user names, for instance with an option: links are followed. A device, a pipe or
 * another path that is no regular file is written in place; so is the file that standard output or error is open on,
 * behind their output. A regular file behind a link is replaced where it is. */
hd_status hd__file_write_named(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg);

/* Whether hd__file_write_named writes this path in place: then output cannot be undone. */
bool hd__file_is_stream(const char *path);

/* After fwrite, fprintf and the like: turns a failed stream into an error that names `path`. */
hd_status hd__file_check(hd_ctx *ctx, FILE *file, const char *path);

/* Makes a folder and those above it. */
HD_TOOLS_API hd_status hd__file_make_folder(hd_ctx *ctx, const char *path);

/* Makes a folder; *made is false where the name exists. */
hd_status hd__file_make_new_folder(bool *made, hd_ctx *ctx, const char *path);

/* folder/name; HD_E_USAGE if that is too long. */
HD_TOOLS_API hd_status hd__file_join(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, const char *name);

/* Starts a folder that will be `path`: makes and names a temporary one beside it. */
hd_status hd__file_folder_begin(char temporary[HD_PATH_BYTES], hd_ctx *ctx, const char *path);

/* Whether a folder, or a link, may be made at this path: there is nothing, a link, or, for a folder, a folder.
 * HD_E_IO for anything else, which is never replaced. */
hd_status hd__file_check_place(hd_ctx *ctx, const char *path, bool for_link);

/* Syncs the folder and renames it to its final name, replacing a folder of that name, and nothing else. */
hd_status hd__file_folder_commit(hd_ctx *ctx, const char *temporary, const char *path);

/* Whether a name is one that the caller writes in its folder. */
typedef bool hd_writes_fn(const char *name);

/* Whether everything in a folder is a plain file under a name that the caller writes, or under a temporary name of
 * one. False for a link to a folder. */
bool hd__file_holds_only(const char *folder, hd_writes_fn *writes);

/* Removes leftovers of killed processes of this user in a folder: under temporary names of names that the caller
 * writes, plain files, links to a name of the same folder, and folders that contain only such files. An object that was
 * being replaced is restored if its name is free, and stays if that fails. Only for a folder that no other process
 * writes. */
void hd__file_remove_leftovers(const char *folder, hd_writes_fn *writes);

/* Locks a folder for writing by this process, until hd__file_unlock or the end of the process: HD_E_IO if another
 * process holds the lock for `wait_s` seconds, of which hd__tell_wait tells; below 0 that is no failure, and *lock is
 * -1. The lock is on a file in the folder, so that other hosts that share the file system see it. */
#define HD_LOCK_NAME ".lock"
HD_TOOLS_API hd_status hd__file_lock_folder(int *lock, hd_ctx *ctx, const char *path, double wait_s);

/* Who holds the lock of a folder. */
typedef enum hd_lock_state {
  HD_LOCK_FREE,
  HD_LOCK_HELD,    /* a process of this host, which runs */
  HD_LOCK_UNKNOWN, /* a process of another host, container or user, which may or may not be running */
  HD_LOCK_FOREIGN  /* the file is locked, but not by the process that it names, so not by a heddle that writes the
                      folder */
} hd_lock_state;

enum { HD_LOCK_WHO_BYTES = 192 };

/* `who`: for messages, "process 7 on node3"; "" for a free lock. */
HD_TOOLS_API hd_lock_state hd__file_lock_state(char who[HD_LOCK_WHO_BYTES], const char *path);

/* Whether a process holds the lock of a folder and writes it, or may. */
bool hd__file_is_locked(const char *path);

/* Releases the lock and removes its file; -1: none is held. */
HD_TOOLS_API void hd__file_unlock(int *lock);

/* Removes a folder of plain files and links and what is in it, and follows no link; silent, for clean-up. */
void hd__file_remove_folder(const char *path);

/* Renames a folder to a temporary name and removes it, so that a folder under the final name is complete at any
 * time; reports no error. */
void hd__file_retire_folder(const char *path);

/* Points the link `path` at `target`, atomically, replacing a link and nothing else. */
hd_status hd__file_link(hd_ctx *ctx, const char *target, const char *path);

/* Makes an open file at least this long, with its room on the disk: writing it later cannot fail for lack of room. 0,
 * or an errno. */
int hd__file_reserve(int fd, int64_t bytes);

/* The first `bytes` - 1 bytes of a small file of the system, which ends with its content; their number, 0: there is no
 * such file, or it is empty. */
HD_TOOLS_API size_t hd__file_text(char *text, size_t bytes, const char *path);

HD_TOOLS_API int hd__file_exists(const char *path);
int hd__file_is_folder(const char *path);
