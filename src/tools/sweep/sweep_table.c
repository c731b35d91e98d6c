/* The files of a sweep: the result of each run, from its folder, and the tables. Nothing here depends on the time, on
 * the jobs or on the order in which runs ended: rows are in the order of runs, groups by their mean and then by their
 * first run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/number.h"
#include "heddle/evidence.h"
#include "tools/sweep/sweep_state.h"

static const char *const columns[] = {"train_loss", "val_loss", "val_accuracy", "test_loss", "test_accuracy"};

HD_RELEASER(close_runs, hd_runs, hd_runs_close)

const char *hd_sweep_state_name(hd_sweep_state state) {
  static const char *const name[] = {"pending", "done", "dropped", "failed"};
  return (size_t)state < sizeof name / sizeof *name ? name[state] : "";
}

hd_status hd__sweep_path(char path[HD_PATH_BYTES], const hd_sweep *s, hd_ctx *ctx, int64_t run) {
  char name[32];
  snprintf(name, sizeof name, "run-%04lld", (long long)run + 1);
  return hd__file_join(path, ctx, s->folder, name);
}

static hd_status write_text(FILE *to, hd_ctx *ctx, void *text) {
  fputs(*(const char **)text, to);
  return HD_OK;
}

hd_status hd__sweep_write(const hd_sweep *s, hd_ctx *ctx, const char *name, const char *text) {
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, s->folder, name));
  return hd__file_write(ctx, path, write_text, &text);
}

json_t *hd__sweep_json(const char *path) {
  HD_FILE_OWNED *from = NULL;
  hd_ctx quiet = {0};
  return hd__file_open_if_there(&from, &quiet, path) == HD_OK && from ? json_loadf(from, 0, NULL) : NULL;
}

double hd__sweep_rank(const hd_sweep *s, double metric) {
  return isnan(metric) ? -INFINITY : s->report.rises ? metric : -metric;
}

/* Runs that are done before those that were dropped, and failed ones last. */
static int by_rank(const void *a, const void *b, void *sweep) {
  const int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
  const hd_sweep_row *x = &((hd_sweep *)sweep)->row[i], *y = &((hd_sweep *)sweep)->row[j];
  const double better = hd__sweep_rank(sweep, x->metric), other = hd__sweep_rank(sweep, y->metric);
  if (x->state != y->state)
    return x->state > y->state ? 1 : -1;
  return better != other ? (better < other) - (better > other) : (i > j) - (i < j);
}

void hd__sweep_order(hd_sweep *s) {
  for (int64_t i = 0; i < s->grid.runs; i++)
    s->order[i] = i;
  qsort_r(s->order, (size_t)s->grid.runs, sizeof *s->order, by_rank, s);
}

/* Quoted where needed, as RFC 4180 has it; up to `ends`. */
static void put_cell(FILE *to, const char *text, const char *ends) {
  const size_t length = strcspn(text, ends);
  const bool quoted = strcspn(text, ",\"\r\n") < length;
  fputs(quoted ? "\"" : "", to);
  for (size_t i = 0; i < length; i++)
    fprintf(to, "%s%c", text[i] == '"' ? "\"" : "", text[i]);
  fputs(quoted ? "\"" : "", to);
}

static char *line_of(const hd_runs *runs, bool failed) {
  char *line = NULL;
  size_t bytes;
  FILE *to = open_memstream(&line, &bytes);
  if (!to)
    return NULL;
  fprintf(to, "%s", hd_runs_value(runs, 0, "step"));
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    fprintf(to, ",%s", failed ? "" : hd_runs_value(runs, 0, columns[i]));
  fprintf(to, ",%s,", failed ? "" : hd_runs_value(runs, 0, "weights_sha256"));
  put_cell(to, failed ? hd_runs_value(runs, 0, "error") : "", ";"); /* the remedy names paths */
  return fclose(to) == 0 ? line : NULL;
}

bool hd__sweep_read(hd_sweep *s, int64_t run, const char *folder, int64_t target) {
  HD_RELEASED(close_runs) hd_runs *runs = NULL;
  hd_ctx quiet = {0};
  hd_sweep_row *row = &s->row[run];
  if (hd_runs_open(&runs, &quiet, folder) != HD_OK || hd_runs_count(runs) == 0)
    return false;
  const bool failed = !strcmp(hd_runs_value(runs, 0, "not_finite"), "true");
  const bool done = !strcmp(hd_runs_value(runs, 0, "state"), "done");
  const bool advanced = target > 0 && atoll(hd_runs_value(runs, 0, "max-steps")) > target;
  if (!failed && !advanced && (!done || atoll(hd_runs_value(runs, 0, "step")) < target))
    return false;
  row->metric = NAN;
  if (done)
    hd__parse_double(&row->metric, hd_runs_value(runs, 0, s->metric));
  row->state = failed ? HD_SWEEP_FAILED : HD_SWEEP_DONE;
  s->advanced |= advanced && !failed;
  free(s->run[run].line);
  return (s->run[run].line = line_of(runs, failed)) != NULL;
}

/* ---- Statistics ---- */

/* The share of Student's t distribution with `freedom` degrees of freedom between -t and t (Abramowitz and Stegun,
 * 26.7.3 and 26.7.4). */
static double student(double t, int64_t freedom) {
  const bool odd = freedom % 2;
  const double angle = atan(t / sqrt((double)freedom)), square = cos(angle) * cos(angle);
  double term = odd ? cos(angle) : 1, sum = freedom > 1 ? term : 0;
  for (int64_t k = odd ? 3 : 2; k <= freedom - 2 && term > 0; k += 2)
    sum += term *= square * (double)(k - 1) / (double)k;
  return odd ? (angle + sin(angle) * sum) * M_2_PI : sin(angle) * sum;
}

/* The t with 95 % between -t and t, by bisection. */
static double quantile(int64_t freedom) {
  double low = 0, high = 16;
  for (int i = 0; i < 60; i++)
    *(student((low + high) / 2, freedom) < 0.95 ? &low : &high) = (low + high) / 2;
  return high;
}

int hd_sweep_repeats(hd_option_id key) { return key == HD_OPT_SEED || key == HD_OPT_FOLD; }

static bool tells_apart(hd_option_id option) { return !hd_sweep_repeats(option); }

static bool counts(const hd_sweep *s, int64_t run) {
  return s->row[run].state == HD_SWEEP_DONE && !isnan(s->row[run].metric);
}

/* Better before worse; the order of runs between equals. */
static int by_mean(const void *a, const void *b) {
  const hd_sweep_group *x = a, *y = b;
  return x->low != y->low ? (x->low < y->low) - (x->low > y->low) : (x->first > y->first) - (x->first < y->first);
}

/* `low` holds the rank until the groups are sorted. */
static void make_groups(hd_sweep *s) {
  hd_sweep_group *all = s->group;
  for (int64_t i = 0; i < s->grid.runs; i++) {
    hd_sweep_group *g = &all[hd__grid_first(&s->grid, i, tells_apart, true)];
    g->first = g - all;
    g->n += counts(s, i);
    g->mean += counts(s, i) ? s->row[i].metric : 0;
  }
  for (int64_t i = 0; i < s->grid.runs; i++)
    if (all[i].n > 0)
      all[i].low = hd__sweep_rank(s, all[i].mean /= (double)all[i].n);
  for (int64_t i = 0; i < s->grid.runs; i++) {
    hd_sweep_group *g = &all[hd__grid_first(&s->grid, i, tells_apart, true)];
    g->deviation += counts(s, i) ? (s->row[i].metric - g->mean) * (s->row[i].metric - g->mean) : 0;
  }
  for (int64_t i = 0; i < s->grid.runs; i++)
    if (all[i].n > 0)
      all[s->report.groups++] = all[i];
  qsort(all, (size_t)s->report.groups, sizeof *all, by_mean);
  for (hd_sweep_group *g = all; g < all + s->report.groups; g++) {
    g->deviation = g->n > 1 ? sqrt(g->deviation / (double)(g->n - 1)) : NAN;
    const double margin = g->n > 1 ? quantile(g->n - 1) * g->deviation / sqrt((double)g->n) : NAN;
    g->low = g->mean - margin;
    g->high = g->mean + margin;
  }
}

/* ---- Tables ---- */

static void put_values(FILE *to, const hd_sweep *s, int64_t run, bool with_repeats) {
  char text[HD_SWEEP_VALUE_BYTES];
  for (int a = 0; a < s->grid.axes; a++)
    if (with_repeats || !hd_sweep_repeats(s->grid.axis[a].option)) {
      put_cell(to, run < 0 ? hd_option_at((int)s->grid.axis[a].option)->name : hd__grid_value(text, &s->grid, run, a),
               "");
      fputc(',', to);
    }
}

static void put_table(FILE *to, const hd_sweep *s) {
  fprintf(to, "run,");
  put_values(to, s, -1, true);
  fprintf(to, "state,steps");
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    fprintf(to, ",%s", columns[i]);
  fprintf(to, ",weights_sha256,reason\n");
  for (int64_t i = 0; i < s->grid.runs; i++) {
    fprintf(to, "%lld,", (long long)i + 1);
    put_values(to, s, i, true);
    fprintf(to, "%s,%s\n", hd_sweep_state_name(s->row[i].state), s->run[i].line);
  }
}

static void put_summary(FILE *to, const hd_sweep *s) {
  put_values(to, s, -1, false);
  fprintf(to, "metric,n,mean,deviation,low,high\n");
  for (const hd_sweep_group *g = s->group; g < s->group + s->report.groups; g++) {
    put_values(to, s, g->first, false);
    fprintf(to, "%s,%lld,%.6g", s->metric, (long long)g->n, g->mean);
    if (g->n > 1)
      fprintf(to, ",%.6g,%.6g,%.6g\n", g->deviation, g->low, g->high);
    else
      fprintf(to, ",,,\n");
  }
}

static hd_status save(const hd_sweep *s, hd_ctx *ctx, const char *name, void (*put)(FILE *to, const hd_sweep *s),
                      char hex[HD_SHA256_HEX_BYTES]) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (to)
    put(to, s);
  hd_sha256 *sha = to && fclose(to) == 0 ? hd__sha256_create() : NULL;
  hd_status status = HD_ALLOCATED(sha, ctx, "out of memory for the table of a sweep");
  if (status == HD_OK) {
    hd__sha256_update(sha, text, bytes);
    hd__sha256_finish(sha, hex);
    status = hd__sweep_write(s, ctx, name, text);
  }
  free(text);
  return status;
}

hd_status hd__sweep_conclude(hd_sweep *s, hd_ctx *ctx) {
  char summary_sha256[HD_SHA256_HEX_BYTES];
  for (int64_t i = 0; i < s->grid.runs; i++) {
    if (!s->run[i].in && s->row[i].state == HD_SWEEP_DONE)
      s->row[i].state = HD_SWEEP_DROPPED;
    s->report.done += s->row[i].state == HD_SWEEP_DONE;
    s->report.failed += s->row[i].state == HD_SWEEP_FAILED;
  }
  make_groups(s);
  hd__sweep_order(s);
  HD_TRY(save(s, ctx, "summary.csv", put_summary, summary_sha256));
  return save(s, ctx, "table.csv", put_table, s->report.table_sha256);
}
