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
#include "cli/page.h"
#include "cli/svg.h"

enum { WIDTH = 640, HEIGHT = 360, LEFT = 84, RIGHT = 16, TOP = 40, BOTTOM = 52, MAX_MARKS = 4 };

/* The meaning of the marks of a chart. */
typedef struct marks {
  char name[MAX_MARKS][24];
  int count;    /* of placements, or of numbers of workers */
  bool workers; /* marks are numbers of workers */
} marks;

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

tune_facts tune_look(const hd_tune *t) {
  const hd_tune_setting *first = &t->settings[0];
  tune_facts f = {.same_everywhere = first->same != 0};
  for (const hd_tune_setting *s = first; s < first + t->count; s++) {
    f.threads_vary |= s->threads != first->threads;
    f.workers_vary |= s->workers != first->workers;
    f.places_vary |= s->placement != first->placement;
    f.has_workers |= s->workers > 0;
    f.has_same |= s->same != 0;
    f.same_everywhere &= s->placement == first->placement && s->same == first->same;
  }
  return f;
}

/* The number of a setting's mark; a new one gets the next. */
static int mark_of(marks *m, const hd_tune_setting *s) {
  const char *name = m->workers ? cli_counted(s->workers, "worker") : tune_placement(s);
  int i = 0;
  while (i < m->count && strcmp(m->name[i], name))
    i++;
  if (i == m->count)
    snprintf(m->name[m->count++], sizeof m->name[0], "%s", name);
  return i;
}

/* ---- Charts ---- */

/* The speed of one thread with the placement and workers of the best setting: the fitted law's unit. */
static double unit_of(const hd_tune *t) {
  const hd_tune_setting *best = &t->settings[t->best];
  for (int i = 0; i < t->count && t->settings[i].threads == 1; i++)
    if (t->settings[i].workers == best->workers)
      return t->settings[i].samples_per_s;
  return t->settings[0].samples_per_s;
}

/* The fitted law as a curve, in units of `one`. */
static void put_law(const svg_chart *c, const hd_tune *t, double one) {
  enum { POINTS = 60 };
  fprintf(c->to, "<polyline class=\"law\" points=\"");
  for (int i = 0; i <= POINTS; i++) {
    double n = 1 + (t->settings[t->count - 1].threads - 1.0) * i / POINTS;
    fprintf(c->to, "%.1f,%.1f ", svg_x(c, n), svg_y(c, fmin(one * hd_tune_predict(t, n), c->high)));
  }
  fprintf(c->to, "\"/>\n");
}

/* Each setting's median with its interval, times `scale`. */
static void list_points(svg_point *point, marks *m, const hd_tune *t, double scale) {
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    char place[64];
    point[i] = (svg_point){s->threads,     mark_of(m, s),   s->samples_per_s * scale,
                           s->low * scale, s->high * scale, .best = i == t->best};
    snprintf(point[i].title, sizeof point[i].title, "%d threads, %s%s%s: %s samples/s", s->threads,
             tune_places(place, sizeof place, s, ", "), m->workers ? ", " : "",
             m->workers ? cli_counted(s->workers, "worker") : "", cli_grouped(llround(s->samples_per_s)));
  }
}

typedef struct chart_form {
  const char *caption, *title;
  double scale, most; /* medians times `scale`, the axis up to `most` */
  bool ideal;         /* with the line of as many times as there are threads */
} chart_form;

/* Medians and the fitted law. */
static void put_chart(FILE *to, const hd_tune *t, const chart_form *f) {
  svg_point point[HD_TUNE_MAX_SETTINGS];
  svg_chart c = {to, LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, .point = point, .count = t->count};
  marks m = {.workers = tune_look(t).workers_vary};
  const double threads = t->settings[t->count - 1].threads;
  list_points(point, &m, t, f->scale);
  svg_scale(&c, 0, f->most);
  fprintf(to, "<figure><figcaption>%s</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
          f->caption, WIDTH, HEIGHT, f->title);
  svg_axes(&c);
  svg_text(to, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6, "mid", "threads");
  fprintf(to, "<title>%s</title>\n", f->title);
  for (int i = 0; i < m.count && m.count > 1; i++)
    svg_key(to, LEFT + 6 + i * (WIDTH - LEFT - RIGHT) / (double)MAX_MARKS, TOP - 22, i, m.name[i]);
  if (f->ideal)
    svg_line(to, svg_x(&c, 1), svg_y(&c, 1), svg_x(&c, threads), svg_y(&c, threads), "ideal");
  put_law(&c, t, unit_of(t) * f->scale);
  svg_points(&c);
  fprintf(to, "</svg></figure>\n");
}

static void put_charts(FILE *to, const hd_tune *t) {
  const double one = t->settings[0].samples_per_s;
  double most = 0;
  for (int i = 0; i < t->count; i++)
    most = fmax(most, t->settings[i].high);
  put_chart(to, t,
            &(chart_form){"Samples per second: medians, their 95 % intervals, and the fitted law",
                          "samples per second by threads", 1, most, false});
  put_chart(to, t,
            &(chart_form){"Speed-up over one thread; dashed: ideal, n times for n threads", "speed-up by threads",
                          1 / one, fmax(t->settings[t->count - 1].threads, most / one), true});
}

static void put_table(FILE *to, const hd_tune *t) {
  const tune_facts f = tune_look(t);
  char place[64], cell[32] = "";
  fprintf(to,
          "<div class=\"table\"><table><thead><tr><th>threads</th>%s<th "
          "class=\"name\">placement</th><th>samples/s</th><th>95 %% interval</th>"
          "<th>speed-up</th><th>efficiency</th></tr></thead><tbody>\n",
          f.has_workers ? "<th>workers</th>" : "");
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    if (f.has_workers)
      snprintf(cell, sizeof cell, "<td>%d</td>", s->workers);
    fprintf(to,
            "<tr%s><td>%d</td>%s<td class=\"name\">%s</td><td>%s</td><td>%s&ndash;%s</td><td>%.2f</td>"
            "<td>%.0f&nbsp;%%</td></tr>\n",
            i == t->best ? " class=\"best\"" : "", s->threads, cell,
            f.same_everywhere ? tune_placement(s) : tune_places(place, sizeof place, s, ", "),
            cli_grouped((long long)(s->samples_per_s + 0.5)), cli_grouped((long long)(s->low + 0.5)),
            cli_grouped((long long)(s->high + 0.5)), s->speedup, 100 * s->efficiency);
  }
  fprintf(to, "</tbody></table></div>\n");
  if (f.same_everywhere)
    fprintf(to, "<p class=\"soft\">The placements %s give the same CPUs here and were measured once.</p>\n",
            tune_places(place, sizeof place, &t->settings[0], ", "));
  else if (f.has_same)
    fprintf(to, "<p class=\"soft\">Placements in one row give the same CPUs and were measured once.</p>\n");
}

const char *tune_amdahl(char text[TUNE_LAW_BYTES], const hd_tune *t) {
  if (!tune_look(t).threads_vary)
    snprintf(text, TUNE_LAW_BYTES, "a single number of threads does not show how much of the work runs in parallel");
  else if (t->amdahl >= 1)
    snprintf(text, TUNE_LAW_BYTES, "s = 1: no number of threads is faster than one");
  else
    snprintf(text, TUNE_LAW_BYTES, "s = %.3f: %.1f %% of the work does not run in parallel", t->amdahl,
             100 * t->amdahl);
  return text;
}

const char *tune_limit(char text[TUNE_LAW_BYTES], const hd_tune *t) {
  if (!tune_look(t).threads_vary)
    snprintf(text, TUNE_LAW_BYTES, "unknown from a single number of threads");
  else if (isfinite(t->predicted_best))
    snprintf(text, TUNE_LAW_BYTES, "fastest with %.0f thread%s", t->predicted_best, t->predicted_best < 1.5 ? "" : "s");
  else if (t->contention > 0)
    snprintf(text, TUNE_LAW_BYTES, "at most %.3g times as fast as one thread, however many there are",
             1 / t->contention);
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
  const tune_facts f = tune_look(t);
  char day[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc))
    strftime(day, sizeof day, "%Y-%m-%d", &utc);
  page_open(to, "How many threads? heddle tune", 0);
  fprintf(to, "<h1>%s%s%s%s%s%s for <i>", cli_counted(best->threads, "thread"), f.places_vary ? ", " : "",
          f.places_vary ? tune_placement(best) : "", f.workers_vary ? ", " : "",
          f.workers_vary ? cli_counted(best->workers, "loader worker") : "",
          f.places_vary || f.workers_vary ? "," : "");
  svg_escaped(to, t->model);
  fprintf(to, "</i></h1>\n<p class=\"say\">%s samples per second, %.2f times as fast as one thread.</p>\n",
          cli_grouped((long long)(best->samples_per_s + 0.5)), best->speedup);
  fprintf(to, "<p class=\"soft\">");
  svg_escaped(to, t->data);
  fprintf(to, ", batch %lld, %s, %s of ", (long long)t->batch, t->isa, cli_counted(t->cpus, "CPU"));
  svg_escaped(to, t->cpu);
  fprintf(to, ". %d settings in %d turns, %.0f s, %s, heddle %s.</p>\n", t->count, best->turns, t->seconds, day,
          hd_version());
  put_charts(to, t);
  put_table(to, t);
  put_laws(to, t);
  fprintf(to,
          "<p>Every setting trained the same %lld steps to the same weights, SHA-256 <code>%s</code>: threads, their "
          "placement and loader workers change the time, never the result.</p>\n",
          (long long)t->proof_steps, t->weights_sha256);
  page_close(to);
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
