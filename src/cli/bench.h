/* What the files of heddle bench share. Results as text, as JSON and as a picture; programs that benches start; the
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

/* The path of this program. */
bool bench_self(char *path, size_t bytes);

/* Makes a folder in $TMPDIR or /tmp for `what`; returns an exit code. */
int bench_folder(char *path, size_t bytes, const char *name, const char *what);

/* Runs a program to its end; `line`, unless it is NULL, gets the last line that it prints. Signals of the terminal end
 * the program too, and this process then cleans up. Returns its exit code, or -errno. */
int bench_child(char *line, int bytes, char *const *argv);

/* heddle bench allreduce without peers. */
int bench_allreduce(hd_ctx *ctx, int ranks, int json);

/* A roofline with the operations as points, and how long each takes against its bound. */
void bench_draw(FILE *file, const bench_ops *all);

/* ---- The command line of heddle bench, and the functions of its benches ---- */

enum { BENCH_MOST_SHAPES = 64, BENCH_MOST_WORDS = 80, BENCH_MOST_EXTRA = 10 };

/* Options specific to heddle bench. */
typedef struct bench_request {
  double seconds;
  const char *svg;
  hd_bench_conv_shape shape[BENCH_MOST_SHAPES];
  hd_bench_product product[BENCH_MOST_SHAPES];
  int shapes, products;
  const char *peers[BENCH_MOST_WORDS]; /* options for the script */
  int words;
  int rounds;
} bench_request;

/* Which of these options a bench accepts. */
enum {
  BENCH_HAS_SVG = 1,
  BENCH_HAS_SHAPE = 2,
  BENCH_HAS_SIZE = 4,
  BENCH_HAS_PEERS = 8,
  BENCH_HAS_WORK = 16,
  BENCH_MAY_HAVE_PEERS = 32,
  BENCH_NO_SECONDS = 64,
  BENCH_HAS_ROUNDS = 128
};

/* The options as a list for cli_command; values are stored in the request. */
void bench_list_extra(cli_extra *out, int has, bench_request *request);

/* A bench measures, prints its results, and returns an exit code. */
typedef int bench_fn(hd_ctx *ctx, const hd_config *config, const bench_request *request);
bench_fn bench_step, bench_conv, bench_gemm, bench_barrier, bench_loader;

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

/* `seconds`: approximate duration of a run on all cores. Prints the results, and draws them if `svg` is not NULL. */
int bench_ranks(hd_ctx *ctx, const hd_config *config, double seconds, int rounds, const char *svg);

void bench_ranks_draw(FILE *to, const bench_ranks_table *table);
