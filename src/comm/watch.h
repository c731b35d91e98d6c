/* Watching the other ranks of a world, from a thread of its own: who ended, who is stopped, and that this process does
 * not stay behind when the world is broken.
 *
 * The end of a process is seen through a descriptor of it, at once; where there is none, every 200 ms. Whether one is stopped is looked at every 200 ms,
 * each rank at the next one, and counts when two looks in a row say so: when all ranks are stopped together, and go on
 * together, nobody finds another one stopped. */
#ifndef HD_COMM_WATCH_H
#define HD_COMM_WATCH_H

#include "comm/world.h"

typedef struct hd_watch hd_watch;

/* All ranks have joined. */
hd_status hd__watch_start(hd_watch **out, hd_ctx *ctx, hd_world *world);
void hd__watch_end(hd_watch *watch); /* NULL is allowed */

/* The world's fault is known to those who called, who will end the process themselves. */
void hd__watch_heard(hd_watch *watch);

/* The parent's pid and start, 0: none. */
int hd__world_parent(const hd_world *world, uint64_t *start);

#endif
