/* Shared by the files of heddle bench: results as text, as JSON and as a picture; programs that benches start; the
 * command line. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/cli.h"
#include "heddle.h"
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

/* Makes a folder in $TMPDIR or /tmp for `what`; returns an exit code. */
int bench_folder(char *path, size_t bytes, const char *name, const char *what);

/* From now on a signal ends the program that bench_child runs, and no other starts: this process then cleans up.
 * bench_caught is that signal, 0 for none; bench_end gives the exit code, the signal's after a failure that follows. */
void bench_catch_signals(void);
int bench_caught(void);
int bench_end(int code);

/* Runs a program to its end; `line`, unless it is NULL, gets the last line that it prints, the file `errors` its
 * standard error. Returns its exit code, or -errno. */
int bench_child(char *line, int bytes, const char *errors, char *const *argv);

/* A roofline with the operations as points, and the time of each against its bound. */
void bench_draw(FILE *file, const void *ops);

/* ---- The command line of heddle bench, and the functions of its benches ---- */

enum { BENCH_MOST_SHAPES = 64, BENCH_MOST_WORDS = 40 };

/* Options specific to heddle bench. */
typedef struct bench_request {
  double seconds, ranks_seconds; /* ranks_seconds: of a run on all cores, about */
  int rounds;
  const char *svg;
  hd_bench_conv_shape shape[BENCH_MOST_SHAPES];
  hd_bench_product product[BENCH_MOST_SHAPES];
  int shapes, products;
  const cli_extra *peers[BENCH_MOST_WORDS]; /* options for the script, */
  const char *value[BENCH_MOST_WORDS];      /* and their values; NULL: a flag */
  int words;
} bench_request;

extern bench_request bench_asked;

/* The ranks of heddle bench allreduce and rpc. */
int bench_procs(const hd_config *config);

/* Benches measure and print their results. */
int bench_step(hd_ctx *ctx, hd_config *config, int count, char **operand);
int bench_conv(hd_ctx *ctx, hd_config *config, int count, char **operand);
int bench_gemm(hd_ctx *ctx, hd_config *config, int count, char **operand);
int bench_barrier(hd_ctx *ctx, hd_config *config, int count, char **operand);
int bench_loader(hd_ctx *ctx, hd_config *config, int count, char **operand);
int bench_allreduce(hd_ctx *ctx, hd_config *config, int count, char **operand);
int bench_rpc(hd_ctx *ctx, hd_config *config, int count, char **operand);
int bench_ranks(hd_ctx *ctx, hd_config *config, int count, char **operand);

/* heddle bench ranks: threads of one process against processes, at equal numbers of cores. */

enum { BENCH_RANKS_ROUNDS = 999, BENCH_RANKS_ROWS = 256 };

/* A number of ranks with a number of threads each. Values are medians and quartiles of the rounds. */
typedef struct bench_ranks_row {
  int cores, ranks, threads;
  double rate, low, high;              /* samples/s */
  double ratio, ratio_low, ratio_high; /* to the one rank of as many cores, round by round */
  double startup_s;                    /* until the first step */
} bench_ranks_row;

/* Rows go by cores, then by ranks; those of one core number begin with one rank. */
typedef struct bench_ranks_table {
  char cpu[160], model[96], data[256], isa[16];
  long long batch, shards, steps;
  int rounds, rows;
  bench_ranks_row row[BENCH_RANKS_ROWS];
  char digest[HD_SHA256_TEXT_BYTES];
} bench_ranks_table;

void bench_ranks_draw(FILE *to, const void *table);
