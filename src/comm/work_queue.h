/* The queue of asynchronous calls of a group, done by two threads of the group: one for collectives, in order, and
 * one for messages, which may wait for several ranks at once. Threads are started by the first such call. */
#ifndef HD_COMM_WORK_QUEUE_H
#define HD_COMM_WORK_QUEUE_H

#include "comm/group_state.h"

/* Waits for all queued calls. NULL is allowed. */
void hd__work_queue_destroy(hd_work_queue *work_queue);

#endif
