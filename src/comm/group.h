/* Groups of ranks: creating them and destroying them, see heddle/group.h; their state is in group_state.h. */
#ifndef HD_COMM_GROUP_H
#define HD_COMM_GROUP_H

#include "comm/group_state.h"

/* The local group of a group that hd_group_init made; NULL for NULL. */
hd_local_group *hd__group_local(const hd_group *group);

/* Makes a group of all ranks of the run; a call of all of them. `local` outlives it. */
hd_status hd__group_of_ranks(hd_group **out, hd_ctx *ctx, hd_local_group *local, double timeout_s);

#endif
