/* Values of the runs of a report: see report.h. */
#include "cli/report.h"

#include <math.h>
#include <string.h>

const char *report_value(const report *r, int run, const char *key) {
  return hd_runs_value(r->run[run].list, r->run[run].index, key);
}

double report_number(const report *r, int run, const char *key) {
  double number;
  return cli_number(&number, report_value(r, run, key)) ? number : NAN;
}

const char *report_name(const report *r, int run) {
  const char *name = report_value(r, run, "run"), *first = report_value(r, 0, "run");
  size_t shared = 0; /* folders of all runs */
  for (size_t i = 0; name[i]; i++) {
    for (int k = 1; k < r->runs; k++)
      if (report_value(r, k, "run")[i] != first[i])
        return name + shared;
    shared = first[i] == '/' ? i + 1 : shared;
  }
  return name + shared;
}

int report_differs(const report *r, const char *key) {
  char first[512];
  snprintf(first, sizeof first, "%s", report_value(r, 0, key));
  for (int i = 1; i < r->runs; i++)
    if (strncmp(first, report_value(r, i, key), sizeof first - 1) != 0)
      return 1;
  return 0;
}
