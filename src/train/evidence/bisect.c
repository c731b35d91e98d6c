/* Finding where two runs part: see heddle/evidence.h.
 *
 * Losses of each step are in losses.bin, so the step is found without computing. From the last checkpoint that both
 * runs have in common, they are repeated in turn, step by step: the hashes of what the second run's kernels compute are
 * compared with those of the first run's results of the same step. The first result that differs was computed from
 * equal ones. The first run is then repeated once more, for the values of that result. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/rounding.h"
#include "base/sized_struct.h"
#include "heddle/evidence.h"
#include "train/checkpoint/saver.h"
#include "train/evidence/certificate.h"
#include "train/evidence/compare_dump.h"
#include "train/evidence/compare_runs.h"
#include "train/evidence/replay.h"

typedef struct side {
  const char *run;
  json_t *record;
  hd_mapping losses;
  const double *sum; /* of each step */
  int64_t steps;
  hd_fault_place fault;
  hd_replay replay;
} side;

/* The first result of a step of run b that differs, or, for run a, the one at that place: a copy without padding. */
typedef struct watch {
  const hd_recorder *expected; /* run a, at the same step; NULL for run a itself */
  int64_t place;               /* -1: not known yet */
  void *copy;                  /* NULL: none yet */
} watch;

typedef struct bisect {
  const hd_bisect_request *request;
  const hd_config *layout;
  hd_bisection *out;
  bool decided;
  side a, b;
  watch found;
  int64_t limit;               /* the last step to compare */
  int64_t unlike;              /* both have a checkpoint of this step, and they differ; 0: there is none */
  char scratch[HD_PATH_BYTES]; /* a temporary folder, with the run that has the fault */
  char faulty[HD_PATH_BYTES];
} bisect;

__attribute__((format(printf, 3, 4))) static void decide(bisect *b, hd_bisect_verdict verdict, const char *fmt, ...) {
  va_list args;
  if (b->decided)
    return;
  va_start(args, fmt);
  vsnprintf(b->out->why, sizeof b->out->why, fmt, args);
  va_end(args);
  b->out->verdict = verdict;
  b->decided = true;
}

static hd_status show_progress(const bisect *b, hd_ctx *ctx, int64_t step, int64_t steps) {
  return b->request->progress && b->request->progress(b->request->user, step, steps)
             ? hd__fail(ctx, HD_E_INTERRUPTED, "stopped before the first difference was found")
             : HD_OK;
}

/* ---- The run with a fault ---- */

typedef struct faulty_run {
  hd_recorder recorder;
  hd_session *session;
  bisect *b;
} faulty_run;

static void on_event(void *user, const hd_event *event) {
  faulty_run *f = user;
  hd_ctx quiet = {0};
  if (event->kind != HD_EVENT_STEP)
    return;
  if (event->step == f->recorder.fault.step)
    f->b->out->results = f->recorder.count;
  if (show_progress(f->b, &quiet, event->step, f->b->a.steps) != HD_OK)
    hd_session_stop(f->session);
  hd__recorder_step(&f->recorder, event->step + 1, hd__session_cursor(f->session, event->step));
}

static hd_status name_planted(const bisect *b, hd_ctx *ctx, const hd_recorder *r) {
  char what[sizeof b->out->what], index[sizeof b->out->index];
  if (r->planted.rows == 0)
    return hd__fail(ctx, HD_E_USAGE,
                    "step %lld: expected a result below %lld to plant a fault in, found %lld; lower it",
                    (long long)r->fault.step, (long long)b->out->results, (long long)r->fault.result);
  hd__result_name(what, sizeof what, r, &r->planted);
  hd__result_index(index, sizeof index, r, &r->planted, r->fault.element % (r->planted.rows * r->planted.elems));
  snprintf(b->out->planted, sizeof b->out->planted, "%s %s", what, index);
  return HD_OK;
}

static hd_status train_faulty(faulty_run *f, hd_ctx *ctx, const hd_config *config) {
  HD_TRY(hd_session_create(&f->session, ctx, config));
  const hd_session *s = f->session;
  HD_TRY(hd__recorder_init(&f->recorder, ctx, s->compute.plan, s->compute.store));
  f->recorder.fault = f->b->b.fault;
  hd__recorder_step(&f->recorder, 1, 0);
  hd__recorder_enter(&f->recorder);
  const hd_status status = hd_session_train(f->session, ctx, on_event, f);
  hd__recorder_leave();
  return status == HD_OK ? name_planted(f->b, ctx, &f->recorder) : status;
}

/* Repeats run a with the fault, as a separate run: that is run b. */
static hd_status make_faulty(bisect *b, hd_ctx *ctx) {
  HD_CONFIG_OWNED *config = NULL;
  faulty_run f = {.b = b};
  const hd_fault_place *place = &b->request->fault;
  if (place->step < 1 || place->step > b->a.steps)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a step from 1 to %lld to plant a fault in, found %lld; name one of these",
                    (long long)b->a.steps, (long long)place->step);
  if (place->element < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected an element from 0 to plant a fault in, found %lld; name another",
                    (long long)place->element);
  b->b.fault = *place;
  HD_TRY(hd__scratch_make(b->scratch, b->faulty, ctx));
  HD_TRY(hd__replay_configure(&config, ctx, b->layout, b->a.record, ""));
  if (*hd__settings(config)->unfreeze)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected a run of one stage to plant a fault in, found --unfreeze; train without it",
                    b->a.run);
  HD_TRY(hd_config_set_int(config, ctx, HD_OPT_MAX_STEPS, b->a.steps));
  HD_TRY(hd_config_set_text(config, ctx, HD_OPT_OUT, b->faulty));
  const hd_status status = train_faulty(&f, ctx, config);
  hd_session_destroy(f.session);
  hd__recorder_fini(&f.recorder);
  b->b.run = b->faulty;
  b->out->replays++;
  return status;
}

/* ---- What the runs say ---- */

static hd_status open_side(bisect *b, hd_ctx *ctx, side *s) {
  json_auto_t *start = NULL, *end = NULL;
  HD_TRY(hd__checkpoint_record(&s->record, ctx, s->run));
  HD_TRY(hd__losses_map(&s->losses, ctx, s->run));
  s->sum = (const double *)s->losses.bytes;
  s->steps = (int64_t)(s->losses.length / sizeof *s->sum);
  HD_TRY(hd__history_read(&start, &end, ctx, s->run));
  while (!end && s->steps > 0 && s->sum[s->steps - 1] == 0) /* room of a run that was killed or goes on */
    s->steps--;
  if (s->steps == 0)
    decide(b, HD_RUNS_NOT_COMPARABLE, "%s/losses.bin: expected the loss of each step, found none", s->run);
  return HD_OK;
}

static void close_side(side *s) {
  hd__replay_close(&s->replay);
  hd__file_unmap(&s->losses);
  json_decref(s->record);
}

/* Whether both runs have a checkpoint of the step, and it is the same in both. */
static hd_status is_common(bool *both, bool *equal, const bisect *b, hd_ctx *ctx, int64_t step) {
  char of_a[HD_PATH_BYTES], of_b[HD_PATH_BYTES], what[256];
  bool differs = true;
  *both = hd__steps_has(b->a.run, step) && hd__steps_has(b->b.run, step);
  if (*both) {
    HD_TRY(hd__steps_path(of_a, ctx, b->a.run, step));
    HD_TRY(hd__steps_path(of_b, ctx, b->b.run, step));
    HD_TRY(hd__compare_checkpoints(&differs, what, sizeof what, ctx, &(hd_file_pair){of_a, of_b, .other_end = true}));
  }
  *equal = *both && !differs;
  return HD_OK;
}

/* The steps between which the runs diverge: the last equal checkpoint, and the first loss or checkpoint that
 * differs. */
static hd_status find_segment(bisect *b, hd_ctx *ctx) {
  const int64_t least = b->a.steps < b->b.steps ? b->a.steps : b->b.steps;
  bool both, equal = true;
  int64_t loss = 0;
  int count = 0;
  HD_OWNED int64_t *step = hd__steps_list(&count, b->a.run);
  while (loss < least && !memcmp(&b->a.sum[loss], &b->b.sum[loss], sizeof *b->a.sum))
    loss++;
  b->limit = b->out->loss_step = loss < least ? loss + 1 : 0;
  const int64_t last = loss; /* of the checkpoints that may be equal */
  for (int i = 0; i < count && step[i] <= last; i++) {
    HD_TRY(is_common(&both, &equal, b, ctx, step[i]));
    if (equal) {
      b->out->from = step[i];
    } else if (both) {
      b->limit = b->unlike = step[i];
      break;
    }
  }
  if (b->limit == 0 && !b->request->b) { /* the fault had no effect that lasted: it is only in its step */
    b->out->from = 0;
    b->limit = least;
  }
  return HD_OK;
}

/* ---- Repeating both ---- */

static void on_result(void *user, const hd_result *r, int64_t place, const void *at, int64_t stride_bytes) {
  watch *w = user;
  const size_t row_bytes = (size_t)(r->elems * r->elem_bytes);
  if (w->expected && w->place < 0 && (place >= w->expected->count || memcmp(&w->expected->list[place], r, sizeof *r)))
    w->place = place;
  if (w->place != place || w->copy)
    return;
  char *to = w->copy = hd__malloc((size_t)r->rows * row_bytes + 1);
  for (int64_t i = 0; to && i < r->rows; i++)
    memcpy(to + (size_t)i * row_bytes, (const char *)at + i * stride_bytes, row_bytes);
}

static hd_status open_replay(hd_replay *out, bisect *b, hd_ctx *ctx, const side *s) {
  char resume[HD_PATH_BYTES] = "";
  HD_CONFIG_OWNED *config = NULL;
  if (b->out->from > 0)
    HD_TRY(hd__steps_path(resume, ctx, s->run, b->out->from));
  HD_TRY(hd__replay_configure(&config, ctx, b->layout, s->record, resume));
  b->out->replays++;
  HD_TRY(hd__replay_open(out, ctx, config));
  out->recorder.fault = s->fault;
  return HD_OK;
}

/* The position of a float in the order of all floats. */
static int64_t place_of(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits < 0 ? -(int64_t)(bits & INT32_MAX) : bits;
}

/* Notes the first element that differs. */
static void compare_values(bisect *b, const hd_recorder *r, const hd_result *result, const void *of_a,
                           const void *of_b) {
  const char *x = of_a, *y = of_b;
  const int64_t bytes = result->elem_bytes;
  hd_bisection *out = b->out;
  int64_t i = 0;
  while (i + 1 < result->rows * result->elems && !memcmp(x + i * bytes, y + i * bytes, (size_t)bytes))
    i++;
  hd__result_name(out->what, sizeof out->what, r, result);
  hd__result_index(out->index, sizeof out->index, r, result, i);
  const bool floats = hd__result_is_float(r, result);
  const char *of[2] = {x + i * bytes, y + i * bytes};
  int64_t place[2];
  for (int k = 0; k < 2; k++) {
    float number = 0;
    int32_t whole = 0;
    memcpy(floats ? (void *)&number : (void *)&whole, of[k], (size_t)bytes);
    out->value[k] = floats ? (double)number : whole;
    place[k] = place_of(number);
  }
  out->ulps = floats ? llabs(place[0] - place[1]) : -1;
  decide(b, HD_RUNS_DIFFER, "step %lld: %s %s differs", (long long)out->step, out->what, out->index);
}

/* Weights before the first step: both runs have them. */
static void compare_start(bisect *b) {
  const hd_recorder *r = &b->b.replay.recorder;
  const hd_store *of_a = b->a.replay.recorder.store, *of_b = r->store;
  for (int p = 0; p < r->plan->param_count && !b->decided; p++) {
    const hd_plan_param *param = &r->plan->params[p];
    const float *x = of_a->weights[hd__store_buffer(of_a)] + param->offset,
                *y = of_b->weights[hd__store_buffer(of_b)] + param->offset;
    const hd_result all = {.kind = HD_RESULT_WEIGHT,
                           .node = -1,
                           .of = p,
                           .shared = 1,
                           .elem_bytes = sizeof *x,
                           .rows = 1,
                           .elems = param->rows * param->columns};
    if (memcmp(x, y, (size_t)all.elems * sizeof *x)) {
      compare_values(b, r, &all, x, y);
      snprintf(b->out->what, sizeof b->out->what, "%.160s, first weights", param->name);
    }
  }
}

/* Repeats run a up to the step, for its values of the result in which run b differs. */
static hd_status fetch_values(bisect *b, hd_ctx *ctx) {
  const hd_recorder *r = &b->b.replay.recorder;
  const hd_result result = r->list[b->found.place];
  watch of_a = {.place = b->found.place};
  hd_replay again = {0};
  hd_status status = open_replay(&again, b, ctx, &b->a);
  while (status == HD_OK && again.step < b->out->step) {
    if (again.step + 1 == b->out->step)
      again.recorder.on_result = on_result;
    again.recorder.user = &of_a;
    status = hd__replay_step(&again, ctx);
    HD_THEN(status, show_progress(b, ctx, again.step, b->limit));
  }
  if (status == HD_E_NOTFINITE)
    status = HD_OK; /* the step does not count, but its results are there */
  HD_THEN(status, HD_ALLOCATED(of_a.copy && b->found.copy, ctx, "out of memory for the values of a result"));
  if (status == HD_OK)
    compare_values(b, r, &result, of_a.copy, b->found.copy);
  hd__free(of_a.copy);
  hd__replay_close(&again);
  return status;
}

/* Whether two results are of the same kind and place, whatever their values. */
static bool same_kind(const hd_result *a, const hd_result *b) {
  hd_result x = *a;
  x.hash = b->hash;
  return !memcmp(&x, b, sizeof x);
}

static hd_status found(bisect *b, hd_ctx *ctx, int64_t step) {
  const hd_recorder *of_a = &b->a.replay.recorder, *of_b = &b->b.replay.recorder;
  const int64_t at = b->found.place;
  b->out->step = step;
  b->out->result = at;
  if (at < 0 || at >= of_a->count || !same_kind(&of_a->list[at], &of_b->list[at])) {
    decide(b, HD_RUNS_NOT_COMPARABLE, "step %lld: the runs do not compute the same results%s%s", (long long)step,
           *b->out->settings ? "; " : "", b->out->settings);
    return HD_OK;
  }
  return fetch_values(b, ctx);
}

/* The loss of a step that is repeated must be the one that the run states. */
static void check_loss(bisect *b, const side *s) {
  const double stated = s->sum[s->replay.step - 1];
  if (!isnan(stated) && memcmp(&stated, &s->replay.loss_sum, sizeof stated))
    decide(b, HD_RUN_NOT_REPEATED,
           "%s: step %lld has the loss %.17g in losses.bin, and %.17g when it is repeated: the file was changed, or "
           "the machine made an error",
           s->run, (long long)s->replay.step, stated, s->replay.loss_sum);
}

static hd_status compare_steps(bisect *b, hd_ctx *ctx) {
  hd_recorder *of_a = &b->a.replay.recorder, *of_b = &b->b.replay.recorder;
  hd_status status[2] = {HD_OK, HD_OK};
  if (b->out->from == 0 && of_a->plan->size.param_elems == of_b->plan->size.param_elems)
    compare_start(b);
  b->found = (watch){.expected = of_a, .place = -1};
  of_b->on_result = on_result;
  of_b->user = &b->found;
  while (b->a.replay.step < b->limit && status[0] == HD_OK && !b->decided) {
    status[0] = hd__replay_step(&b->a.replay, ctx);
    status[1] = hd__replay_step(&b->b.replay, ctx);
    if (b->found.place >= 0 || of_a->count != of_b->count)
      return found(b, ctx, b->b.replay.step);
    if (status[0] == HD_OK) {
      check_loss(b, &b->a);
      check_loss(b, &b->b);
    }
    HD_TRY(show_progress(b, ctx, b->a.replay.step, b->limit));
  }
  return status[0];
}

static hd_status repeat_both(bisect *b, hd_ctx *ctx) {
  hd_ctx quiet = {0};
  hd_status status = open_replay(&b->a.replay, b, &quiet, &b->a);
  HD_THEN(status, open_replay(&b->b.replay, b, &quiet, &b->b));
  if (status == HD_E_NOMEM)
    return hd__fail(ctx, status, "%s", quiet.message);
  if (status != HD_OK)
    decide(b, HD_RUNS_NOT_COMPARABLE, "%.900s", quiet.message);
  return b->decided ? HD_OK : compare_steps(b, ctx);
}

/* ---- Checkpoints that do not follow from the steps ---- */

/* Files of a run must be those that its records state. */
static hd_status check_files(bisect *b, hd_ctx *ctx, const side *s) {
  char folder[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  int count = 0;
  HD_OWNED int64_t *step = hd__steps_list(&count, s->run);
  for (int i = 0; i < count && !b->decided; i++) {
    HD_TRY(hd__steps_path(folder, ctx, s->run, step[i]));
    const hd_status status = hd__checkpoint_check_files(&quiet, folder);
    if (status == HD_E_NOMEM)
      return hd__fail(ctx, status, "%s", quiet.message);
    if (status != HD_OK)
      decide(b, HD_RUN_NOT_REPEATED, "%.900s", quiet.message);
  }
  return HD_OK;
}

/* All results were equal: checkpoints that differ are not those of the steps. */
static hd_status check_checkpoints(bisect *b, hd_ctx *ctx) {
  if (b->decided || !b->request->b)
    return HD_OK;
  HD_TRY(check_files(b, ctx, &b->a));
  HD_TRY(check_files(b, ctx, &b->b));
  const bool other_order = hd__checkpoint_arithmetic(b->a.record) != hd__checkpoint_arithmetic(b->b.record);
  if (b->unlike > 0 && !other_order)
    decide(b, HD_RUN_NOT_REPEATED,
           "weights of %s differ from those of %s at step %lld, though their losses are equal: a file was changed",
           b->b.run, b->a.run, (long long)b->unlike);
  return HD_OK;
}

static hd_status search(bisect *b, hd_ctx *ctx) {
  b->a.run = b->request->a;
  b->b.run = b->request->b;
  HD_TRY(open_side(b, ctx, &b->a));
  if (!b->request->b && !b->decided)
    HD_TRY(make_faulty(b, ctx));
  if (b->decided)
    return HD_OK;
  HD_TRY(open_side(b, ctx, &b->b));
  if (b->decided)
    return HD_OK;
  if (b->request->b)
    hd__compare_records(b->out->settings, sizeof b->out->settings, b->a.record, b->b.record, true);
  HD_TRY(find_segment(b, ctx));
  if (b->limit > 0)
    HD_TRY(repeat_both(b, ctx));
  HD_TRY(check_checkpoints(b, ctx));
  decide(b, HD_RUNS_EQUAL, "%lld steps have equal losses",
         (long long)(b->a.steps < b->b.steps ? b->a.steps : b->b.steps));
  return HD_OK;
}

static hd_status on_one_thread(hd_config **out, hd_ctx *ctx, const hd_config *layout) {
  static const char *const one[][2] = {
      {"threads", "1"}, {"procs", "1"}, {"accumulate", "1"}, {"workers", "0"}, {"device", "cpu"}};
  HD_TRY(hd__config_copy(out, ctx, layout));
  hd_status status = HD_OK;
  for (size_t i = 0; i < sizeof one / sizeof *one; i++)
    HD_THEN(status, hd_config_set(*out, ctx, one[i][0], one[i][1]));
  return HD_CREATED(status, out, hd_config_destroy);
}

hd_status hd_bisect(hd_bisection *out, hd_ctx *ctx, const hd_config *layout, const hd_bisect_request *request) {
  HD_ROUNDING_TO_NEAREST;
  hd_bisect_request is;
  hd_bisection result = {0};
  HD_CONFIG_OWNED *config = NULL;
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_bisection"));
  HD_TRY(hd__struct_read(&is, ctx, request, sizeof is, "hd_bisect_request"));
  HD_TRY(on_one_thread(&config, ctx, layout));
  if (is.b && !hd__file_is_folder(is.b) && hd__file_exists(is.b)) {
    const hd_status compared = hd__compare_dump(&result, ctx, config, &is);
    hd__struct_write(out, &result, sizeof result);
    return compared;
  }
  bisect b = {.request = &is, .layout = config, .out = &result};
  const hd_status status = search(&b, ctx);
  close_side(&b.a);
  close_side(&b.b);
  hd__free(b.found.copy);
  hd__scratch_remove(b.scratch, b.faulty);
  hd__struct_write(out, &result, sizeof result);
  return status;
}
