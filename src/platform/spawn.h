/* Starts processes by exec, never by fork alone, since threads do not survive a fork.
 *
 * A process starts with an unblocked, default set of signals, and keeps open only its standard streams and the one
 * descriptor that it is given. If it calls hd__spawn_end_with_parent at its start, the system ends it with the
 * thread that started it. */
#pragma once

#include <sys/types.h>

#include "base/status.h"

/* The number under which a process finds the descriptor that it was given. */
enum { HD_SPAWN_FD = 3, HD_SPAWN_END_BYTES = 96 };

typedef struct hd_spawn_how {
  const char *program;    /* a path, or a name to look for in PATH; NULL for the program of this process */
  char *const *argv;      /* ends with NULL */
  const char *const *set; /* "NAME=VALUE" to add to the environment, ends with NULL; NULL for none */
  int fd;                 /* passed on as HD_SPAWN_FD; -1 for none. Stays open here */
} hd_spawn_how;

hd_status hd__spawn(pid_t *out, hd_ctx *ctx, const hd_spawn_how *how);

/* The arguments that this program was started with, its name first and NULL last, in one block that the caller frees
 * with hd__free. HD_E_SYSTEM where the system does not give them. */
hd_status hd__spawn_arguments(char ***out, hd_ctx *ctx);

/* In a spawned process: closes the descriptors above HD_SPAWN_FD. */
void hd__spawn_close_others(void);

/* The same, and has the system kill it when its parent ends.
 * False if the parent has ended already. */
int hd__spawn_end_with_parent(pid_t parent);

/* Waits until the process has ended, and writes how: "exit status 3", "signal 11 (Segmentation fault)". */
void hd__spawn_end(char text[HD_SPAWN_END_BYTES], pid_t pid);
