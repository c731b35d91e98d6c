/* Elements of an SVG for the commands' pictures. Styles are classes that each picture defines for itself. */
#pragma once

#include <stdio.h>

/* Text of up to 511 bytes, escaped for SVG and HTML, with '?' in place of control characters and invalid UTF-8. */
void svg_escaped(FILE *to, const char *text);
void svg_text(FILE *to, double x, double y, const char *class, const char *text);
void svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class);

/* 1, 2 or 5 times a power of ten, so that a handful of steps make `whole`. */
double svg_step(double whole);
