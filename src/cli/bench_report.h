/* What a bench found, as text, as JSON and as a picture. */
#ifndef HD_CLI_BENCH_REPORT_H
#define HD_CLI_BENCH_REPORT_H

#include <stdio.h>

#include "heddle.h"

/* Operations of one result, for tables and pictures alike. */
typedef struct bench_ops {
  const hd_bench_machine *machine;
  const hd_bench_op *op;
  int count;
  char title[160], per[32]; /* per: what a time is of, "step" or "sample" */
  double whole_s;           /* of all of them, for shares; 0: shares say nothing */
} bench_ops;

/* The bound's name: "FMA", "L2", "memory". */
const char *bench_bound(const bench_ops *all, const hd_bench_op *op);

void bench_print_machine(const hd_bench_machine *machine);
void bench_print_ops(const bench_ops *all);

/* Members of an object, without its braces. */
void bench_json_machine(const hd_bench_machine *machine);
void bench_json_ops(const bench_ops *all);

/* Runs one of the scripts that the command carries, "peers.py" or "loaders.py", and hands options to it; `given` are names
 * and values, NULL-ended. */
int bench_peers(const char *script, const char *const *given);

/* A roofline with the operations as points, and how long each takes against its bound. */
void bench_draw(FILE *file, const bench_ops *all);

#endif
