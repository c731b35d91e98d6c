/* Verifying a run or a certificate by repeating it: see heddle/evidence.h.
 *
 * The run is repeated as a separate run in a temporary folder. Each step's loss is compared as it counts; checkpoints,
 * lines of metrics and results are compared at the end. Without the run's folder the chain of losses in the certificate
 * replaces losses.bin: it finds the segment in which the first difference lies. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/philox.h"
#include "base/rounding.h"
#include "base/sized_struct.h"
#include "base/version.h"
#include "heddle/ddp.h"
#include "heddle/evidence.h"
#include "heddle/session.h"
#include "train/checkpoint/saver.h"
#include "train/evidence/certificate.h"
#include "train/evidence/compare_runs.h"
#include "train/evidence/replay.h"
#include "train/run/arithmetic_version.h"
#include "train/settings/run_record.h"

enum { MOST_SEGMENTS = 1024, FIRST_RANK = 0 };

typedef struct verify {
  const hd_verify_request *request;
  const hd_config *layout;
  hd_verification *out;
  bool decided;     /* the verdict is final */
  bool interrupted; /* by the caller's progress function */
  json_t *certificate;
  int64_t steps;                  /* of the run */
  char run[HD_PATH_BYTES];        /* its folder; "": the certificate is by itself */
  char scratch[HD_PATH_BYTES];    /* a temporary folder */
  char again[HD_PATH_BYTES];      /* in it: where the run is repeated */
  hd_mapping losses;              /* of the run, as the certificate has them; empty: the chain is compared */
  char changed[HD_CHANGED_BYTES]; /* losses.bin is not that of the run's end, which no certificate states; "": it is */
  hd_loss_chain chain;
  size_t mark; /* the chain's entry that comes next */
  hd_dataset *data;
  hd_session *session;
} verify;

/* Sets the verdict, unless a difference was found before. */
__attribute__((format(printf, 4, 5))) static void decide(verify *v, hd_verdict verdict, int64_t step, const char *fmt,
                                                         ...) {
  va_list args;
  if (v->decided)
    return;
  va_start(args, fmt);
  vsnprintf(v->out->why, sizeof v->out->why, fmt, args);
  va_end(args);
  v->out->verdict = verdict;
  v->out->step = step;
  v->decided = true;
}

/* Broadcasts what rank 0 has found. */
static hd_status share(verify *v, hd_ctx *ctx) {
  struct {
    hd_verification out;
    bool decided, interrupted;
  } all = {*v->out, v->decided, v->interrupted};
  if (!v->request->group)
    return HD_OK;
  HD_TRY(hd_group_broadcast(&all, v->request->group, ctx, sizeof all, HD_U8, FIRST_RANK));
  *v->out = all.out;
  v->decided = all.decided;
  v->interrupted = all.interrupted;
  return HD_OK;
}

/* ---- What is verified ---- */

/* A run without a certificate is compared with what its files say. */
static hd_status make_certificate(verify *v, hd_ctx *ctx) {
  const hd_status status = hd__certificate_make(&v->certificate, ctx, v->run, v->layout, v->changed);
  if (status != HD_E_FORMAT || !*v->changed)
    return status;
  decide(v, HD_REFUTED, 0, "%s", v->changed);
  return HD_OK;
}

static hd_status load(verify *v, hd_ctx *ctx) {
  char path[HD_PATH_BYTES], losses[HD_PATH_BYTES];
  const char *what = v->request->what;
  if (hd__file_is_folder(what)) {
    snprintf(v->run, sizeof v->run, "%s", what);
    HD_TRY(hd__file_join(path, ctx, what, "certificate.json"));
    if (!hd__file_exists(path))
      return make_certificate(v, ctx);
    return hd__certificate_read(&v->certificate, ctx, path);
  }
  HD_TRY(hd__certificate_read(&v->certificate, ctx, what));
  const char *slash = strrchr(what, '/');
  snprintf(path, sizeof path, "%.*s", slash ? (int)(slash - what) : 1, slash ? what : ".");
  HD_TRY(hd__file_join(losses, ctx, path, "losses.bin"));
  if (hd__file_exists(losses))
    snprintf(v->run, sizeof v->run, "%s", path);
  return HD_OK;
}

static hd_status find_change(hd_arithmetic_change *out, hd_ctx *ctx, const verify *v, int64_t version) {
  hd_network network;
  HD_TRY(hd__network_from_text(&network, ctx, hd__json_text(v->certificate, "model_yaml"), "model_yaml"));
  const hd_status status = hd__arithmetic_changed(out, ctx, &network, hd__arithmetic_of_record(v->certificate), version,
                                                  HD_ARITHMETIC_OF_DIGESTS);
  hd__network_fini(&network);
  return status;
}

static hd_status check_arithmetic(verify *v, hd_ctx *ctx) {
  const json_int_t version = json_integer_value(json_object_get(v->certificate, "arithmetic_version"));
  const char *kind = hd__record_setting(v->certificate, HD_OPT_ARITHMETIC);
  hd_arithmetic_change change;
  HD_TRY(find_change(&change, ctx, v, version));
  if (version > HD_ARITHMETIC_VERSION)
    decide(v, HD_NOT_COMPARABLE, 0,
           "it has version %lld of the arithmetic, which heddle %s does not know; verify it with a later heddle",
           (long long)version, hd__version());
  else if (change.version)
    decide(v, HD_NOT_COMPARABLE, 0,
           "it has version %lld of the arithmetic, and version %d changed this network's digest (%s); verify it with "
           "the heddle that made it",
           (long long)version, change.version, change.what);
  else if (*kind && strcmp(kind, "portable"))
    decide(v, HD_NOT_COMPARABLE, 0,
           "expected the portable arithmetic, found --arithmetic %s, whose bits depend on a "
           "library and a CPU",
           kind);
  return HD_OK;
}

static hd_status check_data(verify *v, hd_ctx *ctx) {
  static const char *const part[HD_DATA_PARTS] = {"training samples", "training labels", "test samples", "test labels"};
  char hex[HD_DATA_PARTS][HD_SHA256_HEX_BYTES];
  if (v->decided)
    return HD_OK;
  if (hd__certificate_data(&v->data, ctx, v->certificate, v->layout) != HD_OK) { /* ctx has the program's data sets */
    decide(v, HD_NOT_COMPARABLE, 0, "its data cannot be read: %.900s", hd_ctx_message(ctx));
    return HD_OK;
  }
  HD_TRY(hd__data_sha256(hex, ctx, v->data));
  const json_t *is = json_object_get(v->certificate, "data"), *claimed = json_object_get(is, "sha256");
  const int64_t count[] = {hd__dataset_train(v->data)->count, hd__dataset_test(v->data)->count};
  static const char *const name[] = {"train_samples", "test_samples"};
  for (int i = 0; i < 2; i++)
    if (json_integer_value(json_object_get(is, name[i])) != count[i])
      decide(v, HD_NOT_COMPARABLE, 0, "data %s, %s: expected %lld, found %lld; give the same --data", v->data->name,
             name[i], (long long)json_integer_value(json_object_get(is, name[i])), (long long)count[i]);
  for (size_t i = 0; i < HD_DATA_PARTS; i++) {
    const char *expected = json_string_value(json_array_get(claimed, i));
    if (!expected || strcmp(expected, hex[i]))
      decide(v, HD_NOT_COMPARABLE, 0, "data %s, %s: expected SHA-256 %.80s, found %s; give the same --data",
             v->data->name, part[i], expected ? expected : "(none)", hex[i]);
  }
  return HD_OK;
}

static hd_status check_init(verify *v, hd_ctx *ctx) {
  const char *path = hd__record_setting(v->certificate, HD_OPT_INIT), *expected;
  char found[HD_SHA256_HEX_BYTES];
  hd_ctx quiet = {0};
  if (!*path || v->decided)
    return HD_OK;
  expected = hd__json_text(v->certificate, "init_sha256");
  if (hd_digest(found, &quiet, path) != HD_OK)
    decide(v, HD_NOT_COMPARABLE, 0, "its initial weights cannot be read: %.900s", quiet.message);
  else if (strcmp(found, expected))
    decide(v, HD_NOT_COMPARABLE, 0, "initial weights %.400s: expected SHA-256 %.80s, found %s", path, expected, found);
  return HD_OK;
}

/* The entry of the certificate's chain: its step, and its digest. */
static const char *mark_at(int64_t *step, const verify *v, size_t index) {
  const json_t *entry = json_array_get(json_object_get(v->certificate, "chain"), index);
  *step = json_integer_value(json_object_get(entry, "step"));
  return hd__json_text(entry, "sha256");
}

/* Adds the loss of a step to the chain; at the end of an entry it must be the certificate's. */
static hd_status follow_chain(verify *v, hd_ctx *ctx, int64_t step, double sum, const char *where) {
  int64_t at, before = 0;
  const char *expected = mark_at(&at, v, v->mark);
  HD_TRY(hd__chain_add(&v->chain, ctx, &sum, 1));
  if (step < at)
    return HD_OK;
  HD_TRY(hd__chain_mark(&v->chain, ctx));
  if (v->mark > 0)
    mark_at(&before, v, v->mark - 1);
  if (strcmp(v->chain.entry, expected))
    decide(v, HD_REFUTED, before + 1, "%slosses of the steps %lld to %lld: expected the digest %.80s, found %s", where,
           (long long)before + 1, (long long)at, expected, v->chain.entry);
  v->mark++;
  return HD_OK;
}

static void rewind_chain(verify *v) {
  hd__chain_fini(&v->chain);
  v->chain = (hd_loss_chain){0};
  v->mark = 0;
}

/* The run's losses must be those of the certificate: a difference is then found at its step. */
static hd_status check_losses(verify *v, hd_ctx *ctx) {
  if (!*v->run || v->decided)
    return HD_OK;
  HD_TRY(hd__losses_map(&v->losses, ctx, v->run));
  if (v->losses.length / sizeof(double) < (size_t)v->steps) {
    if (v->losses.length > 0)
      decide(v, HD_REFUTED, 0, "%s/losses.bin: expected %lld steps, found %lld", v->run, (long long)v->steps,
             (long long)(v->losses.length / sizeof(double)));
    hd__file_unmap(&v->losses);
    v->losses = (hd_mapping){0};
    return HD_OK;
  }
  const double *sum = (const double *)v->losses.bytes;
  for (int64_t i = 0; i < v->steps && !v->decided; i++)
    HD_TRY(follow_chain(v, ctx, i + 1, sum[i], "losses.bin, "));
  rewind_chain(v);
  return HD_OK;
}

/* The settings, the model and the data that a record of the run states must be the certificate's. */
static hd_status check_record(verify *v, const char *folder) {
  json_auto_t *record = NULL;
  char what[256];
  hd_ctx quiet = {0};
  if (v->decided)
    return HD_OK;
  if (hd__checkpoint_record(&record, &quiet, folder) != HD_OK)
    decide(v, HD_REFUTED, 0, "%.900s", quiet.message);
  else if (hd__compare_records(what, sizeof what, v->certificate, record, folder == v->run))
    decide(v, HD_REFUTED, 0, "%s/run.json: %s%s", folder, what,
           folder == v->run ? "; if the run went on since, certify it again" : "");
  else if (hd__record_check_data(&quiet, record, v->data, "", folder) != HD_OK)
    decide(v, HD_REFUTED, 0, "%.900s", quiet.message);
  return HD_OK;
}

/* ---- Repeating ---- */

static void compare_step(verify *v, int64_t step, double sum) {
  double expected;
  hd_ctx quiet = {0};
  if (step > v->steps) {
    decide(v, HD_REFUTED, step, "step %lld: expected the run to end after step %lld, but it continues", (long long)step,
           (long long)v->steps);
    return;
  }
  if (!v->losses.bytes) {
    follow_chain(v, &quiet, step, sum, "");
    return;
  }
  memcpy(&expected, v->losses.bytes + (step - 1) * (int64_t)sizeof expected, sizeof expected);
  if (memcmp(&expected, &sum, sizeof sum))
    decide(v, HD_REFUTED, step, "step %lld: expected the loss %.17g over the batch, found %.17g", (long long)step,
           expected, sum);
}

static void on_event(void *user, const hd_event *event) {
  verify *v = user;
  if (event->kind != HD_EVENT_STEP || v->decided)
    return;
  compare_step(v, event->step, event->loss_sum);
  v->out->steps++;
  if (v->request->progress && v->request->progress(v->request->user, event->step, v->steps))
    v->interrupted = true;
  if (v->decided || v->interrupted)
    hd_session_stop(v->session);
}

/* The configuration of the whole run, or of a segment from a checkpoint. */
static hd_status configure(hd_config **out, hd_ctx *ctx, const verify *v, const char *resume, int64_t until) {
  json_auto_t *record = NULL; /* of the run: it says, too, when it logged, evaluated and saved */
  if (*v->run && !*resume)
    HD_TRY(hd__checkpoint_record(&record, ctx, v->run));
  HD_TRY(hd__replay_configure(out, ctx, v->layout, record ? record : v->certificate, resume));
  hd_status status = HD_OK;
  if (until > 0)
    status = hd_config_set_int(*out, ctx, HD_OPT_MAX_STEPS, until);
  HD_THEN(status, hd_config_set_text(*out, ctx, HD_OPT_OUT, v->again));
  return HD_CREATED(status, out, hd_config_destroy);
}

static void compare_result(verify *v, const hd_report *r) {
  const struct {
    const char *name;
    double found;
  } value[] = {{"train_loss", r->train_loss}, {"val_loss", r->val_loss},           {"val_accuracy", r->val_accuracy},
               {"test_loss", r->test_loss},   {"test_accuracy", r->test_accuracy}, {"wrong", (double)r->wrong}};
  const json_t *result = json_object_get(v->certificate, "result");
  if (r->steps != v->steps)
    decide(v, HD_REFUTED, r->steps + 1, "expected %lld steps, but the run ends after step %lld", (long long)v->steps,
           (long long)r->steps);
  if (strcmp(r->weights_sha256, v->out->weights_sha256))
    decide(v, HD_REFUTED, 0, "weights: expected SHA-256 %s, found %s", v->out->weights_sha256, r->weights_sha256);
  for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
    const json_t *claimed = json_object_get(result, value[i].name);
    const double expected = json_is_number(claimed) ? json_number_value(claimed) : NAN;
    if (!(expected == value[i].found || (isnan(expected) && !isfinite(value[i].found))))
      decide(v, HD_REFUTED, 0, "%s: expected %.17g, found %.17g", value[i].name, expected, value[i].found);
  }
}

static hd_status train(verify *v, hd_ctx *ctx, bool whole) {
  const bool leads = hd_group_rank(v->request->group) == FIRST_RANK;
  const hd_status status = hd_session_train(v->session, ctx, leads ? on_event : NULL, v);
  if (v->decided || status == HD_E_INTERRUPTED) /* by rank 0, which has decided, or was interrupted */
    return HD_OK;
  if (status == HD_E_NOTFINITE) {
    decide(v, HD_REFUTED, 0, "%.900s", hd_ctx_message(ctx));
    return HD_OK;
  }
  HD_TRY(status);
  if (whole && leads)
    compare_result(v, hd_session_report(v->session));
  return HD_OK;
}

/* resume: a checkpoint, "" for the run's beginning; until: 0 for its end. */
static hd_status repeat(verify *v, hd_ctx *ctx, const char *resume, int64_t until) {
  HD_CONFIG_OWNED *config = NULL;
  HD_TRY(configure(&config, ctx, v, resume, until));
  HD_TRY(hd_ddp(&v->session, ctx, config, v->request->group));
  const hd_status status = train(v, ctx, !until);
  hd_session_destroy(v->session);
  v->session = NULL;
  return status;
}

/* The checkpoint of a step in the run must be that of the repetition. */
static hd_status check_checkpoint(verify *v, hd_ctx *ctx, int64_t step) {
  char claimed[HD_PATH_BYTES], found[HD_PATH_BYTES], what[1024];
  bool differs, resumed;
  HD_TRY(hd__steps_path(claimed, ctx, v->run, step));
  HD_TRY(hd__steps_path(found, ctx, v->again, step));
  if (v->decided || !hd__file_is_folder(claimed) || !hd__file_is_folder(found))
    return HD_OK;
  HD_TRY(hd__history_resumed(&resumed, ctx, v->run));
  const hd_file_pair pair = {claimed, found, .other_end = v->request->spot > 0 || resumed, .same_data = true};
  HD_TRY(hd__compare_checkpoints(&differs, what, sizeof what, ctx, &pair));
  if (differs)
    decide(v, HD_REFUTED, 0, "%s", what);
  return check_record(v, claimed);
}

/* The links of the run must name its last checkpoint, and the best one of the repetition. A checkpoint behind the end
 * is of an earlier training, which the run went back from. */
static hd_status check_links(verify *v, hd_ctx *ctx, const int64_t *step, int count) {
  bool resumed;
  const int64_t last = hd__steps_linked(v->run, "last"), best = hd__steps_linked(v->run, "best");
  HD_TRY(hd__history_resumed(&resumed, ctx, v->run));
  if (count > 0 && last != step[count - 1])
    decide(v, HD_REFUTED, 0, "%s/last: expected a link to step-%lld, the last checkpoint, found another", v->run,
           (long long)step[count - 1]);
  else if (count > 0 && step[count - 1] == v->steps && !resumed && best != hd__steps_linked(v->again, "best"))
    decide(v, HD_REFUTED, 0, "%s/best: expected a link to step-%lld, found another", v->run,
           (long long)hd__steps_linked(v->again, "best"));
  return HD_OK;
}

static hd_status check_folder(verify *v, hd_ctx *ctx, const int64_t *step, int count) {
  char what[1024];
  bool differs;
  if (!*v->run || v->decided || v->interrupted || hd_group_rank(v->request->group) != FIRST_RANK)
    return HD_OK;
  for (int i = 0; i < count; i++)
    HD_TRY(check_checkpoint(v, ctx, step[i]));
  HD_TRY(check_links(v, ctx, step, count));
  HD_TRY(hd__compare_metrics(&differs, what, sizeof what, ctx, v->run, v->again));
  if (!differs)
    HD_TRY(hd__compare_ends(&differs, what, sizeof what, ctx, v->run, v->again));
  if (differs)
    decide(v, HD_REFUTED, 0, "%s", what);
  return HD_OK;
}

/* ---- Segments ---- */

/* Draws `wanted` of `count` segments, in order. */
static void draw(bool *taken, int count, int wanted, int64_t seed) {
  uint32_t word[4];
  int drawn = 0;
  for (uint32_t n = 0; drawn < wanted && drawn < count; n++) {
    hd__rng_block(word, (uint64_t)seed, HD_RNG_SPOT, 0, 0, 0, n);
    const uint32_t at = (uint32_t)(((uint64_t)word[0] * (uint64_t)count) >> 32);
    drawn += !taken[at];
    taken[at] = true;
  }
}

static hd_status repeat_segment(verify *v, hd_ctx *ctx, int64_t from, int64_t until) {
  char resume[HD_PATH_BYTES] = "";
  if (from > 0) {
    HD_TRY(hd__steps_path(resume, ctx, v->run, from));
    HD_TRY(check_record(v, resume));
  }
  if (v->decided)
    return HD_OK;
  HD_TRY(repeat(v, ctx, resume, until));
  if (hd_group_rank(v->request->group) == FIRST_RANK) {
    HD_TRY(check_checkpoint(v, ctx, until));
    hd__remove_run(v->again);
  }
  return share(v, ctx);
}

static hd_status spot(verify *v, hd_ctx *ctx, const int64_t *step, int count) {
  bool taken[MOST_SEGMENTS] = {false};
  int segments = count < MOST_SEGMENTS ? count : MOST_SEGMENTS;
  if (segments == 0) {
    decide(v, HD_NOT_COMPARABLE, 0,
           "%s: expected checkpoints to repeat segments between, found none; train with --keep",
           *v->run ? v->run : v->request->what);
    return HD_OK;
  }
  if (!v->losses.bytes) {
    decide(v, HD_NOT_COMPARABLE, 0, "%s: expected losses.bin, found none; verify it without --spot", v->run);
    return HD_OK;
  }
  draw(taken, segments, v->request->spot, v->out->seed);
  for (int i = 0; i < segments && !v->decided && !v->interrupted; i++)
    if (taken[i])
      HD_TRY(repeat_segment(v, ctx, i ? step[i - 1] : 0, step[i]));
  return HD_OK;
}

/* ---- The verdict ---- */

/* The checkpoints of the run up to its last step, in order. */
static int list_checkpoints(int64_t **step, const verify *v) {
  int count = 0, kept = 0;
  *step = *v->run ? hd__steps_list(&count, v->run) : NULL;
  for (int i = 0; i < count; i++)
    kept += (*step)[i] <= v->steps;
  return kept;
}

/* Weights of the run's end must be the certificate's, whatever the repetition finds. */
static hd_status check_end(verify *v, const int64_t *step, int count) {
  char path[HD_PATH_BYTES], found[HD_SHA256_HEX_BYTES];
  hd_ctx quiet = {0};
  if (v->decided || count == 0 || step[count - 1] != v->steps)
    return HD_OK;
  HD_TRY(hd__steps_path(path, &quiet, v->run, v->steps));
  if (hd_digest(found, &quiet, path) != HD_OK)
    decide(v, HD_REFUTED, 0, "%.900s", quiet.message);
  else if (strcmp(found, v->out->weights_sha256))
    decide(v, HD_REFUTED, 0, "%s: expected weights of SHA-256 %s, found %s", path, v->out->weights_sha256, found);
  return HD_OK;
}

static hd_status check_claims(verify *v, hd_ctx *ctx, const int64_t *step, int count) {
  HD_TRY(check_arithmetic(v, ctx));
  HD_TRY(check_data(v, ctx));
  HD_TRY(check_init(v, ctx));
  if (*v->run)
    HD_TRY(check_record(v, v->run));
  HD_TRY(check_losses(v, ctx));
  return check_end(v, step, count);
}

static hd_status verify_all(verify *v, hd_ctx *ctx) {
  HD_TRY(load(v, ctx));
  if (v->decided)
    return HD_OK;
  v->steps = json_integer_value(json_object_get(v->certificate, "steps"));
  snprintf(v->out->weights_sha256, sizeof v->out->weights_sha256, "%s",
           hd__json_text(v->certificate, "weights_sha256"));
  HD_OWNED int64_t *step = NULL;
  const int count = list_checkpoints(&step, v);
  HD_TRY(check_claims(v, ctx, step, count));
  if (v->decided)
    return HD_OK;
  HD_TRY(hd__scratch_make(v->scratch, v->again, ctx));
  if (v->request->spot > 0) {
    HD_TRY(spot(v, ctx, step, count));
  } else {
    HD_TRY(repeat(v, ctx, "", 0));
    HD_TRY(check_folder(v, ctx, step, count));
  }
  if (*v->changed && !v->interrupted)
    decide(v, HD_REFUTED, 0, "%s", v->changed);
  return share(v, ctx);
}

static hd_status choose_seed(verify *v, hd_ctx *ctx) {
  v->out->seed = v->request->seed;
  if (v->request->spot > 0 && v->out->seed < 0) {
    uint32_t drawn;
    if (getentropy(&drawn, sizeof drawn) != 0)
      return hd__fail(ctx, HD_E_SYSTEM, "cannot get random bytes from the system; give --seed");
    v->out->seed = drawn;
  }
  return share(v, ctx);
}

hd_status hd_verify(hd_verification *out, hd_ctx *ctx, const hd_config *layout, const hd_verify_request *request) {
  HD_ROUNDING_TO_NEAREST;
  hd_verify_request is;
  hd_verification result = {.seed = -1};
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_verification"));
  HD_TRY(hd__struct_read(&is, ctx, request, sizeof is, "hd_verify_request"));
  verify v = {.request = &is, .layout = layout, .out = &result};
  hd_status status = choose_seed(&v, ctx);
  HD_THEN(status, verify_all(&v, ctx));
  hd__scratch_remove(v.scratch, v.again);
  hd__file_unmap(&v.losses);
  hd__chain_fini(&v.chain);
  hd__dataset_close(v.data);
  json_decref(v.certificate);
  hd__struct_write(out, &result, sizeof result);
  return status == HD_OK && v.interrupted ? hd__fail(ctx, HD_E_INTERRUPTED, "stopped before the verdict") : status;
}
