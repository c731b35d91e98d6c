/* Eigenvalues and eigenvectors of a symmetric matrix, with the same bits on every machine.
 *
 * Jacobi's method in double (Golub and Van Loan, Matrix Computations, 8.5), of + - * / and square roots alone, in
 * one fixed order: sweeps over the pairs p < q, row by row. A pair whose element is at most 2^-56 of the largest
 * element of the diagonal, as given, is left; of the others the rotation by theta = (a[q][q] - a[p][p]) / (2
 * a[p][q]), t = sign(theta) / (|theta| + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1), s = t * c makes the
 * element 0. A sweep without a rotation is the last one.
 *
 * Thread safety: a pure function. */
#pragma once

/* matrix: n x n, both triangles, overwritten. values: n, the largest first, of equal ones that of the lower column
 * first. vectors: n x n, row i the eigenvector of length 1 of values[i], whose largest component (the first of equal
 * ones) is positive. */
void hd__symmetric_eigen(double *values, double *vectors, double *matrix, int n);
