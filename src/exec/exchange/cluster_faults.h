/* Faults of other hosts, and ranks that have left. The leader of a host receives the fault that broke the local group
 * of another one. A host that a transfer cannot reach, or that sends nothing until the timeout, is a fault, too. Each
 * fault breaks the local group. */
#pragma once

#include "exec/exchange/local_group.h"

/* Leaders: starts to receive a fault, and the numbers of ranks that leave. */
hd_status hd__cluster_receive_faults(struct hd_cluster *cluster, hd_ctx *ctx);

/* Checks for faults and departed ranks that other hosts report, and reports the departed ranks of this host; to be
 * called regularly in every other wait. */
void hd__cluster_poll_faults(hd_local_group *local);

/* Whether a rank of another host has left its local group, and everything that it sent has arrived. Any thread. */
bool hd__cluster_has_left(const hd_local_group *local, int rank);

/* Before the transport ends: leaders report to other hosts that they leave, and wait a moment for the other leaders. */
void hd__cluster_leave(struct hd_cluster *cluster);

/* Breaks the local group with a fault of a rank of another host. */
void hd__cluster_give_up(struct hd_cluster *cluster, int rank, hd_fault_kind kind, int32_t seconds, const char *text);

/* Shortens the timeout of waits between hosts, because this process was asked to end. Async-signal-safe. */
void hd__cluster_shorten_timeout(hd_local_group *local);

/* Restores the timeout after all ranks have agreed to end. */
void hd__cluster_restore_timeout(hd_local_group *local);
