/* The tuner's page and table: see tune_page.h.
 *
 * A chart is 640 x 360 units; its plot leaves room for the axes' labels and, above, for the legend. The x axis is
 * threads, the y axis starts at zero. Each placement has its mark or, if workers were varied, each number of loader
 * workers; settings with the same number of threads stand side by side. */
#include "cli/tune_page.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/svg.h"

enum { WIDTH = 640, HEIGHT = 360, LEFT = 84, RIGHT = 16, TOP = 40, BOTTOM = 52, MAX_LABELS = 12, MAX_MARKS = 4 };

typedef struct chart {
  FILE *to;
  double threads, most; /* the axes' ends */
  double step;          /* from one horizontal line to the next */
  char mark[MAX_MARKS][24];
  int marks;    /* of placements, or of numbers of workers */
  bool workers; /* marks are numbers of workers */
} chart;

/* ---- Placements ---- */

const char *tune_placement(const hd_tune_setting *s) {
  return s->placement < 0 ? "cpus" : hd_choice_name(HD_OPT_PLACEMENT, s->placement);
}

/* "compact, spread": the other policies that give the same CPUs. Returns `text`. */
static const char *same_policies(char *text, size_t bytes, const hd_tune_setting *s, const char *between) {
  size_t at = 0;
  *text = 0;
  for (int p = 0; s->same >> p && at < bytes; p++)
    if (s->same >> p & 1)
      at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? between : "", hd_choice_name(HD_OPT_PLACEMENT, p));
  return text;
}

const char *tune_places(char *text, size_t bytes, const hd_tune_setting *s, const char *between) {
  size_t at = (size_t)snprintf(text, bytes, "%s%s", tune_placement(s), s->same ? between : "");
  if (at < bytes)
    same_policies(text + at, bytes - at, s, between);
  return text;
}

int tune_same_everywhere(const hd_tune *t) {
  for (int i = 1; i < t->count; i++)
    if (t->settings[i].placement != t->settings[0].placement || t->settings[i].same != t->settings[0].same)
      return 0;
  return t->settings[0].same != 0;
}

int tune_has_workers(const hd_tune *t) {
  int found = 0;
  for (int i = 0; i < t->count; i++)
    found |= t->settings[i].workers > 0;
  return found;
}

static bool workers_vary(const hd_tune *t) {
  bool vary = false;
  for (int i = 1; i < t->count; i++)
    vary |= t->settings[i].workers != t->settings[0].workers;
  return vary;
}

/* "2 threads", "1 worker". */
static const char *counted(char *text, size_t bytes, int count, const char *what) {
  snprintf(text, bytes, "%d %s%s", count, what, count == 1 ? "" : "s");
  return text;
}

/* The number of a setting's mark; a new one gets the next. */
static int mark_of(chart *c, const hd_tune_setting *s) {
  char name[sizeof c->mark[0]];
  int i = 0;
  if (c->workers)
    counted(name, sizeof name, s->workers, "worker");
  else
    snprintf(name, sizeof name, "%s", tune_placement(s));
  while (i < c->marks && strcmp(c->mark[i], name))
    i++;
  if (i == c->marks)
    memcpy(c->mark[c->marks++], name, sizeof name);
  return i;
}

/* ---- Charts ---- */

static double x_of(const chart *c, double threads) {
  return LEFT + (WIDTH - LEFT - RIGHT) * (threads - 0.5) / c->threads;
}

static double y_of(const chart *c, double value) { return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / c->most; }

static void text(const chart *c, double x, double y, const char *anchor, const char *said) {
  fprintf(c->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, said);
}

/* The first setting with as many threads. */
static bool is_new(const hd_tune *t, int i) { return i == 0 || t->settings[i].threads != t->settings[i - 1].threads; }

/* The most settings that have the same number of threads. */
static int most_together(const hd_tune *t) {
  int most = 0, here = 0;
  for (int i = 0; i < t->count; i++) {
    here = is_new(t, i) ? 1 : here + 1;
    most = here > most ? here : most;
  }
  return most;
}

/* The speed of one thread with the placement and workers of the best setting: the fitted law's unit. */
static double unit_of(const hd_tune *t) {
  const hd_tune_setting *best = &t->settings[t->best];
  for (int i = 0; i < t->count && t->settings[i].threads == 1; i++)
    if (t->settings[i].workers == best->workers)
      return t->settings[i].samples_per_s;
  return t->settings[0].samples_per_s;
}

static void put_axes(const chart *c, const hd_tune *t, const char *title) {
  char label[48];
  for (double v = 0; v <= c->most * 1.0001; v += c->step) {
    fprintf(c->to, "<path class=\"line\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(c, v), WIDTH - RIGHT);
    snprintf(label, sizeof label, "%s", c->step < 1 ? "" : cli_grouped((long long)(v + 0.5)));
    if (c->step < 1)
      snprintf(label, sizeof label, "%g", v);
    text(c, LEFT - 8, y_of(c, v) + 4, "end", label);
  }
  int numbers = 0, at = 0; /* of threads: all, and that of this setting */
  for (int i = 0; i < t->count; i++)
    numbers += is_new(t, i);
  const int every = (numbers + MAX_LABELS - 1) / MAX_LABELS;
  for (int i = 0; i < t->count; i++) {
    if (!is_new(t, i) || (at++ % every && at != numbers))
      continue;
    snprintf(label, sizeof label, "%d", t->settings[i].threads);
    text(c, x_of(c, t->settings[i].threads), HEIGHT - BOTTOM + 20, "middle", label);
  }
  text(c, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6, "middle", "threads");
  fprintf(c->to, "<title>%s</title>\n", title);
}

/* A circle, a square, a diamond, a triangle: distinct without colours too. The first chart defines them for the
 * page. */
static const char marks[] =
    "<defs><circle id=\"m0\" r=\"5\"/><path id=\"m1\" d=\"M-4.5-4.5h9v9h-9z\"/>"
    "<path id=\"m2\" d=\"M0-6.5L6.5 0 0 6.5-6.5 0z\"/><path id=\"m3\" d=\"M0-6l6 10.5H-6z\"/></defs>\n";

static void put_mark(const chart *c, int mark, double x, double y, bool best) {
  fprintf(c->to, "<use href=\"#m%d\" class=\"p%d%s\" transform=\"translate(%.1f %.1f) scale(%g)\">", mark, mark,
          best ? " best" : "", x, y, best ? 1.4 : 1.0);
}

/* The legend, above the plot; omitted for a single mark. */
static void put_key(const chart *c) {
  for (int i = 0; i < c->marks && c->marks > 1; i++) {
    const double x = LEFT + 6 + i * (WIDTH - LEFT - RIGHT) / (double)MAX_MARKS;
    put_mark(c, i, x, TOP - 22, false);
    fprintf(c->to, "</use>");
    text(c, x + 10, TOP - 17, "start", c->mark[i]);
  }
}

static chart open_chart(FILE *to, const hd_tune *t, double most, const char *title) {
  chart c = {
      .to = to, .threads = t->settings[t->count - 1].threads, .step = svg_step(most), .workers = workers_vary(t)};
  c.most = ceil(most / c.step) * c.step;
  for (int i = 0; i < t->count; i++)
    mark_of(&c, &t->settings[i]);
  fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, HEIGHT, title);
  put_axes(&c, t, title);
  put_key(&c);
  return c;
}

/* The fitted law as a curve, in units of `one`. */
static void put_law(const chart *c, const hd_tune *t, double one) {
  enum { POINTS = 60 };
  fprintf(c->to, "<polyline class=\"law\" points=\"");
  for (int i = 0; i <= POINTS; i++) {
    double n = 1 + (c->threads - 1) * i / POINTS;
    fprintf(c->to, "%.1f,%.1f ", x_of(c, n), y_of(c, fmin(one * hd_tune_predict(t, n), c->most)));
  }
  fprintf(c->to, "\"/>\n");
}

/* A setting's horizontal offset among those with the same number of threads, in settings. */
static double aside(const hd_tune *t, int setting) {
  int before = 0, after = 0;
  for (int i = 0; i < t->count; i++)
    if (t->settings[i].threads == t->settings[setting].threads)
      *(i < setting ? &before : &after) += i != setting;
  return (before - after) / 2.0;
}

/* Each setting's median with its interval, times `scale`. */
static void put_points(chart *c, const hd_tune *t, double scale) {
  const double room = (WIDTH - LEFT - RIGHT) / c->threads / (most_together(t) + 1), apart = fmin(room, 14);
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    const int mark = mark_of(c, s);
    const double x = x_of(c, s->threads) + apart * aside(t, i);
    char place[64], workers[24] = "";
    if (c->workers)
      snprintf(workers, sizeof workers, ", %d worker%s", s->workers, s->workers == 1 ? "" : "s");
    fprintf(c->to, "<path class=\"range\" d=\"M%.1f %.1fV%.1f\"/>", x, y_of(c, s->low * scale),
            y_of(c, s->high * scale));
    put_mark(c, mark, x, y_of(c, s->samples_per_s * scale), i == t->best);
    fprintf(c->to, "<title>%d threads, %s%s: %s samples/s</title></use>\n", s->threads,
            tune_places(place, sizeof place, s, ", "), workers, cli_grouped((long long)(s->samples_per_s + 0.5)));
  }
}

static void put_speeds(FILE *to, const hd_tune *t) {
  double most = 0;
  for (int i = 0; i < t->count; i++)
    most = fmax(most, t->settings[i].high);
  fprintf(to,
          "<figure><figcaption>Samples a second: medians, their 95 %% intervals, and the fitted law</figcaption>\n");
  chart c = open_chart(to, t, most, "samples a second by threads");
  fprintf(to, "%s", marks);
  put_law(&c, t, unit_of(t));
  put_points(&c, t, 1);
  fprintf(to, "</svg></figure>\n");
}

static void put_speedups(FILE *to, const hd_tune *t) {
  double threads = t->settings[t->count - 1].threads;
  fprintf(to,
          "<figure><figcaption>Speed-up against one thread; dashed: as many times as there are threads</figcaption>\n");
  chart c = open_chart(to, t, threads, "speed-up by threads");
  fprintf(to, "<path class=\"ideal\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x_of(&c, 1), y_of(&c, 1), x_of(&c, threads),
          y_of(&c, threads));
  put_law(&c, t, unit_of(t) / t->settings[0].samples_per_s);
  put_points(&c, t, 1 / t->settings[0].samples_per_s);
  fprintf(to, "</svg></figure>\n");
}

/* Whether some placements give the same CPUs. */
static bool has_same(const hd_tune *t) {
  bool found = false;
  for (int i = 0; i < t->count; i++)
    found |= t->settings[i].same != 0;
  return found;
}

static void put_table(FILE *to, const hd_tune *t) {
  const int same = tune_same_everywhere(t), workers = tune_has_workers(t);
  char place[64], cell[32] = "";
  fprintf(to,
          "<div class=\"table\"><table><thead><tr><th>threads</th>%s<th "
          "class=\"name\">placement</th><th>samples/s</th><th>95 %% interval</th>"
          "<th>speed-up</th><th>efficiency</th></tr></thead><tbody>\n",
          workers ? "<th>workers</th>" : "");
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    if (workers)
      snprintf(cell, sizeof cell, "<td>%d</td>", s->workers);
    fprintf(to,
            "<tr%s><td>%d</td>%s<td class=\"name\">%s</td><td>%s</td><td>%s&ndash;%s</td><td>%.2f</td>"
            "<td>%.0f&nbsp;%%</td></tr>\n",
            i == t->best ? " class=\"best\"" : "", s->threads, cell,
            same ? tune_placement(s) : tune_places(place, sizeof place, s, ", "),
            cli_grouped((long long)(s->samples_per_s + 0.5)), cli_grouped((long long)(s->low + 0.5)),
            cli_grouped((long long)(s->high + 0.5)), s->speedup, 100 * s->efficiency);
  }
  fprintf(to, "</tbody></table></div>\n");
  if (same)
    fprintf(to, "<p class=\"soft\">The placements %s come to the same CPUs here, and were measured once.</p>\n",
            tune_places(place, sizeof place, &t->settings[0], ", "));
  else if (has_same(t))
    fprintf(to, "<p class=\"soft\">Placements that stand in one line come to the same CPUs there, and were measured "
                "once.</p>\n");
}

/* clang-format off */
static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c2430;--soft:#5d6b7d;--line:#d9dfe7;--paper:#fff;--mark:#0b63ce;"
    "--best:#c2410c;--p1:#0f8a68;--p2:#9333ea;--p3:#96700a}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e7ebf0;--soft:#9aa7b8;--line:#323c49;--paper:#14181d;"
    "--mark:#6aa9ff;--best:#ff9a5c;--p1:#34d399;--p2:#c084fc;--p3:#facc15}}\n"
    "body{margin:0 auto;max-width:46rem;padding:1.5rem 1rem;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.6rem;line-height:1.2;margin:0 0 .5rem}.say{font-size:1.15rem}.soft,figcaption{color:var(--soft)}\n"
    "figure{margin:1.5rem 0;break-inside:avoid}svg{width:100%;height:auto;display:block}\n"
    "svg text{fill:var(--soft);font:13px system-ui,sans-serif}.line{stroke:var(--line)}\n"
    ".law{fill:none;stroke:var(--mark);stroke-width:2;opacity:.55}.ideal{stroke:var(--soft);stroke-dasharray:5 5}\n"
    ".p0{fill:var(--mark)}.p1{fill:var(--p1)}.p2{fill:var(--p2)}.p3{fill:var(--p3)}use.best{fill:var(--best)}\n"
    ".range{stroke:var(--ink);stroke-width:2}\n"
    ".table{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.35rem .3rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}\n"
    "tr{break-inside:avoid}tr.best td{font-weight:700;color:var(--best)}\n"
    "th.name,td.name{text-align:left;white-space:normal}\n"
    "code{overflow-wrap:anywhere}\n"
    "@media(max-width:30rem){svg text{font-size:20px}body{font-size:15px}th,td{padding:.3rem .12rem;"
    "white-space:normal}\nth{font-size:.7rem}td{font-size:.8rem}}\n"
    "@media print{:root{--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;--mark:#0b63ce;--best:#c2410c;--p1:#0f8a68;"
    "--p2:#9333ea;--p3:#96700a}\nbody{max-width:none;padding:0}svg{width:auto;height:7.6cm;margin:0 auto}"
    "svg text{font-size:17px}}\n";
/* clang-format on */

static bool threads_vary(const hd_tune *t) {
  bool vary = false;
  for (int i = 1; i < t->count; i++)
    vary |= t->settings[i].threads != t->settings[0].threads;
  return vary;
}

const char *tune_amdahl(char text[TUNE_LAW_BYTES], const hd_tune *t) {
  if (!threads_vary(t))
    snprintf(text, TUNE_LAW_BYTES, "one number of threads does not show how much of the work runs in parallel");
  else if (t->amdahl >= 1)
    snprintf(text, TUNE_LAW_BYTES, "no number of threads is faster than one");
  else
    snprintf(text, TUNE_LAW_BYTES, "%.1f %% of the work does not run in parallel", 100 * t->amdahl);
  return text;
}

const char *tune_limit(char text[TUNE_LAW_BYTES], const hd_tune *t) {
  if (!threads_vary(t))
    snprintf(text, TUNE_LAW_BYTES, "unknown from one number of threads");
  else if (isfinite(t->predicted_best))
    snprintf(text, TUNE_LAW_BYTES, "fastest with %.0f thread%s", t->predicted_best, t->predicted_best < 1.5 ? "" : "s");
  else if (t->contention > 0)
    snprintf(text, TUNE_LAW_BYTES, "at most %.3g times one thread, however many there are", 1 / t->contention);
  else
    snprintf(text, TUNE_LAW_BYTES, "no limit in sight");
  return text;
}

static void put_laws(FILE *to, const hd_tune *t) {
  char text[TUNE_LAW_BYTES];
  fprintf(to, "<p>Amdahl's law: %s. ", tune_amdahl(text, t));
  fprintf(to, "The universal scalability law: contention %.4f, coherence %.6f; %s.</p>\n", t->contention, t->coherence,
          tune_limit(text, t));
}

void tune_write_page(FILE *to, const hd_tune *t) {
  const hd_tune_setting *best = &t->settings[t->best];
  bool placed = false; /* several placements were measured */
  for (int i = 0; i < t->count; i++)
    placed |= t->settings[i].placement != best->placement;
  char day[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc))
    strftime(day, sizeof day, "%Y-%m-%d", &utc);
  fprintf(to,
          "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width,initial-scale=1\">\n<title>How many threads? heddle tune</title>\n"
          "<style>\n%s</style></head><body>\n",
          style);
  char threads[24], workers[24];
  fprintf(to, "<h1>%s%s%s%s%s%s for <i>", counted(threads, sizeof threads, best->threads, "thread"), placed ? ", " : "",
          placed ? tune_placement(best) : "", workers_vary(t) ? ", " : "",
          workers_vary(t) ? counted(workers, sizeof workers, best->workers, "loader worker") : "",
          placed || workers_vary(t) ? "," : "");
  svg_escaped(to, t->model);
  fprintf(to, "</i></h1>\n<p class=\"say\">%s samples a second, %.2f times one thread.</p>\n",
          cli_grouped((long long)(best->samples_per_s + 0.5)), best->speedup);
  fprintf(to, "<p class=\"soft\">");
  svg_escaped(to, t->data);
  fprintf(to, ", batch %lld, %s, %d CPUs of ", (long long)t->batch, t->isa, t->cpus);
  svg_escaped(to, t->cpu);
  fprintf(to, ". %d settings in %d turns, %.0f s, %s, heddle %s.</p>\n", t->count, best->turns, t->seconds, day,
          hd_version());
  put_speeds(to, t);
  put_speedups(to, t);
  put_table(to, t);
  put_laws(to, t);
  fprintf(to,
          "<p>Every setting trained the same %lld steps to the same weights, SHA-256 <code>%s</code>: threads, "
          "their places and loader workers change the time, never the result.</p>\n</body></html>\n",
          (long long)t->proof_steps, t->weights_sha256);
}

void tune_write_csv(FILE *to, const hd_tune *t) {
  fprintf(to, "threads,workers,placement,same,turns,samples_per_s,low,high,speedup,efficiency\n");
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    char same[64];
    fprintf(to, "%d,%d,%s,%s", s->threads, s->workers, tune_placement(s), same_policies(same, sizeof same, s, " "));
    fprintf(to, ",%d,%.1f,%.1f,%.1f,%.4f,%.4f\n", s->turns, s->samples_per_s, s->low, s->high, s->speedup,
            s->efficiency);
  }
}
