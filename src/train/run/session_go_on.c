/* A session that goes on from a run on other data: from its weights, and from what its optimizer has gathered. Its own
 * steps are counted from 1, and its schedule, which has to be constant, starts with them; the optimizer's bias
 * corrections and the order of samples follow the earlier steps. */
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/rounding.h"
#include "base/version.h"
#include "exec/exchange/cluster.h"
#include "train/run/kept_features.h"
#include "train/settings/run_record.h"

static hd_status refuse(hd_ctx *ctx, const char *expected, const char *found) {
  return hd__fail(ctx, HD_E_UNSUPPORTED, "expected a session %s to go on from another run, found %s; leave it out",
                  expected, found);
}

static bool is_constant(const hd_schedule *schedule) {
  return !strcmp(schedule->rule->name, "const") && schedule->warmup == 0 && schedule->end == INT64_MAX;
}

static hd_status check(hd_session *s, hd_ctx *ctx, int64_t epochs) {
  HD_TRY(hd__session_check_idle(s, ctx));
  if (s->run.counters.step > 0 || *s->run.settings->resume || epochs < 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a session before its first step to go on from another run, and epochs from 0, found %s",
                    epochs < 0 ? "fewer; give another number" : "a later one; create another session");
  if (hd__cluster_ranks(s->compute.local) > 1)
    return refuse(ctx, "of one process", "several ranks");
  if (s->input.batches)
    return refuse(ctx, "without loader workers", "--workers");
  if (s->run.settings->lookahead > 0)
    return refuse(ctx, "without slow weights", "--lookahead");
  if (*s->run.settings->unfreeze)
    return refuse(ctx, "of one stage", "--unfreeze");
  for (int g = 0; g < s->compute.plan->update.group_count; g++)
    if (!is_constant(&s->run.schedule[g]))
      return refuse(ctx, "with a constant learning rate", "a --schedule or a --warmup");
  return HD_OK;
}

/* Without a momentum, or as a flag, a setting is off. */
static bool is_off(const char *text) {
  double number;
  return !*text || !strcmp(text, "false") || (hd__parse_double(&number, text) && number == 0);
}

/* The run kept what the session needs; numbers may differ, and a momentum may end, but averages are not the weights. */
static hd_status check_states(const hd_session *s, hd_ctx *ctx, const char *folder, const json_t *record) {
  static const hd_option_id of[] = {HD_OPT_OPTIMIZER, HD_OPT_MOMENTUM, HD_OPT_CENTERED, HD_OPT_EMA, HD_OPT_LOOKAHEAD};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    const char *name = hd_option_at((int)of[i])->name, *was = hd__record_setting(record, of[i]);
    const char *is = hd__record_setting(s->run.record, of[i]);
    const bool averages = of[i] == HD_OPT_EMA || of[i] == HD_OPT_LOOKAHEAD;
    if (of[i] == HD_OPT_OPTIMIZER ? strcmp(was, is) != 0 : is_off(was) != is_off(is) && (is_off(was) || averages))
      return hd__fail(ctx, HD_E_USAGE, "%s: expected a run with the %s %s, found %s; give %s as that run had it",
                      folder, name, *is ? is : "unset", *was ? was : "unset", name);
  }
  return HD_OK;
}

/* An evaluation or a checkpoint of the session's first weights is none of those that replace them. */
static void forget_scores(hd_session *s) {
  hd__session_clear_scores(s);
  s->checkpoints.saved_step = -1;
  s->run.counters.best_score = -INFINITY;
  s->run.counters.best_loss = INFINITY;
}

/* Reads the checkpoint into the store. */
static hd_status take(hd_session *s, hd_ctx *ctx, const char *folder, const json_t *record, int64_t epochs) {
  char path[HD_PATH_BYTES];
  hd_counters counters = {.arithmetic = 1};
  int64_t steps, unused, arithmetic;
  HD_TRY(hd__checkpoint_load_state(s->compute.store, &counters, ctx, folder, record));
  HD_TRY(hd__file_join(path, ctx, folder, "model.safetensors"));
  HD_TRY(hd__checkpoint_load_weights(s->compute.store, &arithmetic, ctx, path, record, NULL));
  hd__store_pack(s->compute.store, s->compute.plan, s->compute.here);
  forget_scores(s);
  hd__kept_features_fini(&s->input.features); /* they are of other weights */
  HD_TRY(hd__features_keep(s, ctx));
  hd__checkpoint_earlier(&steps, &unused, record);
  s->run.earlier_steps = steps + counters.step;
  s->run.earlier_epochs = epochs;
  return hd__checkpoint_note_earlier(s->run.record, ctx, s->run.earlier_steps, s->run.earlier_epochs);
}

hd_status hd_session_go_on(hd_session *s, hd_ctx *ctx, const char *checkpoint, int64_t epochs) {
  HD_ROUNDING_TO_NEAREST;
  char folder[HD_PATH_BYTES];
  json_auto_t *record = NULL;
  HD_TRY(check(s, ctx, epochs));
  HD_TRY(hd__checkpoint_find(folder, ctx, checkpoint));
  HD_TRY(hd__checkpoint_record(&record, ctx, folder));
  const char *text = hd__json_text(record, "model_yaml");
  if (strcmp(text, hd__json_text(s->run.record, "model_yaml")))
    return hd__fail(ctx, HD_E_USAGE, "%s: expected a run of the session's network, found another; give that model",
                    folder);
  HD_TRY(check_states(s, ctx, folder, record));
  if (hd__checkpoint_arithmetic(record) != HD_ARITHMETIC_VERSION)
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: expected version %d of the arithmetic, found version %lld; start from its weights with --init",
                    folder, HD_ARITHMETIC_VERSION, (long long)hd__checkpoint_arithmetic(record));
  return take(s, ctx, folder, record, epochs);
}
