/* make_idx FOLDER TRAIN TEST [targets]: writes the first samples of the built-in digits as four IDX files, a data set
 * for small runs. With `targets` two floats stand in place of a label: the digit's ninth and its mean brightness, from
 * 0 to 1. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/digits/digits.h"

enum { SIDE = HD_DIGITS_SIDE, PIXELS = SIDE * SIDE, BYTES = 8, FLOATS = 13 /* types of IDX */ };

static void put_big(uint8_t to[4], uint32_t word) {
  for (int i = 0; i < 4; i++)
    to[i] = (uint8_t)(word >> (24 - 8 * i));
}

/* dims: `rank` of them, the first is the number of samples. */
static int write_file(const char *folder, const char *name, int type, int rank, const int64_t *dims,
                      const uint8_t *bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  if (!file)
    return 0;
  const uint8_t magic[4] = {0, 0, (uint8_t)type, (uint8_t)rank};
  size_t length = type == FLOATS ? 4 : 1;
  int good = fwrite(magic, 1, 4, file) == 4;
  for (int i = 0; i < rank; i++) {
    uint8_t big[4];
    put_big(big, (uint32_t)dims[i]);
    good = good && fwrite(big, 1, 4, file) == 4;
    length *= (size_t)dims[i];
  }
  good = good && fwrite(bytes, 1, length, file) == length;
  return !fclose(file) && good;
}

static void put_float(uint8_t to[4], float number) {
  uint32_t word;
  memcpy(&word, &number, sizeof word);
  put_big(to, word);
}

static int write_targets(const char *folder, const char *name, int64_t count, const uint8_t *images,
                         const uint8_t *labels) {
  uint8_t *bytes = malloc((size_t)count * 8 + 1);
  if (!bytes)
    return 0;
  for (int64_t i = 0; i < count; i++) {
    int32_t ink = 0;
    for (int64_t p = 0; p < PIXELS; p++)
      ink += images[i * PIXELS + p];
    put_float(bytes + 8 * i, (float)labels[i] / 9);
    put_float(bytes + 8 * i + 4, (float)ink / (255 * PIXELS));
  }
  int good = write_file(folder, name, FLOATS, 2, (const int64_t[]){count, 2}, bytes);
  free(bytes);
  return good;
}

int main(int argc, char **argv) {
  static const char *const images_of[] = {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte"};
  static const char *const labels_of[] = {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"};
  static const char *const targets_of[] = {"train-labels-idx2-float", "t10k-labels-idx2-float"};
  if (argc < 4)
    return 2;
  int good = 1;
  for (int split = 0; split < 2; split++) {
    int64_t count = strtoll(argv[2 + split], NULL, 10);
    const int64_t dims[3] = {count, SIDE, SIDE};
    uint8_t *images = malloc((size_t)count * PIXELS + 1), *labels = malloc((size_t)count + 1);
    if (!images || !labels)
      return 1;
    hd__digits_render(images, labels, split, 0, count);
    good = good && write_file(argv[1], images_of[split], BYTES, 3, dims, images);
    if (argc > 4)
      good = good && write_targets(argv[1], targets_of[split], count, images, labels);
    else
      good = good && write_file(argv[1], labels_of[split], BYTES, 1, dims, labels);
    free(images);
    free(labels);
  }
  return !good;
}
