/* What ended a run of several ranks: written once, into memory that all of them and their parent share.
 *
 * The first who notices writes it; all others read it, and say the same line. */
#ifndef HD_COMM_FAULT_H
#define HD_COMM_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum hd_fault_kind {
  HD_FAULT_SIGNAL,  /* number: of the signal that ended a rank */
  HD_FAULT_EXIT,    /* number: its exit status, without having left the run */
  HD_FAULT_GONE,    /* it ended, nobody knows how */
  HD_FAULT_STOPPED, /* by SIGSTOP or the like; it may wake up */
  HD_FAULT_LATE,    /* it lives and has not come to a meeting; number: seconds */
  HD_FAULT_GAVE_UP, /* it said why: text */
  HD_FAULT_SILENT,  /* the first rank of another host: not heard of; number: seconds */
  HD_FAULT_ENDING,  /* likewise, while the launcher was ending the job */
  HD_FAULT_CUT,     /* likewise, the transport says why: text */
  HD_FAULT_PARENT   /* who started the ranks is gone; pid: who it was */
} hd_fault_kind;

enum { HD_FAULT_HOST_BYTES = 65, HD_FAULT_TEXT_BYTES = 1024, HD_FAULT_LINE_BYTES = 1536 };

typedef struct hd_fault {
  int32_t kind;
  int32_t rank;  /* in the world; -1: on another host */
  int32_t named; /* in the job */
  int32_t pid, number;
  int64_t step; /* the last whole step that any rank has counted; -1: it counts none */
  char host[HD_FAULT_HOST_BYTES];
  char text[HD_FAULT_TEXT_BYTES]; /* of GAVE_UP and CUT; "" in others */
} hd_fault;

typedef struct hd_fault_box {
  atomic_uint state; /* 0: nothing; what meetings look at */
  hd_fault fault;
} hd_fault_box;

/* Puts a fault into a box unless there is one; says whether it did. */
bool hd__fault_put(hd_fault_box *box, const hd_fault *fault);

/* Whether there is a fault; a copy of it. Waits for who is writing it, for a moment. */
bool hd__fault_get(hd_fault *out, hd_fault_box *box);

/* "rank 2 (pid 77 on host) was killed by signal 9 (Killed) after step 512". */
const char *hd__fault_line(char line[HD_FAULT_LINE_BYTES], const hd_fault *fault);

/* The fault of a process that ended as waitpid says. */
void hd__fault_of_end(hd_fault *fault, int end);

#endif
