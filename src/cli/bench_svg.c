/* A roofline and the time against it, as an SVG.
 *
 *     GFLOP/s  ┌───────────────────┐    Above: executed GFLOP/s over FLOP a byte, both logarithmic; one roof for FMA,
 *              │     ______ FMA    │    one for each level of memory; operations are numbered points.
 *              │  ／／ 3 1    2    │
 *              └───────────────────┘    Below: a bar for each operation, as long as it takes; the dark part is what its
 *     1 conv2 ██▒▒▒▒                    bound would take.
 */
#include <math.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/svg.h"

enum { WIDTH = 860, PLOT_TOP = 70, PLOT_HEIGHT = 330, LEFT = 70, RIGHT = 30, ROW = 20, NAMES = 230, NUMBERS = 190 };

enum { MOST_SPOTS = 1024, POINT_RADIUS = 9, LETTER_RADIUS = 6, LETTER_WIDTH = 6 };

/* An occupied circle of the picture: nothing else is drawn there. */
typedef struct spot {
  double x, y, radius;
} spot;

typedef struct chart {
  FILE *file;
  const bench_ops *all;
  double x0, x1, y0, y1; /* the axes' ends, as powers of two */
  spot taken[MOST_SPOTS];
  int count;
} chart;

static double intensity(const hd_bench_op *op) { return op->bytes > 0 ? op->executed_flops / op->bytes : 0; }
static double speed(const hd_bench_op *op) { return op->s > 0 ? 1e-9 * op->executed_flops / op->s : 0; }
static int is_point(const hd_bench_op *op) { return intensity(op) > 0 && speed(op) > 0; }

static double x_of(const chart *c, double value) {
  return LEFT + (WIDTH - LEFT - RIGHT) * (log2(value) - c->x0) / (c->x1 - c->x0);
}

static double y_of(const chart *c, double value) {
  return PLOT_TOP + PLOT_HEIGHT * (c->y1 - log2(value)) / (c->y1 - c->y0);
}

/* Whole powers of two around all points and the roofs' corners. */
static void choose_axes(chart *c) {
  const hd_bench_machine *m = c->all->machine;
  const double slowest = m->level[m->levels - 1].gbytes_per_s;
  double least = 1, most = 2 * m->peak_gflops / slowest, lowest = m->peak_gflops / 16;
  for (int i = 0; i < c->all->count; i++) {
    const hd_bench_op *op = &c->all->op[i];
    if (!is_point(op))
      continue;
    least = fmin(least, intensity(op));
    most = fmax(most, intensity(op));
    lowest = fmin(lowest, speed(op));
  }
  c->x0 = floor(log2(least)) - 1;
  c->x1 = ceil(log2(most)) + 1;
  c->y0 = floor(log2(lowest)) - 1;
  c->y1 = ceil(log2(m->peak_gflops)) + 1;
}

static void draw_axes(const chart *c) {
  for (double p = c->x0; p <= c->x1; p += 1) {
    const double x = x_of(c, exp2(p));
    svg_line(c->file, x, PLOT_TOP, x, PLOT_TOP + PLOT_HEIGHT, "grid");
    svg_text(c->file, x, PLOT_TOP + PLOT_HEIGHT + 16, "mid small", "%.4g", exp2(p));
  }
  for (double p = c->y0; p <= c->y1; p += 1) {
    const double y = y_of(c, exp2(p));
    svg_line(c->file, LEFT, y, WIDTH - RIGHT, y, "grid");
    svg_text(c->file, LEFT - 6, y + 4, "end small", "%.4g", exp2(p));
  }
  svg_text(c->file, (LEFT + WIDTH - RIGHT) / 2.0, PLOT_TOP + PLOT_HEIGHT + 36, "mid", "executed FLOP per byte");
  svg_text(c->file, LEFT, PLOT_TOP - 8, "small", "executed GFLOP/s, one thread");
}

static int is_free(const chart *c, double x, double y, double radius) {
  int is =
      x - radius > LEFT && x + radius < WIDTH - RIGHT && y - radius > PLOT_TOP && y + radius < PLOT_TOP + PLOT_HEIGHT;
  for (int i = 0; is && i < c->count; i++)
    is = hypot(x - c->taken[i].x, y - c->taken[i].y) >= radius + c->taken[i].radius;
  return is;
}

static void take(chart *c, double x, double y, double radius) {
  if (c->count < MOST_SPOTS)
    c->taken[c->count++] = (spot){x, y, radius};
}

/* The nearest free place for a point, on circles around its position; the position itself if the picture is full. */
static spot place_point(const chart *c, double x, double y) {
  enum { DIRECTIONS = 24, RINGS = 40 };
  const double pi = acos(-1);
  if (is_free(c, x, y, POINT_RADIUS))
    return (spot){x, y, POINT_RADIUS};
  for (int ring = 1; ring <= RINGS; ring++)
    for (int d = 0; d < DIRECTIONS; d++) {
      const double px = x + 5 * ring * cos(2 * pi * d / DIRECTIONS), py = y + 5 * ring * sin(2 * pi * d / DIRECTIONS);
      if (is_free(c, px, py, POINT_RADIUS))
        return (spot){px, py, POINT_RADIUS};
    }
  return (spot){x, y, POINT_RADIUS};
}

static void place_points(chart *c) {
  for (int i = 0; i < c->all->count && c->count < MOST_SPOTS; i++)
    if (is_point(&c->all->op[i])) {
      const spot at = place_point(c, x_of(c, intensity(&c->all->op[i])), y_of(c, speed(&c->all->op[i])));
      take(c, at.x, at.y, at.radius);
    }
}

/* Points are the first spots, in their order; a displaced one is joined by a line to a dot at its position. */
static void draw_points(const chart *c, bool ties) {
  for (int i = 0, spots = 0; i < c->all->count && spots < MOST_SPOTS; i++) {
    const hd_bench_op *op = &c->all->op[i];
    if (!is_point(op))
      continue;
    const double x = x_of(c, intensity(op)), y = y_of(c, speed(op));
    const spot *at = &c->taken[spots++];
    if (!ties) {
      fprintf(c->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" class=\"point\"/>\n", at->x, at->y, POINT_RADIUS);
      svg_text(c->file, at->x, at->y + 4, "mid number", "%d", i + 1);
    } else if (at->x != x || at->y != y) {
      svg_line(c->file, x, y, at->x, at->y, "tie");
      fprintf(c->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" class=\"dot\"/>\n", x, y);
    }
  }
}

/* Occupies the places of a text's letters along a direction if `wanted` is 1; else only returns whether they are
 * free. */
static int letters(chart *c, double x, double y, double angle, size_t count, int wanted) {
  int all_free = 1;
  for (size_t i = 0; i < count; i++) {
    const double along = LETTER_WIDTH * ((double)i + 0.5);
    const double px = x + along * cos(angle) + 4 * sin(angle), py = y + along * sin(angle) - 4 * cos(angle);
    all_free = all_free && is_free(c, px, py, LETTER_RADIUS);
    if (wanted)
      take(c, px, py, LETTER_RADIUS / 2.0);
  }
  return all_free;
}

/* A roof's name above its line, at the first free place from (x0, y0) to (x1, y1). */
static void name_roof(chart *c, double x0, double y0, double x1, double y1, const char *name) {
  const double angle = atan2(y1 - y0, x1 - x0), length = hypot(x1 - x0, y1 - y0), step = 8;
  const double whole = LETTER_WIDTH * (double)strlen(name);
  double at = step;
  while (at + whole < length && !letters(c, x0 + at * cos(angle), y0 + at * sin(angle) - 5, angle, strlen(name), 0))
    at += step;
  if (at + whole >= length)
    at = step;
  const double x = x0 + at * cos(angle), y = y0 + at * sin(angle) - 5;
  letters(c, x, y, angle, strlen(name), 1);
  fprintf(c->file, "<text class=\"small roofs\" transform=\"translate(%.1f %.1f) rotate(%.1f)\">%s</text>\n", x, y,
          angle * 180 / acos(-1), name);
}

/* The roof of one bandwidth: a slope up to the peak. */
static void draw_slope(chart *c, const hd_bench_level *level) {
  char name[64];
  const double peak = c->all->machine->peak_gflops, corner = peak / level->gbytes_per_s;
  double from = exp2(c->x0);
  if (from * level->gbytes_per_s < exp2(c->y0))
    from = exp2(c->y0) / level->gbytes_per_s;
  const double x0 = x_of(c, from), y0 = y_of(c, from * level->gbytes_per_s), x1 = x_of(c, corner), y1 = y_of(c, peak);
  svg_line(c->file, x0, y0, x1, y1, "roof");
  snprintf(name, sizeof name, "%s %.0f GB/s", hd_memory_level_name(level->where), level->gbytes_per_s);
  name_roof(c, x0, y0, x1, y1, name);
}

/* One slope a level, of the first size of each name, as in the table. */
static void draw_roofs(chart *c) {
  const hd_bench_machine *m = c->all->machine;
  const double y = y_of(c, m->peak_gflops);
  double fastest = 0;
  char name[64];
  for (int i = 0; i < m->levels; i++)
    if (i == 0 || m->level[i].where != m->level[i - 1].where) {
      draw_slope(c, &m->level[i]);
      fastest = fmax(fastest, m->level[i].gbytes_per_s);
    }
  const double x0 = x_of(c, m->peak_gflops / fastest);
  svg_line(c->file, x0, y, WIDTH - RIGHT, y, "roof");
  snprintf(name, sizeof name, "FMA %.0f GFLOP/s", m->peak_gflops);
  name_roof(c, x0, y, WIDTH - RIGHT, y, name);
}

static void draw_bar(const chart *c, int index, double top, double longest) {
  const hd_bench_op *op = &c->all->op[index];
  const double space = WIDTH - NAMES - NUMBERS - RIGHT, length = space * op->s / longest;
  const bool named = !strncmp(op->op, op->name, strlen(op->op));
  char bound[64] = "";
  svg_text(c->file, 24, top + 14, "end small", "%d", index + 1);
  svg_text(c->file, 34, top + 14, "small", "%s%s%s", op->name, named ? "" : ": ", named ? "" : op->op);
  svg_rect(c->file, (svg_box){NAMES, top + 3, length, ROW - 6}, 0, "took");
  svg_rect(c->file, (svg_box){NAMES, top + 3, space * fmin(op->least_s, op->s) / longest, ROW - 6}, 0, "least");
  if (op->bytes > 0)
    snprintf(bound, sizeof bound, ", %.0f %% of %s", op->s > 0 ? 100 * op->least_s / op->s : 0,
             bench_bound(c->all, op));
  svg_text(c->file, NAMES + length + 6, top + 14, "small", "%.4g us%s", 1e6 * op->s, bound);
}

static const char style[] =
    ".roof{stroke:#374151;stroke-width:1.5;fill:none}.roofs{fill:#374151}.point{fill:#1d4ed8;stroke:#fff}"
    ".tie{stroke:#1d4ed8}.dot{fill:#1d4ed8}.number{font-size:10px;font-weight:bold;fill:#fff}.took{fill:#bfdbfe}"
    ".least{fill:#1d4ed8}";

void bench_draw(FILE *file, const void *ops) {
  const bench_ops *all = ops;
  chart c = {.file = file, .all = all};
  const int bars = PLOT_TOP + PLOT_HEIGHT + 80;
  double longest = 1e-12;
  for (int i = 0; i < all->count; i++)
    longest = fmax(longest, all->op[i].s);
  choose_axes(&c);
  svg_open(file, WIDTH, bars + all->count * ROW + 20, style);
  svg_text(file, 20, 28, "title", "%s", all->title);
  svg_text(file, 20, 46, "", "%.120s, %s", all->machine->cpu, all->machine->isa);
  draw_axes(&c);
  place_points(&c);
  draw_roofs(&c);
  draw_points(&c, true);
  draw_points(&c, false);
  svg_text(file, 20, bars - 10, "", "Time of one %s on one thread; dark: the time at the bound", all->per);
  for (int i = 0; i < all->count; i++)
    draw_bar(&c, i, bars + i * ROW, longest);
  svg_close(file);
}
