/* The keeper of a run: a process beside ranks that have no parent, as mpirun, srun and users by hand start them.
 *
 * Launchers end a job in which one rank was lost by SIGKILL to all, some at once. The keeper is none of theirs: it has
 * a session of its own, holds the ranks' memory, and when all ranks of its host have ended, not all in good order, it
 * saves the last whole step, unless one of them could. It takes no part in the run, and ends with it. */
#ifndef HD_TRAIN_KEEPER_H
#define HD_TRAIN_KEEPER_H

#include "comm/world.h"

/* One rank, once for a run, when its ranks have met: starts the keeper, if this program can be one (see hd_keeper) and
 * there is no parent. `run`, its folder, is what ps shows. A keeper that cannot be started is done without, as by
 * programs that cannot be one. */
void hd__keeper_start(const hd_world *world, const char *run);

#endif
