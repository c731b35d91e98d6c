/* The average of weights, kept beside each version of them: an exponential moving average, or the slow weights of
 * lookahead, which become the weights every few steps (executor.h: hd_step). Code that writes elements of a new version
 * calls this for them afterwards, so an average has the same owners as the weights. */
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"

void hd__exec_average(const thread_at *at, int64_t first, int64_t count) {
  const hd_store *store = at->exec->store;
  const size_t bytes = (size_t)count * sizeof(float);
  const float share = at->step->average_share;
  if (!at->exec->plan->update.averages)
    return;
  float *w1 = store->weights[1 - at->buffer] + first, *now = store->average[1 - at->buffer] + first;
  const float *old = store->average[at->buffer] + first;
  if (share > 0 && share < 1)
    at->exec->plan->kernels->average(now, old, w1, share, count);
  else
    memcpy(now, share > 0 ? w1 : old, bytes);
  if (at->step->average_replaces)
    memcpy(w1, now, bytes);
}
