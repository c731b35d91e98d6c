/* Making and reading certificates: see certificate.h. */
#include "train/evidence/certificate.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "base/number.h"
#include "base/rounding.h"
#include "data/formats/formats.h"
#include "data/split/skipped_samples.h"
#include "data/split/split_statistics.h"
#include "heddle/evidence.h"
#include "heddle/session.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evidence/certificate_schema.h"
#include "train/run/session.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"
#include "train/settings/run_record.h"

/* ---- The chain of losses ---- */

hd_status hd__chain_add(hd_loss_chain *chain, hd_ctx *ctx, const double *sum, int64_t steps) {
  if (!chain->sha) {
    chain->sha = hd__sha256_create();
    HD_TRY(HD_ALLOCATED(chain->sha, ctx, "out of memory for the digest of the losses"));
    hd__sha256_update(chain->sha, chain->entry, strlen(chain->entry));
  }
  hd__sha256_update(chain->sha, sum, (size_t)steps * sizeof *sum);
  return HD_OK;
}

hd_status hd__chain_mark(hd_loss_chain *chain, hd_ctx *ctx) {
  HD_TRY(hd__chain_add(chain, ctx, NULL, 0));
  hd__sha256_finish(chain->sha, chain->entry);
  chain->sha = NULL;
  return HD_OK;
}

void hd__chain_fini(hd_loss_chain *chain) {
  if (chain->sha)
    hd__sha256_finish(chain->sha, NULL);
  chain->sha = NULL;
}

/* Entries after each interval of steps, and at the last one. */
static hd_status make_chain(json_t **out, hd_ctx *ctx, const double *sum, int64_t steps, int64_t every) {
  HD_RELEASED(hd__chain_fini) hd_loss_chain chain = {0};
  json_t *list = *out = json_array();
  for (int64_t at = 0, next; at < steps; at = next) {
    next = at + every < steps ? at + every : steps;
    HD_TRY(hd__chain_add(&chain, ctx, sum + at, next - at));
    HD_TRY(hd__chain_mark(&chain, ctx));
    json_array_append_new(list, json_pack("{s:I, s:s}", "step", (json_int_t)next, "sha256", chain.entry));
  }
  return HD_OK;
}

/* ---- Digests of data ---- */

static hd_status hash_samples(char hex[HD_SHA256_HEX_BYTES], hd_ctx *ctx, const hd_split *split) {
  hd_sha256 *sha = hd__sha256_create();
  HD_OWNED void *elems = hd__malloc((size_t)hd__split_most_bytes(split));
  hd_status status = HD_ALLOCATED(sha && elems, ctx, "out of memory for the digest of the data");
  for (int64_t i = 0; i < split->count && status == HD_OK; i++) {
    int size[2];
    if (hd__skips_has(split, i))
      continue;
    status = hd__split_get(elems, size, ctx, split, i);
    if (status == HD_OK)
      hd__sha256_update(sha, elems,
                        (size_t)((int64_t)split->channels * size[0] * size[1] * hd__split_elem_bytes(split)));
  }
  if (sha)
    hd__sha256_finish(sha, hex);
  return status;
}

static void hash_tokens(void *sha, const int32_t *label, int32_t count) {
  hd__sha256_update(sha, label, (size_t)count * sizeof *label);
}

static hd_status hash_labels(char hex[HD_SHA256_HEX_BYTES], hd_ctx *ctx, const hd_split *split) {
  const int64_t each = split->targets ? split->outputs * (int64_t)sizeof(float) : (int64_t)sizeof(int32_t);
  const char *all = split->targets ? (const char *)split->targets : (const char *)split->labels;
  hd_sha256 *sha = hd__sha256_create();
  HD_TRY(HD_ALLOCATED(sha, ctx, "out of memory for the digest of the data"));
  if (split->window)
    hd__split_walk_labels(split, hash_tokens, sha);
  for (int64_t i = 0; i < split->count && all; i++)
    if (!hd__skips_has(split, i))
      hd__sha256_update(sha, all + i * each, (size_t)each);
  if (split->masks)
    hd__sha256_update(sha, split->masks, (size_t)hd__split_mask_bytes(split));
  for (int64_t i = 0; split->weights && i < split->count; i++)
    hd__sha256_update(sha, split->weights + i, sizeof *split->weights);
  hd__sha256_finish(sha, hex);
  return HD_OK;
}

hd_status hd__data_sha256(char hex[HD_DATA_PARTS][HD_SHA256_HEX_BYTES], hd_ctx *ctx, const hd_dataset *data) {
  const hd_split *const split[] = {hd__dataset_train(data), hd__dataset_test(data)};
  for (int i = 0; i < 2; i++) {
    HD_TRY(hash_samples(hex[2 * i], ctx, split[i]));
    HD_TRY(hash_labels(hex[2 * i + 1], ctx, split[i]));
  }
  return HD_OK;
}

/* ---- Files of a run ---- */

/* Takes over `line`. */
static void replace(json_t **last, json_t *line) {
  json_decref(*last);
  *last = line;
}

hd_status hd__history_lines(hd_ctx *ctx, const char *run, hd_history_fn *take, void *to) {
  char path[HD_PATH_BYTES], *line = NULL;
  size_t room = 0;
  HD_FILE_OWNED *from = NULL;
  HD_TRY(hd__file_join(path, ctx, run, "history.jsonl"));
  HD_TRY(hd__file_open_if_there(&from, ctx, path));
  while (from && getline(&line, &room, from) >= 0) {
    json_t *object = json_loads(line, 0, NULL);
    const char *type = json_string_value(json_object_get(object, "type"));
    take(to, object, type ? type : "");
    json_decref(object);
  }
  free(line);
  return HD_OK;
}

static void take_last(void *to, json_t *line, const char *type) {
  json_t **last = to; /* start, end */
  const bool ends = !strcmp(type, "end");
  if (!ends && strcmp(type, "start") != 0)
    return; /* a line that was cut */
  replace(&last[ends], json_incref(line));
  if (!ends)
    replace(&last[1], NULL);
}

hd_status hd__history_read(json_t **start, json_t **end, hd_ctx *ctx, const char *run) {
  json_t *last[2] = {NULL, NULL};
  const hd_status status = hd__history_lines(ctx, run, take_last, last);
  *start = last[0];
  *end = last[1];
  return status;
}

static void note_resume(void *to, json_t *line, const char *type) {
  *(bool *)to |= !strcmp(type, "start") && json_integer_value(json_object_get(line, "step")) > 0;
}

hd_status hd__history_resumed(bool *resumed, hd_ctx *ctx, const char *run) {
  *resumed = false;
  return hd__history_lines(ctx, run, note_resume, resumed);
}

static hd_status request_of(hd_config **out, hd_ctx *ctx, const json_t *record, const hd_config *config) {
  HD_TRY(hd__config_copy(out, ctx, config));
  HD_TRY(hd__record_take_rules(*out, ctx, record, "the record"));
  for (int id = 0; hd_option_at(id); id++) {
    const char *text = hd__record_is_of_data((hd_option_id)id) ? hd__record_setting(record, (hd_option_id)id) : "";
    if (*text && !hd__config_given(*out, (hd_option_id)id))
      HD_TRY(hd__config_suggest(*out, ctx, (hd_option_id)id, text));
  }
  return HD_OK;
}

HD_RELEASER(release_data, hd_dataset, hd__dataset_close)

hd_status hd__certificate_data(hd_dataset **out, hd_ctx *ctx, const json_t *record, const hd_config *config) {
  HD_CONFIG_OWNED *merged = NULL;
  HD_TRY(request_of(&merged, ctx, record, config));
  HD_RELEASED(hd__network_fini) hd_network network = {0};
  HD_TRY(hd__network_from_text(&network, ctx, hd__json_text(record, "model_yaml"), "model_yaml"));
  const hd_dataset_request request = hd__network_request(&network, merged);
  return hd__dataset_open(out, ctx, &request);
}

/* ---- Making ---- */

static json_t *settings_of(const json_t *record) {
  json_t *settings = json_object(), *recorded = json_object_get(record, "settings");
  for (int i = 0; hd_option_at(i); i++) {
    if (hd__certificate_states(i))
      json_object_set(settings, hd_option_at(i)->name, json_object_get(recorded, hd_option_at(i)->name));
  }
  return settings;
}

/* Digests of the data as it is now, which must be the run's. `layout`: says where it is, if it names data. */
static hd_status data_of(json_t **out, hd_ctx *ctx, const json_t *record, const char *run, const hd_config *layout) {
  HD_CONFIG_OWNED *none = NULL;
  HD_RELEASED(release_data) hd_dataset *data = NULL;
  char hex[HD_DATA_PARTS][HD_SHA256_HEX_BYTES];
  if (json_is_true(json_object_get(json_object_get(json_object_get(record, "data"), "features"), "given")))
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected rows normalised by their own statistics, found those of an ONNX file, which a "
                    "certificate cannot state; train without its first nodes",
                    run);
  HD_TRY(hd_config_create(&none, ctx));
  HD_TRY(hd__certificate_data(&data, ctx, record, layout ? layout : none));
  HD_TRY(hd__record_check_data(ctx, record, data, "", run));
  HD_TRY(hd__data_sha256(hex, ctx, data));
  json_t *list = json_array();
  for (int i = 0; i < HD_DATA_PARTS; i++)
    json_array_append_new(list, json_string(hex[i]));
  *out = json_pack("{s:I, s:I, s:o}", "train_samples", (json_int_t)hd__dataset_train(data)->count, "test_samples",
                   (json_int_t)hd__dataset_test(data)->count, "sha256", list);
  if (*out && !data->first_rules)
    json_object_set_new(*out, "rules", json_integer(HD_DATA_RULES));
  return HD_ALLOCATED(*out, ctx, "out of memory for the certificate");
}

static json_t *result_of(const json_t *end) {
  static const char *const key[] = {"train_loss", "val_loss", "val_accuracy", "test_loss", "test_accuracy", "wrong"};
  json_t *result = json_object();
  for (size_t i = 0; i < sizeof key / sizeof *key; i++)
    json_object_set(result, key[i], json_object_get(end, key[i]));
  return result;
}

/* A repetition ends where the settings say, and no later. */
static hd_status check_last_step(hd_ctx *ctx, const json_t *record, const json_t *start, const json_t *end,
                                 const char *run) {
  static const hd_option_id id[] = {HD_OPT_MAX_STEPS, HD_OPT_EPOCHS};
  const long long step = json_integer_value(json_object_get(end, "step"));
  const int64_t epoch = json_integer_value(json_object_get(start, "epoch_steps"));
  for (int i = 0; i < 2; i++) {
    const char *text = hd__record_setting(record, id[i]);
    double most;
    if (!hd__parse_double(&most, text) || most <= 0 || (i == 1 && epoch < 1))
      continue;
    if ((double)step > (i == 0 ? most : (double)hd__schedule_steps(most, epoch)))
      return hd__fail(ctx, HD_E_USAGE,
                      "%s/run.json: expected %s as the run had it, found %.40s, though the run ended at step %lld: a "
                      "resume that trained nothing stored it; continue the run to a later end with --resume %s",
                      run, hd_option_at((int)id[i])->name, text, step, run);
  }
  return HD_OK;
}

/* The run's end, if it has one. */
static hd_status find_end(json_t **out, hd_ctx *ctx, const json_t *record, const char *run) {
  json_auto_t *start = NULL;
  HD_TRY(hd__history_read(&start, out, ctx, run));
  const json_t *end = *out;
  const char *how = json_string_value(json_object_get(end, "end"));
  if (!start)
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: expected a run's folder with history.jsonl, found none; name the run, not a step of it, and "
                    "train a run of an earlier heddle again",
                    run);
  hd_ctx begun = {0};
  if ((!how || strcmp(how, "done")) && hd__checkpoint_check_begun(&begun, run) != HD_OK)
    return hd__fail(ctx, HD_E_USAGE, "%s", begun.message);
  if (!how || strcmp(how, "done") || !json_is_string(json_object_get(end, "weights_sha256")))
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: expected a run that has ended, found one that %s; continue it with --resume %s", run,
                    how && !strcmp(how, "failed") ? "failed" : "has not", run);
  if (!json_is_string(json_object_get(end, "losses_sha256")))
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: expected the losses of all steps in losses.bin, but some are missing: the run was resumed "
                    "without them; train it again",
                    run);
  return check_last_step(ctx, record, start, end, run);
}

/* The losses must be those with which the run ended. */
static hd_status check_losses_digest(char *changed, hd_ctx *ctx, const char *run, const json_t *end) {
  char found[HD_SHA256_HEX_BYTES], what[HD_CHANGED_BYTES];
  const int64_t steps = json_integer_value(json_object_get(end, "step"));
  HD_TRY(hd__losses_digest(found, ctx, run, steps));
  const char *claimed = json_string_value(json_object_get(end, "losses_sha256"));
  if (!strcmp(found, claimed))
    return HD_OK;
  snprintf(what, sizeof what, "%.700s/losses.bin: expected SHA-256 %.80s of %lld steps, found %s; the file was changed",
           run, claimed, (long long)steps, *found ? found : "fewer steps");
  if (changed)
    memcpy(changed, what, sizeof what);
  return changed && *found ? HD_OK : hd__fail(ctx, HD_E_FORMAT, "%s", what);
}

static hd_status fill(json_t *certificate, hd_ctx *ctx, const char *run, const json_t *record, const json_t *end,
                      const hd_config *layout) {
  HD_MAPPED losses = {0};
  json_t *data = NULL, *chain = NULL;
  const int64_t steps = json_integer_value(json_object_get(end, "step"));
  HD_TRY(hd__losses_map(&losses, ctx, run));
  hd_status status = make_chain(&chain, ctx, (const double *)losses.bytes, steps, hd__certificate_every(steps));
  json_object_set_new(certificate, "chain", chain);
  HD_THEN(status, data_of(&data, ctx, record, run, layout));
  json_object_set_new(certificate, "data", data);
  return status;
}

hd_status hd__certificate_make(json_t **out, hd_ctx *ctx, const char *run, const hd_config *layout,
                               char changed[HD_CHANGED_BYTES]) {
  json_auto_t *record = NULL;
  json_auto_t *end = NULL;
  char init[HD_SHA256_HEX_BYTES] = "";
  HD_TRY(hd__checkpoint_record(&record, ctx, run));
  double scale;
  if (hd__record_lr(&scale, record))
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: expected a run whose options define its learning rate, found one whose program set it; use "
                    "--schedule for a run that others can repeat",
                    run);
  int64_t steps, epochs;
  hd__checkpoint_earlier(&steps, &epochs, record);
  if (*hd__json_text(record, "program_loss") || *hd__json_text(record, "program_metric"))
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: expected a run that its files define, found one with a loss or a metric of its program; train "
                    "it with a loss of heddle's for a run that others can repeat",
                    run);
  if (steps > 0 || epochs > 0)
    return hd__fail(
        ctx, HD_E_USAGE,
        "%s: expected a run from its first step on, found one that goes on from another run, whose data its "
        "files do not have; train it in one piece",
        run);
  if (hd__record_earlier_arithmetic(record))
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: steps of this run were computed by version %d of the arithmetic and others by version %lld, "
                    "whose numbers differ; no heddle can repeat it, train it again",
                    run, hd__record_earlier_arithmetic(record), (long long)hd__checkpoint_arithmetic(record));
  HD_TRY(find_end(&end, ctx, record, run));
  HD_TRY(check_losses_digest(changed, ctx, run, end));
  if (*hd__record_setting(record, HD_OPT_INIT))
    HD_TRY(hd_digest(init, ctx, hd__record_setting(record, HD_OPT_INIT)));
  *out = json_pack("{s:i, s:O, s:O, s:o, s:s*, s:O, s:O, s:o}", "certificate", HD_CERTIFICATE_VERSION,
                   "arithmetic_version", json_object_get(record, "arithmetic_version"), "model_yaml",
                   json_object_get(record, "model_yaml"), "settings", settings_of(record), "init_sha256",
                   *init ? init : NULL, "steps", json_object_get(end, "step"), "weights_sha256",
                   json_object_get(end, "weights_sha256"), "result", result_of(end));
  HD_TRY(HD_ALLOCATED(*out, ctx, "out of memory for the certificate"));
  hd_status status = fill(*out, ctx, run, record, end, layout);
  HD_THEN(status, hd__certificate_check(ctx, *out, run));
  if (status != HD_OK) {
    json_decref(*out);
    *out = NULL;
  }
  return status;
}

enum { LAYOUT = JSON_INDENT(2) | JSON_PRESERVE_ORDER };

static hd_status write_json(FILE *to, hd_ctx *ctx, void *arg) {
  char *text = hd__json_dump(arg, LAYOUT);
  HD_TRY(HD_ALLOCATED(text, ctx, "out of memory for the certificate"));
  const int failed = fputs(text, to) == EOF || fputc('\n', to) == EOF;
  free(text);
  return failed ? hd__file_check(ctx, to, "the certificate") : HD_OK;
}

hd_status hd_certify(hd_ctx *ctx, const char *run, const char *path) {
  HD_ROUNDING_TO_NEAREST;
  json_auto_t *certificate = NULL;
  char own[HD_PATH_BYTES];
  HD_TRY(hd__certificate_make(&certificate, ctx, run, NULL, NULL));
  if (path)
    return hd__file_write_named(ctx, path, write_json, certificate);
  HD_TRY(hd__file_join(own, ctx, run, "certificate.json"));
  return hd__file_write(ctx, own, write_json, certificate);
}

/* ---- Reading ---- */

/* The file has exactly this text and a newline. Frees the text. */
static bool has_text(const hd_mapping *file, char *text) {
  const size_t length = text ? strlen(text) : 0;
  const bool has = text && file->length == length + 1 && !memcmp(file->bytes, text, length) &&
                   ((const char *)file->bytes)[length] == '\n';
  free(text);
  return has;
}

/* The file must be as certify writes it, or wrote it up to 0.2.0; so it contains nothing that was not compared. */
static hd_status check_text(hd_ctx *ctx, const json_t *certificate, const hd_mapping *file, const char *path) {
  char *text = hd__json_dump(certificate, LAYOUT);
  HD_TRY(HD_ALLOCATED(text, ctx, "out of memory for the certificate"));
  if (has_text(file, text) || has_text(file, hd__json_dump_long(certificate, LAYOUT)))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected a certificate as heddle certify writes it, found other text, such as other spaces or "
                  "line ends; verify the original file, or make one with heddle certify RUN",
                  path);
}

hd_status hd__certificate_read(json_t **out, hd_ctx *ctx, const char *path) {
  HD_MAPPED file = {0};
  json_error_t error;
  HD_TRY(hd__file_read(&file, ctx, path));
  *out = json_loadb(file.bytes ? (const char *)file.bytes : "", file.length, JSON_REJECT_DUPLICATES, &error);
  if (!*out)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s:%d: expected a certificate, found no JSON: %s; make a certificate "
                    "with heddle certify RUN",
                    path, error.line, error.text);
  hd_status status = hd__certificate_check(ctx, *out, path);
  HD_THEN(status, check_text(ctx, *out, &file, path));
  if (status != HD_OK) {
    json_decref(*out);
    *out = NULL;
  }
  return status;
}
