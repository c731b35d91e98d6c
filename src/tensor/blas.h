/* OpenBLAS, where the machine has it, to be measured against: opened at run time, one thread per call. Nothing that
 * heddle computes comes from it.
 *
 * Three hazards are met here and nowhere else. The library reads its core type in its constructor, and older ones take
 * new CPUs for old, so the variable is set before it is opened (unless the user set one) and put back. Its own threads
 * are turned off. A program that already loaded it keeps its settings: then it is used only if these say one thread. */
#ifndef HD_TENSOR_BLAS_H
#define HD_TENSOR_BLAS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hd_blas {
  /* cblas_sgemm, with its enums as int. */
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                const float *b, int ldb, float beta, float *c, int ldc);
  char name[96]; /* "OpenBLAS 0.3.21 SkylakeX" */
} hd_blas;

enum { HD_BLAS_ROW_MAJOR = 101, HD_BLAS_NO_TRANS = 111, HD_BLAS_TRANS = 112 };

/* The process's library, opened once: HEDDLE_BLAS or libopenblas.so.0. NULL where there is none. */
const hd_blas *hd__blas(void);

/* Opens a library by name into *out; false if it is not there or is not usable. */
bool hd__blas_open(hd_blas *out, const char *library);

#endif
