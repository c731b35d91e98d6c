/* Squares of many numbers on all cores: an ordered map.
 *
 * usage: squares [COUNT] */
#include <heddle/experimental.h>
#include <stdio.h>
#include <stdlib.h>

static hd_status square(void *output, hd_ctx *ctx, const void *input) {
  long long number = *(const long long *)input;
  if (number > 3000000000LL)
    return hd_ctx_fail(ctx, HD_E_USAGE, "expected a number whose square fits, found %lld", number);
  *(long long *)output = number * number;
  return HD_OK;
}

static const hd_task squares = {"square", square, sizeof(long long), sizeof(long long)};

int main(int argc, char **argv) {
  size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000;
  long long *input = calloc(count, sizeof *input), *output = calloc(count, sizeof *output), sum = 0;
  hd_ctx *ctx = NULL;
  hd_pool *pool = NULL;
  hd_status status = hd_ctx_create(&ctx);
  for (size_t i = 0; input && i < count; i++)
    input[i] = (long long)i;

  if (status == HD_OK)
    status = hd_pool_create(&pool, ctx, HD_POOL_THREADS, 0);
  if (status == HD_OK && input && output)
    status = hd_pool_map(output, pool, ctx, &squares, input, count, NULL);
  if (status != HD_OK)
    fprintf(stderr, "squares: %s\n", hd_ctx_message(ctx));

  for (size_t i = 0; output && i < count; i++)
    sum += output[i];
  if (status == HD_OK)
    printf("the sum of %zu squares on %d threads is %lld\n", count, hd_pool_workers(pool), sum);
  hd_pool_destroy(pool);
  hd_ctx_destroy(ctx);
  free(input);
  free(output);
  return status == HD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
