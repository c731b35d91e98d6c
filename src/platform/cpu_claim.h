/* Claims of CPUs: which CPUs the threads of running jobs are bound to, so that a new job can use others.
 *
 * A job holds one of a few names for each CPU that one of its threads is bound to. A name is an abstract address of
 * a UNIX socket: one job at a time can hold it, and the system frees it when the process ends. Nothing is ever sent.
 * Jobs in containers with separate network namespaces do not see each other. Without sockets nothing is claimed, and
 * no claim seen.
 *
 * Any user can hold such a name, with a job or without one, so the holder's user is determined. A name held by the
 * same user counts. A name held by another user is a hint: CPUs without one are used first, and those with one if
 * there are no others. After some thousand connections to one holder the system no longer gives its user; then the
 * name does not count either. */
#pragma once

#include <stdbool.h>

#include "base/tools_api.h"
#include "heddle/topology.h"

typedef struct hd_claim {
  int count;
  int *socket; /* -1: not held */
} hd_claim;

typedef enum hd_claimed { HD_CLAIMED_NOT, HD_CLAIMED_SAME_USER, HD_CLAIMED_OTHER_USER } hd_claimed;

/* Whether a job of this user (of any process) or another user has claimed the CPU. */
hd_claimed hd__claim_find(int cpu);

/* Claims the CPUs of a placement's threads; false if another job of this user has claimed one of them. */
HD_TOOLS_API bool hd__claim_take(hd_claim *claim, const hd_placement *place);

/* Releases the CPUs; a zeroed claim is allowed. */
HD_TOOLS_API void hd__claim_drop(hd_claim *claim);
