/* Descriptions of digits: strokes through points, several variants for each digit.
 *
 * The text (data/digits.strokes) documents its format. A book is immutable once it is read, and may be used by any
 * number of threads. It contains nothing of pixels or random numbers. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
  HD_DIGITS = 10,
  HD_DIGIT_MAX_WAYS = 8,
  HD_WAY_MAX_STROKES = 3,
  HD_STROKE_MAX_POINTS = 16,
  HD_WAY_MAX_WEIGHT = 100
};

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

/* Reads a whole text into `book`. Errors are HD_E_FORMAT, "NAME:LINE: ...". */
hd_status hd__strokes_parse(hd_stroke_book *book, hd_ctx *ctx, const char *name, const char *text, size_t length);
