/* Results of a bench as text, as JSON and as a picture. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "heddle/tools.h"

/* Operations of one result, for tables and pictures alike. */
typedef struct bench_ops {
  const hd_bench_machine *machine;
  const hd_bench_op *op;
  int count;
  char title[160], per[32]; /* per: the unit of work of a time, "step" or "sample" */
  double whole_s;           /* of all operations, for shares; 0: no shares */
} bench_ops;

/* The bound's name: "FMA", "L2", "memory". */
const char *bench_bound(const bench_ops *all, const hd_bench_op *op);

void bench_print_machine(const hd_bench_machine *machine);
void bench_print_ops(const bench_ops *all);

/* Members of an object, without its braces. */
void bench_json_machine(const hd_bench_machine *machine);
void bench_json_ops(const bench_ops *all);

/* Runs an embedded script; `given` are its options, names and values, NULL-terminated. */
int bench_peers(const char *script, const char *const *given);

/* The path of this program. */
bool bench_self(char *path, size_t bytes);

/* Makes a folder in $TMPDIR or /tmp for `what`; returns an exit code. */
int bench_folder(char *path, size_t bytes, const char *name, const char *what);

/* Runs a program to its end; `line`, unless it is NULL, gets the last line that it prints. Signals of the terminal reach
 * the program too, which ends it, and this process then cleans up. Returns its exit code, or -errno. */
int bench_child(char *line, int bytes, char *const *argv);

/* heddle bench allreduce without peers. */
int bench_allreduce(hd_ctx *ctx, int ranks, int json);

/* A roofline with the operations as points, and how long each takes against its bound. */
void bench_draw(FILE *file, const bench_ops *all);
