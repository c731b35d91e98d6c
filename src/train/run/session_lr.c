/* A learning rate that the program sets between steps: a factor of every schedule, which run.json has, so that a run
 * that is resumed keeps it, and one that the options do not define is not certified. */
#include <math.h>

#include "base/rounding.h"
#include "exec/exchange/cluster.h"
#include "train/run/session.h"
#include "train/settings/run_record.h"

static const double LATER_SCALE = 0.1; /* of what --unfreeze names */

/* The rate of the next step by the schedule alone. */
static double scheduled(const hd_session *s) {
  hd_schedule plain = s->run.schedule[0];
  double lr, unused;
  hd__schedule_scale(&plain, 1);
  hd__schedule_at(&plain, s->run.counters.step, &lr, &unused);
  return lr;
}

void hd__session_scale_lr(hd_session *s) {
  const double scale = hd__config_has(s->run.config, HD_OPT_LR_SCALE) ? s->run.settings->lr_scale : LATER_SCALE;
  for (int g = 0; g < s->compute.plan->update.group_count; g++) {
    const bool later = s->compute.plan->update.groups[g].later;
    if (s->run.lr_is_set || later)
      hd__schedule_scale(&s->run.schedule[g], (s->run.lr_is_set ? s->run.lr_scale : 1) * (later ? scale : 1));
  }
}

double hd_session_lr(const hd_session *s) {
  HD_ROUNDING_TO_NEAREST;
  double lr, unused;
  hd__schedule_at(s->run.schedule, s->run.counters.step, &lr, &unused);
  return lr;
}

hd_status hd_session_set_lr(hd_session *s, hd_ctx *ctx, double lr) {
  HD_ROUNDING_TO_NEAREST;
  const double by_schedule = scheduled(s);
  HD_TRY(hd__session_check_process(s, ctx));
  if (!isfinite(lr) || lr < 0 || lr > 1e6)
    return hd__fail(ctx, HD_E_USAGE, "expected a learning rate from 0 to 1e+06, found %g; give another", lr);
  if (s->run.steps)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a learning rate between two steps, found one during steps; set it at the end of an epoch "
                    "or an evaluation, or between calls of hd_session_step");
  if (hd__cluster_ranks(s->compute.local) > 1)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected a run of one process to set the learning rate of, found %d ranks; use --schedule",
                    hd__cluster_ranks(s->compute.local));
  if (by_schedule <= 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a schedule with a learning rate above 0 at step %lld, found 0; use --schedule const",
                    (long long)s->run.counters.step + 1);
  s->run.lr_scale = lr / by_schedule;
  s->run.lr_is_set = true;
  hd__session_scale_lr(s);
  return hd__record_note_lr(s->run.record, ctx, s->run.lr_scale);
}
