/* The fault that ended a run of several ranks: recorded once, in memory that all ranks and their parent share.
 *
 * A process that detects a fault writes it to its note, and then publishes the note by one compare-and-swap of one
 * word. If the process is killed before the swap, no fault is recorded and another process records one; after the
 * swap the note is complete. All processes read the same note and print the same line. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum hd_fault_kind {
  HD_FAULT_SIGNAL,  /* number: of the signal that ended a rank */
  HD_FAULT_EXIT,    /* number: its exit status; it had not left the run */
  HD_FAULT_GONE,    /* it ended in an unknown way */
  HD_FAULT_STOPPED, /* by SIGSTOP or the like; it may wake up */
  HD_FAULT_LATE,    /* it runs and has not reached a barrier; number: seconds */
  HD_FAULT_GAVE_UP, /* it cannot go on; text: the reason */
  HD_FAULT_SILENT,  /* the first rank of another host has sent nothing; number: seconds */
  HD_FAULT_ENDING,  /* likewise, while the launcher was ending the job */
  HD_FAULT_CUT,     /* likewise, with an error of the transport: text */
  HD_FAULT_PARENT   /* the process that started the ranks is gone; pid: of that process */
} hd_fault_kind;

enum { HD_FAULT_HOST_BYTES = 65, HD_FAULT_TEXT_BYTES = 1024, HD_FAULT_LINE_BYTES = 1536 };

typedef struct hd_fault {
  int32_t kind;
  int32_t rank;        /* in the local group; -1: on another host */
  int32_t global_rank; /* in the job */
  int32_t pid, number;
  int64_t step; /* the last complete step that any rank has counted; -1: none is counted */
  char host[HD_FAULT_HOST_BYTES];
  char text[HD_FAULT_TEXT_BYTES]; /* of GAVE_UP and CUT; "" in others */
} hd_fault;

typedef struct hd_fault_record {
  atomic_uint state; /* 0: no fault; else 1 + the number of the published note; barriers poll it */
  hd_fault note[];   /* one per writer, which alone writes it, and only before it is published */
} hd_fault_record;

size_t hd__fault_record_bytes(int writers);

/* Records a fault unless there is one; returns whether it did. A writer is a process, with one such call at a time. */
bool hd__fault_put(hd_fault_record *record, int writer, const hd_fault *fault);

/* Whether there is a fault; a copy of it, the same for all readers. */
bool hd__fault_get(hd_fault *out, const hd_fault_record *record, int writers);

/* "rank 2 (pid 77 on host) was killed by signal 9 (Killed) after step 512". */
const char *hd__fault_line(char line[HD_FAULT_LINE_BYTES], const hd_fault *fault);

/* The fault of a process that ended with this status of waitpid. */
void hd__fault_of_end(hd_fault *fault, int end);
