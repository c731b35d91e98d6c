/* Elements of an SVG, and charts: see svg.h. */
#include "cli/svg.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/cli.h"

enum { TEXT_BYTES = 1024, MOST_LABELS = 12, APART = 14 /* from one mark to the next of a number, at most */ };

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
  char clean[TEXT_BYTES];
  hd__utf8_clean(clean, sizeof clean, text, strlen(text));
  for (const char *c = clean; *c; c++)
    switch (*c) {
    case '&': fputs("&amp;", to); break;
    case '<': fputs("&lt;", to); break;
    case '>': fputs("&gt;", to); break;
    default: fputc(*c, to);
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

void svg_rect(FILE *to, double x, double y, double width, double height, double radius, const char *class) {
  fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%g\" class=\"%s\"/>\n", x, y, width,
          height, radius, class);
}

double svg_step(double whole) {
  const double rough = whole / 5, power = pow(10, floor(log10(rough))), unit = rough / power;
  return power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
}

/* ---- Charts ---- */

void svg_scale(svg_chart *c, double low, double high) {
  c->step = svg_step(high - low);
  c->low = floor(low / c->step + 1e-9) * c->step;
  c->high = ceil(high / c->step - 1e-9) * c->step;
}

double svg_x(const svg_chart *c, double at) {
  return c->left + (c->right - c->left) * (at - 0.5) / c->point[c->count - 1].at;
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
  return c->top + (c->bottom - c->top) * (c->high - value) / (c->high - c->low);
}

/* The first point of its number. */
static bool is_new(const svg_chart *c, int point) { return point == 0 || c->point[point].at != c->point[point - 1].at; }

void svg_axes(const svg_chart *c) {
  int numbers = 0, at = 0; /* numbers below: all, and that of this point */
  for (double line = round(c->low / c->step); line * c->step <= c->high + c->step / 2; line++) {
    const double value = line * c->step + 0.0, y = svg_y(c, value); /* no -0 */
    svg_line(c->to, c->left, y, c->right, y, "grid");
    if (c->step < 1)
      svg_text(c->to, c->left - 8, y + 4, "end", "%g", value);
    else
      svg_text(c->to, c->left - 8, y + 4, "end", "%s", cli_grouped(llround(value)));
  }
  for (int i = 0; i < c->count; i++)
    numbers += is_new(c, i);
  const int every = (numbers + MOST_LABELS - 1) / MOST_LABELS;
  for (int i = 0; i < c->count; i++)
    if (is_new(c, i) && (at++ % every == 0 || at == numbers))
      svg_text(c->to, svg_x(c, c->point[i].at), c->bottom + 18, "mid", "%d", c->point[i].at);
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
