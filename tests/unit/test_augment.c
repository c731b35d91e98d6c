/* translate, alternating_flip and cutout, against PyTorch's padding and plain loops, in whole numbers. */
#include <stdint.h>

#include "heddle/transform.h"
#include "tap.h"

enum { MOST = 64 };

static hd_ctx *ctx;

typedef struct subject {
  hd_pipeline *p;
  void *scratch;
  int elems;
  int image[MOST]; /* a pixel's byte */
} subject;

static void open_subject(subject *s, const char *list, int height, int width) {
  const hd_pipeline_input input = {
      .struct_bytes = sizeof input, .channels = 1, .height = height, .width = width, .bytes = 1, .classes = 2};
  if (hd_pipeline_create(&s->p, ctx, list, &input, HD_PIPELINE_TRAINING) != HD_OK)
    bail_out("%s: %s", list, hd_ctx_message(ctx));
  s->scratch = aligned_alloc(64, (hd_pipeline_shape_of(s->p)->scratch_bytes + 63) / 64 * 64);
  s->elems = height * width;
}

static void close_subject(subject *s) {
  hd_pipeline_destroy(s->p);
  free(s->scratch);
}

static void apply(subject *s, const uint8_t *pixels, int64_t number, hd_sample_key key) {
  float image[MOST];
  const hd_sample sample = {.pixels = pixels, .number = number};
  hd_pipeline_apply(image, NULL, s->p, &sample, NULL, &key, s->scratch);
  for (int i = 0; i < s->elems; i++)
    s->image[i] = (int)lrintf(image[i] * 255);
}

/* torch.nn.functional.pad(x, (2, 2, 2, 2), "reflect") of the 3 x 4 image 10, 20, ... 120. */
static const int padded[7][8] = {{110, 100, 90, 100, 110, 120, 110, 100}, {70, 60, 50, 60, 70, 80, 70, 60},
                                 {30, 20, 10, 20, 30, 40, 30, 20},        {70, 60, 50, 60, 70, 80, 70, 60},
                                 {110, 100, 90, 100, 110, 120, 110, 100}, {70, 60, 50, 60, 70, 80, 70, 60},
                                 {30, 20, 10, 20, 30, 40, 30, 20}};
static const uint8_t steps[12] = {10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};

/* The windows of the padded image that an image is. */
static int windows_of(int seen[25], const int *image) {
  int found = 0;
  for (int at = 0; at < 25; at++) {
    int same = 0;
    for (int i = 0; i < 12; i++)
      same += image[i] == padded[at / 5 + i / 4][at % 5 + i % 4];
    seen[at] += same == 12;
    found += same == 12;
  }
  return found;
}

static void test_translate(void) {
  enum { COUNT = 4000 };
  static subject s, crop;
  int seen[25] = {0}, wrong = 0, other = 0;
  open_subject(&s, "[{translate: 2}, to_float]", 3, 4);
  open_subject(&crop, "[{random_crop: {size: [3, 4], padding: 2, padding_mode: reflect}}, to_float]", 3, 4);
  for (int i = 0; i < COUNT; i++) {
    const hd_sample_key key = {.seed = 3, .epoch = 1, .position = i};
    apply(&s, steps, 0, key);
    apply(&crop, steps, 0, key);
    wrong += windows_of(seen, s.image) == 0;
    other += memcmp(s.image, crop.image, 12 * sizeof *s.image) != 0;
  }
  is_int(wrong, 0, "a translated image is a window of PyTorch's padded one");
  is_int(other, 0, "the one that random_crop of the image's size takes");
  int never = 0;
  for (int at = 0; at < 25; at++)
    never += seen[at] == 0;
  is_int(never, 0, "all 25 windows occur");
  close_subject(&s);
  close_subject(&crop);
  open_subject(&s, "[{translate: {pixels: [0, 1], padding_mode: constant, fill: 7}}, to_float]", 3, 4);
  int rows = 0, filled = 0;
  for (int i = 0; i < 100; i++) {
    apply(&s, steps, 0, (hd_sample_key){.position = i});
    rows += s.image[1] / 10 == 1 || s.image[1] / 10 == 2 || s.image[1] / 10 == 3;
    filled += s.image[0] == 7 || s.image[3] == 7;
  }
  ok(rows == 100 && filled > 40 && filled < 90, "by columns alone, with a fill: %d of 100 moved", filled);
  close_subject(&s);
}

static void test_alternating_flip(void) {
  enum { COUNT = 20000 };
  static const uint8_t pixels[2] = {1, 2};
  static subject s, second;
  int flipped = 0, stuck = 0, moved = 0, alike = 0;
  open_subject(&s, "[alternating_flip, to_float]", 1, 2);
  open_subject(&second, "[{cutout: {size: 1, p: 0}}, alternating_flip, to_float]", 1, 2);
  for (int i = 0; i < COUNT; i++) {
    apply(&s, pixels, i, (hd_sample_key){.seed = 5, .position = 7 * i});
    const int even = s.image[0] == 2;
    flipped += even;
    for (uint32_t epoch = 1; epoch < 4; epoch++) {
      apply(&s, pixels, i, (hd_sample_key){.seed = 5, .epoch = epoch, .position = (i + epoch) % 11});
      stuck += (s.image[0] == 2) != (even ^ (int)(epoch & 1));
    }
    apply(&s, pixels, i, (hd_sample_key){.seed = 6, .position = 7 * i});
    moved += even != (s.image[0] == 2);
    apply(&second, pixels, i, (hd_sample_key){.seed = 5, .position = 7 * i});
    alike += even == (second.image[0] == 2);
  }
  near(flipped / (double)COUNT, 0.5, 0.012, "half of the samples are flipped in epoch 0");
  is_int(stuck, 0, "and in each epoch those that were not in the epoch before, wherever they stand in it");
  near(moved / (double)COUNT, 0.5, 0.012, "another seed draws another half");
  near(alike / (double)COUNT, 0.5, 0.012, "and so does another place in the list");
  close_subject(&s);
  close_subject(&second);
}

/* The pixels that are 0, if they fill a rectangle; else an area of -1. */
static int hole(int *top, int *left, int *height, int *width, const int *image, int rows, int columns) {
  int low[2] = {rows, columns}, high[2] = {-1, -1}, zeros = 0;
  for (int i = 0; i < rows * columns; i++)
    if (image[i] == 0) {
      const int at[2] = {i / columns, i % columns};
      zeros++;
      for (int a = 0; a < 2; a++) {
        low[a] = at[a] < low[a] ? at[a] : low[a];
        high[a] = at[a] > high[a] ? at[a] : high[a];
      }
    }
  *top = low[0], *left = low[1];
  *height = zeros ? high[0] - low[0] + 1 : 0;
  *width = zeros ? high[1] - low[1] + 1 : 0;
  return *height * *width == zeros ? zeros : -1;
}

static void test_cutout(void) {
  enum { COUNT = 3000, HEIGHT = 5, WIDTH = 6 };
  uint8_t pixels[HEIGHT * WIDTH];
  int top, left, height, width, wrong = 0, seen[HEIGHT][WIDTH] = {{0}}, places = 0, whole = 0, none = 0;
  static subject s;
  memset(pixels, 200, sizeof pixels);
  open_subject(&s, "[{cutout: 3}, to_float]", HEIGHT, WIDTH);
  for (int i = 0; i < COUNT; i++) {
    apply(&s, pixels, 0, (hd_sample_key){.seed = 1, .position = i});
    wrong += hole(&top, &left, &height, &width, s.image, HEIGHT, WIDTH) != 9 || height != 3;
    seen[top][left] = 1;
  }
  for (int i = 0; i < HEIGHT * WIDTH; i++)
    places += seen[i / WIDTH][i % WIDTH];
  is_int(wrong, 0, "a cutout of 3 sets a square of nine pixels inside the image to 0");
  is_int(places, 12, "at all 3 x 4 places");
  close_subject(&s);
  open_subject(&s, "[{cutout: {size: 3, place: anywhere, p: 0.5}}, to_float]", HEIGHT, WIDTH);
  wrong = 0;
  for (int i = 0; i < COUNT; i++) {
    apply(&s, pixels, 0, (hd_sample_key){.seed = 1, .position = i});
    const int area = hole(&top, &left, &height, &width, s.image, HEIGHT, WIDTH);
    none += area == 0;
    whole += area == 9;
    wrong += area != 0 && (area < 4 || area > 9 || height < 2 || width < 2);
  }
  is_int(wrong, 0, "anywhere: around a pixel of the image, cut at its edges");
  near(none / (double)COUNT, 0.5, 0.04, "p is how often");
  near(whole / (double)(COUNT - none), 12.0 / 30, 0.05, "whole around 3 x 4 of 5 x 6 pixels");
  close_subject(&s);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_translate();
  test_alternating_flip();
  test_cutout();
  hd_ctx_destroy(ctx);
  return done_testing();
}
