/* The page of a sweep: see sweep_page.h.
 *
 * Parallel coordinates: an axis for each key, the last one for the metric, and a line for each run, the better ones
 * drawn later and in the colour of the best. An axis of numbers is linear, or logarithmic where values were drawn so or
 * span a factor of 50; other values stand at equal distances in the order in which they first occur. Nothing in the
 * page depends on the time or on who made it. */
#include "cli/sweep_page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/page.h"
#include "cli/svg.h"

enum { HEIGHT = 400, TOP = 44, BOTTOM = 384, SIDE = 84, APART = 150, TICKS = 6, MOST_NAMES = 24, MOST_ROWS = 1000 };
enum { TICK_BYTES = 13 }; /* as much text as there is room for beside an axis */

static const double WIDE = 50; /* largest by smallest value of a logarithmic axis */

typedef struct axis {
  bool numbers, log;
  double low, high;       /* on the scale of the axis */
  double step;            /* between the numbers of a linear one; 0: they are at its values, or evenly spread */
  int names;              /* distinct values, up to MOST_NAMES */
  int64_t at[MOST_NAMES]; /* the first run with each */
} axis;

const char *sweep_name(int64_t run) {
  static char text[32];
  snprintf(text, sizeof text, "run-%04lld", (long long)run + 1);
  return text;
}

/* The name of a key; that behind the last is the metric. */
static const char *name_of(const hd_sweep_report *r, int key) {
  return key == r->keys ? r->metric : hd_option_at((int)r->key[key])->name;
}

/* The index of a run's value among the distinct ones; a new one is added while there is room. */
static int index_of(axis *x, const hd_sweep *s, int key, int64_t run) {
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
  double value = index_of(x, s, key, run);
  if (x->numbers && cli_number(&value, hd_sweep_value(s, run, key)) && x->log)
    value = log10(value);
  return x->high > x->low ? fmin((value - x->low) / (x->high - x->low), 1) : 0.5;
}

/* The axis has its distinct values as ticks. */
static bool has_few(const hd_sweep *s, const axis *x, int key) {
  return x->names < MOST_NAMES && key < hd_sweep_result(s)->keys;
}

/* Runs without a value, of the metric, are left out. A linear axis begins and ends with a round number. */
static axis look_at(const hd_sweep *s, int key) {
  const hd_sweep_report *r = hd_sweep_result(s);
  axis x = {.numbers = true, .low = INFINITY, .high = -INFINITY};
  for (int64_t i = 0; i < r->runs; i++) {
    double value = NAN;
    if (!*hd_sweep_value(s, i, key))
      continue;
    index_of(&x, s, key, i);
    x.numbers = x.numbers && cli_number(&value, hd_sweep_value(s, i, key));
    x.low = fmin(x.low, value);
    x.high = fmax(x.high, value);
  }
  x.log = x.numbers && x.low > 0 && key < r->keys && (r->is_log[key] || x.high >= WIDE * x.low);
  if (!x.numbers)
    x.low = 0, x.high = x.names - 1;
  else if (x.log)
    x.low = log10(x.low), x.high = log10(x.high);
  else if (!has_few(s, &x, key) && x.high > x.low) {
    x.step = svg_step(x.high - x.low);
    x.low = floor(x.low / x.step + 1e-9) * x.step;
    x.high = ceil(x.high / x.step - 1e-9) * x.step;
  }
  return x;
}

static double y_of(double place) { return BOTTOM - 14 - place * (BOTTOM - TOP - 28); }

/* What stands beside a tick: a value as it was given where it fits (run < 0: there is none), else the number there. */
static void write_tick(char text[TICK_BYTES], const hd_sweep *s, const axis *x, int key, int64_t run, double at) {
  const char *given = run < 0 ? "" : hd_sweep_value(s, run, key);
  snprintf(text, TICK_BYTES, "%s", given);
  if (x->numbers && (run < 0 || strlen(given) >= TICK_BYTES))
    snprintf(text, TICK_BYTES, x->step > 0 ? "%.10g" : "%.4g", x->log ? pow(10, at) : at);
}

/* The distinct values if they are few, else some numbers of the scale. */
static void put_axis(FILE *to, const hd_sweep *s, axis *x, int key) {
  const bool few = has_few(s, x, key), last = key == hd_sweep_result(s)->keys;
  const int at = SIDE + key * APART;
  double before = INFINITY;
  svg_line(to, at, TOP, at, BOTTOM, "axis");
  svg_text(to, at, TOP - 20, "mid", "%s%s", name_of(hd_sweep_result(s), key), x->log ? " (log)" : "");
  const int ticks = few ? x->names : x->step > 0 ? (int)lround((x->high - x->low) / x->step) + 1 : TICKS;
  for (int i = 0; i < ticks && x->high >= x->low; i++) {
    const double place = few ? place_of(x, s, key, x->at[i]) : x->high > x->low ? i / (ticks - 1.0) : 0.5;
    const double value = x->low + place * (x->high - x->low), y = y_of(place);
    char text[TICK_BYTES];
    if (fabs(y - before) < 14)
      continue;
    write_tick(text, s, x, key, few ? x->at[i] : -1, value);
    svg_text(to, last ? at + 7 : at - 7, y + 4, last ? "" : "end", "%s", text);
    before = y;
  }
}

/* `quality`: 0 for the worst run, 1 for the best; it sets runs with the same value a little apart. */
static void put_run(FILE *to, const hd_sweep *s, axis *x, int64_t run, double quality) {
  const hd_sweep_report *r = hd_sweep_result(s);
  const bool lost = isnan(r->run[run].metric);
  fprintf(to, "<path class=\"%s\" style=\"--q:%.3f\" d=\"", lost ? "run lost" : "run", quality);
  for (int k = 0; k < r->keys + !lost; k++)
    fprintf(to, "%c%d %.1f", k ? 'L' : 'M', SIDE + k * APART,
            y_of(place_of(&x[k], s, k, run)) + (k < r->keys ? 14 * (0.5 - quality) : 0));
  fprintf(to, "\"><title>%s: %s", sweep_name(run), hd_sweep_state_name(r->run[run].state));
  for (int k = 0; k < r->keys + !lost; k++) {
    fprintf(to, ", %s ", name_of(r, k));
    svg_escaped(to, hd_sweep_value(s, run, k));
  }
  fprintf(to, "</title></path>\n");
}

static void put_chart(FILE *to, const hd_sweep *s) {
  const hd_sweep_report *r = hd_sweep_result(s);
  const int width = 2 * SIDE + r->keys * APART;
  axis *x = calloc((size_t)r->keys + 1, sizeof *x);
  fprintf(to,
          "<figure><figcaption>One line per run, across its settings and results; the better runs are coloured like "
          "the best</figcaption>\n<div class=\"table\"><svg class=\"wide\" style=\"min-width:%dpx\" "
          "viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"runs\">\n",
          7 * width / 10, width, HEIGHT);
  for (int k = 0; x && k <= r->keys; k++)
    x[k] = look_at(s, k);
  for (int64_t i = r->runs - 1; x && i >= 0; i--)
    put_run(to, s, x, r->order[i], r->runs > 1 ? 1 - (double)i / (double)(r->runs - 1) : 1);
  for (int k = 0; x && k <= r->keys; k++)
    put_axis(to, s, &x[k], k);
  fprintf(to, "</svg></div></figure>\n");
  free(x);
}

/* ---- Tables ---- */

static void open_table(FILE *to, const hd_sweep_report *r, const char *title, const char *first, bool with_repeats,
                       const char *rest) {
  fprintf(to, "<h2>%s</h2>\n<div class=\"table\"><table><thead><tr>%s", title, first);
  for (int k = 0; k < r->keys; k++)
    if (with_repeats || !hd_sweep_repeats(r->key[k]))
      fprintf(to, "<th>%s</th>", name_of(r, k));
  fprintf(to, "%s</tr></thead><tbody>\n", rest);
}

static void put_cells(FILE *to, const hd_sweep *s, int64_t run, bool with_repeats) {
  const hd_sweep_report *r = hd_sweep_result(s);
  for (int k = 0; k < r->keys; k++)
    if (with_repeats || !hd_sweep_repeats(r->key[k])) {
      fprintf(to, "<td>");
      svg_escaped(to, hd_sweep_value(s, run, k));
      fprintf(to, "</td>");
    }
}

/* "Averages over seeds and folds": the keys that tell the runs of a group apart. */
static const char *title_of_groups(char text[64], const hd_sweep_report *r) {
  int at = snprintf(text, 64, "Averages over "), found = 0;
  for (int k = 0; k < r->keys; k++)
    if (hd_sweep_repeats(r->key[k]))
      at += snprintf(text + at, 64 - (size_t)at, "%s%ss", found++ ? " and " : "", name_of(r, k));
  return text;
}

static void put_groups(FILE *to, const hd_sweep *s) {
  const hd_sweep_report *r = hd_sweep_result(s);
  char title[64];
  open_table(to, r, title_of_groups(title, r), "", false,
             "<th>n</th><th>mean</th><th>deviation</th><th>95&nbsp;% interval</th>");
  for (const hd_sweep_group *g = r->group; g < r->group + r->groups && g < r->group + MOST_ROWS; g++) {
    fprintf(to, "<tr%s>", g == r->group ? " class=\"best\"" : "");
    put_cells(to, s, g->first, false);
    fprintf(to, "<td>%lld</td><td>%.5g</td>", (long long)g->n, g->mean);
    if (g->n > 1)
      fprintf(to, "<td>%.3g</td><td>%.5g&ndash;%.5g</td></tr>\n", g->deviation, g->low, g->high);
    else
      fprintf(to, "<td>&ndash;</td><td>&ndash;</td></tr>\n");
  }
  fprintf(to, "</tbody></table></div>\n");
}

static void put_runs(FILE *to, const hd_sweep *s) {
  const hd_sweep_report *r = hd_sweep_result(s);
  open_table(to, r, "Runs, the best first", "<th class=\"name\">run</th>", true, "<th>state</th><th>metric</th>");
  for (int64_t i = 0; i < r->runs && i < MOST_ROWS; i++) {
    const char *name = sweep_name(r->order[i]);
    fprintf(to, "<tr%s><td class=\"name\"><a href=\"%s/\">%s</a></td>", i == 0 ? " class=\"best\"" : "", name, name);
    put_cells(to, s, r->order[i], true);
    fprintf(to, "<td>%s</td><td>%s</td></tr>\n", hd_sweep_state_name(r->run[r->order[i]].state),
            hd_sweep_value(s, r->order[i], r->keys));
  }
  fprintf(to, "</tbody></table></div>\n");
}

void sweep_write_page(FILE *to, const void *sweep) {
  const hd_sweep *s = sweep;
  const hd_sweep_report *r = hd_sweep_result(s);
  page_open(to, "heddle sweep", 0);
  fprintf(to, "<h1>%s by %s</h1>\n<p class=\"say\">Best: %s, ", cli_grouped_of(r->runs, "run"), r->metric,
          hd_sweep_value(s, r->order[0], r->keys));
  fprintf(to, "<a href=\"%s/\">%s</a>.</p>\n", sweep_name(r->order[0]), sweep_name(r->order[0]));
  fprintf(to,
          "<p class=\"soft\">%s done, %s failed. Table: <a href=\"table.csv\">table.csv</a>, SHA-256 "
          "<code>%s</code>.</p>\n",
          cli_grouped(r->done), cli_grouped(r->failed), r->table_sha256);
  put_chart(to, s);
  if (r->groups < r->done)
    put_groups(to, s);
  put_runs(to, s);
  page_close(to);
}
