/* What the commands' pictures share: elements of an SVG. Styles are classes that each picture defines for itself. */
#ifndef HD_CLI_SVG_H
#define HD_CLI_SVG_H

#include <stdio.h>

/* Text, with what SVG would take for its own replaced, control characters left out. */
void svg_text(FILE *to, double x, double y, const char *class, const char *text);
void svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class);

/* 1, 2 or 5 times a power of ten, so that a handful of steps make `whole`. */
double svg_step(double whole);

#endif
