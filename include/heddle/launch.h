/* Starting a program as several ranks of one run on this host, and looking after them.
 *
 *     hd_launch_result result;
 *     char *argv[] = {"heddle", "train", "--data", "mnist", NULL};
 *     hd_launch(&result, ctx, &(hd_launch_settings){.ranks = 4, .argv = argv});
 *
 * Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment, and
 * memory that all of them share at descriptor 3. No port is opened and no file is made. Whoever launches is no rank:
 * when one is lost, however it ended, the others end within a second, and the last whole step of a run that they
 * trained is saved. Where ranks of `heddle train` were told to stop by a signal, those that still save have a minute.
 *
 * On several hosts mpirun starts the ranks, Open MPI's or MPICH's: its own environment is theirs, and they see to
 * themselves when one is lost. */
#ifndef HEDDLE_LAUNCH_H
#define HEDDLE_LAUNCH_H

#include <signal.h>
#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_LAUNCH_PATH_BYTES = 4096, HD_LAUNCH_TEXT_BYTES = 1024 };

/* What happens on the way, one line each: a rank that was lost, what was saved, a restart. */
typedef void hd_launch_note_fn(void *user, const char *line);

typedef struct hd_launch_settings {
  int32_t ranks;     /* 1 to 1024 */
  char *const *argv; /* program and arguments, ends with NULL; looked for in PATH. argv NULL: this very program again */
  const char
      *hosts; /* NULL: this one. "node1:2,node2:2": mpirun starts two ranks on each; ranks is 0, or their number */
  int32_t max_restarts; /* how often all ranks are started again after one was lost */
  /* A signal's number is passed on to all ranks when a handler writes it here; NULL: none is. */
  volatile sig_atomic_t *signal;
  hd_launch_note_fn *note; /* may be NULL */
  void *user;
} hd_launch_settings;

typedef struct hd_launch_result {
  int32_t exit_code;   /* 0, or that of the rank that failed first: 128 + the signal's number if one ended it */
  int32_t failed_rank; /* which; -1: none */
  int32_t restarts;    /* that were needed */
  int64_t saved_step;  /* of the run below; -1: there was nothing to save */
  char run[HD_LAUNCH_PATH_BYTES]; /* its folder */
} hd_launch_result;

/* Starts the ranks, waits for their end, and fills in the result. HD_OK: all ended with 0. HD_E_PEER: one did not, the
 * message says which and how. HD_E_USAGE, HD_E_NOMEM, HD_E_SYSTEM, HD_E_UNSUPPORTED (no mpirun): they could not be
 * started; none is left behind then.
 * Thread safety: any thread; other threads may wait for children of their own meanwhile, by their numbers. */
HD_API hd_status hd_launch(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *settings);

/* Whether this process was started as a rank, by heddle, torchrun, mpirun or srun: fills in which one, and of how many.
 * 0, rank 0 of 1, if it was not. */
HD_API int hd_launched(int32_t *rank, int32_t *ranks);

/* As torch.multiprocessing.spawn: starts this very program again as so many ranks, with the arguments that this process
 * was started with. In each rank *rank is its number, at once. Where it was called first it returns when all ranks have
 * ended, *rank is -1, and the status is that of hd_launch. */
HD_API hd_status hd_spawn(int32_t *rank, hd_ctx *ctx, int32_t ranks);

/* The first call in main(), where there is one. Ranks that mpirun, srun or a user starts have nobody behind them, and
 * when one is lost some launchers kill all others at once. After this call the first rank of a run starts this program
 * once more, as the run's keeper: it holds the ranks' memory, and when they have ended, not all in good order, it saves
 * the last whole step, and says so on standard error. In that process the call does not return. `heddle train` makes it;
 * without it ranks that are left save, if they are given the time. */
HD_API void hd_keeper(void);

#ifdef __cplusplus
}
#endif
#endif
