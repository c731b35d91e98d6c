/* A transport between hosts with a set delay and bandwidth, for bench/scaling_model, which compares runs with its
 * table.
 *
 * It is a module like src/exec/exchange/mpi and wraps the one that HEDDLE_DELAYED_MODULE names. What arrives at a
 * process passes a link of HEDDLE_DELAYED_GBIT gigabits a second, one transfer after the other, and counts as
 * arrived HEDDLE_DELAYED_US microseconds later. Sending costs nothing more: links carry both ways at once. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "exec/exchange/transport.h"

struct hd_transfer {
  hd_transfer *inner; /* NULL: it has arrived, */
  int64_t done_ns;    /* and counts from then on */
  int64_t bytes;      /* that are received */
  int receives;
};

static const hd_transport *real;
static double latency_ns, ns_per_byte;
static int64_t free_ns; /* when the link has carried what came so far */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double number_of(const char *variable) {
  const char *text = getenv(variable);
  return text ? atof(text) : 0;
}

static int init(int32_t *rank, int32_t *ranks, char *why) {
  const char *path = getenv("HEDDLE_DELAYED_MODULE");
  const double gbit = number_of("HEDDLE_DELAYED_GBIT");
  void *module = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  real = module ? dlsym(module, HD_TRANSPORT_SYMBOL) : NULL;
  if (!real) {
    snprintf(why, HD_TRANSPORT_WHY_BYTES, "expected a transport to delay in HEDDLE_DELAYED_MODULE, found %.150s",
             path ? path : "nothing");
    return -1;
  }
  latency_ns = 1e3 * number_of("HEDDLE_DELAYED_US");
  ns_per_byte = gbit > 0 ? 8 / gbit : 0;
  return real->init(rank, ranks, why);
}

static const char *name(void) { return real->name(); }

static int gather(void *all, const void *of_host, int64_t bytes, char *why) {
  return real->gather(all, of_host, bytes, why);
}

static int start(hd_transfer **out, const hd_transfer_part *parts, int32_t count, char *why) {
  hd_transfer *t = calloc(1, sizeof *t);
  *out = t;
  if (!t) {
    snprintf(why, HD_TRANSPORT_WHY_BYTES, "out of memory for a delayed transfer");
    return -1;
  }
  for (int32_t i = 0; i < count; i++) {
    t->receives |= parts[i].receives;
    t->bytes += parts[i].receives ? parts[i].bytes : 0;
  }
  if (real->start(&t->inner, parts, count, why) == 0)
    return 0;
  free(t);
  *out = NULL;
  return -1;
}

/* It has come to this end of the link: when it is through, and counts. */
static void arrive(hd_transfer *t) {
  const int64_t now = now_ns();
  t->inner = NULL;
  pthread_mutex_lock(&lock);
  free_ns = (free_ns > now ? free_ns : now) + (int64_t)((double)t->bytes * ns_per_byte);
  t->done_ns = t->receives ? free_ns + (int64_t)latency_ns : now;
  pthread_mutex_unlock(&lock);
}

static int test(hd_transfer *t, char *why) {
  if (t->inner) {
    const int moved = real->test(t->inner, why);
    if (moved <= 0)
      return moved;
    arrive(t);
  }
  if (now_ns() < t->done_ns)
    return 0;
  free(t);
  return 1;
}

static void drop(hd_transfer *t) {
  if (t && t->inner)
    real->drop(t->inner);
  free(t);
}

static void end_all(int32_t code) { real->abort(code); }

static int finalize(char *why) { return real->finalize(why); }

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
