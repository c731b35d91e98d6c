/* OpenBLAS, where the machine has it, as a reference for measurements: loaded at run time, one thread per call. No
 * result of heddle comes from it.
 *
 * Three hazards are handled here and nowhere else. The library reads its core type in its constructor, and older
 * versions misdetect new CPUs, so it is loaded in an environment that has the variable (unless the user set one).
 * Its threads are turned off. If the program has loaded it already, its settings stay: then it is used only if it
 * has one thread. */
#pragma once

#include <stdbool.h>

#include "base/tools_api.h"

typedef struct hd_blas {
  /* cblas_sgemm, with its enums as int. */
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                const float *b, int ldb, float beta, float *c, int ldc);
  char name[96]; /* "OpenBLAS 0.3.21 SkylakeX" */
} hd_blas;

enum { HD_BLAS_ROW_MAJOR = 101, HD_BLAS_NO_TRANS = 111, HD_BLAS_TRANS = 112 };

/* The library of this process, loaded once: HEDDLE_BLAS or libopenblas.so.0. NULL: there is none. */
HD_TOOLS_API const hd_blas *hd__blas(void);

/* Loads a library by name into *out; false if it is missing or not usable. */
bool hd__blas_open(hd_blas *out, const char *library);
