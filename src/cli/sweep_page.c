/* The page of a sweep: see sweep_page.h.
 *
 * Parallel coordinates: an axis for each key and one for the metric, a line for each run, the better ones drawn later
 * and in the colour of the best. An axis of numbers is linear, or logarithmic where values were drawn so or span a
 * factor of 50; other values stand at equal distances in the order in which they first occur. Nothing in the page
 * depends on the time or on who made it. */
#include "cli/sweep_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/page.h"
#include "cli/svg.h"

enum { HEIGHT = 400, TOP = 44, BOTTOM = 384, SIDE = 84, APART = 150, TICKS = 6, MOST_NAMES = 24, MOST_ROWS = 1000 };

static const double WIDE = 50; /* largest by smallest value of a logarithmic axis */

typedef struct axis {
  bool numbers, log;
  double low, high;       /* on the scale of the axis */
  int names;              /* distinct values, up to MOST_NAMES */
  int64_t at[MOST_NAMES]; /* the first run with each */
} axis;

const char *sweep_name(int64_t run) {
  static char text[32];
  snprintf(text, sizeof text, "run-%04lld", (long long)run + 1);
  return text;
}

static bool number_of(double *out, const char *text) {
  char *end;
  *out = strtod(text, &end);
  return end != text && !*end;
}

/* The index of a run's value among the distinct ones; a new one is added while there is room. */
static int name_of(axis *x, const hd_sweep *s, int key, int64_t run) {
  char text[256];
  int i = 0;
  snprintf(text, sizeof text, "%s", hd_sweep_value(s, run, key));
  while (i < x->names && strcmp(hd_sweep_value(s, x->at[i], key), text))
    i++;
  if (i == x->names && i < MOST_NAMES)
    x->at[x->names++] = run;
  return i;
}

/* A run's place on an axis, from 0 at the bottom to 1. */
static double place_of(axis *x, const hd_sweep *s, int key, int64_t run) {
  double value = name_of(x, s, key, run);
  if (x->numbers && number_of(&value, hd_sweep_value(s, run, key)) && x->log)
    value = log10(value);
  return x->high > x->low ? fmin((value - x->low) / (x->high - x->low), 1) : 0.5;
}

static axis look_at(const hd_sweep *s, int key) {
  const hd_sweep_report *r = hd_sweep_result(s);
  axis x = {.numbers = true, .low = INFINITY, .high = -INFINITY};
  double value;
  for (int64_t i = 0; i < r->runs; i++) {
    name_of(&x, s, key, i);
    x.numbers = x.numbers && number_of(&value, hd_sweep_value(s, i, key));
    x.low = x.numbers ? fmin(x.low, value) : x.low;
    x.high = x.numbers ? fmax(x.high, value) : x.high;
  }
  x.log = x.numbers && x.low > 0 && (r->is_log[key] || x.high >= WIDE * x.low);
  if (!x.numbers)
    x.low = 0, x.high = x.names - 1;
  else if (x.log)
    x.low = log10(x.low), x.high = log10(x.high);
  return x;
}

static double y_of(double place) { return BOTTOM - 14 - place * (BOTTOM - TOP - 28); }

static void put_tick(FILE *to, double x, double place, const char *label) {
  svg_line(to, x - 4, y_of(place), x, y_of(place), "grid");
  svg_text(to, x - 7, y_of(place) + 4, "end", "%s", label);
}

/* The distinct values if they are few, else some numbers of the scale. */
static void put_axis(FILE *to, const hd_sweep *s, axis *x, int key, double at) {
  const bool few = x->names < MOST_NAMES;
  double last = INFINITY;
  svg_line(to, at, TOP, at, BOTTOM, "axis");
  svg_text(to, at, TOP - 20, "mid", "%s%s", hd_option_at((int)hd_sweep_result(s)->key[key])->name,
           x->log ? " (log)" : "");
  for (int i = 0; i < (few ? x->names : TICKS); i++) {
    char text[16];
    const double place = few ? place_of(x, s, key, x->at[i]) : i / (TICKS - 1.0);
    double value = x->low + place * (x->high - x->low);
    value = x->log ? pow(10, value) : value;
    snprintf(text, sizeof text, "%.12s", hd_sweep_value(s, x->at[i], key));
    if (x->numbers)
      snprintf(text, sizeof text, "%.4g", value);
    if (fabs(y_of(place) - last) < 14)
      continue;
    put_tick(to, at, place, text);
    last = y_of(place);
  }
}

/* The metric's range over the runs; and a value's place, 1 for the best end of the axis. */
static void range_of(double *low, double *high, const hd_sweep_report *r) {
  *low = INFINITY, *high = -INFINITY;
  for (int64_t i = 0; i < r->runs; i++)
    *low = fmin(*low, r->run[i].metric), *high = fmax(*high, r->run[i].metric);
}

static void put_metric_axis(FILE *to, const hd_sweep_report *r, double low, double high, double at) {
  svg_line(to, at, TOP, at, BOTTOM, "axis");
  svg_text(to, at, TOP - 20, "mid", "%s", r->metric);
  for (int i = 0; i < TICKS && high >= low; i++) {
    const double place = high > low ? i / (TICKS - 1.0) : 0.5;
    svg_line(to, at, y_of(place), at + 4, y_of(place), "grid");
    svg_text(to, at + 7, y_of(place) + 4, "", "%.4g", low + place * (high - low));
  }
}

static const hd_sweep_report *sorted; /* of by_metric */

/* The best last, runs without a metric first; the order of runs between equals. */
static int by_metric(const void *a, const void *b) {
  const int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
  double x = sorted->run[i].metric, y = sorted->run[j].metric;
  x = isnan(x) ? -INFINITY : sorted->rises ? x : -x;
  y = isnan(y) ? -INFINITY : sorted->rises ? y : -y;
  return x != y ? (x > y) - (x < y) : (i < j) - (i > j);
}

static void put_title(FILE *to, const hd_sweep *s, int64_t run) {
  const hd_sweep_report *r = hd_sweep_result(s);
  fprintf(to, "<title>%s", sweep_name(run));
  for (int k = 0; k < r->keys; k++) {
    fprintf(to, ", %s ", hd_option_at((int)r->key[k])->name);
    svg_escaped(to, hd_sweep_value(s, run, k));
  }
  if (!isnan(r->run[run].metric))
    fprintf(to, ": %s %.6g", r->metric, r->run[run].metric);
  fprintf(to, ", %s</title>", hd_sweep_state_name(r->run[run].state));
}

/* `quality`: 0 for the worst run, 1 for the best; it sets runs with the same value a little apart. */
static void put_run(FILE *to, const hd_sweep *s, axis *x, int64_t run, double low, double high, double quality) {
  const hd_sweep_report *r = hd_sweep_result(s);
  const double metric = r->run[run].metric, place = high > low ? (metric - low) / (high - low) : 0.5;
  fprintf(to, "<path class=\"%s\" style=\"--q:%.3f\" d=\"M", isnan(metric) ? "run lost" : "run", quality);
  for (int k = 0; k < r->keys; k++)
    fprintf(to, "%s%d %.1f", k ? "L" : "", SIDE + k * APART,
            y_of(place_of(&x[k], s, k, run)) + (x[k].names < MOST_NAMES ? 14 * (0.5 - quality) : 0));
  if (!isnan(metric))
    fprintf(to, "L%d %.1f", SIDE + r->keys * APART, y_of(place));
  fprintf(to, "\">");
  put_title(to, s, run);
  fprintf(to, "</path>\n");
}

static void put_chart(FILE *to, const hd_sweep *s, const int64_t *order) {
  const hd_sweep_report *r = hd_sweep_result(s);
  const int width = 2 * SIDE + r->keys * APART;
  axis *x = calloc((size_t)r->keys, sizeof *x);
  double low, high;
  range_of(&low, &high, r);
  fprintf(to,
          "<figure><figcaption>A line for each run, across what it was set to and what came of it; the better ones in "
          "the colour "
          "of the best</figcaption>\n<div class=\"table\"><svg class=\"wide\" style=\"min-width:%dpx\" viewBox=\"0 0 "
          "%d %d\" role=\"img\" aria-label=\"runs\">\n",
          (int)(0.7 * width), width, HEIGHT);
  for (int k = 0; x && k < r->keys; k++)
    x[k] = look_at(s, k);
  for (int64_t i = 0; x && i < r->runs; i++)
    put_run(to, s, x, order[i], low, high, r->runs > 1 ? (double)i / (double)(r->runs - 1) : 1);
  for (int k = 0; x && k < r->keys; k++)
    put_axis(to, s, &x[k], k, SIDE + k * APART);
  put_metric_axis(to, r, low, high, SIDE + r->keys * APART);
  fprintf(to, "</svg></div></figure>\n");
  free(x);
}

/* The values of a run as cells; run -1: the names. */
static void put_cells(FILE *to, const hd_sweep *s, int64_t run, bool with_seed) {
  const hd_sweep_report *r = hd_sweep_result(s);
  for (int k = 0; k < r->keys; k++)
    if (with_seed || r->key[k] != HD_OPT_SEED) {
      fprintf(to, run < 0 ? "<th>" : "<td>");
      svg_escaped(to, run < 0 ? hd_option_at((int)r->key[k])->name : hd_sweep_value(s, run, k));
      fprintf(to, run < 0 ? "</th>" : "</td>");
    }
}

static void put_groups(FILE *to, const hd_sweep *s) {
  const hd_sweep_report *r = hd_sweep_result(s);
  fprintf(to, "<h2>Seeds together</h2>\n<div class=\"table\"><table><thead><tr>");
  put_cells(to, s, -1, false);
  fprintf(to, "<th>n</th><th>mean</th><th>deviation</th><th>95&nbsp;%% interval</th></tr></thead><tbody>\n");
  for (int64_t g = 0; g < r->groups && g < MOST_ROWS; g++) {
    const hd_sweep_group *is = &r->group[g];
    fprintf(to, "<tr%s>", g == 0 ? " class=\"best\"" : "");
    put_cells(to, s, is->first, false);
    fprintf(to, "<td>%lld</td><td>%.5g</td>", (long long)is->n, is->mean);
    if (is->n > 1)
      fprintf(to, "<td>%.3g</td><td>%.5g&ndash;%.5g</td></tr>\n", is->deviation, is->low, is->high);
    else
      fprintf(to, "<td>&ndash;</td><td>&ndash;</td></tr>\n");
  }
  fprintf(to, "</tbody></table></div>\n");
}

static void put_runs(FILE *to, const hd_sweep *s, const int64_t *order) {
  const hd_sweep_report *r = hd_sweep_result(s);
  fprintf(to, "<h2>Runs, the best first</h2>\n<div class=\"table\"><table><thead><tr><th class=\"name\">run</th>");
  put_cells(to, s, -1, true);
  fprintf(to, "<th>state</th><th>%s</th></tr></thead><tbody>\n", r->metric);
  for (int64_t i = r->runs - 1; i >= 0 && r->runs - i <= MOST_ROWS; i--) {
    const hd_sweep_row *row = &r->run[order[i]];
    const char *name = sweep_name(order[i]);
    fprintf(to, "<tr%s><td class=\"name\"><a href=\"%s/\">%s</a></td>", i + 1 == r->runs ? " class=\"best\"" : "", name,
            name);
    put_cells(to, s, order[i], true);
    fprintf(to, "<td>%s</td><td>", hd_sweep_state_name(row->state));
    fprintf(to, isnan(row->metric) ? "&ndash;</td></tr>\n" : "%.6g</td></tr>\n", row->metric);
  }
  fprintf(to, "</tbody></table></div>\n");
}

void sweep_write_page(FILE *to, const hd_sweep *s) {
  const hd_sweep_report *r = hd_sweep_result(s);
  int64_t *order = calloc((size_t)r->runs, sizeof *order);
  for (int64_t i = 0; order && i < r->runs; i++)
    order[i] = i;
  page_open(to, "heddle sweep");
  fprintf(to, "<h1>%s runs by %s</h1>\n", cli_grouped(r->runs), r->metric);
  if (order) {
    sorted = r;
    qsort(order, (size_t)r->runs, sizeof *order, by_metric);
    const int64_t best = order[r->runs - 1];
    fprintf(to, "<p class=\"say\">Best: %.6g, <a href=\"%s/\">%s</a>.</p>\n", r->run[best].metric, sweep_name(best),
            sweep_name(best));
    fprintf(to,
            "<p class=\"soft\">%s done, %s failed. Table: <a href=\"table.csv\">table.csv</a>, SHA-256 "
            "<code>%s</code>.</p>\n",
            cli_grouped(r->done), cli_grouped(r->failed), r->table_sha256);
    put_chart(to, s, order);
    if (r->groups < r->done)
      put_groups(to, s);
    put_runs(to, s, order);
  }
  page_close(to);
  free(order);
}
