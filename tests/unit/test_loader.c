/* Loaders: the same batches with any number of workers, in every epoch, from any start; custom samplers;
 * starts and ends without a leak. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heddle/dataset.h"
#include "heddle/loader.h"
#include "tap.h"

enum { SAMPLES = 8192, BATCH = 100, SIDE = 5, ELEMS = SIDE * SIDE };

static hd_ctx *ctx;

static const char augmented[] = "[{random_crop: {size: 5, padding: 2}}, horizontal_flip, to_float, normalise]";

static hd_config *config_of(const char *const *settings) {
  hd_config *config;
  hd_config_create(&config, ctx);
  hd_config_set(config, ctx, "data", "random:1x5x5");
  hd_config_set(config, ctx, "batch", "100");
  for (; settings && *settings; settings += 2)
    if (hd_config_set(config, ctx, settings[0], settings[1]) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  return config;
}

static hd_loader *make(const char *const *settings, hd_loader_part part, hd_sampler *sampler) {
  hd_config *config = config_of(settings);
  hd_loader *loader;
  if (hd_loader_create(&loader, ctx, config, part, sampler) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd_config_destroy(config);
  return loader;
}

static uint64_t mix(uint64_t hash, const void *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    hash = (hash ^ ((const uint32_t *)words)[i]) * 1099511628211u;
  return hash;
}

/* What `most` batches hold from where the loader is, and how many samples they were; 0 where one fails. */
static uint64_t read_on(int64_t *samples, hd_loader *loader, int64_t most) {
  uint64_t hash = 14695981039346656037u;
  const hd_batch *b;
  *samples = 0;
  for (int64_t n = 0; n < most; n++) {
    if (hd_loader_next(&b, loader, ctx) != HD_OK)
      return 0;
    if (b->count == 0)
      break;
    if (b->first != *samples && most > SAMPLES)
      return 0;
    for (int64_t i = 0; i < b->count; i++) {
      hash = mix(hash, b->x + i * b->stride, ELEMS);
      hash = mix(hash, b->label + i * b->stride, 1);
    }
    *samples += b->count;
  }
  return hash;
}

static uint64_t read_epoch(hd_loader *loader, uint32_t epoch, int64_t *samples) {
  hd_loader_begin(loader, ctx, epoch);
  return read_on(samples, loader, SAMPLES + 1);
}

static void test_workers(const char *transforms) {
  static const char *const workers[] = {"1", "2", "8"};
  const char *alone[] = {"transforms", transforms, NULL};
  hd_loader *own = make(alone, HD_LOADER_TRAINING, NULL);
  int64_t samples;
  uint64_t first = read_epoch(own, 0, &samples), second = read_epoch(own, 1, &samples);
  is_int(samples, SAMPLES, "an epoch has all samples");
  ok(first && second && first != second, "two epochs differ");
  is_int(hd_loader_shape_of(own)->batches, (SAMPLES + BATCH - 1) / BATCH, "the last batch is short");
  is_int(hd_loader_shape_of(own)->workers, 0, "without workers");
  ok(read_epoch(own, 0, &samples) == first, "and again the first");
  hd_loader_destroy(own);
  for (int w = 0; w < 3; w++) {
    const char *with[] = {"transforms", transforms, "workers", workers[w], "prefetch-factor", w ? "2" : "1", NULL};
    hd_loader *loader = make(with, HD_LOADER_TRAINING, NULL);
    is_int(hd_loader_shape_of(loader)->workers, atoi(workers[w]), "%s workers run", workers[w]);
    ok(read_on(&samples, loader, SAMPLES + 1) == first, "the same first epoch");
    ok(read_epoch(loader, 1, &samples) == second && samples == SAMPLES, "the same second one");
    read_epoch(loader, 7, &samples);
    hd_loader_begin(loader, ctx, 1);
    read_on(&samples, loader, 3);
    is_int(samples, 3 * BATCH, "a beginning");
    ok(read_epoch(loader, 0, &samples) == first, "and back to the first epoch");
    hd_loader_destroy(loader);
  }
}

static void test_parts(void) {
  const char *plain[] = {"workers", "2", NULL}, *dropped[] = {"drop-last", "true", "no-shuffle", "true", NULL};
  hd_loader *test = make(plain, HD_LOADER_TEST, NULL), *full = make(dropped, HD_LOADER_TRAINING, NULL);
  const hd_loader_shape *shape = hd_loader_shape_of(test);
  int64_t samples;
  ok(shape->samples == 1024 && shape->channels == 1 && shape->height == SIDE && shape->width == SIDE &&
         shape->classes == 10 && shape->outputs == 0,
     "the test set has another shape");
  uint64_t order = read_epoch(test, 0, &samples);
  is_int(samples, 1024, "whose samples are read");
  ok(order && order == read_epoch(test, 3, &samples), "and one order for all epochs");
  order = read_epoch(full, 0, &samples);
  ok(order && order == read_epoch(full, 1, &samples), "no-shuffle: the order of the file");
  is_int(samples, SAMPLES / BATCH * BATCH, "drop-last: full batches only");
  is_int(hd_loader_shape_of(full)->samples, samples, "and as many samples as it says");
  hd_loader_destroy(test);
  hd_loader_destroy(full);
}

static void test_samplers(void) {
  const int64_t members[] = {5, 3, 8000};
  const char *plain[] = {"workers", "1", NULL}, *none[] = {NULL};
  hd_sampler *sampler;
  const hd_batch *b;
  float wanted[ELEMS];
  hd_loader *loader = make((const char *const[]){"no-shuffle", "true", NULL}, HD_LOADER_TRAINING, NULL);
  hd_loader_next(&b, loader, ctx);
  memcpy(wanted, b->x + 3 * b->stride, sizeof wanted);
  hd_loader_destroy(loader);
  hd_sampler_subset(&sampler, ctx, members, 3, SAMPLES, 0);
  loader = make(plain, HD_LOADER_TRAINING, sampler);
  hd_loader_next(&b, loader, ctx);
  is_int(b->count, 3, "a subset's samples");
  is_bytes(b->x + b->stride, wanted, sizeof wanted, "in its order");
  hd_loader_destroy(loader);
  int64_t all = 0, samples;
  for (int rank = 0; rank < 3; rank++) {
    hd_sampler_random(&sampler, ctx, SAMPLES);
    hd_sampler_distribute(sampler, ctx, rank, 3);
    loader = make(plain, HD_LOADER_TRAINING, sampler);
    read_epoch(loader, 0, &samples);
    all += samples;
    hd_loader_destroy(loader);
  }
  is_int(all, SAMPLES, "three ranks have all samples together");
  hd_config *config = config_of(none);
  hd_sampler_random(&sampler, ctx, SAMPLES + 1);
  ok(hd_loader_create(&loader, ctx, config, HD_LOADER_TRAINING, sampler) == HD_E_USAGE && !loader, "refused: %s",
     hd_ctx_message(ctx));
  hd_config_set(config, ctx, "batch", "8193");
  hd_config_set(config, ctx, "drop-last", "true");
  ok(hd_loader_create(&loader, ctx, config, HD_LOADER_TRAINING, NULL) == HD_E_USAGE && !loader, "refused: %s",
     hd_ctx_message(ctx));
  hd_config_set(config, ctx, "data", "/nonesuch");
  hd_sampler_random(&sampler, ctx, SAMPLES);
  ok(hd_loader_create(&loader, ctx, config, HD_LOADER_TRAINING, sampler) != HD_OK && !loader, "refused: %s",
     hd_ctx_message(ctx));
  hd_config_destroy(config);
}

static void test_starts_and_ends(void) {
  static const char *const workers[] = {"1", "2", "3", "8"};
  int64_t right = 0, samples;
  for (int i = 0; i < 200; i++) {
    const char *with[] = {"workers", workers[i % 4], NULL};
    hd_loader *loader = make(with, i % 3 ? HD_LOADER_TRAINING : HD_LOADER_TEST, NULL);
    read_on(&samples, loader, i % 5);
    right += samples == i % 5 * BATCH;
    hd_loader_destroy(loader);
  }
  is_int(right, 200, "200 starts, and ends in the middle of an epoch");
  hd_loader_destroy(NULL);
}

/* 1000 samples, 900 of which are of class 0, 90 of class 1 and 10 of class 3; none is of class 2. */
static int64_t skewed_len(void *self) { return 1000; }

static int skewed_get(void *self, int64_t index, hd_custom_sample *sample) {
  for (int i = 0; i < ELEMS; i++)
    sample->bytes[i] = (uint8_t)(index >> (i % 2 * 8));
  sample->label = index % 100 == 0 ? 3 : index % 10 == 0 ? 1 : 0;
  return 0;
}

static void test_balanced(void) {
  static hd_custom_data skewed = {.struct_bytes = sizeof skewed,
                                  .name = "skewed",
                                  .channels = 1,
                                  .height = SIDE,
                                  .width = SIDE,
                                  .dtype = HD_U8,
                                  .classes = 4,
                                  .len = skewed_len,
                                  .get = skewed_get};
  enum { EPOCHS = 20 };
  skewed.train = skewed.test = &skewed;
  hd_data_add(ctx, &skewed);
  int64_t count[4] = {0}, samples;
  const hd_batch *b;
  hd_loader *loader =
      make((const char *const[]){"data", "skewed", "sampler", "balanced", NULL}, HD_LOADER_TRAINING, NULL);
  hd_loader *ahead = make((const char *const[]){"data", "skewed", "sampler", "balanced", "workers", "3", NULL},
                          HD_LOADER_TRAINING, NULL);
  for (uint32_t e = 0; e < EPOCHS; e++) {
    hd_loader_begin(loader, ctx, e);
    while (hd_loader_next(&b, loader, ctx) == HD_OK && b->count > 0)
      for (int64_t i = 0; i < b->count; i++)
        count[b->label[i * b->stride]]++;
  }
  ok(count[0] + count[1] + count[3] == EPOCHS * 1000 && count[2] == 0, "balanced: as many draws as samples");
  for (int c = 0; c < 4; c += c == 1 ? 2 : 1)
    ok(count[c] > 6400 && count[c] < 6930, "class %d has a third of them (%d)", c, (int)count[c]);
  ok(read_epoch(loader, 5, &samples) == read_epoch(ahead, 5, &samples) && samples == 1000, "workers change nothing");
  ok(read_epoch(loader, 5, &samples) != read_epoch(loader, 6, &samples), "epochs differ");
  hd_loader_destroy(loader);
  hd_loader_destroy(ahead);
  hd_config *config = config_of((const char *const[]){"sampler", "balanced", "no-shuffle", "true", NULL});
  is_int(hd_loader_create(&loader, ctx, config, HD_LOADER_TRAINING, NULL), HD_E_USAGE, "two orders are one too many");
  hd_config_destroy(config);
}

int main(void) {
  alarm(60); /* a loader that hangs is a failure, too */
  hd_ctx_create(&ctx);
  test_workers("[to_float, normalise]");
  test_workers(augmented);
  test_parts();
  test_samplers();
  test_balanced();
  test_starts_and_ends();
  hd_ctx_destroy(ctx);
  return done_testing();
}
