/* Where calls of a group are handed in to be done later, by two threads of the group: one for collectives, in order,
 * one for messages, which may wait for several ranks at once. Threads are there from the first such call on. */
#ifndef HD_COMM_DESK_H
#define HD_COMM_DESK_H

#include "comm/group.h"

/* Waits for all that was handed in. NULL is allowed. */
void hd__desk_destroy(hd_desk *desk);

#endif
