/* heddle bench ranks: threads of one process against processes, at equal numbers of cores. */
#pragma once

#include <stdio.h>

#include "heddle.h"

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
