/* Many files, read in worker processes and reported as they complete: a file that crashes its reader is one failed
 * task.
 *
 * usage: files FILE... */
#include <heddle/experimental.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct path {
  char text[4096];
} path;

static hd_status count_lines(void *output, hd_ctx *ctx, const void *input) {
  FILE *file = fopen(((const path *)input)->text, "r");
  if (!file)
    return hd_ctx_fail(ctx, HD_E_IO, "expected a file that can be read, found none");
  for (int c; (c = getc(file)) != EOF;)
    *(long *)output += c == '\n';
  fclose(file);
  return HD_OK;
}

static const hd_task lines = {"count_lines", count_lines, sizeof(path), sizeof(long)};

int main(int argc, char **argv) {
  hd_ctx *ctx = NULL;
  hd_pool *pool = NULL;
  hd_pool_serve(&lines, 1); /* first of all: workers are this program, started anew */
  hd_future **future = calloc((size_t)argc, sizeof *future), *done;
  hd_status status = future ? hd_ctx_create(&ctx) : HD_E_NOMEM;
  if (status == HD_OK)
    status = hd_pool_create(&pool, ctx, HD_POOL_PROCESSES, 0);
  for (int i = 1; status == HD_OK && i < argc; i++) {
    path file = {{0}}; /* all of it is sent */
    snprintf(file.text, sizeof file.text, "%s", argv[i]);
    status = hd_pool_submit(&future[i], pool, ctx, &lines, &file);
  }
  while (status == HD_OK && (status = hd_pool_next(&done, pool, ctx, -1)) == HD_OK && done) {
    long count;
    const char *name = argv[1 + hd_future_number(done)];
    if (hd_future_result(&count, done, ctx, 0) == HD_OK)
      printf("%s: %ld lines\n", name, count);
    else
      printf("%s: %s\n", name, hd_ctx_message(ctx));
  }
  if (status != HD_OK)
    fprintf(stderr, "files: %s\n", hd_ctx_message(ctx));
  for (int i = 0; future && i < argc; i++)
    hd_future_destroy(future[i]);
  hd_pool_destroy(pool);
  hd_ctx_destroy(ctx);
  free(future);
  return status == HD_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
