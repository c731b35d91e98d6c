/* The job page: shared memory in which a running job publishes its facts and progress, read by heddle top.
 *
 *     offset 0          job_head: what all ranks share; written once, its magic last
 *     head.slot_offset  job_slot of rank 0
 *     + head.slot_bytes job_slot of rank 1 ...
 *
 * The page is a memory file called "heddle-job", found in /proc/PID/fd of the processes that hold it and freed with
 * the last of them: it has no name in any file system. A slot has one writer, its rank, which never waits: an odd
 * sequence means a write in progress, and a reader that finds the sequence odd or changed reads again. Readers copy
 * the page by read() and never map it, since a file that shrinks would end them. The content is untrusted: readers
 * check all of it.
 *
 * Several ranks share one page: the first creates it, the others open its descriptor and check that it is a page
 * before they write. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

#include "heddle/monitor.h"
#include "heddle/topology.h"

#define HD_JOB_FILE "heddle-job"
#define HD_JOB_LINK "/memfd:" HD_JOB_FILE " (deleted)" /* as the system names it */
#define HD_JOB_MAGIC UINT64_C(0x626f6a656c646468)      /* "hddlejob" */

enum { HD_JOB_VERSION = 1, HD_JOB_MOST_RANKS = 1024, HD_JOB_NAME_BYTES = 64, HD_JOB_PATH_BYTES = 1024 };

enum { HD_JOB_STATES = HD_JOB_SAVING + 1 };

/* Facts about a job; texts end with a zero. */
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

/* The progress of a rank. */
typedef struct hd_job_progress {
  int64_t step, epoch;        /* the last complete step, from 1; its epoch, from 0 */
  double loss, samples_per_s; /* of that step; recent speed. NAN: not known yet */
  int32_t state;              /* hd_job_state */
} hd_job_progress;

typedef struct hd_job_slot {
  _Atomic uint32_t sequence;
  int32_t pid;    /* in the PID namespace of the rank; 0: not taken yet */
  uint64_t start; /* of the process, see hd__process_start */
  hd_job_progress progress;
  int32_t threads;
  int32_t cpu[HD_MAX_THREADS]; /* that each thread is bound to; -1: none */
} hd_job_slot;

/* A rank's handle of the page. A zeroed one is allowed everywhere and does nothing. */
typedef struct hd_job_page {
  int fd;
  size_t bytes;
  hd_job_head *head; /* NULL: there is no page */
  hd_job_slot *slot;
  double window_s; /* begin of the measurement of speed, moved by pauses */
  double pause_s;  /* begin of the current pause */
  int64_t window_samples;
} hd_job_page;

/* Makes the page of a job and takes the slot of rank 0. Without memory files the page is a zeroed one: the job runs,
 * and heddle top does not show it. */
void hd__job_open(hd_job_page *page, int ranks, const hd_job_facts *facts);
/* Takes the slot of another rank on the page that process `pid` holds as its descriptor `fd`. */
void hd__job_join(hd_job_page *page, int pid, int fd, int rank);

void hd__job_close(hd_job_page *page);

/* Which CPU each thread is bound to. */
void hd__job_threads(hd_job_page *page, const int *cpu, int threads);

/* Sets the state of the rank. The speed is that of training only. */
void hd__job_enter(hd_job_page *page, int state);

/* A step of an epoch (from 0) is done: cheap enough for each. `samples` are those that this process trained so far. */
void hd__job_step(hd_job_page *page, int64_t step, int64_t epoch, int64_t samples, double loss);
