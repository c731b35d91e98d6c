/* make_idx FOLDER TRAIN TEST: writes the first samples of the built-in digits as four IDX files, a data set for small
 * runs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/digits.h"

static int write_file(const char *folder, const char *name, int rank, int64_t count, int size, const uint8_t *bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  if (!file)
    return 0;
  const int64_t dims[3] = {count, size, size};
  const uint8_t magic[4] = {0, 0, 8, (uint8_t)rank};
  size_t length = (size_t)count * (rank == 3 ? (size_t)size * (size_t)size : 1);
  int good = fwrite(magic, 1, 4, file) == 4;
  for (int i = 0; i < rank; i++) {
    const uint8_t big[4] = {(uint8_t)(dims[i] >> 24), (uint8_t)(dims[i] >> 16), (uint8_t)(dims[i] >> 8),
                            (uint8_t)dims[i]};
    good = good && fwrite(big, 1, 4, file) == 4;
  }
  good = good && fwrite(bytes, 1, length, file) == length;
  return !fclose(file) && good;
}

int main(int argc, char **argv) {
  static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                      "t10k-labels-idx1-ubyte"};
  enum { SIDE = HD_DIGITS_SIDE };
  hd_ctx *ctx;
  hd_digits *digits;
  if (argc != 4 || hd_ctx_create(&ctx) != HD_OK || hd__digits_create(&digits, ctx) != HD_OK)
    return 2;
  int good = 1;
  for (int split = 0; split < 2; split++) {
    int64_t count = strtoll(argv[2 + split], NULL, 10);
    uint8_t *images = malloc((size_t)count * SIDE * SIDE + 1), *labels = malloc((size_t)count + 1);
    if (!images || !labels)
      return 1;
    hd__digits_render(digits, images, labels, split, 0, count);
    good = good && write_file(argv[1], names[2 * split], 3, count, SIDE, images);
    good = good && write_file(argv[1], names[2 * split + 1], 1, count, SIDE, labels);
    free(images);
    free(labels);
  }
  hd__digits_destroy(digits);
  hd_ctx_destroy(ctx);
  return !good;
}
