/* Which CPUs the lanes of running jobs are bound to, so that a new job can take others.
 *
 * A job holds one of a few names for each CPU that a lane of it is bound to, an abstract address of a Unix socket: only
 * one job can have a name, and it goes with the process, whatever ends that. Nothing is ever sent. Jobs in containers
 * with networks of their own do not see each other. Where no sockets are to be had nothing is held, and nothing
 * seen. */
#ifndef HD_SYS_CLAIM_H
#define HD_SYS_CLAIM_H

#include <stdbool.h>

#include "heddle/topology.h"

typedef struct hd_claim {
  int count;
  int *socket; /* -1: not held */
} hd_claim;

/* Does a job, of this process or another, hold the CPU? */
bool hd__claim_seen(int cpu);

/* Takes the CPUs of a placement's lanes; false if somebody else has one, too. */
bool hd__claim_take(hd_claim *claim, const hd_placement *place);

/* Gives them back; a zeroed claim is allowed. */
void hd__claim_drop(hd_claim *claim);

#endif
