/* --device auto: times the session's steps on the threads, then on the first GPU, each for about a tenth of a
 * second and one step at least, and continues on the device with more samples a second. Using the GPU is optional here:
 * an option that only the CPU supports, a missing driver or too little GPU memory is a reason to stay on the CPU, and
 * no error.
 *
 * Without that option a line reports a GPU that is idle while the CPU computes. */
#include "train/session/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/gpu/device/idle_gpus.h"
#include "platform/clock.h"
#include "train/session/device_open.h"
#include "train/session/rehearsal.h"

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

/* Notes what a failure found, without its remedy: a GPU was not required. */
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
  hd_cuda *cuda;
  hd_status status = hd__device_open_named(&cuda, &why, s->run.config, device);
  HD_THEN(status, hd__session_move(s, &why, cuda));
  if (status != HD_OK)
    stay_on_cpu(s, &why);
  return status == HD_OK;
}

static hd_status choose(hd_session *s, hd_ctx *ctx) {
  const double begin_s = hd__clock_s();
  double cpu = 0, gpu = 0;
  hd_ctx why = {0};
  hd_cuda *cuda;
  if (hd__device_open_named(&cuda, &why, s->run.config, "cuda") != HD_OK) { /* before time is spent on timing */
    stay_on_cpu(s, &why);
    return HD_OK;
  }
  HD_TRY(time_here(&cpu, s, ctx));
  hd_status status = hd__session_move(s, &why, cuda);
  HD_THEN(status, time_here(&gpu, s, &why));
  if (status != HD_OK) {
    stay_on_cpu(s, &why);
    return s->compute.cuda ? hd__session_move(s, ctx, NULL) : HD_OK;
  }
  if (gpu <= cpu)
    HD_TRY(hd__session_move(s, ctx, NULL));
  snprintf(s->report.device_note, sizeof s->report.device_note,
           "--device auto: %s, with %.0f samples/s on the GPU and %.0f on %d thread%s of the CPU, measured in %.2f s",
           s->report.device, gpu, cpu, s->report.facts.threads, s->report.facts.threads == 1 ? "" : "s",
           hd__clock_s() - begin_s);
  return HD_OK;
}

static hd_status settle_auto(hd_session *s, hd_ctx *ctx) {
  if (!*s->compute.resumed_device)
    return choose(s, ctx);
  if (!strcmp(s->compute.resumed_device, "cpu") || try_gpu(s, s->compute.resumed_device))
    snprintf(s->report.device_note, sizeof s->report.device_note, "--device auto: %s, as in the run that goes on",
             s->report.device);
  return HD_OK;
}

static void note_idle_gpus(hd_session *s) {
  char name[HD_LOOK_TEXT_BYTES];
  s->report.facts.idle_gpus = hd__idle_gpus(name);
  if (s->report.facts.idle_gpus > 0)
    snprintf(s->report.device_note, sizeof s->report.device_note,
             "%d GPU%s idle (%.96s) while the CPU computes; --device cuda computes there, --device auto times both",
             s->report.facts.idle_gpus, s->report.facts.idle_gpus == 1 ? " is" : "s are", name);
}

hd_status hd__device_settle(hd_session *s, hd_ctx *ctx) {
  if (s->run.settings->devices.automatic)
    return settle_auto(s, ctx);
  if (!s->compute.cuda && hd__session_writes(s))
    note_idle_gpus(s);
  return HD_OK;
}
