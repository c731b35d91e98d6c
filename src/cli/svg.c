/* Elements of an SVG: see svg.h. */
#include "cli/svg.h"

#include <math.h>

void svg_text(FILE *to, double x, double y, const char *class, const char *text) {
  fprintf(to, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
  for (; *text; text++) {
    if (*text == '&' || *text == '<' || *text == '>')
      fprintf(to, "&#%d;", *text);
    else if ((unsigned char)*text >= 0x20)
      fputc(*text, to);
  }
  fprintf(to, "</text>\n");
}

void svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class) {
  fprintf(to, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"%s\"/>\n", x0, y0, x1, y1, class);
}

double svg_step(double whole) {
  const double rough = whole / 5, power = pow(10, floor(log10(rough))), unit = rough / power;
  return power * (unit <= 1 ? 1 : unit <= 2 ? 2 : unit <= 5 ? 5 : 10);
}
