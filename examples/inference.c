/* Inference inside another program: pictures, and pixels that the program has in memory.
 *
 *     inference RUN [FILE.png...]     RUN: the folder of a run that was trained on pictures
 * The drawn seven is for runs on digits or MNIST: runs/cnn-1 of `heddle train`, or runs/mnist of the README. */
#include <heddle.h>
#include <stdio.h>
#include <stdlib.h>

/* A seven in 28 x 28 bytes, light on black: the middle `side` x `side` of them. */
static void draw_seven(unsigned char *pixels, int side) {
  for (int i = 0; i < side * side; i++) {
    const int y = (28 - side) / 2 + i / side, x = (28 - side) / 2 + i % side;
    pixels[i] = (y >= 5 && y < 8 && x >= 8 && x < 20) || (y >= 8 && y < 23 && abs(2 * x + y - 45) <= 3) ? 255 : 0;
  }
}

static void print_prediction(const char *what, const double *probability, int classes) {
  int class = hd_predict_class(probability, classes);
  printf("%s: %d (%.2f %%)\n", what, class, 100 * probability[class]);
}

static hd_status predict(hd_predictor *predictor, hd_ctx *ctx, char **file, double *probability) {
  int classes = hd_predictor_count(predictor);
  unsigned char seven[28 * 28];
  int32_t in[3];
  hd_status status = HD_OK;
  hd_predictor_input(in, predictor);
  const int side = in[0] == 1 && in[1] == in[2] && in[1] >= 24 && in[1] <= 28 ? in[1] : 0;
  draw_seven(seven, side);
  if (side == 0)
    printf("the program's seven has 1x28x28 pixels, the run reads %dx%dx%d: give it pictures\n", in[0], in[1], in[2]);
  else if ((status = hd_predict_pixels(probability, predictor, ctx, seven, 1)) == HD_OK)
    print_prediction("a seven drawn by the program", probability, classes);
  for (; *file && status == HD_OK; file++)
    if ((status = hd_predict_picture(probability, predictor, ctx, *file)) == HD_OK)
      print_prediction(*file, probability, classes);
  return status;
}

int main(int argc, char **argv) {
  hd_ctx *ctx;
  hd_predictor *predictor;
  if (argc < 2)
    fputs("usage: inference RUN [FILE.png...]     RUN: the folder of a run that was trained on pictures\n", stderr);
  if (argc < 2 || hd_ctx_create(&ctx) != HD_OK)
    return 2;
  hd_status status = hd_predictor_create(&predictor, ctx, argv[1], NULL);
  if (status == HD_OK) {
    double *probability = malloc((size_t)hd_predictor_count(predictor) * sizeof *probability);
    status = probability ? predict(predictor, ctx, argv + 2, probability) : HD_E_NOMEM;
    free(probability);
    hd_predictor_destroy(predictor);
  }
  if (status != HD_OK)
    fprintf(stderr, "inference: %s\n", hd_ctx_message(ctx));
  hd_ctx_destroy(ctx);
  return status != HD_OK;
}
