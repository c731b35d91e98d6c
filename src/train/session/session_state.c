/* Reading a session's state: see session_state.h. */
#include "train/session/session_state.h"

#include "exec/exchange/cluster.h"
#include "exec/gpu/device/cuda_products.h"
#include "platform/clock.h"
#include "train/session/run_plan.h"

bool hd__session_writes(const hd_session *s) { return hd__cluster_rank(s->compute.local) == 0; }

double hd__session_train_s(const hd_session *s) { return s->run.train_s + (hd__clock_s() - s->run.region_s); }

void hd__session_event(hd_session *s, const hd_event *event) {
  if (s->report.on_event)
    s->report.on_event(s->report.user, event);
}

const char *hd__session_library(const hd_session *s) {
  if (!s->compute.cuda)
    return hd__planned_library(s->run.config);
  return s->compute.cuda->native ? hd__cuda_native_name(s->compute.cuda->native) : "";
}

const char *hd__session_isa(const hd_session *s) {
  return s->compute.cuda ? s->compute.cuda->arch : s->compute.kernels->isa;
}

int64_t hd__session_bytes(const hd_session *s) {
  return (int64_t)s->compute.store->segment.bytes + hd__exec_bytes(s->compute.exec) +
         hd__exec_bytes(s->compute.eval_exec) + s->checkpoints.saver.bytes;
}
