/* How the ranks of a host find each other, and become a world.
 *
 * Who was started by `heddle launch` has the world's memory file already. All others meet at a UNIX socket in the
 * abstract name space, whose name is made of the user and of what the ranks have in common: a path, an address, the
 * number of a job. Rank 0 makes the world and hands the descriptor of its memory to the others, who must be processes
 * of the same user. The socket is gone when all have come, or with rank 0; no port is opened and no file made. */
#ifndef HD_COMM_RENDEZVOUS_H
#define HD_COMM_RENDEZVOUS_H

#include "comm/world.h"

/* `method`: NULL or "env://", "file://PATH", "tcp://HOST:PORT"; rank and ranks -1: from the environment. Errors as
 * hd_group_init tells. */
hd_status hd__rendezvous(hd_world **out, hd_ctx *ctx, const char *method, int rank, int ranks, double timeout_s);

/* What the environment says; `rank` and `ranks` are -1 where it says nothing. */
typedef struct hd_start {
  int rank, ranks;
  const char *by;            /* "torchrun", ...; NULL: nobody */
  const char *rank_variable; /* where the rank stands */
  char key[512];             /* what ranks of one job have in common */
} hd_start;

/* HD_E_USAGE: numbers that are none; HD_E_UNSUPPORTED: ranks on several hosts. */
hd_status hd__start_read(hd_start *out, hd_ctx *ctx);

#endif
