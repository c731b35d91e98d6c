/* Ranks on several hosts, started by mpirun, which heddle looks for and calls. */
#ifndef HD_TRAIN_LAUNCH_LAUNCH_HOSTS_H
#define HD_TRAIN_LAUNCH_LAUNCH_HOSTS_H

#include "heddle/launch.h"

/* hd_launch for settings->hosts. */
hd_status hd__launch_hosts(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *settings);

#endif
