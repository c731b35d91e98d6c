/* From the caller's words to a sweep that can run: what varies, sweep.json, and everything that can fail without
 * training.
 *
 * sweep.json is written once, under the folder's lock, when every check has passed; a later start must say the same, or
 * nothing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/alloc.h"
#include "base/json_text.h"
#include "platform/cgroup.h"
#include "tools/sweep/sweep_source.h"

/* Waits until another process has written sweep.json, at first silently. */
static const double QUIET_S = 1, LOCK_S = 30;

HD_RELEASER(release_session, hd_session, hd_session_destroy)
HD_RELEASER(release_machine, hd_topology, hd_topology_destroy)
HD_RELEASER(release_place, hd_placement, hd_placement_destroy)

/* ---- What is swept ---- */

/* Keeps an entry about what runs read, as a sweep.json has it. */
static hd_status read_source(hd_sweep *s, hd_ctx *ctx, const hd_yaml_node *entry) {
  const char *text;
  HD_TRY(hd__yaml_expect(ctx, entry, HD_YAML_MAPPING, "contents of files (FILE: TEXT)"));
  if (!s->kept)
    s->kept = json_object();
  json_t *files = json_object();
  json_object_set_new(s->kept, entry->key, files);
  for (int i = 0; i < entry->count; i++) {
    HD_TRY(hd__yaml_text(&text, ctx, &entry->item[i]));
    json_object_set_new(files, entry->item[i].key, json_string(text));
  }
  return HD_OK;
}

static hd_status read_entries(hd_sweep *s, hd_ctx *ctx, const hd_yaml_node *root) {
  const char *const others[] = {"vary", "draws", "halving", "rank_by", hd__sweep_sources[0], hd__sweep_sources[1],
                                NULL};
  const hd_yaml_node *vary = hd__yaml_get(root, "vary"), *draws = hd__yaml_get(root, "draws"),
                     *halving = hd__yaml_get(root, "halving"), *metric = hd__yaml_get(root, "rank_by");
  const char *text;
  if (vary)
    HD_TRY(hd__yaml_expect(ctx, vary, HD_YAML_MAPPING, "options to vary (KEY: VALUES)"));
  for (int i = 0; vary && i < vary->count; i++)
    HD_TRY(hd__grid_add_node(&s->grid, ctx, &vary->item[i]));
  if (draws && !s->draws)
    HD_TRY(hd__yaml_int(&s->draws, ctx, draws, 1, HD_SWEEP_MOST_RUNS));
  if (halving && !s->halving)
    HD_TRY(hd__yaml_int(&s->halving, ctx, halving, 2, HD_SWEEP_MOST_RUNS));
  if (metric && !*s->asked) {
    HD_TRY(hd__yaml_text(&text, ctx, metric));
    snprintf(s->asked, sizeof s->asked, "%s", text);
  }
  for (int i = 0; i < HD_SWEEP_SOURCES; i++)
    if (hd__yaml_get(root, hd__sweep_sources[i]))
      HD_TRY(read_source(s, ctx, hd__yaml_get(root, hd__sweep_sources[i])));
  return hd__config_take(s->fixed, ctx, root, others);
}

static hd_status read_file(hd_sweep *s, hd_ctx *ctx, const char *path) {
  HD_YAML_OWNED *yaml = NULL;
  hd_status status = hd__yaml_read(&yaml, ctx, path);
  HD_THEN(status, hd__yaml_expect(ctx, hd__yaml_root(yaml), HD_YAML_MAPPING, "settings (NAME: VALUE)"));
  HD_THEN(status, read_entries(s, ctx, hd__yaml_root(yaml)));
  return status == HD_E_FORMAT || status == HD_E_IO ? HD_E_USAGE : status;
}

/* Words with "=" vary, others are files; without a word the folder says what is swept. */
static hd_status read_words(hd_sweep *s, hd_ctx *ctx, const char *const *word) {
  char path[HD_PATH_BYTES];
  HD_FILE_OWNED *there = NULL;
  HD_TRY(hd__file_join(path, ctx, s->folder, "sweep.json"));
  HD_TRY(hd__file_open_if_there(&there, ctx, path));
  if ((!word || !*word) && there)
    return read_file(s, ctx, path);
  for (; word && *word; word++) {
    const char *equals = strchr(*word, '=');
    char key[64];
    if (!equals) {
      HD_TRY(read_file(s, ctx, *word));
      continue;
    }
    snprintf(key, sizeof key, "%.*s", (int)(equals - *word), *word);
    HD_TRY(hd__grid_add(&s->grid, ctx, key, equals + 1));
  }
  return HD_OK;
}

/* The last key: one fold after the other. A sweep.json may have it already. */
static hd_status add_folds(hd_sweep *s, hd_ctx *ctx, int64_t folds) {
  char part[48];
  for (int a = 0; a < s->grid.axes; a++)
    if (folds > 0 && s->grid.axis[a].option == HD_OPT_FOLD)
      return s->grid.axis[a].count == folds
                 ? HD_OK
                 : hd__fail(ctx, HD_E_USAGE,
                            "--folds %lld expects a sweep of that many folds, found %lld; choose another --out",
                            (long long)folds, (long long)s->grid.axis[a].count);
  for (int64_t i = 1; i <= folds; i++) {
    snprintf(part, sizeof part, "%lld/%lld", (long long)i, (long long)folds);
    HD_TRY(i == 1 ? hd__grid_add(&s->grid, ctx, "fold", part) : hd__grid_extend(&s->grid, ctx, part));
  }
  return HD_OK;
}

static hd_status check_fixed(const hd_sweep *s, hd_ctx *ctx) {
  static const hd_option_id refused[] = {HD_OPT_RESUME, HD_OPT_PROFILE, HD_OPT_TENSORBOARD, HD_OPT_ACCEPT_ARITHMETIC,
                                         HD_OPT_PROCS};
  bool patience = hd__config_given(s->fixed, HD_OPT_PATIENCE);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (hd__config_given(s->fixed, refused[i]))
      return hd__fail(ctx, HD_E_USAGE, "a sweep expects options that all its runs can have, found --%s; leave it out",
                      hd_option_at((int)refused[i])->name);
  for (int a = 0; a < s->grid.axes; a++) {
    const hd_axis *axis = &s->grid.axis[a];
    const hd_option *option = hd_option_at((int)axis->option);
    patience |= axis->option == HD_OPT_PATIENCE;
    if (hd__config_given(s->fixed, axis->option))
      return hd__fail(ctx, HD_E_USAGE, "%s is both varied and fixed: %s, and --%s %s; leave one out", option->name,
                      axis->count > 0 ? axis->value[0] : "nothing", option->name,
                      hd_config_get(s->fixed, option->name));
  }
  return !s->halving || !patience ? HD_OK
                                  : hd__fail(ctx, HD_E_USAGE,
                                             "--halving expects runs of a known number of steps, found patience; "
                                             "leave one out");
}

static hd_status check_metric(const hd_sweep *s, hd_ctx *ctx) {
  static const char *const name[] = {"test_accuracy", "test_loss", "val_accuracy", "val_loss", "train_loss"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++)
    if (!*s->asked || !strcmp(s->asked, name[i]))
      return HD_OK;
  return hd__fail(
      ctx, HD_E_USAGE,
      "--rank-by expects test_accuracy, test_loss, val_accuracy, val_loss or train_loss, found '%s'; name one of "
      "these",
      s->asked);
}

/* ---- sweep.json ---- */

static json_t *values_of(const hd_axis *axis) {
  json_t *list = json_array();
  for (int64_t i = 0; i < axis->count; i++)
    json_array_append_new(list, json_string(axis->value[i]));
  return list;
}

/* What is swept, as a file that hd_sweep_create reads. */
static json_t *spec_of(const hd_sweep *s) {
  json_t *spec = json_object(), *vary = json_object();
  for (int a = 0; a < s->grid.axes; a++)
    json_object_set_new(vary, hd_option_at((int)s->grid.axis[a].option)->name,
                        s->grid.axis[a].draw ? json_string(s->grid.axis[a].value[0]) : values_of(&s->grid.axis[a]));
  json_object_set_new(spec, "vary", vary);
  if (s->draws)
    json_object_set_new(spec, "draws", json_integer(s->draws));
  if (s->halving)
    json_object_set_new(spec, "halving", json_integer(s->halving));
  if (*s->asked)
    json_object_set_new(spec, "rank_by", json_string(s->asked));
  for (int i = 0; hd_option_at(i); i++)
    if (hd__config_given(s->fixed, (hd_option_id)i) && hd_option_at(i)->kind != HD_OPTION_LAYOUT && i != HD_OPT_OUT &&
        i != HD_OPT_JSON)
      json_object_set_new(spec, hd_option_at(i)->name, json_string(hd_config_get(s->fixed, hd_option_at(i)->name)));
  return spec;
}

/* The first entry of `a` that differs or is missing in `b`. */
static const char *difference(json_t *a, json_t *b) {
  const char *key;
  json_t *value;
  json_object_foreach(a, key, value) {
    char *x = hd__json_dump(value, JSON_ENCODE_ANY), *y = hd__json_dump(json_object_get(b, key), JSON_ENCODE_ANY);
    const bool same = x && y && !strcmp(x, y);
    free(x);
    free(y);
    if (!same)
      return key;
  }
  return NULL;
}

/* Moves the entries about what runs read from a sweep.json to those that are kept. */
static void keep_sources(hd_sweep *s, json_t *old) {
  if (!s->kept)
    s->kept = json_object();
  for (int i = 0; i < HD_SWEEP_SOURCES; i++) {
    const char *key = hd__sweep_sources[i];
    json_t *kept = json_object_get(s->kept, key);
    if (kept)
      json_object_update_missing(kept, json_object_get(old, key));
    else
      json_object_set(s->kept, key, json_object_get(old, key));
    json_object_del(old, key);
  }
}

/* What runs read is compared by itself: an earlier heddle kept nothing about it. */
static hd_status check_same(hd_sweep *s, hd_ctx *ctx, const char *path, json_t *spec) {
  json_auto_t *old = hd__sweep_json(path);
  keep_sources(s, old);
  const char *key = difference(old, spec);
  if (old && !key)
    key = difference(spec, old);
  if (old && !key)
    return HD_OK;
  char *is = old ? hd__json_dump(json_object_get(old, key), JSON_ENCODE_ANY) : NULL;
  char *found = old ? hd__json_dump(json_object_get(spec, key), JSON_ENCODE_ANY) : NULL;
  hd__fail(ctx, HD_E_USAGE,
           "%s: expected the sweep of that folder, with %s %.150s, found %.150s; choose another --out, or give --out "
           "alone to continue",
           path, old ? key : "a JSON object", is ? is : "unset", found ? found : "unset");
  free(is);
  free(found);
  return HD_E_USAGE;
}

static hd_status lock_folder(int *lock, const hd_sweep *s, hd_ctx *ctx) {
  char who[HD_LOCK_WHO_BYTES], text[HD_LOCK_WHO_BYTES + 64];
  hd_ctx quiet = {0};
  const hd_sweep_event event = {.run = -1, .metric = NAN, .best = -1, .best_metric = NAN, .text = text};
  if (hd__file_lock_folder(lock, &quiet, s->folder, QUIET_S) == HD_OK)
    return HD_OK;
  hd__file_lock_state(who, s->folder);
  snprintf(text, sizeof text, "waiting up to %.0f s for the lock of the folder%s%s", LOCK_S, *who ? ", held by " : "",
           who);
  if (s->on_event)
    s->on_event(s->user, &event);
  return hd__file_lock_folder(lock, ctx, s->folder, LOCK_S);
}

/* The runs read the same models, weights and data as at the sweep's beginning, if it began. */
static hd_status check_sources(const hd_sweep *s, hd_ctx *ctx) {
  json_auto_t *sources = NULL;
  return hd__sweep_read_sources(&sources, ctx, s, s->kept);
}

static hd_status write_spec(const hd_sweep *s, hd_ctx *ctx, json_t *spec) {
  json_auto_t *sources = NULL;
  HD_TRY(hd__sweep_read_sources(&sources, ctx, s, s->kept));
  json_object_update(spec, sources);
  char *text = hd__json_dump(spec, JSON_INDENT(1));
  hd_status status = HD_ALLOCATED(text, ctx, "out of memory for the sweep");
  HD_THEN(status, hd__sweep_write(s, ctx, "sweep.json", text));
  free(text);
  return status;
}

/* The folder's sweep.json is this sweep. */
static hd_status check_folder(hd_sweep *s, hd_ctx *ctx) {
  char path[HD_PATH_BYTES];
  json_auto_t *spec = spec_of(s);
  HD_TRY(hd__file_join(path, ctx, s->folder, "sweep.json"));
  return hd__file_exists(path) ? check_same(s, ctx, path, spec) : HD_OK;
}

/* Writes sweep.json unless it is there. */
static hd_status claim_folder(hd_sweep *s, hd_ctx *ctx) {
  char path[HD_PATH_BYTES];
  int lock = -1;
  json_auto_t *spec = spec_of(s);
  HD_TRY(hd__file_join(path, ctx, s->folder, "sweep.json"));
  HD_TRY(hd__file_make_folder(ctx, s->folder));
  HD_TRY(lock_folder(&lock, s, ctx));
  const bool is_there = hd__file_exists(path);
  hd_status status = is_there ? check_same(s, ctx, path, spec) : write_spec(s, ctx, spec);
  if (is_there)
    HD_THEN(status, check_sources(s, ctx));
  hd__file_unlock(&lock);
  return status;
}

/* ---- Checks before the first run ---- */

hd_status hd__sweep_fail(hd_ctx *ctx, hd_status status, const hd_sweep *s, int64_t run) {
  char text[512] = "", value[HD_SWEEP_VALUE_BYTES], what[HD_MESSAGE_BYTES];
  size_t at = 0;
  snprintf(what, sizeof what, "%.600s", hd_ctx_message(ctx));
  for (int a = 0; a < s->grid.axes && at < sizeof text; a++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s", a ? ", " : "",
                           hd_option_at((int)s->grid.axis[a].option)->name, hd__grid_value(value, &s->grid, run, a));
  return hd__fail(ctx, status, "run-%04lld (%.300s): %s", (long long)run + 1, text, what);
}

static bool is_not_seed(hd_option_id option) { return option != HD_OPT_SEED; }

/* What a plan or the number of steps depends on; other settings are numbers of the update rule. */
static bool is_of_plan(hd_option_id option) {
  const hd_option_type type = hd_option_at((int)option)->type;
  return option == HD_OPT_VAL_SPLIT || option == HD_OPT_EPOCHS ||
         (option != HD_OPT_SEED && type != HD_OPTION_REAL && type != HD_OPTION_PAIR);
}

static hd_status check_settings(const hd_sweep *s, hd_ctx *ctx) {
  for (int64_t i = 0; i < s->grid.runs; i++) {
    HD_CONFIG_OWNED *config = NULL;
    if (hd__grid_first(&s->grid, i, is_not_seed, true) != i)
      continue;
    hd_status status = hd__grid_config(&config, ctx, &s->grid, s->fixed, i);
    HD_THEN(status, hd__config_complete(config, ctx));
    if (status != HD_OK)
      return hd__sweep_fail(ctx, status, s, i);
  }
  return HD_OK;
}

/* The metric of a sweep that names none, and whether the runs have it. */
static hd_status choose_metric(hd_sweep *s, hd_ctx *ctx, const hd_session *session) {
  const hd_split *test = session->input.test.split;
  const bool classes = hd__target_judges(&session->run.network.target, test) || test->masks || test->whole_answers;
  snprintf(s->metric, sizeof s->metric, "%s", *s->asked ? s->asked : classes ? "test_accuracy" : "test_loss");
  s->report.rises = strstr(s->metric, "accuracy") != NULL;
  if (!strncmp(s->metric, "val", 3) && session->input.val.count == 0)
    return hd__fail(ctx, HD_E_USAGE, "--rank-by %s expects a validation set, found none; add --val-split", s->metric);
  if (s->report.rises && !classes)
    return hd__fail(ctx, HD_E_USAGE,
                    "--rank-by %s expects a model that predicts classes, found one that predicts numbers; use a loss",
                    s->metric);
  return HD_OK;
}

/* Sets up a run without a folder: determines its number of steps, and finds other failures. */
static hd_status rehearse(hd_sweep *s, hd_ctx *ctx, int64_t run) {
  HD_CONFIG_OWNED *config = NULL;
  HD_RELEASED(release_session) hd_session *session = NULL;
  hd_status status = hd__sweep_config(&config, ctx, s, run);
  if (!hd__config_given(s->fixed, HD_OPT_THREADS))
    HD_THEN(status, hd_config_set_int(config, ctx, HD_OPT_THREADS, 1));
  HD_THEN(status, hd__session_create(&session, ctx, config, &(hd_session_use){.rehearses = true, .lock = -1}));
  if (status != HD_OK)
    return hd__sweep_fail(ctx, status, s, run);
  s->run[run].steps = session->run.steps_in_all;
  const int64_t bytes = hd_session_report(session)->memory_bytes;
  s->bytes = bytes > s->bytes ? bytes : s->bytes;
  HD_TRY(hd__sweep_keep_source(s, ctx, run, session));
  return run == 0 ? choose_metric(s, ctx, session) : HD_OK;
}

/* Of one run for each model and data, or of one of each plan. */
static hd_status rehearse_runs(hd_sweep *s, hd_ctx *ctx, bool each_plan) {
  bool drawn = false;
  for (int a = 0; a < s->grid.axes; a++)
    drawn |= s->grid.axis[a].draw && is_of_plan(s->grid.axis[a].option);
  for (int64_t i = 0; i < s->grid.runs; i++) {
    const int64_t first = hd__grid_first(&s->grid, i, is_of_plan, drawn);
    if (hd__grid_first(&s->grid, i, hd__sweep_is_source, false) == i || (each_plan && first == i))
      HD_TRY(rehearse(s, ctx, i));
    s->run[i].steps = s->run[first].steps;
  }
  return HD_OK;
}

/* The folder may hold runs from before its sweep.json was removed, or files were changed. */
static hd_status check_runs(const hd_sweep *s, hd_ctx *ctx) {
  char folder[HD_PATH_BYTES];
  for (int64_t i = 0; i < s->grid.runs; i++) {
    HD_TRY(hd__sweep_path(folder, s, ctx, i));
    const hd_status status = hd__sweep_check_run(s, ctx, i, folder);
    if (status != HD_OK)
      return hd__sweep_fail(ctx, status, s, i);
  }
  return HD_OK;
}

/* The requested number of jobs; otherwise one for each CPU, limited by the runs that fit into memory. */
static hd_status choose_jobs(hd_sweep *s, hd_ctx *ctx, int32_t wanted) {
  HD_RELEASED(release_machine) hd_topology *machine = NULL;
  HD_RELEASED(release_place) hd_placement *place = NULL;
  hd_placement_request request = hd__config_placement(s->fixed);
  s->threads = request.threads > 0 ? request.threads : 1;
  request.threads = 0;
  HD_TRY(hd_topology_create(&machine, ctx));
  if (request.cpus) {
    HD_TRY(hd__placement_create(&place, ctx, machine, &request));
    HD_TRY(HD_NEW(s->cpu, place->threads, ctx, "out of memory for the CPUs of jobs"));
    for (s->cpus = 0; s->cpus < place->threads; s->cpus++)
      s->cpu[s->cpus] = place->thread[s->cpus].cpu;
  }
  const int64_t cpus = (request.cpus ? s->cpus : machine->budget.cpus) / s->threads;
  const int64_t held = s->bytes > 0 ? hd__memory_budget() / s->bytes : cpus, fitting = cpus < held ? cpus : held;
  const int64_t jobs = wanted > 0 ? wanted : fitting > 0 ? fitting : 1;
  s->report.jobs = (int32_t)(jobs < s->grid.runs ? jobs : s->grid.runs);
  return HD_OK;
}

static void plan_rounds(hd_sweep *s) {
  s->rounds = 1;
  s->trainings = s->grid.runs;
  for (int64_t left = s->grid.runs; s->halving && (left /= s->halving) > 0; s->rounds++)
    s->trainings += left;
}

hd_status hd__sweep_plan(hd_sweep *s, hd_ctx *ctx, const hd_config *config, const hd_sweep_request *request) {
  char path[HD_PATH_BYTES];
  s->draws = request->draws;
  s->halving = request->halving;
  s->best = -1;
  s->on_event = request->on_event;
  s->user = request->user;
  snprintf(s->asked, sizeof s->asked, "%s", request->metric ? request->metric : "");
  if (!request->folder || !*request->folder)
    return hd__fail(ctx, HD_E_USAGE, "a sweep expects --out DIR, the folder of its runs, found none; add it");
  if (request->folds < 0 || request->folds == 1 || request->folds > HD_MOST_FOLDS)
    return hd__fail(ctx, HD_E_USAGE, "a sweep expects from 2 to %d folds, found %lld; use --folds 5, for example",
                    HD_MOST_FOLDS, (long long)request->folds);
  if (s->draws < 0 || s->halving < 0 || s->halving == 1 || request->jobs < 0 || request->jobs > HD_MAX_THREADS)
    return hd__fail(
        ctx, HD_E_USAGE,
        "a sweep expects draws, a halving above 1 and up to %d jobs, found %lld, %lld and %d; leave one out for "
        "its default",
        HD_MAX_THREADS, (long long)s->draws, (long long)s->halving, (int)request->jobs);
  HD_TRY(hd__file_join(s->folder, ctx, request->folder, ""));
  for (size_t end = strlen(s->folder); end > 1 && s->folder[end - 1] == '/'; end--)
    s->folder[end - 1] = 0;
  HD_TRY(hd__config_copy(&s->fixed, ctx, config));
  HD_TRY(read_words(s, ctx, request->vary));
  HD_TRY(add_folds(s, ctx, request->folds));
  HD_TRY(check_fixed(s, ctx));
  HD_TRY(check_metric(s, ctx));
  HD_TRY(hd__grid_complete(&s->grid, ctx, s->draws, (uint64_t)hd_config_get_int(s->fixed, HD_OPT_SEED)));
  HD_TRY(HD_NEW(s->run, s->grid.runs, ctx, "out of memory for %lld runs", (long long)s->grid.runs));
  HD_TRY(HD_NEW(s->row, s->grid.runs, ctx, "out of memory for %lld runs", (long long)s->grid.runs));
  HD_TRY(HD_NEW(s->order, s->grid.runs, ctx, "out of memory for %lld runs", (long long)s->grid.runs));
  HD_TRY(HD_NEW(s->group, s->grid.runs, ctx, "out of memory for %lld runs", (long long)s->grid.runs));
  HD_TRY(check_folder(s, ctx));
  HD_TRY(check_settings(s, ctx));
  HD_TRY(hd__file_join(path, ctx, s->folder, "sweep.json"));
  HD_TRY(rehearse_runs(s, ctx, s->halving || !hd__file_exists(path)));
  HD_TRY(check_sources(s, ctx));
  HD_TRY(check_runs(s, ctx));
  HD_TRY(choose_jobs(s, ctx, request->jobs));
  plan_rounds(s);
  for (int a = 0; a < s->grid.axes; a++) {
    s->key[a] = s->grid.axis[a].option;
    s->is_log[a] = s->grid.axis[a].log;
  }
  s->report.runs = s->grid.runs;
  s->report.keys = s->grid.axes;
  s->report.key = s->key;
  s->report.is_log = s->is_log;
  s->report.folder = s->folder;
  s->report.metric = s->metric;
  s->report.run = s->row;
  s->report.order = s->order;
  s->report.group = s->group;
  return claim_folder(s, ctx);
}
