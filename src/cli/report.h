/* The report of heddle report: the contents of runs' folders as figures, and as a page with them. Everything comes from
 * hd_runs, so it needs no data, and omits what a run does not have. */
#pragma once

#include <stdio.h>

#include "cli/cli.h"
#include "heddle/evidence.h"

enum { REPORT_RUNS = 64, REPORT_FIGURES = 20, REPORT_NOTES = 16 };

typedef struct report_run {
  hd_runs *list;
  int64_t index;
  int owns; /* the list */
} report_run;

/* A drawing without its frame, an element of a page or a file. */
typedef struct report_figure {
  const char *name; /* of its file, without .svg */
  char caption[256];
  int width, height, fixed; /* fixed: of one size on every screen */
  char *text;
  size_t length;
} report_figure;

typedef struct report {
  hd_ctx *ctx;
  int runs, figures, notes;
  report_run run[REPORT_RUNS];
  report_figure figure[REPORT_FIGURES];
  char note[REPORT_NOTES][512]; /* missing or wrong data */
} report;

/* Reads the runs in a list of folders and draws their figures; a message and an exit code, or HD_E_..., where one has
 * no run. report_close in either case. */
int report_open(report *r, hd_ctx *ctx, int count, const char *const *folder);
void report_close(report *r);

/* Writes the page: report_page.c. refresh_s: the browser loads it again after so many seconds; 0: never. */
void report_write(FILE *to, const report *r, int refresh_s);

/* A value of a run, "" for none, valid until the next call; as a number, NAN for none; what names it among the
 * runs. */
const char *report_value(const report *r, int run, const char *key);
double report_number(const report *r, int run, const char *key);
const char *report_name(const report *r, int run);

/* The name of a class of the first run's data, or of one of several heads, "" for none; as report_value. */
enum { REPORT_HEADS = 7, REPORT_NO_HEAD = -1 };
const char *report_class(const report *r, int head, int number);

/* The confusion matrix of the test set, or of a head, classes x classes; returns the classes, 0 for none. */
int report_confusion(const double **matrix, const report *r, int head);

/* Whether a value is not the same in all runs. */
int report_differs(const report *r, const char *key);

/* Writes FOLDER/report.html and returns its path, or an exit code after a message. */
int report_save(char path[4096], hd_ctx *ctx, const char *folder);

/* Writes what the first run says of texts: report_texts.c. */
void report_put_texts(FILE *to, const report *r);

/* Draws the figures, a new report's: report_figures.c. */
void report_draw(report *r);
