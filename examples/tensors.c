/* The first page of any tensor tutorial, in C. */
#include <heddle/experimental.h>
#include <stdio.h>

/* A call that has a NULL among its operands does nothing and keeps the first message: one check at the end is enough.
 */
int main(void) {
  enum { COUNT = 12 };
  hd_tensor *t[COUNT] = {NULL}, **x = t;
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;

  puts("From data, of zeros, at random:");
  hd_tensor_from(&x[0], ctx, HD_F32, (const float[]){1, 2, 3, 4, 5, 6}, HD_DIMS(2, 3));
  hd_tensor_zeros(&x[1], ctx, HD_I32, HD_DIMS(3));
  hd_tensor_rand(&x[2], ctx, 42, HD_DIMS(2, 3)); /* 42: the seed */
  for (int i = 0; i < 3; i++)
    hd_tensor_print(x[i], ctx, stdout);

  puts("A view shares its elements: the second column, filled.");
  hd_tensor_select(&x[3], ctx, x[0], 1, 1);
  hd_tensor_fill(x[3], ctx, 0);
  hd_tensor_print(x[0], ctx, stdout);

  puts("Arithmetic is broadcast: columns less their means.");
  hd_tensor_mean(&x[4], ctx, x[0], HD_DIMS(0), 1);
  hd_tensor_sub(&x[5], ctx, x[0], x[4]);
  hd_tensor_print(x[5], ctx, stdout);

  puts("A product of matrices, and what is larger than 10 in it:");
  hd_tensor_transpose(&x[6], ctx, x[0], 0, 1);
  hd_tensor_matmul(&x[7], ctx, x[0], x[6]);
  hd_tensor_full(&x[8], ctx, HD_F32, 10, HD_NO_DIMS);
  hd_tensor_gt(&x[9], ctx, x[7], x[8]);
  hd_tensor_print(x[7], ctx, stdout);
  hd_tensor_print(x[9], ctx, stdout);

  puts("The same sum of a million numbers for any number of threads:");
  hd_tensor_randn(&x[10], ctx, 42, HD_DIMS(1000, 1000));
  double sum[2] = {0};
  for (int i = 0; i < 2; i++) {
    hd_tensor_set_threads(ctx, 1 + 3 * i);
    hd_tensor_sum(&x[11], ctx, x[10], HD_ALL_DIMS, 0);
    hd_tensor_item(&sum[i], ctx, x[11]);
    hd_tensor_destroy(i == 0 ? x[11] : NULL);
  }
  printf("%a %a\n", sum[0], sum[1]);

  if (!x[11])
    fprintf(stderr, "tensors: %s\n", hd_ctx_message(ctx));
  int failed = !x[11] || sum[0] != sum[1];
  for (int i = 0; i < COUNT; i++)
    hd_tensor_destroy(t[i]);
  hd_ctx_destroy(ctx);
  return failed;
}
