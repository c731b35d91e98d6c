/* The tuner's page and table: see tune_page.h.
 *
 * A chart is 640 x 340 units; its plot leaves room for the axes' labels. Threads go to the right, values up from zero.
 */
#include "cli/tune_page.h"

#include <math.h>
#include <time.h>

#include "cli/cli.h"

enum { WIDTH = 640, HEIGHT = 340, LEFT = 84, RIGHT = 16, TOP = 20, BOTTOM = 52, MAX_LABELS = 12 };

typedef struct chart {
  FILE *to;
  double threads, most; /* the axes' ends */
  double step;          /* from one horizontal line to the next */
} chart;

static double x_of(const chart *c, double threads) {
  return LEFT + (WIDTH - LEFT - RIGHT) * (threads - 0.5) / c->threads;
}

static double y_of(const chart *c, double value) { return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / c->most; }

/* 1, 2 or 5 times a power of ten, so that a handful of lines reach `most`. */
static double nice_step(double most) {
  double rough = most / 5, power = pow(10, floor(log10(rough))), unit = rough / power;
  return power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
}

static void text(const chart *c, double x, double y, const char *anchor, const char *said) {
  fprintf(c->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, said);
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
  int every = (t->count + MAX_LABELS - 1) / MAX_LABELS;
  for (int i = 0; i < t->count; i++) {
    if (i % every && i != t->count - 1)
      continue;
    snprintf(label, sizeof label, "%d", t->settings[i].threads);
    text(c, x_of(c, t->settings[i].threads), HEIGHT - BOTTOM + 20, "middle", label);
  }
  text(c, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 6, "middle", "threads");
  fprintf(c->to, "<title>%s</title>\n", title);
}

static chart open_chart(FILE *to, const hd_tune *t, double most, const char *title) {
  chart c = {.to = to, .threads = t->settings[t->count - 1].threads, .step = nice_step(most)};
  c.most = ceil(most / c.step) * c.step;
  fprintf(to, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, HEIGHT, title);
  put_axes(&c, t, title);
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

/* Each setting's median with its interval, times `scale`. */
static void put_points(const chart *c, const hd_tune *t, double scale) {
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    double x = x_of(c, s->threads);
    fprintf(c->to, "<path class=\"range\" d=\"M%.1f %.1fV%.1f\"/>", x, y_of(c, s->low * scale),
            y_of(c, s->high * scale));
    fprintf(c->to,
            "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%d threads: %s samples/s</title></circle>\n",
            i == t->best ? "best" : "point", x, y_of(c, s->samples_per_s * scale), i == t->best ? 7 : 5, s->threads,
            cli_grouped((long long)(s->samples_per_s + 0.5)));
  }
}

static void put_speeds(FILE *to, const hd_tune *t) {
  double most = 0;
  for (int i = 0; i < t->count; i++)
    most = fmax(most, t->settings[i].high);
  fprintf(to,
          "<figure><figcaption>Samples a second: medians, their 95 %% intervals, and the fitted law</figcaption>\n");
  chart c = open_chart(to, t, most, "samples a second by threads");
  put_law(&c, t, t->settings[0].samples_per_s);
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
  put_law(&c, t, 1);
  put_points(&c, t, 1 / t->settings[0].samples_per_s);
  fprintf(to, "</svg></figure>\n");
}

static void put_table(FILE *to, const hd_tune *t) {
  fprintf(to, "<table><thead><tr><th>threads</th><th>samples/s</th><th>95 %% interval</th><th>speed-up</th>"
              "<th>efficiency</th></tr></thead><tbody>\n");
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    fprintf(to, "<tr%s><td>%d</td><td>%s</td><td>%s&ndash;%s</td><td>%.2f</td><td>%.0f&nbsp;%%</td></tr>\n",
            i == t->best ? " class=\"best\"" : "", s->threads, cli_grouped((long long)(s->samples_per_s + 0.5)),
            cli_grouped((long long)(s->low + 0.5)), cli_grouped((long long)(s->high + 0.5)), s->speedup,
            100 * s->efficiency);
  }
  fprintf(to, "</tbody></table>\n");
}

static const char style[] =
    ":root{color-scheme:light "
    "dark;--ink:#1c2430;--soft:#5d6b7d;--line:#d9dfe7;--paper:#fff;--mark:#0b63ce;--best:#c2410c}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e7ebf0;--soft:#9aa7b8;--line:#323c49;--paper:#14181d;--mark:#"
    "6aa9ff;"
    "--best:#ff9a5c}}\n"
    "body{margin:0 auto;max-width:44rem;padding:1.5rem 1rem;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.6rem;line-height:1.2;margin:0 0 .5rem}.say{font-size:1.15rem}.soft,figcaption{color:var(--soft)}\n"
    "figure{margin:1.5rem 0;break-inside:avoid}svg{width:100%;height:auto;display:block}\n"
    "svg text{fill:var(--soft);font:13px system-ui,sans-serif}.line{stroke:var(--line)}\n"
    ".law{fill:none;stroke:var(--mark);stroke-width:2;opacity:.55}.ideal{stroke:var(--soft);stroke-dasharray:5 5}\n"
    ".point{fill:var(--mark)}circle.best{fill:var(--best)}.range{stroke:var(--ink);stroke-width:2}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.35rem .5rem;text-align:right;border-bottom:1px solid var(--line)}tr.best td{font-weight:700;"
    "color:var(--best)}\n"
    "code{overflow-wrap:anywhere}@media(max-width:30rem){svg "
    "text{font-size:20px}body{font-size:15px}th,td{padding:.3rem "
    ".2rem;font-size:.85rem}}\n"
    "@media "
    "print{:root{--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;--mark:#0b63ce;--best:#c2410c}body{max-width:none}}\n";

static void put_laws(FILE *to, const hd_tune *t) {
  fprintf(
      to,
      "<p>Amdahl's law: %.1f&nbsp;%% of the work does not run in parallel. The universal scalability law: contention "
      "%.4f, coherence %.6f; ",
      100 * t->amdahl, t->contention, t->coherence);
  if (isfinite(t->predicted_best))
    fprintf(to, "it would be fastest with %.0f thread%s.</p>\n", t->predicted_best, t->predicted_best < 1.5 ? "" : "s");
  else
    fprintf(to, "it sees no limit yet.</p>\n");
}

/* Names come from files of users. */
static void put_escaped(FILE *to, const char *name) {
  for (; *name; name++)
    switch (*name) {
    case '&': fputs("&amp;", to); break;
    case '<': fputs("&lt;", to); break;
    case '>': fputs("&gt;", to); break;
    default: fputc(*name, to);
    }
}

void tune_write_page(FILE *to, const hd_tune *t) {
  const hd_tune_setting *best = &t->settings[t->best];
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
  fprintf(to, "<h1>%d thread%s for <i>", best->threads, best->threads == 1 ? "" : "s");
  put_escaped(to, t->model);
  fprintf(to, "</i></h1>\n<p class=\"say\">%s samples a second, %.2f times one thread.</p>\n",
          cli_grouped((long long)(best->samples_per_s + 0.5)), best->speedup);
  fprintf(to, "<p class=\"soft\">");
  put_escaped(to, t->data);
  fprintf(to, ", batch %lld, %s, %d CPUs of ", (long long)t->batch, t->isa, t->cpus);
  put_escaped(to, t->cpu);
  fprintf(to, ". %d settings in %d turns, %.0f s, %s, heddle %s.</p>\n", t->count, best->turns, t->seconds, day,
          hd_version());
  put_speeds(to, t);
  put_speedups(to, t);
  put_table(to, t);
  put_laws(to, t);
  fprintf(
      to,
      "<p>Every setting trained the same %lld steps to the same weights, SHA-256 <code>%s</code>: threads change the "
      "time, never the result.</p>\n</body></html>\n",
      (long long)t->proof_steps, t->weights_sha256);
}

void tune_write_csv(FILE *to, const hd_tune *t) {
  fprintf(to, "threads,turns,samples_per_s,low,high,speedup,efficiency\n");
  for (int i = 0; i < t->count; i++) {
    const hd_tune_setting *s = &t->settings[i];
    fprintf(to, "%d,%d,%.1f,%.1f,%.1f,%.4f,%.4f\n", s->threads, s->turns, s->samples_per_s, s->low, s->high, s->speedup,
            s->efficiency);
  }
}
