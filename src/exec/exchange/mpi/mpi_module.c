/* heddle-mpi.so: the transport between hosts over MPI, see exec/exchange/transport.h.
 *
 * The only file that uses MPI. Every rank of the job initialises it, as MPI requires; the ranks of a host share
 * memory, and mostly their leader does the transfers. Transfers are non-blocking sends and receives on a separate
 * communicator, under a lock: MPI_THREAD_SERIALIZED suffices. Sums are never formed by MPI, whose order of additions
 * is not heddle's. */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exchange/transport.h"

extern char **environ;

enum { MOST_BYTES = 1 << 30 }; /* MPI counts in int */

typedef struct piece {
  MPI_Request request;
  int bytes; /* to receive; -1: it is sent */
} piece;

struct hd_transfer {
  hd_transfer *next; /* in the list of unused ones */
  int32_t room, count;
  piece piece[];
};

static MPI_Comm all_ranks = MPI_COMM_NULL;
static bool initialized_here; /* then finalize ends MPI, too */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hd_transfer *unused; /* reused, so that steps allocate nothing */

static int failed(char *why, const char *what, int error) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  MPI_Error_string(error, text, &length);
  snprintf(why, HD_TRANSPORT_WHY_BYTES, "%s: %.200s", what, text);
  return -1;
}

/* Open MPI copies between two processes of one machine directly from the other's memory, and reports such a copy as
 * done when that process is gone. heddle does not need it: ranks of one machine share memory. */
static void choose_settings(void) {
  static char setting[] = "OMPI_MCA_btl_vader_single_copy_mechanism=none";
  static char **list; /* the new environment; the old one is not freed: other threads may be reading it */
  size_t count = 0;
  if (list || getenv("OMPI_MCA_btl_vader_single_copy_mechanism"))
    return;
  while (environ && environ[count])
    count++;
  list = calloc(count + 2, sizeof *list);
  if (!list)
    return;
  if (count > 0)
    memcpy(list, environ, count * sizeof *list);
  list[count] = setting;
  __atomic_store_n(&environ, list, __ATOMIC_RELEASE);
}

static int init(int32_t *rank, int32_t *ranks, char *why) {
  int is_there = 0, was_there = 0, level = MPI_THREAD_SINGLE, error = MPI_SUCCESS, r, n;
  MPI_Finalized(&was_there);
  if (was_there || all_ranks != MPI_COMM_NULL) {
    snprintf(why, HD_TRANSPORT_WHY_BYTES, "MPI was already started in this process, and it can start only once");
    return -1;
  }
  choose_settings();
  MPI_Initialized(&is_there);
  if (is_there)
    error = MPI_Query_thread(&level);
  else
    error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
  if (error != MPI_SUCCESS)
    return failed(why, "MPI cannot be initialised", error);
  initialized_here = !is_there;
  if (level < MPI_THREAD_SERIALIZED) {
    snprintf(why, HD_TRANSPORT_WHY_BYTES, "expected an MPI with MPI_THREAD_SERIALIZED, found level %d", level);
    return -1;
  }
  error = MPI_Comm_dup(MPI_COMM_WORLD, &all_ranks);
  if (error != MPI_SUCCESS)
    return failed(why, "MPI_Comm_dup", error);
  MPI_Comm_set_errhandler(all_ranks, MPI_ERRORS_RETURN);
  MPI_Comm_rank(all_ranks, &r);
  MPI_Comm_size(all_ranks, &n);
  *rank = r;
  *ranks = n;
  return 0;
}

/* Name and version from the library's description, "Open MPI v4.1.4" or "MPICH 4.0.2". */
static const char *name(void) {
  static char text[64];
  char whole[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(whole, &length);
  const char *number = strstr(whole, "Version:");
  if (number && !strncmp(whole, "MPICH", 5)) {
    number += strspn(number + 8, " \t") + 8;
    snprintf(text, sizeof text, "MPICH %.*s", (int)strcspn(number, " \t\n"), number);
  } else {
    snprintf(text, sizeof text, "%.*s", (int)strcspn(whole, ",\n"), whole);
  }
  return text;
}

static int gather(void *all, const void *input, int64_t bytes, char *why) {
  pthread_mutex_lock(&lock);
  const int error = MPI_Allgather(input, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, all_ranks);
  pthread_mutex_unlock(&lock);
  return error == MPI_SUCCESS ? 0 : failed(why, "MPI_Allgather", error);
}

static int32_t requests_of(const hd_transfer_part *part) {
  return part->bytes > 0 ? (int32_t)((part->bytes + MOST_BYTES - 1) / MOST_BYTES) : 1;
}

static int start_part(piece *at, const hd_transfer_part *part) {
  const int peer = part->peer == HD_TRANSPORT_ANY_RANK ? MPI_ANY_SOURCE : part->peer;
  char *data = part->data;
  int error = MPI_SUCCESS;
  for (int32_t i = 0; i < requests_of(part) && error == MPI_SUCCESS; i++, data += MOST_BYTES) {
    const int64_t rest = part->bytes - (int64_t)i * MOST_BYTES;
    const int bytes = (int)(rest < MOST_BYTES ? rest : MOST_BYTES);
    at[i].bytes = part->receives ? bytes : -1;
    error = part->receives ? MPI_Irecv(data, bytes, MPI_BYTE, peer, part->tag, all_ranks, &at[i].request)
                           : MPI_Isend(data, bytes, MPI_BYTE, peer, part->tag, all_ranks, &at[i].request);
  }
  return error;
}

/* A transfer with room for `requests`, an unused one if there is one. Under the lock. */
static hd_transfer *take(int32_t requests) {
  hd_transfer **at = &unused;
  while (*at && (*at)->room < requests)
    at = &(*at)->next;
  hd_transfer *t = *at;
  if (t) {
    *at = t->next;
  } else {
    t = malloc(sizeof *t + (size_t)requests * sizeof *t->piece);
    if (!t)
      return NULL;
    t->room = requests;
  }
  t->count = requests;
  for (int32_t i = 0; i < requests; i++)
    t->piece[i].request = MPI_REQUEST_NULL;
  return t;
}

static void keep(hd_transfer *t) {
  t->next = unused;
  unused = t;
}

/* Starts receives first: a message whose receive is posted needs no buffer. */
static int start(hd_transfer **out, const hd_transfer_part *parts, int32_t count, char *why) {
  int32_t requests = 0, used = 0;
  int error = MPI_SUCCESS;
  for (int32_t i = 0; i < count; i++)
    requests += requests_of(&parts[i]);
  pthread_mutex_lock(&lock);
  hd_transfer *t = take(requests);
  *out = t;
  if (!t) {
    pthread_mutex_unlock(&lock);
    snprintf(why, HD_TRANSPORT_WHY_BYTES, "out of memory for a transfer of %d parts", count);
    return -1;
  }
  for (int pass = 1; pass >= 0; pass--)
    for (int32_t i = 0; i < count && error == MPI_SUCCESS; i++) {
      if ((parts[i].receives != 0) != pass)
        continue;
      error = start_part(t->piece + used, &parts[i]);
      used += requests_of(&parts[i]);
    }
  pthread_mutex_unlock(&lock);
  if (error == MPI_SUCCESS)
    return 0;
  *out = NULL; /* some requests may be running: the transfer is not freed */
  return failed(why, "a send or a receive", error);
}

/* MPI reports a message that is too long, not one that is too short. */
static int test_piece(piece *at, int *done, int *short_by) {
  MPI_Status status;
  int got = at->bytes;
  *done = 1;
  if (at->request == MPI_REQUEST_NULL)
    return MPI_SUCCESS;
  int error = MPI_Test(&at->request, done, &status);
  if (error == MPI_SUCCESS && *done && at->bytes >= 0)
    error = MPI_Get_count(&status, MPI_BYTE, &got);
  *short_by += at->bytes - got;
  return error;
}

/* Ends what runs of it. Under the lock. */
static void cancel(hd_transfer *t) {
  for (int32_t i = 0; i < t->count; i++)
    if (t->piece[i].request != MPI_REQUEST_NULL) {
      MPI_Cancel(&t->piece[i].request);
      MPI_Request_free(&t->piece[i].request);
    }
  keep(t);
}

static int test(hd_transfer *t, char *why) {
  int done = 1, short_by = 0, error = MPI_SUCCESS;
  pthread_mutex_lock(&lock);
  for (int32_t i = 0; i < t->count && error == MPI_SUCCESS; i++) {
    int is_done;
    error = test_piece(&t->piece[i], &is_done, &short_by);
    done &= is_done;
  }
  if (error != MPI_SUCCESS || short_by > 0)
    cancel(t);
  else if (done)
    keep(t);
  pthread_mutex_unlock(&lock);
  if (error != MPI_SUCCESS)
    return failed(why, "a send or a receive", error);
  if (short_by == 0)
    return done;
  snprintf(why, HD_TRANSPORT_WHY_BYTES, "it sent %d bytes less than were expected; do all hosts make the same calls?",
           short_by);
  return -1;
}

static void drop(hd_transfer *t) {
  if (!t)
    return;
  pthread_mutex_lock(&lock);
  cancel(t);
  pthread_mutex_unlock(&lock);
}

static void end_all(int32_t code) { MPI_Abort(MPI_COMM_WORLD, code); }

static int finalize(char *why) {
  for (hd_transfer *t = unused, *next; t; t = next) {
    next = t->next;
    free(t);
  }
  unused = NULL;
  int error = MPI_Comm_free(&all_ranks);
  if (error == MPI_SUCCESS && initialized_here)
    error = MPI_Finalize();
  return error == MPI_SUCCESS ? 0 : failed(why, "MPI_Finalize", error);
}

extern const hd_transport hd_module_transport;

__attribute__((visibility("default"))) const hd_transport hd_module_transport = {.version = HD_TRANSPORT_VERSION,
                                                                                 .init = init,
                                                                                 .name = name,
                                                                                 .gather = gather,
                                                                                 .start = start,
                                                                                 .test = test,
                                                                                 .drop = drop,
                                                                                 .abort = end_all,
                                                                                 .finalize = finalize};
