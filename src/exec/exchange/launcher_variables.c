/* The environment variables of launchers, as a table, and reading them. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "exec/exchange/rendezvous.h"

enum { MOST_NAMES = 4 };

typedef struct launcher {
  const char *by;
  const char *rank, *ranks, *local_ranks, *hosts; /* NULL: no such variable */
  const char *job[MOST_NAMES];
  bool job_is_parent; /* where no variable names the job, the parent's pid does */
  bool has_mpi;
} launcher;

static const launcher launchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_WORLD_SIZE",
     NULL,
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     false,
     false},
    {"Open MPI's mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     true,
     true},
    {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, {"PMI_ID_OF_JOB"}, true, true},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     NULL,
     "SLURM_STEP_NUM_NODES",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     true,
     true}};

static const char *value_of(const char *name) {
  const char *value = name ? getenv(name) : NULL;
  return value && *value ? value : NULL;
}

/* A number of at least `least`; `fallback` where the variable is not set. */
static hd_status read_number(int *out, hd_ctx *ctx, const char *name, int least, int fallback) {
  const char *text = value_of(name);
  char *end;
  *out = fallback;
  if (!text)
    return HD_OK;
  errno = 0;
  const long number = strtol(text, &end, 10);
  if (*end || errno || number < least || number > INT_MAX)
    return hd__fail(ctx, HD_E_USAGE, "expected a number of %d or more in %s, found '%.40s'; correct it or unset it",
                    least, name, text);
  *out = (int)number;
  return HD_OK;
}

static void make_key(hd_start *start, const launcher *l) {
  bool named = false;
  size_t at = (size_t)snprintf(start->key, sizeof start->key, "%s", l->by);
  for (int i = 0; i < MOST_NAMES && at < sizeof start->key; i++) {
    const char *value = value_of(l->job[i]);
    named |= value != NULL;
    at += (size_t)snprintf(start->key + at, sizeof start->key - at, "|%.100s", value ? value : "");
  }
  if (!named && l->job_is_parent && at < sizeof start->key)
    snprintf(start->key + at, sizeof start->key - at, "|%d", (int)getppid());
}

static hd_status several_hosts(hd_ctx *ctx, const hd_start *start, const char *what, int number) {
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "expected all %d ranks on this host, found %s=%d: a run that spans hosts needs MPI; start the ranks "
                  "with `mpirun -n %d PROGRAM`, or all of them on one host",
                  start->ranks, what, number, start->ranks);
}

/* With an empty name a rank would count itself to this host, and wait for ranks that wait for it over MPI. */
static hd_status check_host_id(hd_ctx *ctx, const hd_start *start) {
  const char *name = getenv("HEDDLE_HOST_ID");
  if (!start->has_mpi || !name || *name)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_USAGE,
      "HEDDLE_HOST_ID expects the name of a host, found an empty one in rank %d; set it on all ranks, or on "
      "none",
      start->rank);
}

static hd_status read_launcher(hd_start *out, hd_ctx *ctx, const launcher *l) {
  int local, hosts;
  out->by = l->by;
  out->rank_variable = l->rank;
  out->is_given = value_of(l->rank) && value_of(l->ranks);
  HD_TRY(read_number(&out->rank, ctx, l->rank, 0, -1));
  HD_TRY(read_number(&out->ranks, ctx, l->ranks, 1, -1));
  HD_TRY(read_number(&local, ctx, l->local_ranks, 1, -1));
  HD_TRY(read_number(&hosts, ctx, l->hosts, 1, -1));
  make_key(out, l);
  if (out->rank < 0 || out->ranks < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected %s and %s in the environment, found only %s; set the other one too",
                    l->rank, l->ranks, out->rank < 0 ? l->ranks : l->rank);
  if (out->rank >= out->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected %s from 0 to %d, as %s is %d, found %d; correct one of them", l->rank,
                    out->ranks - 1, l->ranks, out->ranks, out->rank);
  out->has_mpi = l->has_mpi;
  HD_TRY(check_host_id(ctx, out));
  out->spans = hosts > 1 || (local > 0 && local != out->ranks) || (l->has_mpi && value_of("HEDDLE_HOST_ID"));
  if (local < 0 && !l->has_mpi)
    out->master = value_of("MASTER_ADDR");
  if (out->spans && !l->has_mpi)
    return several_hosts(ctx, out, l->local_ranks, local);
  return HD_OK;
}

void hd__start_read_name(hd_start *out) {
  make_key(out, &launchers[0]);
  out->master = value_of("MASTER_ADDR");
}

hd_status hd__start_read(hd_start *out, hd_ctx *ctx) {
  *out = (hd_start){.rank = -1, .ranks = -1};
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    if (value_of(launchers[i].rank) && value_of(launchers[i].ranks))
      return read_launcher(out, ctx, &launchers[i]);
  return value_of("RANK") || value_of("WORLD_SIZE") ? read_launcher(out, ctx, &launchers[0]) : HD_OK;
}
