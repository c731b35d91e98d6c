/* The screen of heddle top as a function of the look and the view: text with escape codes, for any size of terminal. */
#pragma once

#include <stdio.h>

#include "heddle/tools.h"

/* Numbers along the steps of the chosen job. */
typedef struct top_curve {
  const char *name;
  int64_t count;
  const double *value;
} top_curve;

enum { TOP_CURVES = 2 };

typedef struct top_view {
  int rows, columns;
  int colour;
  int chosen;                  /* index into look->job, -1: none */
  int help;                    /* instead of the jobs */
  const char *message;         /* the last row instead of the keys; NULL: none */
  top_curve curve[TOP_CURVES]; /* in braille characters, where there is room; count 0: none */
} top_view;

/* Redraws the whole screen. */
void top_draw(FILE *to, const hd_look *look, const top_view *view);
