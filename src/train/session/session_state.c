/* Reading a session's state: see session_state.h. */
#include "train/session/session_state.h"

#include "exec/exchange/cluster.h"
#include "exec/gpu/device/cuda_products.h"
#include "platform/clock.h"
#include "train/session/run_plan.h"

bool hd__session_writes(const hd_session *s) { return hd__cluster_rank(s->local) == 0; }

double hd__session_train_s(const hd_session *s) { return s->train_s + (hd__clock_s() - s->region_s); }

void hd__session_event(hd_session *s, const hd_event *event) {
  if (s->on_event)
    s->on_event(s->user, event);
}

const char *hd__session_library(const hd_session *s) {
  if (!s->cuda)
    return hd__planned_library(s->config);
  return s->cuda->native ? hd__cuda_native_name(s->cuda->native) : "";
}

const char *hd__session_isa(const hd_session *s) { return s->cuda ? s->cuda->arch : s->kernels->isa; }

int64_t hd__session_bytes(const hd_session *s) {
  return (int64_t)s->store->segment.bytes + hd__exec_bytes(s->exec) + hd__exec_bytes(s->eval_exec) + s->saver.bytes;
}
