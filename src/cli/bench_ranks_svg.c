/* The picture of heddle bench ranks.
 *
 *     samples/s  │          ·´ ■     Above: medians by cores, with a line where the middle half of the rounds lies; one
 *                │      ·´ ●         process of many threads, many processes of one thread, and what lies between side
 *                │   ●■              by side; dashed: as many times one core as there are cores.
 *                └──────────────
 *     ratio 1.0  ┼ ─ ─ ■ ─ ─ ◆ ■     Below: against the threads of as many cores, round by round.
 */
#include <math.h>

#include "cli/bench.h"
#include "cli/svg.h"

enum { WIDTH = 760, LEFT = 90, RIGHT = 736, SPEED_TOP = 104, SPEED_BOTTOM = 394, RATIO_TOP = 450, RATIO_BOTTOM = 580 };
enum { HEIGHT = 660, BETWEEN_KEYS = 175 };

/* Each row is of one of three kinds. */
enum { THREADS, RANKS, BOTH, KINDS };

static const char *const kind_name[KINDS] = {"1 rank of n threads", "n ranks of 1 thread",
                                             "several ranks of several threads"};

static const char style[] =
    ".mono{font:11px ui-monospace,monospace;fill:#4b5563}.ideal{stroke:#9ca3af;stroke-dasharray:5 "
    "4}.one{stroke:#6b7280}"
    "polyline{fill:none}polyline,.range{stroke-width:1.5}.r0{stroke:#1d4ed8}.r1{stroke:#c2410c}.r2{stroke:#047857}"
    ".k0{fill:#1d4ed8}.k1{fill:#c2410c}.k2{fill:#047857}";

static int kind_of(const bench_ranks_row *row) { return row->ranks == 1 ? THREADS : row->threads == 1 ? RANKS : BOTH; }

/* Through the rows of one kind. */
static void put_way(const svg_chart *c, const bench_ranks_table *t, int kind) {
  fprintf(c->to, "<polyline class=\"r%d\" points=\"", kind);
  for (int i = 0; i < t->rows; i++)
    if (kind_of(&t->row[i]) == kind || (t->row[i].cores == 1 && kind != BOTH))
      fprintf(c->to, "%.1f,%.1f ", svg_x_of(c, i), svg_y(c, t->row[i].rate));
  fprintf(c->to, "\"/>\n");
}

static void put_speeds(FILE *to, const bench_ranks_table *t) {
  svg_point point[BENCH_RANKS_ROWS];
  svg_chart c = {to, LEFT, RIGHT, SPEED_TOP, SPEED_BOTTOM, .point = point, .count = t->rows};
  const int cores = t->row[t->rows - 1].cores;
  double most = t->row[0].rate * cores;
  for (int i = 0; i < t->rows; i++) {
    const bench_ranks_row *row = &t->row[i];
    point[i] = (svg_point){row->cores, kind_of(row), row->rate, row->low, row->high, .best = false};
    snprintf(point[i].title, sizeof point[i].title, "%d x %d: %s samples/s", row->ranks, row->threads,
             cli_grouped(llround(row->rate)));
    most = fmax(most, row->high);
  }
  svg_scale(&c, 0, most);
  svg_axes(&c);
  svg_text(to, LEFT, SPEED_TOP - 10, "",
           "samples per second; lines: the middle half of the rounds; dashed: n times one core");
  svg_line(to, svg_x(&c, 1), svg_y(&c, t->row[0].rate), svg_x(&c, cores), svg_y(&c, t->row[0].rate * cores), "ideal");
  put_way(&c, t, THREADS);
  put_way(&c, t, RANKS);
  svg_points(&c);
}

static void put_ratios(FILE *to, const bench_ranks_table *t) {
  svg_point point[BENCH_RANKS_ROWS];
  svg_chart c = {to, LEFT, RIGHT, RATIO_TOP, RATIO_BOTTOM, .point = point, .count = t->rows};
  double least = 0.95, most = 1.05;
  for (int i = 0; i < t->rows; i++) {
    const bench_ranks_row *row = &t->row[i];
    point[i] = (svg_point){
        row->cores, row->ranks > 1 ? kind_of(row) : -1, row->ratio, row->ratio_low, row->ratio_high, .best = false};
    snprintf(point[i].title, sizeof point[i].title, "%d x %d: %.3f (%.3f to %.3f)", row->ranks, row->threads,
             row->ratio, row->ratio_low, row->ratio_high);
    least = fmin(least, row->ratio_low);
    most = fmax(most, row->ratio_high);
  }
  svg_scale(&c, least, most);
  svg_axes(&c);
  svg_text(to, LEFT, RATIO_TOP - 10, "", "speed of ranks relative to the same number of threads, in the same round");
  svg_line(to, LEFT, svg_y(&c, 1), RIGHT, svg_y(&c, 1), "one");
  svg_points(&c);
}

static void put_keys(FILE *to, const bench_ranks_table *t) {
  int has[KINDS] = {0};
  double x = LEFT + 6;
  for (int i = 0; i < t->rows; i++)
    has[kind_of(&t->row[i])] = 1;
  for (int k = 0; k < KINDS; k++)
    if (has[k]) {
      svg_key(to, x, 67, k, kind_name[k]);
      x += BETWEEN_KEYS;
    }
}

void bench_ranks_draw(FILE *to, const void *table) {
  const bench_ranks_table *t = table;
  svg_open(to, WIDTH, HEIGHT, style);
  svg_text(to, 20, 28, "title", "%s on %s, batch %lld: threads against ranks", t->model, t->data, t->batch);
  svg_text(to, 20, 47, "", "%s, %s; %lld steps, medians of %d rounds in turns", t->cpu, t->isa, t->steps, t->rounds);
  put_keys(to, t);
  put_speeds(to, t);
  put_ratios(to, t);
  svg_text(to, (LEFT + RIGHT) / 2.0, RATIO_BOTTOM + 38, "mid", "cores (ranks x threads)");
  svg_text(to, 20, HEIGHT - 14, "mono", "weights of all runs: %s", t->digest);
  svg_close(to);
}
