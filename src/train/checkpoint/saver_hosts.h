/* Saving when each host has only the weights of some parameters: the saver of the first host writes, and meanwhile
 * reads the other hosts' weights from their savers, block by block. No host has all weights at any time. */
#pragma once

#include "exec/exchange/local_group.h"
#include "train/checkpoint/saver.h"

/* Called by the first rank of each host after hd__saver_init, with the host of each entry that is no alias. On other
 * hosts than the first hd__saver_begin, without counters and record, copies what is there and serves it until the
 * first host's save has ended; all begin a save together. The saver releases what this takes. */
hd_status hd__saver_share(hd_saver *saver, hd_ctx *ctx, hd_local_group *local, const int *host);
void hd__saver_leave_hosts(hd_saver *saver);

/* The thread of another host's saver: answers until it is dismissed. The first host's: dismisses them. */
hd_status hd__saver_serve(hd_saver *saver);
void hd__saver_dismiss(hd_saver *saver);
