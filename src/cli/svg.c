/* Elements of an SVG: see svg.h. */
#include "cli/svg.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"

void svg_escaped(FILE *to, const char *text) {
  char clean[512];
  hd__utf8_clean(clean, sizeof clean, text, strlen(text));
  for (const char *c = clean; *c; c++)
    switch (*c) {
    case '&': fputs("&amp;", to); break;
    case '<': fputs("&lt;", to); break;
    case '>': fputs("&gt;", to); break;
    default: fputc(*c, to);
    }
}

void svg_text(FILE *to, double x, double y, const char *class, const char *text) {
  fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
  svg_escaped(to, text);
  fprintf(to, "</text>\n");
}

void svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class) {
  fprintf(to, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"%s\"/>\n", x0, y0, x1, y1, class);
}

double svg_step(double whole) {
  const double rough = whole / 5, power = pow(10, floor(log10(rough))), unit = rough / power;
  return power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
}
