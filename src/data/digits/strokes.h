/* Descriptions of digits: strokes through points, several variants for each digit. They contain nothing of pixels or
 * random numbers. */
#pragma once

#include <stdint.h>

enum { HD_DIGITS = 10, HD_DIGIT_MAX_WAYS = 8, HD_WAY_MAX_STROKES = 3, HD_STROKE_MAX_POINTS = 16 };

typedef struct hd_stroke_point {
  float x, y;     /* [0, 1], y grows downward */
  int32_t corner; /* the pen turns sharply here; always set at both ends */
} hd_stroke_point;

typedef struct hd_stroke {
  int32_t count; /* 2 to HD_STROKE_MAX_POINTS */
  hd_stroke_point point[HD_STROKE_MAX_POINTS];
} hd_stroke;

typedef struct hd_way {
  int32_t weight, count;
  hd_stroke stroke[HD_WAY_MAX_STROKES];
} hd_way;

typedef struct hd_stroke_book {
  struct {
    int32_t count, weight; /* weight: the sum over the variants */
    hd_way way[HD_DIGIT_MAX_WAYS];
  } digit[HD_DIGITS];
} hd_stroke_book;

/* Of data/digits.strokes: the build makes the table from that text, which documents its format (tools/make-strokes). */
extern const hd_stroke_book hd__strokes;
