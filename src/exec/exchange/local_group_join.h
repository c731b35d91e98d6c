/* Creating, joining and leaving a local group. */
#pragma once

#include "exec/exchange/local_group.h"

/* Creates a local group of `ranks` without being one of them: hd__local_group_rank is -1. `parented`: the ranks end
 * when this process ends. */
hd_status hd__local_group_found(hd_local_group **out, hd_ctx *ctx, int ranks, bool parented);

/* Joins the local group of the memory file `fd` as a rank; the group keeps a copy of the descriptor. Waits for all
 * ranks to join: HD_E_TIMEOUT names those that did not. HD_E_USAGE for a rank that is out of range or taken. */
hd_status hd__local_group_join(hd_local_group **out, hd_ctx *ctx, int fd, int rank, double timeout_s);

/* HD_E_USAGE unless `fd` is the memory file of a local group of `ranks` that is safe to map: of this user, sealed
 * against shrinking, and as long as its head says. Joining and holding check all of that but the number of ranks. */
hd_status hd__local_group_check_file(hd_ctx *ctx, int fd, int ranks);

/* Opens the local group of the memory file `fd` without being a rank, and without waiting. */
hd_status hd__local_group_hold(hd_local_group **out, hd_ctx *ctx, int fd);

/* The environment variable that names a rank, "RANK/RANKS"; its memory file is at HD_SPAWN_FD. */
#define HD_LOCAL_GROUP_VARIABLE "HEDDLE_WORLD"

/* Whether this process was started as a rank, which one, and of how many. */
bool hd__local_group_launched(int *rank, int *ranks);

/* Joins as the rank that this process was started as; HD_E_USAGE if it was not. */
hd_status hd__local_group_join_launched(hd_local_group **out, hd_ctx *ctx, double timeout_s);

/* Leaves the group. Any later barrier of the remaining ranks fails with HD_E_PEER. NULL is allowed. */
void hd__local_group_leave(hd_local_group *local);
