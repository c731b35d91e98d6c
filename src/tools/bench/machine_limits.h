/* Measuring the limits of the machine for a set of threads, for the files of this folder. */
#pragma once

#include "heddle/bench.h"
#include "kernel/kernel.h"

/* Fails with "expected 0.1 to 3600 seconds". */
hd_status hd__bench_check_seconds(hd_ctx *ctx, double seconds);

/* The share of an operation's dense FLOPs that is executed: of a pooled convolution the outputs that some window reads,
 * of its gradients the `live` share of the pooled gradient, of other gradients the taps outside of the padding, of
 * Winograd's tiles their products, of a shifted linear layer the `live` share of its input. In bfloat16 the outputs
 * that some window reads are plain sums, and so are the gradients. */
double hd__bench_executed_share(hd_op op, const hd_geom *g, double live, bool bf16);

/* Measures the limits with the configuration's threads, cpus and placement; *out, NULL at first, is freed with
 * hd__free. A further call measures again and keeps the best: the load of other programs varies. */
hd_status hd__bench_machine_measure(const hd_bench_machine **out, hd_ctx *ctx, const hd_config *config);

/* The roofline's lower bound of a thread's time, and which limit it is: *level is an index into machine->level, or
 * -1 for FMA. */
double hd__bench_least_s(int32_t *level, const hd_bench_machine *machine, double executed_flops, double bytes,
                         double bytes_at_once);

/* Fills least_s and level of an operation whose work is known. */
void hd__bench_bound(hd_bench_op *op, const hd_bench_machine *machine);
