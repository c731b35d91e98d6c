/* Comparing runs: see compare_runs.h. */
#include "train/evidence/compare_runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/version.h"
#include "heddle/config.h"
#include "train/checkpoint/saver.h"
#include "train/evidence/certificate.h"

static bool says(char *what, size_t bytes, const char *key, const json_t *expected, const json_t *found) {
  char *a = hd__json_dump(expected, JSON_ENCODE_ANY | JSON_COMPACT),
       *b = hd__json_dump(found, JSON_ENCODE_ANY | JSON_COMPACT);
  snprintf(what, bytes, "%s: expected %.80s, found %.80s", key, a ? a : "none", b ? b : "none");
  free(a);
  free(b);
  return true;
}

/* Models differ: by their names, which say more than the beginning of a text. */
static bool says_models(char *what, size_t bytes, const json_t *const settings[2]) {
  const json_t *a = json_object_get(settings[0], "model"), *b = json_object_get(settings[1], "model");
  if (a && b && !json_equal(a, b))
    return says(what, bytes, "model", a, b);
  snprintf(what, bytes, "model: expected the text of %.80s, found a changed one",
           json_is_string(a) ? json_string_value(a) : "the model");
  return true;
}

/* Whether a setting defines the result; the recipe has set others, which are compared. */
static bool is_compared(int id) { return hd_option_at(id)->kind == HD_OPTION_EXPERIMENT && id != HD_OPT_RECIPE; }

/* The end of a run may have been moved when it was resumed, as run_record.h allows. */
static bool may_move(int id) { return id == HD_OPT_EPOCHS || id == HD_OPT_MAX_STEPS; }

bool hd__compare_records(char *what, size_t bytes, const json_t *certificate, const json_t *record, bool of_run) {
  static const char ARITHMETIC[] = "arithmetic_version", MODEL[] = "model_yaml";
  const json_t *settings[2] = {json_object_get(certificate, "settings"), json_object_get(record, "settings")};
  const json_t *model[2] = {json_object_get(certificate, MODEL), json_object_get(record, MODEL)};
  const json_t *arithmetic[2] = {json_object_get(certificate, ARITHMETIC), json_object_get(record, ARITHMETIC)};
  const json_int_t version = json_integer_value(arithmetic[1]);
  if (!json_equal(model[0], model[1]))
    return says_models(what, bytes, settings);
  if (version < 1 || version > HD_ARITHMETIC_VERSION) /* verify.c compares the numbers of those that heddle knows */
    return says(what, bytes, ARITHMETIC, arithmetic[0], arithmetic[1]);
  for (int id = 0; hd_option_at(id); id++) {
    const char *name = hd_option_at(id)->name;
    const json_t *a = json_object_get(settings[0], name), *b = json_object_get(settings[1], name);
    if (is_compared(id) && (of_run || !may_move(id)) && a != b && !json_equal(a, b))
      return says(what, bytes, name, a, b);
  }
  return false;
}

/* ---- Checkpoints ---- */

/* Whether a counter follows from evaluations. */
static bool is_of_evaluations(const char *name) {
  static const char *const of[] = {"owes_evaluation", "best_score", "best_loss", "stale_epochs"};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    if (!strcmp(name, of[i]))
      return true;
  return false;
}

/* The version of the arithmetic of a claimed checkpoint is the one that its record states: another one than that of the
 * repetition has the same numbers for this network (check_arithmetic of verify.c). */
static bool is_stated_arithmetic(const hd_st_tensor *claimed, int64_t stated) {
  int64_t version;
  if (!claimed || strcmp(claimed->name, "arithmetic_version") || claimed->length != sizeof version)
    return false;
  memcpy(&version, claimed->bytes, sizeof version);
  return version == stated;
}

/* The first tensor that differs in `claimed` and `found`, or is in only one of them; NULL: there is none. */
static const char *differing(const hd_st_list *claimed, const hd_st_list *found, int64_t arithmetic, bool other_end) {
  for (int i = 0; i < found->count; i++) {
    const hd_st_tensor *b = &found->tensor[i], *a = hd__st_find(claimed, b->name);
    if ((other_end && is_of_evaluations(b->name)) || is_stated_arithmetic(a, arithmetic))
      continue;
    if (!a || a->type != b->type || !hd__shape_equal(&a->shape, &b->shape) || a->length != b->length ||
        memcmp(a->bytes, b->bytes, a->length))
      return b->name;
  }
  for (int i = 0; i < claimed->count; i++)
    if (!hd__st_find(found, claimed->tensor[i].name) && !(other_end && is_of_evaluations(claimed->tensor[i].name)))
      return claimed->tensor[i].name;
  return NULL;
}

/* Whether two files that were parsed have the same header; tensors are all that follows it. */
static bool has_same_header(const hd_mapping *a, const hd_mapping *b) {
  uint64_t bytes;
  memcpy(&bytes, b->bytes, sizeof bytes);
  return a->length == b->length && !memcmp(a->bytes, b->bytes, sizeof bytes + (size_t)bytes);
}

static hd_status compare_files(bool *differs, char *what, size_t bytes, hd_ctx *ctx, const hd_file_pair *pair,
                               int64_t arithmetic) {
  HD_MAPPED a = {0};
  HD_MAPPED b = {0};
  HD_ST_OWNED of_a = {0};
  HD_ST_OWNED of_b = {0};
  hd_ctx quiet = {0};
  HD_TRY(hd__file_map(&b, ctx, pair->found));
  HD_TRY(hd__st_parse(&of_b, ctx, pair->found, b.bytes, b.length));
  *differs = true;
  if (hd__file_map(&a, &quiet, pair->claimed) != HD_OK ||
      hd__st_parse(&of_a, &quiet, pair->claimed, a.bytes, a.length) != HD_OK) {
    snprintf(what, bytes, "%s", quiet.message);
    return HD_OK;
  }
  const char *name = differing(&of_a, &of_b, arithmetic, pair->other_end);
  *differs = name || (!pair->other_end && !has_same_header(&a, &b));
  snprintf(what, bytes, "%s: expected the %s that the repetition found, found another", pair->claimed,
           name ? name : "header");
  return HD_OK;
}

/* The first entry about the data in `b` that `a` has not, the name aside, which says where they are. all: or about the
 * network's input alone. */
static const char *other_entry(const json_t *a, json_t *b, bool all) {
  const char *key;
  json_t *value;
  json_object_foreach(b, key, value) {
    const bool is_compared = all ? strcmp(key, "name") != 0 : !strcmp(key, "shift");
    if (is_compared && !json_equal(json_object_get(a, key), value))
      return key;
  }
  return NULL;
}

/* What the record of a checkpoint states of its files, and of the data; records of the first rules lack entries. */
static bool says_other_record(char *what, size_t bytes, const hd_file_pair *pair, const json_t *claimed,
                              const json_t *found) {
  static const char *const digest[] = {"weights_sha256", "losses_sha256", "state_sha256"};
  const bool same_version = hd__checkpoint_arithmetic(claimed) == hd__checkpoint_arithmetic(found);
  const int of_both = pair->other_end || !same_version ? 1 : 3;
  json_t *a = json_object_get(claimed, "data"), *b = json_object_get(found, "data");
  const bool all = pair->same_data && json_object_get(b, "rules");
  const char *of_b = other_entry(a, b, all), *key = of_b ? of_b : other_entry(b, a, all);
  char name[HD_PATH_BYTES + 64];
  snprintf(name, sizeof name, "%s/run.json: %.40s", pair->claimed, key ? key : "");
  if (key)
    return says(what, bytes, name, json_object_get(b, key), json_object_get(a, key));
  for (int i = 0; i < of_both; i++) {
    a = json_object_get(json_object_get(claimed, "digests"), digest[i]);
    b = json_object_get(json_object_get(found, "digests"), digest[i]);
    snprintf(name, sizeof name, "%s/run.json: %s", pair->claimed, digest[i]);
    if (a && !json_equal(a, b))
      return says(what, bytes, name, b, a);
  }
  return false;
}

hd_status hd__compare_checkpoints(bool *differs, char *what, size_t bytes, hd_ctx *ctx, const hd_file_pair *pair) {
  static const char *const file[] = {"model.safetensors", "state.safetensors"};
  char a[HD_PATH_BYTES], b[HD_PATH_BYTES];
  json_auto_t *record = NULL, *again = NULL;
  hd_ctx quiet = {0};
  hd__checkpoint_record(&record, &quiet, pair->claimed);
  hd__checkpoint_record(&again, &quiet, pair->found);
  *differs = says_other_record(what, bytes, pair, record, again);
  for (int i = 0; i < 2 && !*differs; i++) {
    HD_TRY(hd__file_join(a, ctx, pair->claimed, file[i]));
    HD_TRY(hd__file_join(b, ctx, pair->found, file[i]));
    HD_TRY(compare_files(differs, what, bytes, ctx, &(hd_file_pair){a, b, pair->other_end, pair->same_data},
                         hd__checkpoint_arithmetic(record)));
  }
  return HD_OK;
}

/* ---- Metrics ---- */

/* The next line as an object without measured times; NULL: there is none. */
static json_t *next_line(FILE *from, char **line, size_t *room) {
  if (!from || getline(line, room, from) < 0)
    return NULL;
  json_t *object = json_loads(*line, 0, NULL);
  json_object_del(object, "samples_per_s");
  json_object_del(object, "ranks");
  return object ? object : json_null();
}

/* The order of lines: those of a step, and the evaluation after it; 0 for what is no line of both. */
static int64_t place_of(const json_t *line) {
  const char *type = json_string_value(json_object_get(line, "type"));
  const bool evaluates = type && !strcmp(type, "evaluation"), known = evaluates || (type && !strcmp(type, "step"));
  return known ? 2 * json_integer_value(json_object_get(line, "step")) + evaluates : 0;
}

/* Whether a line after the place `last` stands before the other file's next one, which has none of its place. */
static bool is_before(const json_t *line, const json_t *other, int64_t last) {
  return place_of(line) > last && (!other || place_of(line) < place_of(other));
}

/* The files of a claimed and of a repeated run, and the next line of each. */
typedef struct metrics {
  FILE *file[2];
  json_t *line[2];
  char *text;
  size_t room;
  int64_t last; /* the place of the lines that were compared last */
  int number;   /* of the claimed line */
} metrics;

static void advance(metrics *m, int i) {
  json_decref(m->line[i]);
  m->line[i] = next_line(m->file[i], &m->text, &m->room);
  m->number += i == 0;
}

/* Passes over lines that one of the files need not have: of a run that was resumed, those that only one has. */
static void pass_over(metrics *m, bool resumed) {
  bool more = resumed;
  while (more) {
    const bool claimed = is_before(m->line[0], m->line[1], m->last);
    more = claimed || is_before(m->line[1], m->line[0], m->last);
    if (more)
      advance(m, claimed ? 0 : 1);
  }
}

hd_status hd__compare_metrics(bool *differs, char *what, size_t bytes, hd_ctx *ctx, const char *claimed,
                              const char *found) {
  char path[2][HD_PATH_BYTES], label[HD_PATH_BYTES + 64];
  metrics m = {0};
  bool resumed;
  HD_TRY(hd__history_resumed(&resumed, ctx, claimed));
  HD_TRY(hd__file_join(path[0], ctx, claimed, "metrics.jsonl"));
  HD_TRY(hd__file_join(path[1], ctx, found, "metrics.jsonl"));
  HD_FILE_OWNED *a = NULL;
  HD_FILE_OWNED *b = NULL;
  HD_TRY(hd__file_open_if_there(&a, ctx, path[0]));
  HD_TRY(hd__file_open_if_there(&b, ctx, path[1]));
  m.file[0] = a;
  m.file[1] = b;
  *differs = false;
  for (bool more = a != NULL; more && !*differs;) {
    advance(&m, 0);
    advance(&m, 1);
    pass_over(&m, resumed);
    const json_t *x = m.line[0], *y = m.line[1];
    more = x || y;
    m.last = place_of(x);
    snprintf(label, sizeof label, "%s, line %d", path[0], m.number);
    if (more && (!x || !y || !json_equal(x, y)))
      *differs = says(what, bytes, label, y, x);
  }
  json_decref(m.line[0]);
  json_decref(m.line[1]);
  free(m.text);
  return HD_OK;
}

/* ---- The end ---- */

hd_status hd__compare_ends(bool *differs, char *what, size_t bytes, hd_ctx *ctx, const char *claimed,
                           const char *found) {
  static const char *const measured[] = {"time",   "startup_s",     "train_s",        "evaluate_s", "save_s",
                                         "wall_s", "samples_per_s", "peak_rss_bytes", "rank_times"};
  json_auto_t *start = NULL, *again = NULL, *a = NULL, *b = NULL;
  char name[HD_PATH_BYTES + 64];
  const char *key;
  json_t *value;
  *differs = false;
  HD_TRY(hd__history_read(&start, &a, ctx, claimed));
  HD_TRY(hd__history_read(&again, &b, ctx, found));
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
    json_object_del(a, measured[i]);
  json_object_foreach(b, key, value) {
    const json_t *other = json_object_get(a, key);
    snprintf(name, sizeof name, "%s/history.jsonl: %.40s", claimed, key);
    if (other && !json_equal(other, value) && !*differs)
      *differs = says(what, bytes, name, value, other);
  }
  return HD_OK;
}

void hd__remove_run(const char *folder) {
  char path[HD_PATH_BYTES];
  int64_t step;
  HD_FOLDER_OWNED *open = opendir(folder);
  struct dirent *entry;
  while (open && (entry = readdir(open)))
    if (hd__steps_parse(&step, entry->d_name) && hd__file_join(path, NULL, folder, entry->d_name) == HD_OK)
      hd__file_remove_folder(path);
  hd__file_remove_folder(folder);
}
