/* The supervisor: a process that makes the emergency save for ranks without a parent, as mpirun, srun and users by hand
 * start them.
 *
 * Launchers end a job in which one rank was lost by SIGKILL to all ranks, some at once. The supervisor is no process of
 * the launcher: it has a session of its own and holds the ranks' memory. When all ranks of its host have ended, and not
 * all in good order, it saves the last whole step, unless a rank has saved it. It takes no part in training, and ends
 * with the run. */
#pragma once

#include "exec/exchange/local_group.h"
#include "heddle/launch.h"

/* Called by one rank, once per run, after the ranks have joined: starts the supervisor, if this program can be one (see
 * hd_supervisor) and there is no parent. ps shows `run`, its folder. If the supervisor cannot be started, the run goes
 * on without one, as in programs that cannot be one. */
void hd__supervisor_start(const hd_local_group *local, const char *run);

/* ---- Ranks on several hosts, started by mpirun, which heddle looks for and calls ---- */

/* hd_launch for settings->hosts. */
hd_status hd__launch_hosts(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *settings);
