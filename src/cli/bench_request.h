/* The command line of heddle bench, and the functions of its benches. */
#pragma once

#include "cli/cli.h"
#include "heddle/tools.h"

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
