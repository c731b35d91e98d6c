/* The built-in data set: the bits of all of it are constants here, any range can be drawn alone, and every class
 * has its share. */
#include "scratch.h"

#include <pthread.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "data/dataset/dataset.h"
#include "data/digits/digits.h"
#include "data/digits/strokes.h"
#include "data/formats/formats.h"

enum { PIXELS = HD_DIGITS_SIDE * HD_DIGITS_SIDE, CLASSES = HD_DIGITS };

/* XXH3 of the training images and labels, then of the test ones. They change when a point in data/digits.strokes or
 * anything in the drawing does, and with them every digest in the documentation: that must be meant. */
static const uint64_t checksum[HD_DATA_PARTS] = {0x6f5dfb8c4b4a181d, 0x087415cc038f4a82, 0xe4249a965dfdfff4,
                                                 0xf1f422a4b5d0e022};
static const char *const part[HD_DATA_PARTS] = {"training images", "training labels", "test images", "test labels"};

static hd_ctx *ctx;

static void test_whole_set(const hd_dataset *data) {
  const hd_split *split[2] = {hd__dataset_train(data), hd__dataset_test(data)};
  static const int size[2] = {60000, 10000};
  for (int s = 0; s < 2; s++) {
    ok(split[s]->count == size[s] && split[s]->channels == 1 && split[s]->height == 28 && split[s]->width == 28 &&
           split[s]->classes == CLASSES,
       "%d %s of 28x28", size[s], part[2 * s]);
    for (int i = 2 * s; i < 2 * s + 2; i++) {
      static uint8_t label[60000];
      size_t bytes = (size_t)size[s] * (i % 2 ? 1 : PIXELS);
      for (int k = 0; k < size[s]; k++)
        label[k] = (uint8_t)split[s]->labels[k];
      uint64_t found = hd__xxh3(i % 2 ? label : split[s]->images, bytes);
      if (!ok(found == checksum[i], "%s: every bit is where it always was", part[i]))
        diag("expected 0x%016llx, found 0x%016llx", (unsigned long long)checksum[i], (unsigned long long)found);
      ok(found == data->statistics.checksum[i], "%s: the checksum of the data set is this one", part[i]);
    }
  }
}

static void test_shares(const hd_split *split, const char *name) {
  int count[256] = {0}, dark = 0, full = 0;
  for (int64_t i = 0; i < split->count; i++) {
    int ink = 0;
    count[split->labels[i]]++;
    for (int p = 0; p < PIXELS; p++)
      ink += split->images[i * PIXELS + p] > 127;
    dark += ink < 10;
    full += ink > PIXELS / 2;
  }
  for (int digit = 0; digit < CLASSES; digit++)
    ok(count[digit] * 100 >= split->count * 8 && count[digit] * 100 <= split->count * 12,
       "%s: between 8 and 12 %% show a %d", name, digit);
  is_int(dark, 0, "%s: none is without ink", name);
  is_int(full, 0, "%s: none is more ink than paper", name);
}

/* Ranges of all lengths, at borders and across them, against the whole. */
static void test_ranges(const hd_dataset *data) {
  static uint8_t image[300 * PIXELS], label[300];
  for (int s = 0; s < 2; s++) {
    const hd_split *split = s ? hd__dataset_test(data) : hd__dataset_train(data);
    int wrong = 0, ranges = 0;
    for (int64_t first = 0; first < split->count; first += 997)
      for (int64_t length = 0; length <= 300; length = 3 * length + 1) {
        int64_t from = first + length > split->count ? split->count - length : first;
        memset(image, 0xaa, sizeof image);
        memset(label, 0xaa, sizeof label);
        hd__digits_render(image, label, s, from, length);
        wrong += memcmp(image, split->images + from * PIXELS, (size_t)(length * PIXELS)) != 0;
        for (int64_t i = 0; i < length; i++)
          wrong += label[i] != split->labels[from + i];
        wrong += length < 300 && (image[length * PIXELS] != 0xaa || label[length] != 0xaa);
        ranges++;
      }
    is_int(wrong, 0, "%s: %d ranges drawn alone are bytes of the whole, and nothing behind them is written",
           part[2 * s], ranges);
  }
  hd__digits_render(image, label, 0, 0, 1);
  hd__digits_render(image + PIXELS, label + 1, 1, 0, 1);
  ok(memcmp(image, image + PIXELS, PIXELS) != 0, "the splits differ");
  hd__digits_render(image, label, 0, HD_DIGITS_TRAIN, 1);
  int same = 0;
  for (int i = 0; i < HD_DIGITS_TEST; i++)
    same += !memcmp(image, hd__dataset_test(data)->images + (size_t)i * PIXELS, PIXELS);
  is_int(same, 0, "beyond the training set comes nothing of the test set");
}

typedef struct drawer {
  const hd_split *split;
  int first, wrong;
} drawer;

static void *draw(void *arg) {
  drawer *d = arg;
  uint8_t image[PIXELS], label;
  for (int i = d->first; i < d->first + 2000; i++) {
    hd__digits_render(image, &label, 0, i, 1);
    d->wrong += label != d->split->labels[i] || memcmp(image, d->split->images + (size_t)i * PIXELS, PIXELS) != 0;
  }
  return NULL;
}

static void test_threads(const hd_dataset *data) {
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  drawer d[THREADS];
  int wrong = 0;
  for (int i = 0; i < THREADS; i++) {
    d[i] = (drawer){hd__dataset_train(data), 500 * i, 0};
    if (pthread_create(&thread[i], NULL, draw, &d[i]) != 0)
      bail_out("expected a thread, found none");
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(thread[i], NULL);
    wrong += d[i].wrong;
  }
  is_int(wrong, 0, "four threads draw overlapping ranges all alike");
}

static void test_no_memory(void) {
  hd_dataset *data;
  hd__alloc_fail_after(3);
  hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = "digits", .ignored = -1});
  held before = held_now();
  int wrong = 0;
  for (long n = 0; n < 4; n++) {
    hd__alloc_fail_after(n);
    hd_status status = hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = "digits", .ignored = -1});
    hd__alloc_fail_after(-1);
    wrong += status != HD_E_NOMEM || data;
  }
  is_int(wrong, 0, "no memory for the data set");
  holds_same(before, "and nothing is left behind");
}

int main(void) {
  hd_dataset *data;
  if (hd_ctx_create(&ctx) != HD_OK ||
      hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = "digits", .ignored = -1}) != HD_OK)
    bail_out("expected the digits, found: %s", hd_ctx_message(ctx));
  test_whole_set(data);
  test_shares(hd__dataset_train(data), "training set");
  test_shares(hd__dataset_test(data), "test set");
  test_ranges(data);
  test_threads(data);
  hd__dataset_close(data);
  test_no_memory();
  hd_ctx_destroy(ctx);
  return done_testing();
}
