/* The figures of a report: see report.h. Curves of one run share a figure; those of several have a figure for each
 * quantity, with a colour for each run. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "cli/svg.h"

enum { WIDTH = 640, LEFT = 76, RIGHT = 16, BOTTOM = 46, KEY_HEIGHT = 22, BINS = 150 };

typedef struct figure_size {
  int width, height, fixed;
} figure_size;

/* Starts and ends a figure; NULL: no memory, or too many. */
__attribute__((format(printf, 4, 5))) static FILE *begin(report *r, const char *name, figure_size size, const char *fmt,
                                                         ...) {
  report_figure *f = &r->figure[r->figures];
  va_list args;
  if (r->figures == REPORT_FIGURES)
    return NULL;
  *f = (report_figure){.name = name, .width = size.width, .height = size.height, .fixed = size.fixed};
  va_start(args, fmt);
  vsnprintf(f->caption, sizeof f->caption, fmt, args);
  va_end(args);
  return open_memstream(&f->text, &f->length);
}

static void end(report *r, FILE *to) { r->figures += fclose(to) == 0; }

/* ---- Curves ---- */

/* Numbers along the steps, or means of groups of them where there are many. */
typedef struct curve {
  const char *name;
  int colour, count;
  int64_t numbers;
  double last; /* the step of the last number */
  double x[BINS], y[BINS], low[BINS], high[BINS], of[BINS];
} curve;

static void take_number(curve *c, int bin, double x, double y) {
  const double share = 1 / ++c->of[bin];
  c->x[bin] += share * (x - c->x[bin]);
  c->y[bin] += share * (y - c->y[bin]);
  c->low[bin] = c->of[bin] == 1 ? y : fmin(c->low[bin], y);
  c->high[bin] = c->of[bin] == 1 ? y : fmax(c->high[bin], y);
}

static void take_curve(curve *c, const report *r, int run, const char *key) {
  hd_run_numbers n = {.struct_bytes = sizeof n};
  const double scale = strstr(key, "accuracy") ? 100 : 1;
  if (hd_runs_numbers(&n, r->run[run].list, r->ctx, r->run[run].index, key) != HD_OK)
    return;
  c->numbers = n.count;
  c->last = n.count > 0 ? n.step[n.count - 1] : 0;
  c->count = n.count < BINS ? (int)n.count : BINS;
  for (int64_t i = 0; i < n.count; i++)
    take_number(c, (int)(i * c->count / n.count), n.step[i], scale * n.value[i]);
}

/* Names of curves, as many side by side as fit. Returns the rows that they take. */
static int put_keys(FILE *to, const curve *c, int count) {
  int widest = 1, at = 0;
  for (int i = 0; i < count; i++)
    widest = cli_width(c[i].name) > widest ? cli_width(c[i].name) : widest;
  int across = (WIDTH - LEFT - RIGHT) / (11 * widest + 40);
  across = across < 1 ? 1 : across > 4 ? 4 : across;
  for (int i = 0; i < count; i++)
    if (c[i].count > 0) {
      const double x = LEFT + at % across * (WIDTH - LEFT - RIGHT) / (double)across, y = 10 + at / across * KEY_HEIGHT;
      if (to) {
        fprintf(to, "<path class=\"curve c%d d%d\" d=\"M%.1f %.1fh20\"/>\n", c[i].colour % SVG_COLOURS,
                c[i].colour / SVG_COLOURS % 3, x, y);
        svg_text(to, x + 26, y + 5, "", "%s", c[i].name);
      }
      at++;
    }
  return (at + across - 1) / across;
}

typedef struct curves_figure {
  const char *name, *unit, *x_name, *caption;
  int plot; /* the height of the axis */
} curves_figure;

/* A chart of curves; none where no curve has two points. */
static void put_curves(report *r, const curves_figure *f, const curve *c, int count) {
  double low = INFINITY, high = -INFINITY, last = 0;
  int longest = 0;
  for (int i = 0; i < count; i++)
    for (int k = 0; k < c[i].count; k++) {
      low = fmin(low, c[i].y[k]);
      high = fmax(high, c[i].y[k]);
      last = fmax(last, c[i].x[k]);
      longest = k + 1 > longest ? k + 1 : longest;
    }
  const int top = 10 + KEY_HEIGHT * put_keys(NULL, c, count), height = top + f->plot + BOTTOM;
  FILE *to =
      longest + count > 2 && longest > 0 ? begin(r, f->name, (figure_size){WIDTH, height, 0}, "%s", f->caption) : NULL;
  svg_chart chart = {to,  LEFT,          WIDTH - RIGHT,
                     top, top + f->plot, .x_high = fmax(longest > 1 ? last : 1.05 * last, 1e-9)};
  chart.log = strstr(f->name, "loss") && low > 1e-99 && high > 30 * low;
  if (!to)
    return;
  svg_scale(&chart, low, high);
  if (*f->unit == '%' && high <= 100)
    chart.high = fmin(chart.high, 100); /* no share is larger */
  put_keys(to, c, count);
  svg_axes(&chart);
  svg_text(to, (LEFT + WIDTH - RIGHT) / 2.0, height - 6, "mid", "%s", f->x_name);
  svg_text(to, LEFT - 8, 14, "end", "%s", f->unit);
  fprintf(to, "<g class=\"plot\" data-x=\"%s\" data-axes=\"%g %g %g %g %.9g %.9g %.9g %.9g %d\">\n", f->x_name,
          chart.left, chart.right, chart.top, chart.bottom, chart.x_low, chart.x_high, chart.low, chart.high,
          chart.log);
  for (int i = 0; i < count; i++)
    if (c[i].numbers > c[i].count && count < 4)
      svg_band(&chart, c[i].colour, c[i].count, c[i].x, c[i].low, c[i].high);
  for (int i = 0; i < count; i++)
    svg_curve(&chart, c[i].name, c[i].colour, c[i].count, c[i].x, c[i].y);
  fprintf(to, "</g>\n");
  end(r, to);
}

/* Quantities drawn over the steps; those of a kind share the figure of a single run. */
static const struct {
  const char *kind, *title, *key, *name, *title_alone;
} quantity[] = {{"loss", "Loss", "loss", "training", "Training loss"},
                {"loss", "Loss", "val_loss", "validation", "Validation loss"},
                {"loss", "Loss", "test_loss", "test", "Test loss"},
                {"accuracy", "Accuracy", "val_accuracy", "validation", "Validation accuracy"},
                {"accuracy", "Accuracy", "test_accuracy", "test", "Test accuracy"},
                {"lr", "Learning rate", "lr", "learning rate", "Learning rate"}};

enum { QUANTITIES = sizeof quantity / sizeof *quantity };

/* Says of how many steps the points of curves are means, at most. */
static const char *caption_of(char text[256], const char *title, const report *r, const curve *c, int count) {
  const int at = snprintf(text, 256, "%s by step", title);
  double steps = 0;
  for (int i = 0; i < count; i++)
    if (c[i].numbers > c[i].count)
      steps = fmax(steps, c[i].last / c[i].count);
  if (steps > 0)
    snprintf(text + at, 256 - (size_t)at, "; curves: means of about %lld steps%s", llround(fmax(steps, 2)),
             r->runs == 1 ? ", area: their lowest and highest" : "");
  return text;
}

static void put_quantities(report *r) {
  const int several = r->runs > 1;
  char caption[256];
  curve *c = calloc((size_t)(several ? r->runs : QUANTITIES), sizeof *c);
  for (int q = 0, count; c && q < QUANTITIES; q += several ? 1 : count) {
    memset(c, 0, (size_t)(several ? r->runs : QUANTITIES) * sizeof *c);
    for (count = 0; several ? count < r->runs : q + count < QUANTITIES && quantity[q + count].kind == quantity[q].kind;
         count++) {
      c[count].name = several ? report_name(r, count) : quantity[q + count].name;
      c[count].colour = several ? count : (int)(strcmp(c[count].name, "test") == 0) + 2 * (*c[count].name == 'v');
      take_curve(&c[count], r, several ? count : 0, quantity[q + count * !several].key);
    }
    const char *title = several ? quantity[q].title_alone : quantity[q].title;
    const curves_figure figure = {.name = several ? quantity[q].key : quantity[q].kind,
                                  .unit = *quantity[q].kind == 'a' ? "%" : "",
                                  .x_name = "step",
                                  .caption = caption_of(caption, title, r, c, count),
                                  .plot = strcmp(quantity[q].kind, "lr") ? 250 : 120};
    put_curves(r, &figure, c, count);
  }
  free(c);
}

/* The accuracy of each run over its training time. */
static void put_scatter(report *r) {
  curve *c = calloc((size_t)r->runs, sizeof *c);
  for (int i = 0; c && i < r->runs; i++) {
    const double x = report_number(r, i, "train_s"), y = 100 * report_number(r, i, "test_accuracy");
    c[i].name = report_name(r, i);
    c[i].colour = i;
    if (isfinite(x) && isfinite(y)) {
      c[i].count = 1;
      take_number(&c[i], 0, x, y);
    }
  }
  static const curves_figure figure = {"time-accuracy", "%", "seconds of training", "Test accuracy by training time",
                                       250};
  if (c && r->runs > 1)
    put_curves(r, &figure, c, r->runs);
  free(c);
}

/* ---- Targets and outputs ---- */

/* The same range on both axes, so that the diagonal is where outputs are right. */
static void scale_square(svg_chart *chart, const double *x, const double *y, int count) {
  double low = INFINITY, high = -INFINITY;
  for (int i = 0; i < count; i++) {
    low = fmin(low, fmin(x[i], y[i]));
    high = fmax(high, fmax(x[i], y[i]));
  }
  svg_scale(chart, low, high);
  chart->x_low = chart->low;
  chart->x_high = chart->high;
}

static void draw_outputs(report *r, const char *name, int output, const double *x, const double *y, int count) {
  enum { SIDE = 360, TOP = 26, EDGE = 48 /* half of the number's last digit */ };
  char key[64];
  snprintf(key, sizeof key, "outputs.%d.r2", output);
  const double r2 = report_number(r, 0, key);
  char score[64] = "";
  if (isfinite(r2))
    snprintf(score, sizeof score, ", R2 %.4f", r2);
  FILE *to = begin(r, name, (figure_size){LEFT + SIDE + EDGE, TOP + SIDE + BOTTOM, 1},
                   "Target and output %d of the test set%s; they are equal on the line", output, score);
  svg_chart chart = {to, LEFT, LEFT + SIDE, TOP, TOP + SIDE, .log = false};
  if (!to)
    return;
  scale_square(&chart, x, y, count);
  svg_axes(&chart);
  svg_line(to, chart.left, chart.bottom, chart.right, chart.top, "edge");
  svg_dots(&chart, 0, count, x, y);
  svg_text(to, LEFT + SIDE / 2.0, TOP + SIDE + BOTTOM - 6, "mid", "target");
  svg_text(to, LEFT - 8, 14, "end", "output");
  end(r, to);
}

static void put_outputs(report *r) {
  static const char *const name[] = {"scatter-0", "scatter-1", "scatter-2", "scatter-3"};
  for (int k = 0; k < 4; k++) {
    hd_run_numbers n = {.struct_bytes = sizeof n};
    char key[64];
    snprintf(key, sizeof key, "outputs.%d.scatter", k);
    if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, key) != HD_OK || n.count < 2)
      return;
    const int count = (int)(n.count / 2);
    double *x = malloc(2 * (size_t)count * sizeof *x);
    for (int i = 0; x && i < count; i++) {
      x[i] = n.value[2 * i];
      x[count + i] = n.value[2 * i + 1];
    }
    if (x)
      draw_outputs(r, name[k], k, x, x + count, count);
    free(x);
  }
}

/* ---- The confusion matrix ---- */

const char *report_class(const report *r, int head, int number) {
  char key[64];
  if (head < 0)
    snprintf(key, sizeof key, "data.class_names.%d", number);
  else
    snprintf(key, sizeof key, "heads.%d.class_names.%d", head, number);
  return report_value(r, 0, key);
}

int report_confusion(const double **matrix, const report *r, int head) {
  hd_run_numbers n = {.struct_bytes = sizeof n};
  char key[64] = "confusion";
  if (head >= 0)
    snprintf(key, sizeof key, "heads.%d.confusion", head);
  if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, key) != HD_OK)
    return 0;
  const int classes = (int)lround(sqrt((double)n.count));
  *matrix = n.value;
  return n.count == (int64_t)classes * classes ? classes : 0;
}

/* A field of the matrix, of a head: the share of a label's samples that the model takes for `guess`. */
typedef struct cell {
  double x, y, side, share;
  int head, label, guess;
} cell;

static void put_cell(const report *r, FILE *to, const cell *c) {
  const int right = c->label == c->guess;
  fprintf(to, "<rect class=\"f%d\" fill-opacity=\"%.2f\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">", !right,
          0.08 + 0.72 * (right ? c->share : sqrt(c->share)), c->x, c->y, c->side - 1, c->side - 1);
  fprintf(to, "<title>%d ", c->label);
  svg_escaped(to, report_class(r, c->head, c->label));
  fprintf(to, " taken for %d ", c->guess);
  svg_escaped(to, report_class(r, c->head, c->guess));
  fprintf(to, ": %.2f %%</title></rect>\n", 100 * c->share);
}

enum { NAME_SHOWN = 20, LETTER = 8 };

/* For the longest name of a class. */
static double name_room(const report *r, int head, int classes) {
  int widest = 0;
  for (int c = 0; c < classes; c++)
    widest = cli_width(report_class(r, head, c)) > widest ? cli_width(report_class(r, head, c)) : widest;
  return LETTER * (widest > NAME_SHOWN ? NAME_SHOWN : widest);
}

/* The figure of a confusion matrix without its numbers; NULL: none. */
static FILE *begin_confusion(report *r, int head, figure_size size) {
  static const char *const name[REPORT_HEADS] = {"confusion-0", "confusion-1", "confusion-2", "confusion-3",
                                                 "confusion-4", "confusion-5", "confusion-6"};
  char key[32];
  if (head < 0)
    return begin(r, "confusion", size, "Confusion matrix of the test set: rows are labels, columns are predictions");
  snprintf(key, sizeof key, "heads.%d.name", head);
  return begin(r, name[head], size, "Confusion matrix of the head %.64s: rows are labels, columns are predictions",
               report_value(r, 0, key));
}

static void put_confusion(report *r, int head) {
  const double *matrix;
  const int classes = report_confusion(&matrix, r, head), numbers = classes <= 16;
  if (classes == 0)
    return;
  const double side = fmin(46, 560.0 / classes), left = 64 + (numbers ? name_room(r, head, classes) : 0), top = 44;
  FILE *to =
      begin_confusion(r, head, (figure_size){(int)(left + side * classes + 8), (int)(top + side * classes + 8), 1});
  if (!to)
    return;
  svg_text(to, left + side * classes / 2, 14, "mid", "taken for");
  svg_text(to, 4, top - 10, "", "label");
  for (int row = 0; row < classes; row++) {
    const double y = top + row * side, at = side / 2 + 4;
    double of = 0;
    for (int column = 0; column < classes; column++)
      of += matrix[row * classes + column];
    if (row % (numbers ? 1 : 10) == 0) {
      if (numbers && *report_class(r, head, row))
        svg_text(to, left - 8, y + at, "end", "%.*s %d", NAME_SHOWN, report_class(r, head, row), row);
      else
        svg_text(to, left - 8, y + at, "end", "%d", row);
      svg_text(to, left + row * side + side / 2, top - 10, "mid", "%d", row);
    }
    for (int column = 0; column < classes; column++) {
      const double count = matrix[row * classes + column], x = left + column * side;
      if (count > 0)
        put_cell(r, to, &(cell){x, y, side, count / of, head, row, column});
      if (numbers && count > 0)
        svg_text(to, x + side / 2 - 0.5, y + at, row == column && count / of > 0.5 ? "mid on" : "mid strong", "%.0f",
                 count);
    }
  }
  end(r, to);
}

/* ---- Time ---- */

enum { STARTUP, DATA, COMPUTING, WAITING, EVALUATION, SAVING, OTHER, TIMES, TIMES_A_ROW = 3, TIME_ROW = 52 };

/* The training time as its ranks spent it on average: data, computing and waiting. */
static void split_training(double *s, const report *r) {
  const double train = fmax(report_number(r, 0, "train_s"), 0);
  double sum[3] = {0, 0, 0};
  hd_run_numbers n = {.struct_bytes = sizeof n};
  if (hd_runs_numbers(&n, r->run[0].list, r->ctx, r->run[0].index, "rank_times") == HD_OK)
    for (int64_t i = 0; i < n.count; i++)
      sum[i % 3] += n.value[i];
  const double all = sum[0] + sum[1] + sum[2];
  for (int i = 0; i < 3; i++)
    s[DATA + i] = all > 0 ? train * sum[i] / all : i + DATA == COMPUTING ? train : 0;
}

static void put_part(FILE *to, const char *name, int colour, double seconds, int place) {
  const int x = place % TIMES_A_ROW * (WIDTH / TIMES_A_ROW), y = 46 + place / TIMES_A_ROW * TIME_ROW;
  fprintf(to, "<rect class=\"f%d\" x=\"%d\" y=\"%d\" width=\"12\" height=\"12\"/>\n", colour, x, y);
  svg_text(to, x + 18, y + 11, "", "%s", name);
  svg_text(to, x + 18, y + 34, "strong", "%.2f s", seconds);
}

/* Earlier runs do not know the time of saving: it is in "other". A rest that would read 0.00 is not shown. */
static int find_times(double s[TIMES], report *r, double wall) {
  int parts = 0;
  s[STARTUP] = fmax(report_number(r, 0, "startup_s"), 0);
  s[EVALUATION] = fmax(report_number(r, 0, "evaluate_s"), 0);
  s[SAVING] = report_number(r, 0, "save_s");
  split_training(s, r);
  s[OTHER] = wall;
  for (int i = 0; i < OTHER; i++)
    s[OTHER] -= isfinite(s[i]) ? s[i] : 0;
  if (s[OTHER] < 0.005)
    s[OTHER] = NAN;
  for (int i = 0; i < TIMES; i++)
    parts += isfinite(s[i]);
  return parts;
}

static void put_time(report *r) {
  static const char *const name[TIMES] = {"startup", "data", "computing", "waiting", "evaluation", "saving", "other"};
  static const int colour[TIMES] = {2, 3, 0, 4, 1, 5, 6}; /* rows of three, for narrow screens */
  const double wall = report_number(r, 0, "wall_s");
  double s[TIMES], at = 0;
  const int rows = (find_times(s, r, wall) + TIMES_A_ROW - 1) / TIMES_A_ROW;
  FILE *to = wall > 0 ? begin(r, "time", (figure_size){WIDTH, 34 + rows * TIME_ROW, 0}, "Where %.2f seconds went", wall)
                      : NULL;
  for (int i = 0, place = 0; to && i < TIMES; i++)
    if (isfinite(s[i])) {
      fprintf(to, "<rect class=\"f%d\" x=\"%.1f\" y=\"8\" width=\"%.1f\" height=\"24\"><title>%s</title></rect>\n",
              colour[i], at, fmin(WIDTH * s[i] / wall, WIDTH - at), name[i]);
      put_part(to, name[i], colour[i], s[i], place++);
      at += WIDTH * s[i] / wall;
    }
  if (to)
    end(r, to);
}

/* ---- The network ---- */

enum { ROW = 34, BOX_HEIGHT = 26, BOX_WIDTH = 230, LANE = 14, MOST_LANES = 12, HEAD_HEIGHT = 30 };

static double row_y(int layer) { return HEAD_HEIGHT + (layer + 1) * ROW; }

/* Edges between layers that do not follow each other pass at the left of the boxes, each in the innermost lane that is
 * free along its way. Returns the lanes. */
static int choose_lanes(int *lane, const hd_summary *s) {
  int lanes = 0;
  for (int e = 0; e < s->edge_count; e++) {
    lane[e] = s->edges[e][1] - s->edges[e][0] > 1;
    for (int before = 0; lane[e] && before < e; before++)
      if (lane[before] == lane[e] && s->edges[before][1] > s->edges[e][0] && s->edges[before][0] != s->edges[e][0]) {
        lane[e]++;
        before = -1;
      }
    lanes = lane[e] > lanes ? lane[e] : lanes;
  }
  return lanes > MOST_LANES ? MOST_LANES : lanes;
}

static void put_layer(FILE *to, double x, int row, const hd_summary_layer *layer) {
  const double y = row_y(row);
  char text[64] = "";
  for (int i = 0, at = 0; i < layer->rank; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", i ? " \303\227 " : "", layer->shape[i]);
  svg_rect(to, (svg_box){x, y, BOX_WIDTH, BOX_HEIGHT}, 4, "box");
  svg_text(to, x + 10, y + 18, "strong", "%.20s", layer->name);
  svg_text(to, x + BOX_WIDTH - 10, y + 18, "end", "%.14s", layer->op);
  svg_text(to, x + BOX_WIDTH + 20, y + 18, "", "%s", text);
  if (layer->params > 0)
    svg_text(to, x + BOX_WIDTH + 280, y + 18, "end", "%s", cli_grouped(layer->params));
}

static void put_network(report *r, const hd_summary *s) {
  int *lane = calloc((size_t)s->edge_count + 1, sizeof *lane);
  const int lanes = lane ? choose_lanes(lane, s) : 0;
  const double x = 8 + lanes * LANE;
  FILE *to = lane ? begin(r, "network", (figure_size){(int)x + BOX_WIDTH + 290, (int)row_y(s->layer_count), 1},
                          "The network: %s parameters, %s multiply-adds per sample", cli_grouped(s->params),
                          cli_grouped(s->macs))
                  : NULL;
  for (int e = 0; to && e < s->edge_count; e++) {
    const double from = row_y(s->edges[e][0]) + BOX_HEIGHT, to_y = row_y(s->edges[e][1]);
    const double out = x - LANE * (lane[e] < MOST_LANES ? lane[e] : MOST_LANES);
    if (lane[e] == 0)
      fprintf(to, "<path class=\"edge\" d=\"M%.1f %.1fV%.1f\"/>\n", x + 30, from, to_y);
    else
      fprintf(to, "<path class=\"edge\" d=\"M%.1f %.1fH%.1fQ%.1f %.1f %.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f\"/>\n", x,
              from - 8, out + 6, out, from - 8, out, from - 2, to_y + 2, out, to_y + 8, out + 6, to_y + 8, x);
  }
  if (to) {
    svg_text(to, x + 10, 18, "", "layer");
    svg_text(to, x + BOX_WIDTH + 20, 18, "", "output");
    svg_text(to, x + BOX_WIDTH + 280, 18, "end", "parameters");
    put_layer(
        to, x, -1,
        &(hd_summary_layer){.name = "input", .op = "", .rank = 3, .shape = {s->input[0], s->input[1], s->input[2]}});
    for (int i = 0; i < s->layer_count; i++)
      put_layer(to, x, i, &s->layers[i]);
    end(r, to);
  }
  free(lane);
}

void report_draw(report *r) {
  hd_config *config = NULL;
  hd_summary *summary = NULL;
  put_quantities(r);
  if (r->runs > 1) {
    put_scatter(r);
    return;
  }
  for (int head = REPORT_NO_HEAD; head < REPORT_HEADS; head++)
    put_confusion(r, head);
  put_outputs(r);
  put_time(r);
  if (strchr(report_value(r, 0, "model_yaml"), '\n') && /* else it would name a file */
      hd_config_create(&config, r->ctx) == HD_OK &&
      hd_config_set_text(config, r->ctx, HD_OPT_MODEL, report_value(r, 0, "model_yaml")) == HD_OK &&
      hd_summary_create(&summary, r->ctx, config, NULL) == HD_OK)
    put_network(r, summary);
  hd_summary_destroy(summary);
  hd_config_destroy(config);
}
