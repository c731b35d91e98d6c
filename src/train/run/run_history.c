/* history.jsonl: the history of a run, with a line for each start, for each text that it wrote along the way, and for
 * each end unless the run was killed: session.h. Lines are added and never changed, also when a run is resumed. Apart
 * from the page that is made from them they are the only part of a run's folder that differs between equal runs. */
#include "base/json_text.h"
#include "train/run/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "base/version.h"
#include "exec/exchange/cluster.h"
#include "platform/machine.h"
#include "platform/spawn.h"
#include "train/records/pixel_score.h"

/* The words of the command that started this process; none if the system does not provide them. */
static json_t *command_words(void) {
  char word[4096], **argv;
  hd_ctx quiet = {0};
  json_t *words = json_array();
  if (hd__spawn_arguments(&argv, &quiet) != HD_OK)
    return words;
  for (int i = 0; argv[i]; i++) {
    hd__utf8_clean(word, sizeof word, argv[i], sizeof word - 1);
    json_array_append_new(words, json_string(word));
  }
  hd__free(argv);
  return words;
}

/* "2026-11-22T09:30:00Z" */
static json_t *time_now(void) {
  char text[32];
  const time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return json_string(text);
}

/* Writes all of it or, on a full disk, nothing. */
static hd_status append(int fd, hd_ctx *ctx, const char *path, const char *text, size_t length) {
  const off_t before = lseek(fd, 0, SEEK_END);
  size_t at = 0;
  ssize_t wrote = 1;
  while (at < length && wrote > 0) {
    wrote = TEMP_FAILURE_RETRY(write(fd, text + at, length - at));
    at += wrote > 0 ? (size_t)wrote : 0;
  }
  if (at == length)
    return HD_OK;
  const hd_status status = hd__file_error(ctx, path, "write it");
  (void)!ftruncate(fd, before);
  return status;
}

/* Opens a pipe for reading too, which does not block: it is refused. */
static hd_status append_to(hd_ctx *ctx, const char *path, const char *text, size_t length) {
  const int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0)
    return hd__file_error(ctx, path, "write it");
  hd_status status = hd__file_check_regular(ctx, path, fd);
  HD_THEN(status, append(fd, ctx, path, text, length));
  close(fd);
  return status;
}

/* Adds a line; takes over `line`. */
static hd_status add_line(const hd_session *s, hd_ctx *ctx, json_t *line) {
  char path[HD_PATH_BYTES];
  hd_status status = hd__file_join(path, ctx, s->checkpoints.folder, "history.jsonl");
  char *text = line ? hd__json_dump(line, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  json_decref(line);
  HD_THEN(status, HD_ALLOCATED(text, ctx, "out of memory for the run's history"));
  if (status == HD_OK) {
    const size_t length = strlen(text);
    text[length] = '\n'; /* in place of the 0 */
    status = append_to(ctx, path, text, length + 1);
  }
  free(text);
  return status;
}

/* Whether the last line states that the run was done at this step. */
static hd_status is_done(bool *done, const hd_session *s, hd_ctx *ctx) {
  char path[HD_PATH_BYTES], *line = NULL;
  size_t room = 0;
  json_t *last = NULL;
  HD_FILE_OWNED *from = NULL;
  HD_TRY(hd__file_join(path, ctx, s->checkpoints.folder, "history.jsonl"));
  HD_TRY(hd__file_open_if_there(&from, ctx, path));
  while (from && getline(&line, &room, from) >= 0) {
    json_decref(last);
    last = json_loads(line, 0, NULL);
  }
  const char *end = json_string_value(json_object_get(last, "end"));
  *done = end && !strcmp(end, "done") && json_integer_value(json_object_get(last, "step")) == s->run.counters.step;
  json_decref(last);
  free(line);
  return HD_OK;
}

hd_status hd__session_find_end(hd_session *s, hd_ctx *ctx) {
  const int64_t step = s->run.counters.step;
  if (step > 0 && hd__session_is_over(s))
    HD_TRY(is_done(&s->report.had_ended, s, ctx));
  const bool is_earlier = hd__session_is_over(s) && hd__steps_linked(s->checkpoints.folder, "last") > step;
  s->report.had_ended |= step > s->run.steps_in_all || is_earlier;
  return HD_OK;
}

hd_status hd__session_open_history(hd_session *s, hd_ctx *ctx) {
  const hd_report *r = &s->report.facts;
  char cpu[128];
  if (s->report.had_ended)
    return HD_OK;
  hd__cpu_name(cpu, sizeof cpu);
  return add_line(s, ctx,
                  json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:s, s:i, s:s, s:s, s:{s:s, s:i, s:i, s:i, s:s, s:s}}",
                            "type", "start", "time", time_now(), "command", command_words(), "step",
                            (json_int_t)s->run.counters.step, "epoch_steps", (json_int_t)s->run.steps_per_epoch,
                            "epoch_samples", (json_int_t)s->input.train.count, "heddle", hd__version(),
                            "arithmetic_version", HD_ARITHMETIC_VERSION, "compiler", __VERSION__, "built_with",
                            HD_LIBRARIES, "machine", "cpu", cpu, "threads", r->threads, "ranks", r->ranks, "hosts",
                            r->hosts, "device", r->device, "isa", r->isa));
}

hd_status hd__session_note_sample(const hd_session *s, hd_ctx *ctx, const char *text) {
  if (!s->report.metrics) /* it has no folder */
    return HD_OK;
  return add_line(
      s, ctx, json_pack("{s:s, s:I, s:s}", "type", "sample", "step", (json_int_t)s->run.counters.step, "text", text));
}

/* null where it was not measured. */
static json_t *measured(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *rank_times(const hd_report *r) {
  json_t *list = r->rank_time ? json_array() : NULL;
  for (int i = 0; list && i < r->ranks; i++)
    json_array_append_new(list, json_pack("{s:f, s:f, s:f}", "data_s", r->rank_time[i].data_s, "compute_s",
                                          r->rank_time[i].compute_s, "waiting_s", r->rank_time[i].waiting_s));
  return list;
}

/* The confusion matrix of the last evaluation, rows of labels and columns of guesses; NULL without one, or with too
 * many classes for a line of text. */
static json_t *confusion(const hd_session *s) {
  enum { MOST_CLASSES = 100 };
  const hd_split *test = hd__dataset_test(s->input.data);
  const hd_target *target = &s->run.network.target;
  const bool judges = hd__target_judges(target, test) || test->masks;
  hd_pixel_counts pixels;
  const int classes = s->report.facts.wrong >= 0 && judges ? hd__target_classes(target) : 0;
  HD_OWNED int64_t *count = classes > MOST_CLASSES ? NULL : hd__calloc((size_t)(classes * classes) + 1, sizeof *count);
  if (classes < 1 || !count)
    return NULL;
  if (test->masks)
    hd__pixels_count(&pixels, count, target, &s->input.test, &s->report.guesses);
  for (int64_t i = 0; i < test->count && !test->masks; i++)
    if (hd__target_counts(target, test, i))
      count[test->labels[i] * classes + s->report.guesses.guess[i]]++;
  return hd__json_matrix(count, classes);
}

hd_status hd__session_close_history(hd_session *s, hd_ctx *ctx, hd_status status, const char *message) {
  const hd_report *r = &s->report.facts;
  char losses[HD_SHA256_HEX_BYTES] = "";
  if (s->report.had_ended)
    return HD_OK;
  const char *end = status == HD_E_INTERRUPTED ? "stopped" : status != HD_OK ? "failed" : "done";
  if (status == HD_OK)
    HD_TRY(hd__losses_digest(losses, ctx, s->checkpoints.folder, s->run.counters.step));
  json_t *line = json_pack(
      "{s:s, s:o, s:s, s:s*, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:o*, s:o*, s:s*, "
      "s:s*}",
      "type", "end", "time", time_now(), "end", end, "error",
      status != HD_OK && status != HD_E_INTERRUPTED ? message : NULL, "step", (json_int_t)s->run.counters.step,
      "train_loss", measured(r->train_loss), "val_loss", measured(r->val_loss), "val_accuracy",
      measured(r->val_accuracy), "test_loss", measured(r->test_loss), "test_accuracy", measured(r->test_accuracy),
      "wrong", (json_int_t)r->wrong, "startup_s", r->startup_s, "train_s", r->train_s, "evaluate_s", s->run.evaluate_s,
      "save_s", s->run.save_s, "wall_s", r->wall_s, "samples_per_s", r->samples_per_s, "peak_rss_bytes",
      (json_int_t)r->peak_rss_bytes, "confusion", status == HD_OK ? confusion(s) : NULL, "rank_times", rank_times(r),
      "weights_sha256", *r->weights_sha256 ? r->weights_sha256 : NULL, "losses_sha256", *losses ? losses : NULL);
  hd__session_note_metric(line, s);
  if (status == HD_OK)
    hd__session_note_characters(line, s);
  if (status == HD_OK && hd__session_note_outputs(line, s, ctx) != HD_OK) {
    json_decref(line);
    return HD_E_NOMEM;
  }
  if (status == HD_E_NOTFINITE)
    json_object_set_new(line, "not_finite", json_true());
  return add_line(s, ctx, line);
}
