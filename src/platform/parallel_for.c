/* Parallel loops: see parallel_for.h. The assignment of ranges to threads depends on timing, so results must not depend
 * on it. */
#include "platform/parallel_for.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "platform/openmp_binding.h"
#include "platform/thread_start.h"

enum { MOST_THREADS = 64 };

typedef struct loop {
  int64_t count, grain;
  void (*work)(void *arg, int64_t first, int64_t end);
  void *arg;
  atomic_llong next;
} loop;

static void *take_ranges(void *arg) {
  loop *l = arg;
  for (;;) {
    const int64_t first = atomic_fetch_add_explicit(&l->next, l->grain, memory_order_relaxed);
    if (first >= l->count)
      return NULL;
    l->work(l->arg, first, l->count - first < l->grain ? l->count : first + l->grain);
  }
}

static int64_t threads_for(int64_t ranges) {
  hd_cpu_set allowed;
  const char *text = getenv("OMP_NUM_THREADS"); /* a list, of which the first counts; placement.c checks it */
  const int wanted = text ? atoi(text) : 0;
  int64_t most = hd__openmp_unbound(&allowed) ? hd__cpu_set_count(&allowed) : 1;
  if (wanted >= 1)
    most = wanted;
  if (most > MOST_THREADS)
    most = MOST_THREADS;
  return ranges < most ? ranges : most;
}

void hd__parallel_for(int64_t count, int64_t grain, void (*work)(void *arg, int64_t first, int64_t end), void *arg) {
  loop l = {.count = count, .grain = grain, .work = work, .arg = arg};
  hd_thread more[MOST_THREADS];
  const int64_t threads = threads_for((count + grain - 1) / grain);
  int started = 0;
  while (started < threads - 1 && hd__thread_start(&more[started], take_ranges, &l) == 0)
    started++;
  take_ranges(&l);
  for (int i = 0; i < started; i++)
    hd__thread_join(&more[i]);
}
