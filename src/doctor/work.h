/* Work to measure with: matrix products by heddle's own kernels, on one CPU, on pairs of CPUs, on teams that meet.
 *
 * Rates are counted per second of processor time wherever a CPU's own speed is asked for: what other programs take of
 * the CPU then does not count, what a sibling on the same core takes does. */
#ifndef HD_DOCTOR_WORK_H
#define HD_DOCTOR_WORK_H

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

/* The best rate of some runs of work(self), `flops` each, in GFLOP/s of processor time. */
double hd__work_gflops(void (*work)(void *self), void *self, double flops);

/* Steps of a team that shares a step's work and meets after each; `cpus` may be busy at once. */
typedef struct hd_pace {
  double wall, cpu; /* steps a second, and steps a second of processor time */
} hd_pace;

hd_status hd__work_steps(hd_pace *out, hd_ctx *ctx, const hd_kernels *kernels, int lanes, int cpus, double seconds);

/* All lanes at work at once, each for itself. */
typedef struct hd_effort {
  int lanes;
  double wall_s, cpu_s; /* cpu_s: of all lanes together */
  double early, late;   /* products per second of processor time, in the first and the last third; 0: not known */
} hd_effort;

hd_status hd__work_effort(hd_effort *out, hd_ctx *ctx, const hd_kernels *kernels, int lanes, double seconds);

/* Products per second of processor time on CPU a (-1: any) while CPU b works too (-1: while nobody else of ours does);
 * 0 if the system gave the CPU to others all the while. */
hd_status hd__work_beside(double *out, hd_ctx *ctx, const hd_kernels *kernels, int a, int b, double seconds);

#endif
