/* The page on which a running job says what it is and how far it has come, for whoever looks (heddle top).
 *
 *     offset 0          job_head: what all ranks share; written once, its magic last
 *     head.slot_offset  job_slot of rank 0
 *     + head.slot_bytes job_slot of rank 1 ...
 *
 * The page is a memory file called "heddle-job", which is found in /proc/PID/fd of the processes that hold it and is
 * gone with the last of them: it has no name in any file system. A slot has one writer, its rank, which never waits:
 * an odd sequence means that it is writing, and a reader that finds the sequence odd or changed looks again. Readers
 * copy the page by read(), never map it: a file that shrinks must not hurt them. They believe nothing of it that they
 * have not checked: it is what another process says of itself.
 *
 * Ranks that are processes of their own share one page: the first creates it, the others get its descriptor. */
#ifndef HD_SYS_JOB_PAGE_H
#define HD_SYS_JOB_PAGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/status.h"
#include "heddle/topology.h"

#define HD_JOB_FILE "heddle-job"
#define HD_JOB_MAGIC UINT64_C(0x626f6a656c646468) /* "hddlejob" */

enum { HD_JOB_VERSION = 1, HD_JOB_MOST_RANKS = 1024, HD_JOB_NAME_BYTES = 64, HD_JOB_PATH_BYTES = 1024 };

/* What a rank does. */
enum { HD_JOB_READY, HD_JOB_TRAINING, HD_JOB_EVALUATING, HD_JOB_SAVING, HD_JOB_STATES };

/* What a job is; texts end with a zero. */
typedef struct hd_job_facts {
  char model[HD_JOB_NAME_BYTES], isa[16], device[16];
  char data[HD_JOB_PATH_BYTES];
  char out[HD_JOB_PATH_BYTES]; /* the run's folder, from the root */
  int64_t batch, epochs, steps;
} hd_job_facts;

typedef struct hd_job_head {
  _Atomic uint64_t magic;
  uint32_t version, ranks, slot_offset, slot_bytes;
  hd_job_facts facts;
} hd_job_head;

/* How far a rank has come. */
typedef struct hd_job_progress {
  int64_t step, epoch;        /* done, from 1; that it belongs to, from 0 */
  double loss, samples_per_s; /* of that step; lately. NAN: not known yet */
  int32_t state;
} hd_job_progress;

typedef struct hd_job_slot {
  _Atomic uint32_t sequence;
  int32_t pid;    /* as its own system numbers it; 0: nobody yet */
  uint64_t start; /* of the process, see hd__process_start */
  hd_job_progress progress;
  int32_t lanes;
  int32_t cpu[HD_MAX_THREADS]; /* that each lane is bound to; -1: none */
} hd_job_slot;

/* A rank's hold on the page. A zeroed one is allowed everywhere and does nothing. */
typedef struct hd_job_page {
  int fd;
  size_t bytes;
  hd_job_head *head; /* NULL: there is no page */
  hd_job_slot *slot;
  double window_s; /* since when the speed is measured, without pauses, */
  double pause_s;  /* since when there is one */
  int64_t window_samples;
} hd_job_page;

/* Makes the page of a job and takes the slot of rank 0. Where the system gives no memory file nobody sees the job: that
 * is no reason not to run it, and the page is a zeroed one. */
void hd__job_open(hd_job_page *page, int ranks, const hd_job_facts *facts);
/* Takes the slot of another rank on the page that process `pid` holds as its descriptor `fd`. */
void hd__job_join(hd_job_page *page, int pid, int fd, int rank);

void hd__job_close(hd_job_page *page);

/* Which CPU each lane is bound to. */
void hd__job_lanes(hd_job_page *page, const int *cpu, int lanes);

/* What the rank does from now on. The speed is that of training alone. */
void hd__job_enter(hd_job_page *page, int state);

/* A step of an epoch (from 0) is done: cheap enough for each. `samples` are those that this process trained so far. */
void hd__job_step(hd_job_page *page, int64_t step, int64_t epoch, int64_t samples, double loss);

#endif
