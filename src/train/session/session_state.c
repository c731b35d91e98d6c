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

void hd__session_note_gpu_sums(hd_session *s) {
  const char *text = hd__exec_gpu_sums(s->compute.exec);
  const bool tree = !strcmp(text, "tree");
  s->report.facts.gpu_sums = tree ? HD_GPU_SUMS_TREE : *text ? HD_GPU_SUMS_NCCL : HD_GPU_SUMS_NONE;
  s->report.facts.nccl = tree ? "" : text;
}

const char *hd__session_isa(const hd_session *s) {
  return s->compute.cuda ? s->compute.cuda->arch : s->compute.kernels->isa;
}

int64_t hd__session_bytes(const hd_session *s) {
  return (int64_t)s->compute.store->segment.bytes + hd__exec_bytes(s->compute.exec) +
         hd__exec_bytes(s->compute.eval_exec) + s->checkpoints.saver.bytes;
}
