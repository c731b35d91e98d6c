/* Work to measure with: matrix products by heddle's kernels, on one CPU, on pairs of CPUs, on teams with barriers.
 *
 * Rates are counted per second of processor time wherever the speed of a CPU is measured: time that other programs use
 * the CPU does not count, but the slowdown by a sibling on the same core does. */
#pragma once

#include "base/status.h"
#include "kernel/kernel.h"

/* y = x w^T, all of `size` x `size`. */
typedef struct hd_product {
  const hd_kernels *kernels;
  hd_geom g;
  hd_call call;
  float *x, *w, *y;
  int size;
} hd_product;

hd_status hd__product_init(hd_product *p, hd_ctx *ctx, const hd_kernels *kernels, int size);
void hd__product_fini(hd_product *p);
void hd__product_run(void *product);

/* The best rate of several runs of work(self), `flops` each, in GFLOP/s of processor time. */
double hd__work_gflops(void (*work)(void *self), void *self, double flops);

/* Steps of a team that shares a step's work, with a barrier after each; `cpus` may be busy at once. */
typedef struct hd_pace {
  double wall, cpu; /* steps a second, and steps a second of processor time */
} hd_pace;

hd_status hd__work_steps(hd_pace *out, hd_ctx *ctx, const hd_kernels *kernels, int threads, int cpus, double seconds);

/* All threads at work at once, without barriers. */
typedef struct hd_effort {
  int threads;
  double wall_s, cpu_s; /* cpu_s: of all threads together */
  double early, late;   /* products per second of processor time, in the first and the last third; 0: unknown */
} hd_effort;

hd_status hd__work_effort(hd_effort *out, hd_ctx *ctx, const hd_kernels *kernels, int threads, double seconds);

/* Products per second of processor time on CPU a (-1: any) while CPU b works too (-1: while no other CPU works for
 * heddle); 0 if other programs had the CPU all the while. */
hd_status hd__work_beside(double *out, hd_ctx *ctx, const hd_kernels *kernels, int a, int b, double seconds);
