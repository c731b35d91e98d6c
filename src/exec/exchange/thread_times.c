/* Size and reading of time accounts: see thread_times.h. */
#include "exec/exchange/thread_times.h"

#include <stddef.h>

int64_t hd__tally_bytes(int ranks) {
  const int64_t align = _Alignof(hd_tally);
  const int64_t bytes = (int64_t)offsetof(hd_tally, for_ns) + ranks * (int64_t)sizeof(int64_t);
  return (bytes + align - 1) / align * align;
}

void hd__tally_add(int64_t *sum, const hd_tally *tally, int ranks) {
  for (int i = 0; i < HD_SPENT_KINDS; i++)
    sum[i] += atomic_load_explicit(&tally->spent_ns[i], memory_order_relaxed);
  for (int r = 0; r < ranks; r++)
    sum[HD_SPENT_KINDS + r] += atomic_load_explicit(&tally->for_ns[r], memory_order_relaxed);
}
