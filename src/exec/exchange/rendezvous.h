/* Rendezvous: how the ranks of a host find each other and form a local group.
 *
 * Ranks started by `heddle launch` have the group's memory file already. All others connect to a UNIX socket in the
 * abstract name space, whose name is derived from the user and from what the ranks have in common: a path, an
 * address, the number of a job. Rank 0 creates the group and sends the descriptor of its memory to the others. The
 * socket is closed when all ranks have connected, or with rank 0; no port is opened and no file made.
 *
 * Any user may hold such a name first. Both ends check the credentials of the peer process before they send
 * anything: rank 0 serves ranks of the same user only, and a rank sends nothing to, and accepts no descriptor from,
 * a process of another user. A name that another user holds is skipped: there are several, in a fixed order. The
 * memory file is checked before it is mapped; see hd__local_group_check_file.
 *
 * With ranks on several hosts MPI assigns ranks to hosts, and those of each host use this rendezvous; see cluster.h. */
#pragma once

#include "exec/exchange/local_group.h"

/* How bytes get from rank to rank: shared memory, MPI between hosts; ANY: MPI where there are several hosts. */
typedef enum hd_way { HD_WAY_ANY, HD_WAY_SHM, HD_WAY_MPI } hd_way;

typedef struct hd_rendezvous {
  const char *method; /* NULL or "env://", "file://PATH", "tcp://HOST:PORT" */
  int rank, ranks;    /* -1: from the environment */
  double timeout_s;
} hd_rendezvous;

/* Errors as for hd_group_init. */
hd_status hd__rendezvous(hd_local_group **out, hd_ctx *ctx, hd_way way, const hd_rendezvous *at);

/* What launchers put into the environment; `rank` and `ranks` are -1 where they are not given. */
typedef struct hd_start {
  int rank, ranks;
  bool is_given;             /* rank and number of ranks are set, to valid numbers or others */
  const char *by;            /* the launcher, "torchrun", ...; NULL: none */
  const char *rank_variable; /* the variable that holds the rank */
  const char *master;        /* the host of rank 0, where it may be another one; NULL: unknown, or this one */
  char key[512];             /* what ranks of one job have in common */
  bool has_mpi;              /* MPI_Init works in processes of this launcher */
  bool spans;                /* the ranks may be on several hosts */
} hd_start;

/* HD_E_USAGE: a variable holds no valid number; HD_E_UNSUPPORTED: ranks on several hosts, by a launcher without MPI. */
hd_status hd__start_read(hd_start *out, hd_ctx *ctx);

/* For ranks that are given their numbers: the key and the master alone, by torchrun's variables. */
void hd__start_read_name(hd_start *out);
