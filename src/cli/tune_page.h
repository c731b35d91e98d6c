/* The tuner's experiment as files to keep: a page for people, a table for programs. */
#ifndef HD_CLI_TUNE_PAGE_H
#define HD_CLI_TUNE_PAGE_H

#include <stdio.h>

#include "heddle.h"

/* One HTML page that needs nothing else: charts as SVG, for screens of any width and for paper, light and dark. */
void tune_write_page(FILE *to, const hd_tune *tune);

/* A line of heads, then one line per setting. */
void tune_write_csv(FILE *to, const hd_tune *tune);

#endif
