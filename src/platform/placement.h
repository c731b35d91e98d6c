/* The request for a placement: the options threads, cpus, placement and workers, as values. */
#pragma once

#include <stdbool.h>

#include "base/tools_api.h"
#include "heddle/topology.h"

enum { HD_PLACEMENT_POLICIES = HD_PLACEMENT_ALL + 1 };

typedef struct hd_placement_request {
  hd_placement_choice policy;
  bool policy_given; /* else it is the default */
  const char *cpus;  /* "0-3,8": these CPUs in this order, instead of a policy; NULL: none */
  int32_t threads;   /* threads; 0: OMP_NUM_THREADS, else by the policy, within the budget */
  int32_t most;      /* threads, however many are requested; 0: any number */
  int32_t workers;   /* loader threads, which get a CPU too */
} hd_placement_request;

/* hd_config_place without a configuration. */
HD_TOOLS_API hd_status hd__placement_create(hd_placement **out, hd_ctx *ctx, const hd_topology *topology,
                                            const hd_placement_request *request);
