/* The picture of heddle bench ranks.
 *
 *     samples/s  │          ·´ ■     Above: medians by cores, with a line where the middle half of the rounds lies; one
 *                │      ·´ ●         process of many threads, many processes of one thread, and what lies between side
 *                │   ●■              by side; dashed: as many times one core as there are cores.
 *                └──────────────
 *     ratio 1.0  ┼ ─ ─ ■ ─ ─ ◆ ■     Below: against the threads of as many cores, round by round.
 */
#include <math.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/svg.h"

enum {
  WIDTH = 760,
  LEFT = 90,
  RIGHT = 24,
  SPEED_TOP = 104,
  SPEED_HEIGHT = 290,
  RATIO_TOP = 450,
  RATIO_HEIGHT = 130,
  HEIGHT = 660,
  APART = 11 /* from one mark to the next of as many cores, at most */
};

typedef struct plot {
  FILE *to;
  const bench_ranks_table *t;
  double most_cores, low, high; /* the axes' ends */
  int top, height;
} plot;

/* Each row is of one of three kinds, which also differ in shape. */
enum { THREADS, RANKS, BOTH, KINDS };

static const char *const kind_name[KINDS] = {"1 rank of n threads", "n ranks of 1 thread",
                                             "some ranks of some threads"};

static int kind_of(const bench_ranks_row *row) { return row->ranks == 1 ? THREADS : row->threads == 1 ? RANKS : BOTH; }

static double x_of(const plot *p, double cores) {
  return LEFT + (WIDTH - LEFT - RIGHT) * (cores - 0.5) / p->most_cores;
}

static double y_of(const plot *p, double value) { return p->top + p->height * (p->high - value) / (p->high - p->low); }

/* Rows with the same number of cores stand side by side. */
static double x_of_row(const plot *p, int index) {
  const bench_ranks_row *row = p->t->row;
  int before = 0, after = 0;
  while (index - before > 0 && row[index - before - 1].cores == row[index].cores)
    before++;
  while (index + after < p->t->rows - 1 && row[index + after + 1].cores == row[index].cores)
    after++;
  const double room = (WIDTH - LEFT - RIGHT) / p->most_cores / (before + after + 1);
  return x_of(p, row[index].cores) + (before - after) / 2.0 * fmin(room, APART);
}

static void put_mark(const plot *p, int kind, double x, double y, const char *title) {
  static const char *const shape[KINDS] = {"<circle r=\"5\"/>", "<path d=\"M-4.6-4.6h9.2v9.2h-9.2z\"/>",
                                           "<path d=\"M0-6L6 0 0 6-6 0z\"/>"};
  fprintf(p->to, "<g class=\"k%d\" transform=\"translate(%.1f %.1f)\">%s<title>%s</title></g>\n", kind, x, y,
          shape[kind], title);
}

static void put_range(const plot *p, int kind, double x, double low, double high) {
  fprintf(p->to, "<path class=\"r%d\" d=\"M%.1f %.1fV%.1f\"/>\n", kind, x, y_of(p, low), y_of(p, high));
}

/* Horizontal lines, and the numbers of cores below. */
static void put_axes(const plot *p, double step, int decimals, const char *what) {
  char label[48];
  for (double v = ceil(p->low / step - 1e-9) * step; v <= p->high + step * 1e-6; v += step) {
    svg_line(p->to, LEFT, y_of(p, v), WIDTH - RIGHT, y_of(p, v), "grid");
    if (decimals)
      snprintf(label, sizeof label, "%.*f", decimals, v + 0.0); /* no -0.0 */
    else
      snprintf(label, sizeof label, "%s", cli_grouped(llround(v)));
    svg_text(p->to, LEFT - 8, y_of(p, v) + 4, "end", label);
  }
  for (int i = 0; i < p->t->rows; i++) {
    if (p->t->row[i].ranks > 1)
      continue;
    snprintf(label, sizeof label, "%d", p->t->row[i].cores);
    svg_text(p->to, x_of(p, p->t->row[i].cores), p->top + p->height + 18, "mid", label);
  }
  svg_text(p->to, LEFT, p->top - 10, "", what);
}

/* Through the rows of one kind. */
static void put_way(const plot *p, int kind) {
  fprintf(p->to, "<polyline class=\"w%d\" points=\"", kind);
  for (int i = 0; i < p->t->rows; i++)
    if (kind_of(&p->t->row[i]) == kind || (p->t->row[i].cores == 1 && kind != BOTH))
      fprintf(p->to, "%.1f,%.1f ", x_of_row(p, i), y_of(p, p->t->row[i].rate));
  fprintf(p->to, "\"/>\n");
}

static void put_speeds(FILE *to, const bench_ranks_table *t) {
  plot p = {.to = to, .t = t, .most_cores = t->row[t->rows - 1].cores, .top = SPEED_TOP, .height = SPEED_HEIGHT};
  double most = t->row[0].rate * p.most_cores;
  for (int i = 0; i < t->rows; i++)
    most = fmax(most, t->row[i].high);
  const double step = svg_step(most);
  p.high = ceil(most / step) * step;
  put_axes(&p, step, 0, "samples a second; lines: the middle half of the rounds; dashed: n times one core");
  svg_line(to, x_of(&p, 1), y_of(&p, t->row[0].rate), x_of(&p, p.most_cores), y_of(&p, t->row[0].rate * p.most_cores),
           "ideal");
  put_way(&p, THREADS);
  put_way(&p, RANKS);
  for (int i = 0; i < t->rows; i++) {
    const bench_ranks_row *row = &t->row[i];
    char title[128];
    snprintf(title, sizeof title, "%d x %d: %s samples/s", row->ranks, row->threads, cli_grouped(llround(row->rate)));
    put_range(&p, kind_of(row), x_of_row(&p, i), row->low, row->high);
    put_mark(&p, kind_of(row), x_of_row(&p, i), y_of(&p, row->rate), title);
  }
}

static void put_ratios(FILE *to, const bench_ranks_table *t) {
  plot p = {.to = to, .t = t, .most_cores = t->row[t->rows - 1].cores, .top = RATIO_TOP, .height = RATIO_HEIGHT};
  double least = 0.95, most = 1.05;
  for (int i = 0; i < t->rows; i++) {
    least = fmin(least, t->row[i].ratio_low);
    most = fmax(most, t->row[i].ratio_high);
  }
  const double step = svg_step(most - least);
  p.low = floor(least / step) * step;
  p.high = ceil(most / step) * step;
  put_axes(&p, step, step < 0.1 ? 2 : 1, "speed of ranks against that of as many threads, in the same round");
  svg_line(to, LEFT, y_of(&p, 1), WIDTH - RIGHT, y_of(&p, 1), "one");
  for (int i = 0; i < t->rows; i++) {
    const bench_ranks_row *row = &t->row[i];
    char title[128];
    if (row->ranks == 1)
      continue;
    snprintf(title, sizeof title, "%d x %d: %.3f (%.3f to %.3f)", row->ranks, row->threads, row->ratio, row->ratio_low,
             row->ratio_high);
    put_range(&p, kind_of(row), x_of_row(&p, i), row->ratio_low, row->ratio_high);
    put_mark(&p, kind_of(row), x_of_row(&p, i), y_of(&p, row->ratio), title);
  }
}

static void put_key(FILE *to, const bench_ranks_table *t) {
  const plot p = {.to = to, .t = t};
  int has[KINDS] = {0};
  double x = LEFT + 6;
  for (int i = 0; i < t->rows; i++)
    has[kind_of(&t->row[i])] = 1;
  for (int k = 0; k < KINDS; k++) {
    if (!has[k])
      continue;
    put_mark(&p, k, x, 68, kind_name[k]);
    svg_text(to, x + 11, 72, "", kind_name[k]);
    x += 175;
  }
}

static void put_head(FILE *to, const bench_ranks_table *t) {
  char text[640];
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
          "<style>text{font:12px system-ui,sans-serif;fill:#1f2937}.mid{text-anchor:middle}.end{text-anchor:end}"
          ".title{font-size:16px;font-weight:bold}.mono{font:11px ui-monospace,monospace;fill:#4b5563}"
          ".grid{stroke:#e5e7eb}.ideal{stroke:#9ca3af;stroke-dasharray:5 4}.one{stroke:#6b7280}"
          "polyline{fill:none;stroke-width:1.5}.w0{stroke:#1d4ed8}.w1{stroke:#c2410c}.r0,.r1,.r2{stroke-width:1.5}"
          ".r0{stroke:#1d4ed8}.r1{stroke:#c2410c}.r2{stroke:#047857}.k0{fill:#1d4ed8}.k1{fill:#c2410c}.k2{fill:#047857}"
          "</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT);
  snprintf(text, sizeof text, "%s on %s, batch %lld: threads against ranks", t->model, t->data, t->batch);
  svg_text(to, 20, 28, "title", text);
  snprintf(text, sizeof text, "%s, %s; %lld steps, medians of %d rounds in turns", t->cpu, t->isa, t->steps, t->rounds);
  svg_text(to, 20, 47, "", text);
}

void bench_ranks_draw(FILE *to, const void *table) {
  const bench_ranks_table *t = table;
  char text[160];
  put_head(to, t);
  put_key(to, t);
  put_speeds(to, t);
  put_ratios(to, t);
  svg_text(to, (LEFT + WIDTH - RIGHT) / 2.0, RATIO_TOP + RATIO_HEIGHT + 38, "mid", "cores (ranks x threads)");
  snprintf(text, sizeof text, "weights of all runs: %s", t->digest);
  svg_text(to, 20, HEIGHT - 14, "mono", text);
  fprintf(to, "</svg>\n");
}
