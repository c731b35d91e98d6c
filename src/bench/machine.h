/* Measuring what lanes can do at most, for the files of this folder. */
#ifndef HD_BENCH_MACHINE_H
#define HD_BENCH_MACHINE_H

#include "heddle/bench.h"
#include "kernel/kernel.h"

/* "expected 0.1 to 3600 seconds". */
hd_status hd__bench_check_seconds(hd_ctx *ctx, double seconds);

/* Fills least_s and level of an operation whose work is known. */
void hd__bench_bound(hd_bench_op *op, const hd_bench_machine *machine);

#endif
