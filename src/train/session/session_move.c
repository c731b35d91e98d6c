/* Moving a session between devices: new plans, store and executors for the new device, and the last whole version
 * copied into them, parameter by parameter, since the two devices' plans may pack differently. The old ones are
 * destroyed after that. */
#include "train/session/session.h"

#include <stdio.h>
#include <string.h>

#include "train/session/device_open.h"
#include "train/settings/run_record.h"

typedef struct equipment {
  hd_cuda *cuda;
  hd_plan *plan, *eval_plan;
  hd_store *store;
  hd_exec *exec, *eval_exec;
} equipment;

static equipment equipment_of(const hd_session *s) {
  return (equipment){s->compute.cuda,  s->compute.plan, s->compute.eval_plan,
                     s->compute.store, s->compute.exec, s->compute.eval_exec};
}

static void equip_with(hd_session *s, const equipment *e) {
  s->compute.cuda = e->cuda;
  s->compute.plan = e->plan;
  s->compute.eval_plan = e->eval_plan;
  s->compute.store = e->store;
  s->compute.exec = e->exec;
  s->compute.eval_exec = e->eval_exec;
}

static void destroy(const equipment *e) {
  hd__exec_destroy(e->exec);
  hd__exec_destroy(e->eval_exec);
  hd__cuda_close(e->cuda);
  hd__store_destroy(e->store);
  hd__plan_destroy(e->plan);
  hd__plan_destroy(e->eval_plan);
}

static void copy_version(hd_store *to, const hd_plan *plan, const hd_store *from) {
  const int buffer = hd__store_buffer(from);
  hd__store_set_version(to, hd__store_version(from));
  for (int i = 0; i < from->directory->entries; i++) {
    const hd_store_entry *source = &from->directory->entry[i], *sink = &to->directory->entry[i];
    const size_t bytes = (size_t)hd__store_entry_elems(source) * sizeof(float);
    if (source->same_as >= 0)
      continue;
    memcpy(to->weights[buffer] + sink->offset, from->weights[buffer] + source->offset, bytes);
    for (int s = 0; source->trained && s < from->directory->states; s++)
      memcpy(to->state[buffer][s] + sink->offset, from->state[buffer][s] + source->offset, bytes);
  }
  hd__store_pack(to, plan);
}

/* Refuses a session with a profile, whose tracks belong to one device, or with several ranks, which share a store. */
static hd_status check_movable(const hd_session *s, hd_ctx *ctx) {
  if (s->compute.local)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a session of one process to move, found one of several ranks; create it on the device");
  if (s->run.settings->arithmetic != HD_ARITHMETIC_PORTABLE)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a session of portable arithmetic to move, found native, whose numbers differ between "
                    "devices; create it on the device");
  if (s->report.profiler.trace)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a session without the option profile to move, found one; create it on the device");
  return HD_OK;
}

static hd_status note_device(hd_session *s, hd_ctx *ctx) {
  snprintf(s->report.device, sizeof s->report.device, s->compute.cuda ? "cuda:%d" : "cpu",
           s->compute.cuda ? s->compute.cuda->index : 0);
  s->report.facts.isa = hd__session_isa(s);
  s->report.facts.memory_bytes = hd__session_bytes(s);
  s->report.facts.gpu_memory = NULL;
  s->report.facts.gpus = 0;
  hd__session_note_gpu_sums(s);
  s->report.rank_times.exec = s->compute.exec;
  s->checkpoints.saver.store = s->checkpoints.saver.store ? s->compute.store : NULL;
  HD_TRY(hd__gpu_accounts_gather(&s->report.gpu_memory, ctx, s->compute.local, s->compute.cuda));
  return hd__record_note_device(s->run.record, ctx, s->report.device, s->report.facts.isa);
}

hd_status hd__session_move(hd_session *s, hd_ctx *ctx, hd_cuda *cuda) {
  const equipment before = equipment_of(s);
  hd_status status = check_movable(s, ctx);
  HD_THEN(status, hd__saver_wait(&s->checkpoints.saver, ctx));
  if (status != HD_OK) {
    hd__cuda_close(cuda);
    return status;
  }
  equip_with(s, &(equipment){.cuda = cuda});
  status = hd__session_equip(s, ctx, (int32_t)s->report.facts.shards);
  if (status != HD_OK) {
    const equipment incomplete = equipment_of(s);
    equip_with(s, &before);
    destroy(&incomplete);
    return status;
  }
  copy_version(s->compute.store, s->compute.plan, before.store);
  destroy(&before);
  return note_device(s, ctx);
}

hd_device hd_session_device(const hd_session *s) {
  return s->compute.cuda ? (hd_device){HD_CUDA, s->compute.cuda->index} : (hd_device){HD_CPU, 0};
}

hd_status hd_session_to(hd_session *s, hd_ctx *ctx, hd_device device) {
  const hd_device here = hd_session_device(s);
  char text[HD_DEVICE_TEXT_BYTES];
  hd_cuda *cuda;
  if (here.kind == device.kind && (here.kind == HD_CPU || (here.index == device.index && !s->compute.cuda->next)))
    return HD_OK;
  HD_TRY(hd__device_open_named(&cuda, ctx, s->run.config, hd_device_text(text, device)));
  return hd__session_move(s, ctx, cuda);
}
