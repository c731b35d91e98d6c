/* Text that a trained network writes, inside another program: as it is written.
 *
 *     generate RUN [PROMPT]     RUN: the folder of a run that was trained on text */
#include <heddle/experimental.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 300 };

static hd_status write_text(hd_generator *generator, hd_ctx *ctx, const char *prompt) {
  const hd_generation how = {.temperature = 0.8, .top_p = 0.95, .seed = 7};
  char text[HD_TOKEN_BYTES];
  size_t bytes;
  hd_status status = hd_generator_begin(generator, ctx, prompt, strlen(prompt), &how);
  fputs(prompt, stdout);
  for (int i = 0; i < TOKENS && status == HD_OK; i++)
    if ((status = hd_generator_next(generator, ctx, text, &bytes)) == HD_OK) {
      fwrite(text, 1, bytes, stdout);
      fflush(stdout);
    }
  putchar('\n');
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_generator *generator;
  if (argc < 2)
    fputs("usage: generate RUN [PROMPT]     RUN: the folder of a run that was trained on text\n", stderr);
  if (argc < 2 || hd_ctx_create(&ctx) != HD_OK)
    return 2;
  hd_status status = hd_generator_create(&generator, ctx, argv[1], NULL);
  if (status == HD_OK) {
    status = write_text(generator, ctx, argc > 2 ? argv[2] : "");
    hd_generator_destroy(generator);
  }
  if (status != HD_OK)
    fprintf(stderr, "generate: %s\n", hd_ctx_message(ctx));
  hd_ctx_destroy(ctx);
  return status != HD_OK;
}
