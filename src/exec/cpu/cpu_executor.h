/* The executor on threads.
 *
 * A run is one parallel region: threads run the plan's phases step after step, with one barrier between two phases.
 * Memory that several threads read belongs to the local group; the rest is process-local. */
#pragma once

#include "exec/executor.h"

extern const hd_executor hd__cpu_executor;

/* In which order a stage runs forward and backward: see pipeline.c. */
typedef enum hd_stage_schedule { HD_SCHEDULE_1F1B, HD_SCHEDULE_GPIPE } hd_stage_schedule;

/* The own settings of this executor; NULL: all 0. */
typedef struct hd_cpu_settings {
  hd_stage_schedule schedule; /* of plans that train */
  bool stages_on_hosts;       /* each stage runs on one host; else every host runs all stages */
} hd_cpu_settings;
