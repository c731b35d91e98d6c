/* What the runs of a sweep read: see sweep_source.h. */
#include "tools/sweep/sweep_source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/version.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/arithmetic_version.h"
#include "train/settings/run_record.h"

static bool is_of_model(hd_option_id option) { return option == HD_OPT_MODEL || option == HD_OPT_RECIPE; }

bool hd__sweep_is_source(hd_option_id option) {
  return is_of_model(option) || hd__record_is_of_data(option) || option == HD_OPT_EVAL_TRANSFORMS ||
         option == HD_OPT_CONTEXT;
}

/* The first run that reads what this run reads. */
static sweep_run *source_of(const hd_sweep *s, int64_t run) {
  return &s->run[hd__grid_first(&s->grid, run, hd__sweep_is_source, false)];
}

hd_status hd__sweep_keep_source(hd_sweep *s, hd_ctx *ctx, int64_t run, const hd_session *session) {
  sweep_run *source = source_of(s, run);
  if (source->model)
    return HD_OK;
  source->written = hd__strdup(hd__network_written(&session->run.network));
  source->model = hd__strdup(session->run.network.text);
  source->library = hd__strdup(hd__session_library(session));
  memcpy(source->data, session->input.data->statistics.checksum, sizeof source->data);
  return HD_ALLOCATED(source->written && source->model && source->library, ctx, "out of memory for a model");
}

hd_status hd__sweep_config(hd_config **out, hd_ctx *ctx, const hd_sweep *s, int64_t run) {
  const char *model = s->run[hd__grid_first(&s->grid, run, is_of_model, false)].written;
  HD_TRY(hd__grid_config(out, ctx, &s->grid, s->fixed, run));
  const hd_status status = model ? hd__config_describe(*out, ctx, model) : HD_OK;
  return HD_CREATED(status, out, hd_config_destroy);
}

/* ---- Runs in the folder ---- */

static hd_status check_arithmetic(hd_ctx *ctx, const json_t *record, const char *model) {
  const int64_t version = hd__checkpoint_arithmetic(record);
  hd_arithmetic_change change = {0};
  hd_network network;
  if (version == HD_ARITHMETIC_VERSION)
    return HD_OK;
  HD_TRY(hd__network_from_text(&network, ctx, model, "the model"));
  hd_status status = HD_OK;
  if (version < HD_ARITHMETIC_VERSION)
    status = hd__arithmetic_changed(&change, ctx, &network, hd__arithmetic_of_record(record), version,
                                    HD_ARITHMETIC_OF_DIGESTS);
  hd__network_fini(&network);
  if (status != HD_OK || (version < HD_ARITHMETIC_VERSION && !change.version))
    return status;
  return hd__fail(
      ctx, HD_E_USAGE,
      "expected version %d of the arithmetic, found a run of version %lld, whose numbers differ; use another "
      "--out",
      HD_ARITHMETIC_VERSION, (long long)version);
}

static hd_status check_record(const hd_sweep *s, hd_ctx *ctx, int64_t run, const json_t *record) {
  HD_CONFIG_OWNED *config = NULL;
  const sweep_run *source = source_of(s, run);
  HD_TRY(hd__grid_config(&config, ctx, &s->grid, s->fixed, run));
  HD_TRY(hd__config_complete(config, ctx));
  if (strcmp(hd__json_text(record, "model_yaml"), source->model))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a run of the model %.200s as it is now, found one of a different description; "
                    "use another --out",
                    hd_config_get(config, "model"));
  HD_TRY(hd__record_check_settings(ctx, record, config, s->halving ? HD_OPT_MAX_STEPS : -1));
  if (strcmp(hd__json_text(record, "library"), source->library))
    return hd__fail(ctx, HD_E_USAGE, "expected a run with the library %.200s, found one with %.200s; use another --out",
                    *source->library ? source->library : "none", hd__json_text(record, "library"));
  if (!hd__record_has_sums(record, source->data))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected a run on the data %.200s as it is now, found one on other data; use another "
                    "--out",
                    hd_config_get(config, "data"));
  return check_arithmetic(ctx, record, source->model);
}

hd_status hd__sweep_check_run(const hd_sweep *s, hd_ctx *ctx, int64_t run, const char *folder) {
  json_auto_t *record = NULL;
  char path[HD_PATH_BYTES], what[HD_MESSAGE_BYTES];
  HD_TRY(hd__file_join(path, ctx, folder, "run.json"));
  if (!hd__file_exists(path))
    return HD_OK;
  HD_TRY(hd__checkpoint_record(&record, ctx, folder));
  const hd_status status = check_record(s, ctx, run, record);
  if (status != HD_E_USAGE)
    return status;
  snprintf(what, sizeof what, "%.600s", hd_ctx_message(ctx));
  return hd__fail(ctx, status, "%.300s: %s; choose another --out, or remove that run", path, what);
}

/* ---- sweep.json ---- */

enum { MODELS, WEIGHTS };

const char *const hd__sweep_sources[HD_SWEEP_SOURCES] = {[MODELS] = "model_yaml", [WEIGHTS] = "init_sha256"};

/* Adds the text of a file to an entry; an earlier start may have kept another one. */
static hd_status add_source(json_t *entries, hd_ctx *ctx, const json_t *kept, int kind, const char *file,
                            const char *text) {
  static const char *const what[HD_SWEEP_SOURCES] = {
      [MODELS] = "the model that this sweep began with, found a different description",
      [WEIGHTS] = "the weights that this sweep began with, found others"};
  static const char *const option[HD_SWEEP_SOURCES] = {[MODELS] = "model", [WEIGHTS] = "init"};
  const char *key = hd__sweep_sources[kind];
  const char *before = json_string_value(json_object_get(json_object_get(kept, key), file));
  if (before && strcmp(before, text))
    return hd__fail(ctx, HD_E_USAGE, "%.300s: expected %s; restore the file, or choose another --out and --%s", file,
                    what[kind], option[kind]);
  if (!json_object_get(entries, key))
    json_object_set_new(entries, key, json_object());
  return HD_ALLOCATED(json_object_set_new(json_object_get(entries, key), file, json_string(text)) == 0, ctx,
                      "out of memory for what a sweep reads");
}

static hd_status hash_file(char hex[HD_SHA256_HEX_BYTES], hd_ctx *ctx, const char *path) {
  char block[1 << 14];
  hd_sha256 *sha = hd__sha256_create();
  FILE *file = fopen(path, "rbe");
  for (size_t got; file && sha && (got = fread(block, 1, sizeof block, file)) > 0;)
    hd__sha256_update(sha, block, got);
  const bool read = file && sha && !ferror(file);
  if (sha)
    hd__sha256_finish(sha, hex);
  if (file)
    fclose(file);
  return read ? HD_OK : hd__fail(ctx, HD_E_IO, "cannot read %.300s: %s", path, strerror(errno));
}

static hd_status add_weights(json_t *entries, hd_ctx *ctx, const json_t *kept, const char *file) {
  char hex[HD_SHA256_HEX_BYTES];
  if (!*file || json_object_get(json_object_get(entries, hd__sweep_sources[WEIGHTS]), file))
    return HD_OK;
  HD_TRY(hash_file(hex, ctx, file));
  return add_source(entries, ctx, kept, WEIGHTS, file, hex);
}

hd_status hd__sweep_read_sources(json_t **out, hd_ctx *ctx, const hd_sweep *s, const json_t *kept) {
  json_t *entries = *out = json_object();
  for (int64_t i = 0; i < s->grid.runs; i++) {
    HD_CONFIG_OWNED *config = NULL;
    HD_TRY(hd__grid_config(&config, ctx, &s->grid, s->fixed, i));
    HD_TRY(hd__config_complete(config, ctx));
    const char *name = hd_config_get(config, "model");
    HD_TRY(add_weights(entries, ctx, kept, hd_config_get(config, "init")));
    if (source_of(s, i) == &s->run[i] && !strchr(name, '\n') && !hd__network_is_built_in(name))
      HD_TRY(add_source(entries, ctx, kept, MODELS, name, s->run[i].written));
  }
  return HD_OK;
}
