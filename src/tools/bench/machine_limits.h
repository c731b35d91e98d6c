/* Measuring the limits of the machine for a set of threads, for the files of this folder. */
#pragma once

#include "heddle/bench.h"
#include "kernel/kernel.h"

/* Fails with "expected 0.1 to 3600 seconds". */
hd_status hd__bench_check_seconds(hd_ctx *ctx, double seconds);

/* The share of an operation's dense FLOPs that is executed: of a pooled convolution the outputs that some window reads,
 * of its gradients the `live` share of the pooled gradient, of Winograd's tiles their products. */
double hd__bench_executed_share(hd_op op, const hd_geom *g, double live);

/* Fills least_s and level of an operation whose work is known. */
void hd__bench_bound(hd_bench_op *op, const hd_bench_machine *machine);
