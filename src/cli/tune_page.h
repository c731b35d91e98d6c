/* The tuner's experiment as files to keep: a page for people, a table for programs. */
#ifndef HD_CLI_TUNE_PAGE_H
#define HD_CLI_TUNE_PAGE_H

#include <stdio.h>

#include "heddle.h"

/* One HTML page that needs nothing else: charts as SVG, for screens of any width and for paper, light and dark. */
void tune_write_page(FILE *to, const hd_tune *tune);

/* A line of heads, then one line per setting. */
void tune_write_csv(FILE *to, const hd_tune *tune);

/* "physical, compact": where a setting's threads were, and which other policies come to the same CPUs. Returns
 * `text`. */
const char *tune_places(char *text, size_t bytes, const hd_tune_setting *setting, const char *between);

/* Loader workers were there at all. */
int tune_has_workers(const hd_tune *tune);

/* All settings have the same such policies: it need not be said for each. */
int tune_same_everywhere(const hd_tune *tune);

#endif
