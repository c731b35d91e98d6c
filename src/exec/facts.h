/* What a device alone knows of its executor, by name. A reader gets it from whatever device has it (hd__exec_facts in
 * executor.h), and nothing from the others. */
#pragma once

#include <stdint.h>

typedef enum hd_fact {
  HD_FACT_SUMS,       /* hd_sums_fact: how several devices of a run add their gradients; none where there is one */
  HD_FACT_STAGE_WORK, /* hd_stage_work, per thread of this host; none for a plan of one stage */
  HD_FACT_MEMORY      /* hd_gpu_memory of heddle/device.h, without the rank: of each device in this process that has
                         memory of its own */
} hd_fact;

typedef struct hd_sums_fact {
  const char *library; /* that adds: "NCCL 2.28.3"; "": the reduction tree does */
  const char *why;     /* it does not although it was requested; else "". The executor owns both texts */
} hd_sums_fact;

/* What a thread has done so far for the stages of the plan. */
typedef struct hd_stage_work {
  int32_t stage, rank; /* rank: in the job */
  int64_t shards;      /* that it has taken through stage ranges of its stage, */
  int64_t waited_ns;   /* waiting for other stages meanwhile */
} hd_stage_work;
