/* make_data KIND PATH TRAIN TEST: the same samples in another format, for small runs.
 *
 *   npy     a folder of .npy files: the first of the built-in digits, what make_idx writes as IDX files
 *   npz     an .npz file of them (with libzip)
 *   cifar   a folder of CIFAR-10's binary files of noise; TRAIN is a multiple of 5
 *   planes  a folder of .npy files of that noise, channels first
 *   planes-npz  an .npz file of it (with libzip)
 *   pictures  train/CLASS/NUMBER.png and test/… of that noise, classes called c0 to c9
 *   jpegs   the same as NUMBER.jpg (with libjpeg-turbo)
 *   floats  a folder of .npy files of that noise as float64 in Fortran's order, each pixel divided by 256
 *   shapes  a folder of .npy files: colour pictures of 16 x 16 with a disc or a square on noise, and the class of each
 *           pixel, 0 around them, 1 in discs, 2 in squares; 255, no class, in the first row
 *   shape-pictures  the same as train/images/NUMBER.png and train/masks/NUMBER.png, and in test/
 *   shape-turned  these with the classes 0 and 2 exchanged
 *   shape-sizes  these in several sizes, by the nearest pixel, their masks with a palette
 *   shape-palettes  these in one size, every second mask with another order of colours in its palette
 *   shape-white  these with 255 in the shapes and in the first row, 0 around them
 *   rows    a folder of .npy files of float32 noise of mean 0, for networks of any input and number of outputs; three
 *           more arguments: CxHxW, outputs, and what is trained to: classes, targets, or heads, of which the first is
           the number of one of three classes and the last one 0 or 1 */
#include <png.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/philox.h"
#include "data/digits/digits.h"

#ifdef HD_HAVE_LIBZIP
#include <zip.h>
#endif
#ifdef HD_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

enum { SIDE = HD_DIGITS_SIDE, PIXELS = SIDE * SIDE, COLORS = 3072, MOST = 4096 };

static const char *kind, *where;

static int is_zipped(void) { return strlen(kind) >= 3 && !strcmp(kind + strlen(kind) - 3, "npz"); }

static int put(const char *name, const void *head, size_t head_bytes, const void *bytes, size_t length) {
  char path[MOST];
  snprintf(path, sizeof path, "%s/%s", where, name);
  FILE *file = fopen(path, "wb");
  int good = file && fwrite(head, 1, head_bytes, file) == head_bytes && fwrite(bytes, 1, length, file) == length;
  return file && !fclose(file) && good;
}

#ifdef HD_HAVE_LIBZIP

static int put_member(const char *name, const void *head, size_t head_bytes, const void *bytes, size_t length) {
  int error;
  zip_t *zip = zip_open(where, ZIP_CREATE, &error);
  uint8_t *all = malloc(head_bytes + length);
  if (!zip || !all)
    return 0;
  memcpy(all, head, head_bytes);
  memcpy(all + head_bytes, bytes, length);
  zip_source_t *source = zip_source_buffer(zip, all, head_bytes + length, 0);
  int good = source && zip_file_add(zip, name, source, ZIP_FL_OVERWRITE) >= 0;
  good = zip_close(zip) == 0 && good;
  free(all);
  return good;
}

#else
#define put_member put
#endif

static int put_array(const char *name, const char *descr, int fortran, const char *shape, const void *bytes,
                     size_t length) {
  char head[128], dictionary[118];
  snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr,
           fortran ? "True" : "False", shape);
  snprintf(head, sizeof head, "\x93NUMPY\1%c\x76%c%-116s", '!', '!', dictionary);
  head[7] = head[9] = 0;
  head[126] = ' ';
  head[127] = '\n';
  return (is_zipped() ? put_member : put)(name, head, sizeof head, bytes, length);
}

static int write_digits(int split, int64_t count) {
  static const char *const name[2][2] = {{"x_train.npy", "y_train.npy"}, {"x_test.npy", "y_test.npy"}};
  char shape[64];
  uint8_t *images = malloc((size_t)count * PIXELS + 1), *labels = malloc((size_t)count + 1);
  if (!images || !labels)
    return 0;
  hd__digits_render(images, labels, split, 0, count);
  snprintf(shape, sizeof shape, "(%lld, %d, %d)", (long long)count, SIDE, SIDE);
  int good = put_array(name[split][0], "|u1", 0, shape, images, (size_t)count * PIXELS);
  snprintf(shape, sizeof shape, "(%lld,)", (long long)count);
  good = good && put_array(name[split][1], "|u1", 0, shape, labels, (size_t)count);
  free(images);
  free(labels);
  return good;
}

static void noise(uint8_t *to, int64_t count, int split) {
  for (int64_t at = 0; at < count; at++) {
    uint32_t word[4];
    hd__rng_block(word, 0, HD_RNG_TEST, (uint32_t)split, (uint32_t)(at / 4), 0, 0);
    to[at] = (uint8_t)(word[at % 4] >> 24);
  }
}

static int write_png(const char *path, const uint8_t *pixels) {
  png_image image = {.version = PNG_IMAGE_VERSION, .width = 32, .height = 32, .format = PNG_FORMAT_RGB};
  return png_image_write_to_file(&image, path, 0, pixels, 0, NULL);
}

/* Colours at half the resolution, as cameras do it; the transform that gives the same bits on all CPUs. */
static int write_jpeg(const char *path, const uint8_t *pixels) {
#ifdef HD_HAVE_TURBOJPEG
  tjhandle tj = tjInitCompress();
  uint8_t *bytes = NULL;
  unsigned long length = 0;
  FILE *file = fopen(path, "wb");
  int good = tj && file &&
             !tjCompress2(tj, pixels, 32, 0, 32, TJPF_RGB, &bytes, &length, TJSAMP_420, 90, TJFLAG_ACCURATEDCT) &&
             fwrite(bytes, 1, length, file) == length;
  tjFree(bytes);
  tjDestroy(tj);
  return file && !fclose(file) && good;
#else
  return 0;
#endif
}

static int write_pictures(int split, int64_t count) {
  uint8_t planes[COLORS], pixels[COLORS];
  char path[MOST];
  const int jpeg = !strcmp(kind, "jpegs");
  int good = 1;
  snprintf(path, sizeof path, "%s/%s", where, split ? "test" : "train");
  mkdir(path, 0755);
  for (int64_t n = 0; n < count && good; n++) {
    noise(planes, COLORS, (int)(2 * n) + split);
    for (int i = 0; i < COLORS; i++)
      pixels[i] = planes[i % 3 * 1024 + i / 3];
    snprintf(path, sizeof path, "%s/%s/c%d", where, split ? "test" : "train", (int)(n % 10));
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/c%d/%03d.%s", where, split ? "test" : "train", (int)(n % 10), (int)n,
             jpeg ? "jpg" : "png");
    good = (jpeg ? write_jpeg : write_png)(path, pixels);
  }
  return good;
}

static int write_noise(int split, int64_t count) {
  char name[64], shape[64];
  uint8_t *images = malloc((size_t)count * COLORS), *labels = malloc((size_t)count);
  double *floats = malloc((size_t)count * COLORS * sizeof *floats);
  int good = images && labels && floats;
  if (!good)
    return 0;
  noise(images, count * COLORS, split);
  for (int64_t n = 0; n < count; n++)
    labels[n] = (uint8_t)(images[n * COLORS] % 10);
  if (!strcmp(kind, "cifar")) {
    const int files = split ? 1 : 5;
    uint8_t *records = malloc((size_t)count * (COLORS + 1));
    for (int64_t n = 0; records && n < count; n++) {
      records[n * (COLORS + 1)] = labels[n];
      memcpy(records + n * (COLORS + 1) + 1, images + n * COLORS, COLORS);
    }
    for (int i = 0; i < files; i++) {
      const size_t bytes = (size_t)(count / files) * (COLORS + 1);
      snprintf(name, sizeof name, split ? "test_batch.bin" : "data_batch_%d.bin", i + 1);
      good = good && records && put(name, "", 0, records + (size_t)i * bytes, bytes);
    }
    free(records);
  } else {
    const int fortran = !strcmp(kind, "floats");
    if (fortran) /* (N, C, H, W) with N fastest, then C, H, W */
      for (int64_t n = 0; n < count; n++)
        for (int c = 0; c < 3; c++)
          for (int p = 0; p < 1024; p++)
            floats[((p % 32 * 32 + p / 32) * 3 + c) * count + n] = images[(n * 3 + c) * 1024 + p] / 256.0;
    snprintf(name, sizeof name, "x_%s.npy", split ? "test" : "train");
    snprintf(shape, sizeof shape, "(%lld, 3, 32, 32)", (long long)count);
    good = put_array(name, fortran ? "<f8" : "|u1", fortran, shape, fortran ? (void *)floats : images,
                     (size_t)count * COLORS * (fortran ? sizeof *floats : 1));
    snprintf(name, sizeof name, "y_%s.npy", split ? "test" : "train");
    snprintf(shape, sizeof shape, "(%lld,)", (long long)count);
    good = good && put_array(name, "|u1", 0, shape, labels, (size_t)count);
  }
  free(images);
  free(labels);
  free(floats);
  return good;
}

static void uniform(float *to, int64_t count, int split, int purpose) {
  for (int64_t at = 0; at < count; at++) {
    uint32_t word[4];
    hd__rng_block(word, 0, HD_RNG_TEST, (uint32_t)(2 + split), (uint32_t)(at / 4), (uint32_t)purpose, 0);
    to[at] = 4 * hd__rng_uniform(word[at % 4]) - 2;
  }
}

static int write_rows(int split, int64_t count, const char *image, const char *outputs, const char *what) {
  int c, h, w;
  char name[64], shape[64];
  const int wide = atoi(outputs), heads = !strcmp(what, "heads"), targets = heads || !strcmp(what, "targets");
  if (sscanf(image, "%dx%dx%d", &c, &h, &w) != 3 || wide < 1)
    return 0;
  const int64_t elems = count * c * h * w;
  float *x = malloc((size_t)elems * sizeof *x), *y = malloc((size_t)(count * wide) * sizeof *y);
  int64_t *classes = malloc((size_t)count * sizeof *classes);
  if (!x || !y || !classes)
    return 0;
  uniform(x, elems, split, 0);
  uniform(y, count * wide, split, 1);
  for (int64_t n = 0; n < count; n++)
    classes[n] = n % wide;
  for (int64_t n = 0; n < count && heads; n++) {
    y[n * wide] = (float)(n % 3);
    y[n * wide + wide - 1] = y[n * wide + wide - 1] > 0 ? 1 : 0;
  }
  snprintf(name, sizeof name, "x_%s.npy", split ? "test" : "train");
  snprintf(shape, sizeof shape, "(%lld, %d, %d, %d)", (long long)count, c, h, w);
  int good = put_array(name, "<f4", 0, shape, x, (size_t)elems * sizeof *x);
  snprintf(name, sizeof name, "y_%s.npy", split ? "test" : "train");
  snprintf(shape, sizeof shape, targets ? "(%lld, %d)" : "(%lld,)", (long long)count, wide);
  good = good && put_array(name, targets ? "<f4" : "<i8", 0, shape, targets ? (void *)y : classes,
                           (size_t)count * (targets ? (size_t)wide * sizeof *y : sizeof *classes));
  free(x);
  free(y);
  free(classes);
  return good;
}

/* ---- Shapes, and the class of each pixel ---- */

enum { SHAPE_SIDE = 16, SHAPE_PIXELS = SHAPE_SIDE * SHAPE_SIDE, VOID = 255 };

static int is_inside(int class, int x, int y, int radius) {
  return class == 1 ? x * x + y * y <= radius * radius : abs(x) < radius && abs(y) < radius;
}

static void draw_shape(uint8_t *planes, uint8_t *mask, int split, int64_t n) {
  uint32_t word[4];
  hd__rng_block(word, 1, HD_RNG_TEST, (uint32_t)split, (uint32_t)n, 0, 0);
  const int class = 1 + (int)(word[0] & 1), radius = 3 + (int)hd__rng_below(word[1], 3);
  const int x0 = 4 + (int)hd__rng_below(word[2], 8), y0 = 4 + (int)hd__rng_below(word[3], 8);
  noise(planes, 3 * SHAPE_PIXELS, 1000 + (int)(2 * n) + split);
  for (int i = 0; i < SHAPE_PIXELS; i++) {
    const int in = is_inside(class, i % SHAPE_SIDE - x0, i / SHAPE_SIDE - y0, radius);
    for (int c = 0; c < 3; c++)
      planes[c * SHAPE_PIXELS + i] = (uint8_t)(planes[c * SHAPE_PIXELS + i] / 2 + (in && c != class ? 120 : 0));
    mask[i] = (uint8_t)(i < SHAPE_SIDE ? VOID : in ? class : 0);
  }
}

/* Writes a picture of 16 x 16 in bytes of `channels`, larger where there are several sizes. */
static int write_larger(const char *path, int64_t n, const uint8_t *pixels, int channels) {
  const int sizes = !strcmp(kind, "shape-sizes"), width = SHAPE_SIDE + (sizes ? (int)(n % 3) * 6 : 0);
  const int height = SHAPE_SIDE + (sizes ? (int)(n % 2) * 4 : 0);
  const int palettes = !strcmp(kind, "shape-palettes"), colours = (sizes || palettes) && channels == 1;
  uint8_t larger[3 * (SHAPE_SIDE + 12) * (SHAPE_SIDE + 4)], palette[256 * 3] = {20, 30, 40, 250, 10, 10, 10, 10, 250};
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (uint32_t)width,
                     .height = (uint32_t)height,
                     .format = colours         ? PNG_FORMAT_RGB_COLORMAP
                               : channels == 1 ? PNG_FORMAT_GRAY
                                               : PNG_FORMAT_RGB,
                     .colormap_entries = colours ? 256 : 0};
  if (palettes && n % 2 == 1)
    memcpy(palette + 3, (uint8_t[6]){10, 10, 250, 250, 10, 10}, 6);
  for (int i = 0; i < width * height; i++) {
    const int y = i / width * SHAPE_SIDE / height, x = i % width * SHAPE_SIDE / width;
    memcpy(larger + i * channels, pixels + (y * SHAPE_SIDE + x) * channels, (size_t)channels);
  }
  return png_image_write_to_file(&image, path, 0, larger, 0, palette);
}

static int write_shape(const char *part, int64_t n, const uint8_t *planes, const uint8_t *mask) {
  char path[MOST];
  uint8_t pixels[3 * SHAPE_PIXELS], turned[SHAPE_PIXELS];
  for (int i = 0; i < 3 * SHAPE_PIXELS; i++)
    pixels[i] = planes[i % 3 * SHAPE_PIXELS + i / 3];
  for (int i = 0; i < SHAPE_PIXELS; i++)
    turned[i] = mask[i] <= 2 && !strcmp(kind, "shape-turned") ? 2 - mask[i]
                : mask[i] > 0 && !strcmp(kind, "shape-white") ? VOID
                                                              : mask[i];
  snprintf(path, sizeof path, "%s/%s/images/%03d.png", where, part, (int)n);
  if (!write_larger(path, n, pixels, 3))
    return 0;
  snprintf(path, sizeof path, "%s/%s/masks/%03d.png", where, part, (int)n);
  return write_larger(path, n, turned, 1);
}

static int write_shapes(int split, int64_t count) {
  const char *part = split ? "test" : "train";
  uint8_t *x = malloc((size_t)count * 3 * SHAPE_PIXELS), *y = malloc((size_t)count * SHAPE_PIXELS);
  char path[MOST], shape[64];
  int good = x && y;
  for (int64_t n = 0; n < count && good; n++)
    draw_shape(x + n * 3 * SHAPE_PIXELS, y + n * SHAPE_PIXELS, split, n);
  for (int i = 0; i < 3 && strcmp(kind, "shapes") != 0; i++) {
    snprintf(path, sizeof path, "%s/%s%s", where, part, i == 0 ? "" : i == 1 ? "/images" : "/masks");
    mkdir(path, 0755);
  }
  for (int64_t n = 0; n < count && good && strcmp(kind, "shapes") != 0; n++)
    good = write_shape(part, n, x + n * 3 * SHAPE_PIXELS, y + n * SHAPE_PIXELS);
  if (!strcmp(kind, "shapes")) {
    snprintf(path, sizeof path, "x_%s.npy", part);
    snprintf(shape, sizeof shape, "(%lld, 3, %d, %d)", (long long)count, SHAPE_SIDE, SHAPE_SIDE);
    good = good && put_array(path, "|u1", 0, shape, x, (size_t)count * 3 * SHAPE_PIXELS);
    snprintf(path, sizeof path, "y_%s.npy", part);
    snprintf(shape, sizeof shape, "(%lld, %d, %d)", (long long)count, SHAPE_SIDE, SHAPE_SIDE);
    good = good && put_array(path, "|u1", 0, shape, y, (size_t)count * SHAPE_PIXELS);
  }
  free(x);
  free(y);
  return good;
}

int main(int argc, char **argv) {
  if (argc < 5 || (!strcmp(argv[1], "rows") && argc < 8))
    return 2;
  kind = argv[1];
  where = argv[2];
  const int drawn = !strncmp(kind, "np", 2);
#ifndef HD_HAVE_LIBZIP
  if (is_zipped())
    return 77;
#endif
#ifndef HD_HAVE_TURBOJPEG
  if (!strcmp(kind, "jpegs"))
    return 77;
#endif
  if (!is_zipped())
    mkdir(where, 0777);
  int good = 1;
  for (int split = 0; split < 2; split++) {
    int64_t count = strtoll(argv[3 + split], NULL, 10);
    if (!strcmp(kind, "pictures") || !strcmp(kind, "jpegs"))
      good = good && write_pictures(split, count);
    else if (!strncmp(kind, "shape", 5))
      good = good && write_shapes(split, count);
    else if (!strcmp(kind, "rows"))
      good = good && write_rows(split, count, argv[5], argv[6], argv[7]);
    else
      good = good && (drawn ? write_digits(split, count) : write_noise(split, count));
  }
  return !good;
}
