/* Squares of many numbers on all cores: an ordered map.
 *
 * usage: squares [COUNT]     the squares of 0 to COUNT - 1 */
#include <heddle/experimental.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 3000000 }; /* the sum of their squares fits 64 bits */

static hd_status square(void *output, hd_ctx *ctx, const void *input) {
  long long number = *(const long long *)input;
  if (number < 0 || number > 3000000000LL)
    return hd_ctx_fail(ctx, HD_E_USAGE, "expected a number whose square fits, found %lld", number);
  *(long long *)output = number * number;
  return HD_OK;
}

static const hd_task squares = {"square", square, sizeof(long long), sizeof(long long)};

/* Squares 0 to count - 1 and prints their sum. */
static hd_status print_sum(hd_ctx *ctx, long long *output, long long *input, size_t count) {
  long long sum = 0;
  hd_pool *pool = NULL;
  for (size_t i = 0; i < count; i++)
    input[i] = (long long)i;
  hd_status status = hd_pool_create(&pool, ctx, HD_POOL_THREADS, 0);
  if (status == HD_OK)
    status = hd_pool_map(output, pool, ctx, &squares, input, count, NULL);
  for (size_t i = 0; status == HD_OK && i < count; i++)
    sum += output[i];
  if (status == HD_OK)
    printf("the sum of %zu squares on %d threads is %lld\n", count, hd_pool_workers(pool), sum);
  hd_pool_destroy(pool);
  return status;
}

int main(int argc, char **argv) {
  char *end = "";
  long count = argc > 1 ? strtol(argv[1], &end, 10) : 10000;
  if (argc > 2 || *end || count < 1 || count > MOST) {
    fprintf(stderr, "usage: squares [COUNT]     COUNT: 1 to %d\n", MOST);
    return 2;
  }
  long long *input = calloc((size_t)count, sizeof *input), *output = calloc((size_t)count, sizeof *output);
  hd_ctx *ctx = NULL;
  hd_status status = input && output ? hd_ctx_create(&ctx) : HD_E_NOMEM;
  if (status == HD_OK)
    status = print_sum(ctx, output, input, (size_t)count);
  if (status != HD_OK)
    fprintf(stderr, "squares: %s\n", ctx ? hd_ctx_message(ctx) : "there is not enough memory");
  hd_ctx_destroy(ctx);
  free(input);
  free(output);
  return status == HD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
