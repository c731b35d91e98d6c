/* Elements of an SVG, and charts: see svg.h. */
#include "cli/svg.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/cli.h"

enum {
  TEXT_BYTES = 1024,
  MOST_LABELS = 12,
  MOST_DOTS = 30,
  APART = 14 /* from one mark to the next of a number, at most */
};

void svg_open(FILE *to, int width, int height, const char *style) {
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
          "<style>text{font:12px system-ui,sans-serif;fill:#1f2937}.small{font-size:11px}.mid{text-anchor:middle}"
          ".end{text-anchor:end}.title{font-size:16px;font-weight:bold}.grid{stroke:#e5e7eb}%s</style>\n"
          "<rect width=\"100%%\" height=\"100%%\" style=\"fill:#fff;stroke:none\"/>\n",
          width, height, width, height, style);
}

void svg_close(FILE *to) { fprintf(to, "</svg>\n"); }

void svg_escaped(FILE *to, const char *text) {
  for (size_t left = strlen(text), length; left > 0; text += length, left -= length) {
    const size_t shown = hd__utf8_shown(text, left);
    length = shown ? shown : 1;
    switch (shown ? *text : 0) {
    case 0: fputc('?', to); break;
    case '&': fputs("&amp;", to); break;
    case '<': fputs("&lt;", to); break;
    case '>': fputs("&gt;", to); break;
    case '"': fputs("&quot;", to); break;
    default: fwrite(text, 1, length, to);
    }
  }
}

void svg_text(FILE *to, double x, double y, const char *class, const char *fmt, ...) {
  char text[TEXT_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
  svg_escaped(to, text);
  fprintf(to, "</text>\n");
}

void svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class) {
  fprintf(to, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"%s\"/>\n", x0, y0, x1, y1, class);
}

void svg_rect(FILE *to, svg_box box, double radius, const char *class) {
  fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" class=\"%s\"/>\n", box.x, box.y,
          box.width, box.height, radius, class);
}

/* 1, 2, 5 or 10 times a power of ten, at least the value. */
static double round_up(double value) {
  const double power = pow(10, floor(log10(value))), unit = value / power - 1e-9;
  return power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
}

double svg_step(double whole) { return round_up(whole / 5); }

/* ---- Charts ---- */

void svg_scale(svg_chart *c, double low, double high) {
  if (high - low <= 1e-9 * fmax(fabs(low), fabs(high))) { /* a single value */
    low -= low != 0 ? fabs(low) / 10 : 0.5;
    high += high != 0 ? fabs(high) / 10 : 0.5;
  }
  if (c->count > 0) {
    c->x_low = 0.5;
    c->x_high = c->point[c->count - 1].at + 0.5;
  }
  if (c->log) { /* 1, 2, 5, or powers of ten */
    c->step = high < 1e4 * low ? 1 : pow(10, ceil(log10(high / low) / 8));
    c->low = c->step > 1 ? pow(c->step, floor(log(low) / log(c->step))) : 1 / round_up(1 / low);
    c->high = c->step > 1 ? pow(c->step, ceil(log(high) / log(c->step))) : round_up(high);
    return;
  }
  c->step = svg_step(high - low);
  c->low = floor(low / c->step + 1e-9) * c->step;
  c->high = ceil(high / c->step - 1e-9) * c->step;
}

double svg_x(const svg_chart *c, double at) {
  return c->left + (c->right - c->left) * (at - c->x_low) / (c->x_high - c->x_low);
}

double svg_x_of(const svg_chart *c, int point) {
  int before = 0, after = 0;
  for (int i = 0; i < c->count; i++)
    if (c->point[i].at == c->point[point].at)
      *(i < point ? &before : &after) += i != point;
  const double room = (c->right - c->left) / c->point[c->count - 1].at / (before + after + 2);
  return svg_x(c, c->point[point].at) + (before - after) / 2.0 * fmin(room, APART);
}

double svg_y(const svg_chart *c, double value) {
  const double share = c->log ? log(c->high / value) / log(c->high / c->low) : (c->high - value) / (c->high - c->low);
  return c->top + (c->bottom - c->top) * share;
}

/* The first point of its number. */
static bool is_new(const svg_chart *c, int point) { return point == 0 || c->point[point].at != c->point[point - 1].at; }

static void put_number(const svg_chart *c, double x, double y, const char *class, double value, double step) {
  if (step < 1)
    svg_text(c->to, x, y, class, "%g", round(value / step) * step);
  else if (fabs(value) < 1e7)
    svg_text(c->to, x, y, class, "%s", cli_grouped(llround(value)));
  else
    svg_text(c->to, x, y, class, "%g", value);
}

void svg_axes(const svg_chart *c) {
  const double step = svg_step(c->x_high - c->x_low);
  int numbers = 0, at = 0; /* numbers below: all, and that of this point */
  for (double line = c->log ? c->low : round(c->low / c->step) * c->step; line <= c->high * (1 + 1e-9);) {
    const double y = svg_y(c, line);
    svg_line(c->to, c->left, y, c->right, y, "grid");
    put_number(c, c->left - 8, y + 4, "end", line, c->log ? line : c->step);
    line = !c->log ? round(line / c->step + 1) * c->step : c->step > 1 ? line * c->step : round_up(1.5 * line);
  }
  for (int i = 0; i < c->count; i++)
    numbers += is_new(c, i);
  const int every = (numbers + MOST_LABELS - 1) / MOST_LABELS;
  for (int i = 0; i < c->count; i++)
    if (is_new(c, i) && (at++ % every == 0 || at == numbers))
      svg_text(c->to, svg_x(c, c->point[i].at), c->bottom + 18, "mid", "%d", c->point[i].at);
  for (double value = ceil(c->x_low / step) * step; c->count == 0 && value <= c->x_high; value += step)
    put_number(c, svg_x(c, value), c->bottom + 18, "mid", value, step);
}

static double y_inside(const svg_chart *c, double value) { return svg_y(c, fmin(fmax(value, c->low), c->high)); }

void svg_curve(const svg_chart *c, const char *name, int colour, int count, const double *x, const double *y) {
  fprintf(c->to, "<polyline class=\"curve c%d d%d\" data-name=\"", colour % SVG_COLOURS, colour / SVG_COLOURS % 3);
  svg_escaped(c->to, name);
  fprintf(c->to, "\" points=\"");
  for (int i = 0; i < count; i++)
    fprintf(c->to, "%.2f,%.2f ", svg_x(c, x[i]), y_inside(c, y[i]));
  fprintf(c->to, "\"/>\n");
  for (int i = 0; i < count && count <= MOST_DOTS; i++)
    fprintf(c->to, "<circle class=\"dot f%d\" cx=\"%.2f\" cy=\"%.2f\" r=\"%g\"/>\n", colour % SVG_COLOURS,
            svg_x(c, x[i]), y_inside(c, y[i]), count == 1 ? 5.0 : 3.0);
}

void svg_dots(const svg_chart *c, int colour, int count, const double *x, const double *y) {
  for (int i = 0; i < count; i++)
    fprintf(c->to, "<circle class=\"dot f%d\" fill-opacity=\"0.5\" cx=\"%.2f\" cy=\"%.2f\" r=\"3\"/>\n",
            colour % SVG_COLOURS, svg_x(c, x[i]), y_inside(c, y[i]));
}

void svg_band(const svg_chart *c, int colour, int count, const double *x, const double *low, const double *high) {
  fprintf(c->to, "<polygon class=\"band f%d\" points=\"", colour % SVG_COLOURS);
  for (int i = 0; i < 2 * count; i++) {
    const int at = i < count ? i : 2 * count - 1 - i;
    fprintf(c->to, "%.1f,%.1f ", svg_x(c, x[at]), y_inside(c, i < count ? low[at] : high[at]));
  }
  fprintf(c->to, "\"/>\n");
}

/* A circle, a square, a diamond, a triangle: distinct without colours too. */
static void put_mark(FILE *to, double x, double y, int kind, bool best, const char *title) {
  static const char *const shape[] = {"<circle r=\"5\"/>", "<path d=\"M-4.5-4.5h9v9h-9z\"/>",
                                      "<path d=\"M0-6.5L6.5 0 0 6.5-6.5 0z\"/>", "<path d=\"M0-6l6 10.5H-6z\"/>"};
  fprintf(to, "<g class=\"k%d%s\" transform=\"translate(%.1f %.1f) scale(%g)\">%s<title>", kind, best ? " best" : "", x,
          y, best ? 1.4 : 1.0, shape[kind]);
  svg_escaped(to, title);
  fprintf(to, "</title></g>\n");
}

void svg_points(const svg_chart *c) {
  for (int i = 0; i < c->count; i++) {
    const svg_point *p = &c->point[i];
    const double x = svg_x_of(c, i);
    if (p->kind < 0)
      continue;
    fprintf(c->to, "<path class=\"range r%d\" d=\"M%.1f %.1fV%.1f\"/>\n", p->kind, x, svg_y(c, p->low),
            svg_y(c, p->high));
    put_mark(c->to, x, svg_y(c, p->value), p->kind, p->best, p->title);
  }
}

void svg_key(FILE *to, double x, double y, int kind, const char *name) {
  put_mark(to, x, y, kind, false, name);
  svg_text(to, x + 10, y + 5, "", "%s", name);
}
