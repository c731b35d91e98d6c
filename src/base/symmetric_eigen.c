/* Jacobi's method: see symmetric_eigen.h. */
#include "base/symmetric_eigen.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { MOST_SWEEPS = 64 /* ten are usual */ };

/* Two numbers become cosine * a - sine * b and sine * a + cosine * b. */
static void turn(double *a, double *b, double cosine, double sine) {
  const double x = *a, y = *b;
  *a = cosine * x - sine * y;
  *b = sine * x + cosine * y;
}

/* Makes a[p][q] zero; `vectors` has the product of all rotations, transposed. */
static void rotate(double *a, double *vectors, int n, int p, int q) {
  double *const row[2] = {a + (size_t)p * (size_t)n, a + (size_t)q * (size_t)n};
  const double element = row[0][q], theta = (row[1][q] - row[0][p]) / (2 * element);
  const double tangent = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
  const double cosine = 1 / sqrt(tangent * tangent + 1), sine = tangent * cosine;
  row[0][p] = row[0][p] - tangent * element;
  row[1][q] = row[1][q] + tangent * element;
  row[0][q] = row[1][p] = 0;
  for (int k = 0; k < n; k++) {
    double *const other = a + (size_t)k * (size_t)n;
    if (k == p || k == q)
      continue;
    turn(&other[p], &other[q], cosine, sine);
    row[0][k] = other[p];
    row[1][k] = other[q];
  }
  for (int k = 0; k < n; k++)
    turn(&vectors[p * n + k], &vectors[q * n + k], cosine, sine);
}

static bool sweep(double *a, double *vectors, int n, double least) {
  bool rotated = false;
  for (int p = 0; p < n; p++)
    for (int q = p + 1; q < n; q++)
      if (fabs(a[p * n + q]) > least) {
        rotate(a, vectors, n, p, q);
        rotated = true;
      }
  return rotated;
}

static void exchange_rows(double *a, double *b, int n) {
  for (int k = 0; k < n; k++) {
    const double x = a[k];
    a[k] = b[k];
    b[k] = x;
  }
}

/* Largest value first: each row is inserted among those before it. */
static void sort(double *values, double *vectors, int n) {
  for (int i = 1; i < n; i++)
    for (int at = i; at > 0 && values[at] > values[at - 1]; at--) {
      exchange_rows(&values[at], &values[at - 1], 1);
      exchange_rows(vectors + at * n, vectors + (at - 1) * n, n);
    }
}

static void fix_sign(double *vector, int n) {
  int largest = 0;
  for (int k = 1; k < n; k++)
    if (fabs(vector[k]) > fabs(vector[largest]))
      largest = k;
  const bool negative = vector[largest] < 0;
  for (int k = 0; k < n && negative; k++)
    vector[k] = -vector[k];
}

void hd__symmetric_eigen(double *values, double *vectors, double *matrix, int n) {
  double largest = 0;
  memset(vectors, 0, (size_t)n * (size_t)n * sizeof *vectors);
  for (int i = 0; i < n; i++) {
    vectors[i * n + i] = 1;
    largest = fmax(largest, fabs(matrix[i * n + i]));
  }
  for (int sweeps = 0; sweeps < MOST_SWEEPS && sweep(matrix, vectors, n, 0x1p-56 * largest); sweeps++)
    ;
  for (int i = 0; i < n; i++)
    values[i] = matrix[i * n + i];
  sort(values, vectors, n);
  for (int i = 0; i < n; i++)
    fix_sign(vectors + i * n, n);
}
