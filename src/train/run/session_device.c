/* Moving a session between devices, and the choice of --device auto.
 *
 * Moving makes new plans, store and executors for the new device, and copies the last whole version into them,
 * parameter by parameter, since the two devices' plans may pack differently. The old ones are destroyed after that. */
#include "train/run/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rounding.h"
#include "platform/clock.h"
#include "train/run/kept_features.h"
#include "train/run/rehearsal.h"
#include "train/settings/run_record.h"

static void copy_version(hd_store *to, const hd_plan *plan, const hd_store *from) {
  const int buffer = hd__store_buffer(from);
  hd__store_set_version(to, hd__store_version(from));
  for (int i = 0; i < from->directory->entries; i++) {
    const hd_store_entry *source = &from->directory->entry[i], *sink = &to->directory->entry[i];
    const size_t bytes = (size_t)hd__store_entry_elems(source) * sizeof(float);
    if (source->same_as >= 0)
      continue;
    memcpy(to->weights[buffer] + sink->offset, from->weights[buffer] + source->offset, bytes);
    if (from->average[buffer])
      memcpy(to->average[buffer] + sink->offset, from->average[buffer] + source->offset, bytes);
    for (int s = 0; source->trained && s < from->directory->states; s++)
      memcpy(to->state[buffer][s] + sink->offset, from->state[buffer][s] + source->offset, bytes);
  }
  hd__store_pack(to, plan, NULL);
}

/* Refuses a session with a profile, whose tracks belong to one device, or with several ranks, which share a store. */
static hd_status check_movable(const hd_session *s, hd_ctx *ctx) {
  if (s->compute.local)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "only a session of one process can move, found one of several ranks; create it on the device");
  if (s->run.settings->arithmetic != HD_ARITHMETIC_PORTABLE)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "only sessions with portable arithmetic can move, found native, whose results differ between "
                    "devices; create it on the device");
  if (s->compute.program)
    return hd__fail(
        ctx, HD_E_UNSUPPORTED,
        "only sessions with a loss of heddle's can move, found one of the program; create it on the device");
  if (s->report.profiler.trace)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "only a session without the option profile can move, found one with it; create it on the device");
  return HD_OK;
}

static hd_status note_device(hd_session *s, hd_ctx *ctx) {
  char text[HD_DEVICE_TEXT_BYTES];
  snprintf(s->report.device, sizeof s->report.device, "%s", hd_device_text(text, s->compute.device.name));
  s->report.facts.isa = hd__session_isa(s);
  s->report.facts.memory_bytes = hd__session_bytes(s);
  s->report.facts.gpu_memory = NULL;
  s->report.facts.gpus = 0;
  hd__session_note_sums(s);
  s->report.rank_times.exec = s->compute.exec;
  s->checkpoints.saver.store = s->checkpoints.saver.store ? s->compute.store : NULL;
  HD_TRY(hd__gpu_accounts_gather(&s->report.gpu_memory, ctx, s->compute.exec));
  return hd__record_note_device(s->run.record, ctx, s->report.device, s->report.facts.isa);
}

/* Restores everything after a failed move; without memory the record keeps the other device's entries. */
static void go_back(hd_session *s, const session_compute *before, bool works) {
  hd_ctx quiet = {0};
  hd_feed *const feed[] = {&s->input.train, &s->input.test, &s->input.val};
  hd__session_unequip(&s->compute);
  s->compute = *before;
  for (int i = 0; i < 3; i++)
    if (feed[i]->count > 0)
      hd__feed_leave_shift(feed[i], hd__session_shifts(s));
  (void)hd__features_keep(s, &quiet);
  (void)note_device(s, &quiet);
  if (works)
    (void)hd__session_start_workers(s, &quiet);
}

/* Continues on another device, with the bits of the last whole version. The session owns the device from now on; on
 * failure the session stays on its own, and the other is closed. No region may run. */
static hd_status move_to(hd_session *s, hd_ctx *ctx, hd_run_device *device) {
  session_compute before = s->compute;
  const bool works = s->input.batches;
  hd_status status = check_movable(s, ctx);
  HD_THEN(status, hd__saver_wait(&s->checkpoints.saver, ctx));
  if (status != HD_OK) {
    hd__device_close(device);
    return status;
  }
  hd__batches_destroy(s->input.batches); /* they read rows for the plan of this device */
  s->input.batches = NULL;
  s->compute.device = *device;
  s->compute.plan = s->compute.eval_plan = s->compute.whole = s->compute.front = NULL;
  s->compute.store = s->compute.average_store = NULL;
  s->compute.exec = s->compute.eval_exec = NULL;
  status = hd__session_equip(s, ctx);
  if (status == HD_OK) {
    copy_version(s->compute.store, s->compute.plan, before.store);
    status = hd__features_keep(s, ctx);
    HD_THEN(status, note_device(s, ctx));
    HD_THEN(status, works ? hd__session_start_workers(s, ctx) : HD_OK);
  }
  if (status == HD_OK)
    hd__session_unequip(&before);
  else
    go_back(s, &before, works);
  return status;
}

hd_device hd_session_device(const hd_session *s) { return s->compute.device.name; }

hd_status hd_session_to(hd_session *s, hd_ctx *ctx, hd_device device) {
  HD_ROUNDING_TO_NEAREST;
  char here[HD_DEVICE_TEXT_BYTES], there[HD_DEVICE_TEXT_BYTES];
  hd_run_device opened;
  HD_TRY(hd__session_check_idle(s, ctx));
  if (s->compute.device.count == 1 &&
      !strcmp(hd_device_text(here, hd_session_device(s)), hd_device_text(there, device)))
    return HD_OK;
  HD_TRY(hd__device_open_named(&opened, ctx, s->run.config, hd_device_text(there, device)));
  return move_to(s, ctx, &opened);
}

/* ---- --device auto ----
 *
 * The session's steps are timed on the threads, then on the first GPU, each for about a tenth of a second and one
 * step at least; it continues on the device with more samples a second. Using the GPU is optional here: an option
 * that only the CPU supports, a missing driver or too little GPU memory is a reason to stay on the CPU, and no
 * error.
 *
 * Without that option a line reports a GPU that was idle while the CPU computed. NVIDIA's libraries take up to seconds
 * to answer, so they are only called after the training. */

static const double TURN_S = 0.1;

/* The first step wakes threads or loads kernels; then the number of steps doubles until they fill the time given. */
static hd_status time_steps(double *samples_per_s, hd_rehearsal *r, hd_ctx *ctx, int64_t batch) {
  const double begin_s = hd__clock_s();
  HD_TRY(hd__rehearsal_steps(r, ctx, 1));
  double spent_s = hd__rehearsal_spent(r), left_s = TURN_S - (hd__clock_s() - begin_s);
  int64_t steps = 1;
  for (int64_t next = 1; spent_s / (double)steps * (double)next < left_s; next *= 2) {
    HD_TRY(hd__rehearsal_steps(r, ctx, next));
    spent_s = hd__rehearsal_spent(r);
    steps = next;
    left_s = TURN_S - (hd__clock_s() - begin_s);
  }
  *samples_per_s = (double)(steps * batch) / fmax(spent_s, 1e-9);
  return HD_OK;
}

static hd_status time_here(double *samples_per_s, hd_session *s, hd_ctx *ctx) {
  hd_rehearsal *r;
  hd__feed_shuffle(&s->input.train, (uint64_t)s->report.facts.seed, 0);
  HD_TRY(hd__rehearsal_create(&r, ctx, s, NULL, (int)s->run.settings->workers));
  const hd_status status = time_steps(samples_per_s, r, ctx, s->run.batch);
  hd__rehearsal_destroy(r);
  return status;
}

/* Notes the reason of a failure, without its remedy: a GPU was not required. */
static void stay_on_cpu(hd_session *s, const hd_ctx *why) {
  const char *expects = strstr(why->message, " expects "), *said = expects ? expects + 9 : why->message;
  snprintf(s->report.device_note, sizeof s->report.device_note, "--device auto: cpu, since a GPU needs %.*s",
           expects ? (int)strcspn(said, ";") : 0, said);
  if (!expects)
    snprintf(s->report.device_note, sizeof s->report.device_note, "--device auto: cpu, since %.*s",
             (int)strcspn(said, ";"), said);
}

/* Moves the session to the GPU; on failure the session stays, and the reason is noted. */
static bool try_gpu(hd_session *s, const char *device) {
  hd_ctx why = {0};
  hd_run_device gpu;
  hd_status status = hd__device_open_named(&gpu, &why, s->run.config, device);
  HD_THEN(status, move_to(s, &why, &gpu));
  if (status != HD_OK)
    stay_on_cpu(s, &why);
  return status == HD_OK;
}

static hd_status choose(hd_session *s, hd_ctx *ctx) {
  const double begin_s = hd__clock_s();
  double on_cpu = 0, on_gpu = 0;
  hd_ctx why = {0};
  hd_run_device gpu, cpu = hd__device_threads(s->run.config);
  if (hd__device_open_named(&gpu, &why, s->run.config, "cuda") != HD_OK) { /* before time is spent on timing */
    stay_on_cpu(s, &why);
    return HD_OK;
  }
  hd_status status = time_here(&on_cpu, s, ctx);
  if (status != HD_OK) {
    hd__device_close(&gpu);
    return status;
  }
  status = move_to(s, &why, &gpu);
  const bool moved = status == HD_OK;
  HD_THEN(status, time_here(&on_gpu, s, &why));
  if (status != HD_OK) {
    stay_on_cpu(s, &why);
    return moved ? move_to(s, ctx, &cpu) : HD_OK;
  }
  if (on_gpu <= on_cpu)
    HD_TRY(move_to(s, ctx, &cpu));
  snprintf(s->report.device_note, sizeof s->report.device_note,
           "--device auto: %s, with %.0f samples/s on the GPU and %.0f on %d thread%s of the CPU, measured in %.2f s",
           s->report.device, on_gpu, on_cpu, s->report.facts.threads, s->report.facts.threads == 1 ? "" : "s",
           hd__clock_s() - begin_s);
  return HD_OK;
}

static hd_status settle_auto(hd_session *s, hd_ctx *ctx) {
  if (!*s->compute.resumed_device)
    return choose(s, ctx);
  if (!strcmp(s->compute.resumed_device, "cpu") || try_gpu(s, s->compute.resumed_device))
    snprintf(s->report.device_note, sizeof s->report.device_note, "--device auto: %s, as in the resumed run",
             s->report.device);
  return HD_OK;
}

bool hd__device_note_idle(hd_session *s) {
  char name[HD_LOOK_TEXT_BYTES];
  if (!s->compute.device.executor->threads_compute || s->run.settings->devices.automatic || !hd__session_writes(s))
    return false;
  s->report.facts.idle_gpus = hd__device_idle(name);
  if (s->report.facts.idle_gpus > 0)
    snprintf(s->report.device_note, sizeof s->report.device_note,
             "%d GPU%s idle (%.96s) while the CPU computed; --device cuda uses it, --device auto times both",
             s->report.facts.idle_gpus, s->report.facts.idle_gpus == 1 ? " was" : "s were", name);
  return s->report.facts.idle_gpus > 0;
}

hd_status hd__device_settle(hd_session *s, hd_ctx *ctx) {
  return s->run.settings->devices.automatic ? settle_auto(s, ctx) : HD_OK;
}
