/* How the ranks of a host find each other, and become a world.
 *
 * Who was started by `heddle launch` has the world's memory file already. All others meet at a UNIX socket in the
 * abstract name space, whose name is made of the user and of what the ranks have in common: a path, an address, the
 * number of a job. Rank 0 makes the world and hands the descriptor of its memory to the others, who must be processes
 * of the same user. The socket is gone when all have come, or with rank 0; no port is opened and no file made.
 *
 * Where ranks live on several hosts MPI tells who is where, and those of each host meet like that; see hosts.h. */
#ifndef HD_COMM_RENDEZVOUS_H
#define HD_COMM_RENDEZVOUS_H

#include "comm/world.h"

/* How bytes get from rank to rank: shared memory, MPI between hosts, or the latter where it is needed. */
typedef enum hd_way { HD_WAY_ANY, HD_WAY_SHM, HD_WAY_MPI } hd_way;

/* `method`: NULL or "env://", "file://PATH", "tcp://HOST:PORT"; rank and ranks -1: from the environment. Errors as
 * hd_group_init tells. */
hd_status hd__rendezvous(hd_world **out, hd_ctx *ctx, hd_way way, const char *method, int rank, int ranks,
                         double timeout_s);

/* What the environment says; `rank` and `ranks` are -1 where it says nothing. */
typedef struct hd_start {
  int rank, ranks;
  const char *by;            /* "torchrun", ...; NULL: nobody */
  const char *rank_variable; /* where the rank stands */
  const char *master;        /* the host of rank 0, where it may be another one; NULL: not said, or this one */
  char key[512];             /* what ranks of one job have in common */
  bool has_mpi;              /* MPI_Init works in what it starts */
  bool spans;                /* the ranks live on several hosts, for all it says */
} hd_start;

/* HD_E_USAGE: numbers that are none; HD_E_UNSUPPORTED: ranks on several hosts, by a launcher without MPI. */
hd_status hd__start_read(hd_start *out, hd_ctx *ctx);

#endif
