/* The watcher: a thread that detects ended and stopped ranks of a local group, and ends this process if it does not
 * react to a broken group.
 *
 * The end of a process is seen through a descriptor of it, at once; where there is none, by a check every 200 ms.
 * Each rank checks every 200 ms whether the next rank is stopped; two checks in a row must say so. So no fault is
 * recorded when all ranks are stopped together and continue together. */
#pragma once

#include "exec/exchange/local_group.h"

typedef struct hd_watch hd_watch;

/* All ranks have joined. */
hd_status hd__watch_start(hd_watch **out, hd_ctx *ctx, hd_local_group *local);
void hd__watch_end(hd_watch *watch); /* NULL is allowed */
