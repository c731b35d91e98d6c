/* Starting a program as several ranks of one run, and supervising them.
 *
 *     hd_launch_result result = {.struct_bytes = sizeof result};
 *     char *argv[] = {"heddle", "train", "--data", "mnist", NULL};
 *     hd_launch_settings settings = {.struct_bytes = sizeof settings, .ranks = 4, .argv = argv};
 *     hd_launch(&result, ctx, &settings);
 *
 * Each rank finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment,
 * and shared memory at descriptor 3. No port is opened and no file is made. The launching process is no rank: when a
 * rank is lost, for any reason, the others end within a second, and the launcher saves the last complete step of
 * their training. After a signal that stops `heddle train`, ranks that are still saving have a minute.
 *
 * On several hosts the ranks are started by mpirun of Open MPI or MPICH: they get its environment, and handle a lost
 * rank themselves. */
#ifndef HEDDLE_LAUNCH_H
#define HEDDLE_LAUNCH_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_LAUNCH_PATH_BYTES = 4096, HD_LAUNCH_TEXT_BYTES = 1024 };

/* Called with one line for each event: a lost rank, an emergency save, a restart. */
typedef void hd_launch_note_fn(void *user, const char *line);

typedef struct hd_launch_settings {
  size_t struct_bytes; /* sizeof(hd_launch_settings) */
  int32_t ranks;       /* 1 to 1024 */
  char *const *argv;   /* program and arguments, ends with NULL; searched in PATH. NULL: this program again */
  const char *hosts; /* NULL: this one. "node1:2,node2:2": mpirun starts two ranks on each; ranks is 0, or their sum */
  int32_t max_restarts; /* how often all ranks are started again after one was lost */
  /* A signal handler writes the number of a signal here to have it sent to all ranks; NULL: none is sent. */
  volatile sig_atomic_t *signal;
  hd_launch_note_fn *note; /* may be NULL */
  void *user;
} hd_launch_settings;

typedef struct hd_launch_result {
  size_t struct_bytes; /* sizeof(hd_launch_result) */
  int32_t exit_code;   /* 0, or that of the rank that failed first: 128 + the signal's number if one ended it */
  int32_t failed_rank; /* the rank that failed first; -1: none */
  int32_t restarts;    /* their number */
  int64_t saved_step;  /* of the run below; -1: there was nothing to save */
  char run[HD_LAUNCH_PATH_BYTES]; /* the run's folder */
} hd_launch_result;

/* Starts the ranks, waits for their end, and fills in the result. HD_OK: all ended with 0. HD_E_PEER: one did not,
 * the message names it and how it ended. HD_E_USAGE, HD_E_NOMEM, HD_E_SYSTEM, HD_E_UNSUPPORTED (no mpirun): the
 * ranks could not be started; none is left running then. Thread safety: any thread; other threads may meanwhile wait
 * for other children, by their numbers. */
HD_API hd_status hd_launch(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *settings);

/* Whether this process was started as a rank, by heddle, torchrun, mpirun or srun: fills in its rank and the number
 * of ranks. 0, rank 0 of 1, if it was not. Variables that hold no valid numbers, as RANK=2 of WORLD_SIZE=2, are those
 * of a rank, too: joining a group names what is wrong. One of the two alone is not. */
HD_API int hd_launched(int32_t *rank, int32_t *ranks);

/* As torch.multiprocessing.spawn: starts this program again as `ranks` ranks, with the arguments of this process. In
 * a rank it returns at once with the number in *rank. In the calling process it returns when all ranks have ended,
 * with *rank -1 and the status of hd_launch. */
HD_API hd_status hd_spawn(int32_t *rank, hd_ctx *ctx, int32_t ranks);

/* Optional; must be the first call in main(). Ranks that mpirun, srun or a user starts run without a supervisor, and
 * when one is lost some launchers kill all others at once. With this call the first rank of a run starts this
 * program once more, as the run's supervisor: it holds the ranks' memory, and when they have ended and one of them
 * has failed, it saves the last complete step, and reports that on standard error. In that process the call does not
 * return. `heddle train` makes the call; without it the remaining ranks save, if they are given the time. */
HD_API void hd_supervisor(void);

#ifdef __cplusplus
}
#endif
#endif
