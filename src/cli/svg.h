/* Elements of an SVG for the commands' pictures, and charts: of values at whole numbers, and of curves. Styles are
 * classes that each picture defines for itself. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef struct svg_box {
  double x, y, width, height;
} svg_box;

/* Begins a file: a white picture with a style sheet. Ends it. */
void svg_open(FILE *to, int width, int height, const char *style);
void svg_close(FILE *to);

/* Text, also of an attribute, escaped for SVG and HTML, with '?' in place of control characters and invalid UTF-8. */
void svg_escaped(FILE *to, const char *text);

/* The same, formatted, of up to 1023 bytes. */
void svg_text(FILE *to, double x, double y, const char *class, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void svg_line(FILE *to, double x0, double y0, double x1, double y1, const char *class);
void svg_rect(FILE *to, svg_box box, double radius, const char *class);

/* 1, 2 or 5 times a power of ten, so that a handful of steps make `whole`. */
double svg_step(double whole);

/* ---- Charts ---- */

/* A value at a number of threads or cores, with an interval. Kinds differ in shape and, as classes k0 .. k3, in
 * colour. */
typedef struct svg_point {
  int at, kind; /* kind -1: not drawn */
  double value, low, high;
  bool best; /* class best, and larger */
  char title[128];
} svg_point;

typedef struct svg_chart {
  FILE *to;
  double left, right, top, bottom; /* of the plot in the picture */
  double low, high, step;          /* of the vertical axis: see svg_scale */
  bool log;                        /* the vertical axis is logarithmic */
  double x_low, x_high;            /* of the horizontal one: set by svg_scale if there are points */
  const svg_point *point;          /* ascending; those of one number stand side by side */
  int count;
} svg_chart;

/* Sets the vertical axis to whole steps around two values. */
void svg_scale(svg_chart *chart, double low, double high);

/* A curve through values, with its name as an attribute; few values are also dots. The colour gives classes cN, fN for
 * fills, and dN for dashes in the rounds of colours after the first. */
enum { SVG_COLOURS = 6 };
void svg_curve(const svg_chart *chart, const char *name, int colour, int count, const double *x, const double *y);

/* Points, which may lie upon each other. */
void svg_dots(const svg_chart *chart, int colour, int count, const double *x, const double *y);

/* The area between low and high values, of classes band and fN. */
void svg_band(const svg_chart *chart, int colour, int count, const double *x, const double *low, const double *high);

/* Where a number, a point and a value are. */
double svg_x(const svg_chart *chart, double at);
double svg_x_of(const svg_chart *chart, int point);
double svg_y(const svg_chart *chart, double value);

/* Horizontal lines (class grid) with their values, and below the numbers of the points, or whole steps. */
void svg_axes(const svg_chart *chart);

/* Each point with its interval (class range). */
void svg_points(const svg_chart *chart);

/* A kind's mark with its name. */
void svg_key(FILE *to, double x, double y, int kind, const char *name);
