/* What a feed gives: the order of an epoch, the split of a training set into one to train and one to validate on,
 * samples and their indices; and which of several failures to read samples a run ends with. */
#include "tap.h"

#include "data/feed/feed.h"

enum { SAMPLES = 1003 };

/* Sample i is one pixel of value i mod 256 and has the label i mod 7. */
static uint8_t images[SAMPLES];
static int32_t labels[SAMPLES];
static const hd_split data = {
    .images = images, .labels = labels, .count = SAMPLES, .channels = 1, .height = 1, .width = 1, .classes = 7};

static void open_feed(hd_feed *feed, hd_ctx *ctx) {
  const double mean = 0, std = 1.0 / 255; /* pixels come as they are */
  hd__feed_init(feed, ctx, &data, hd__kernels_reference(), &mean, &std);
}

static void shuffle(hd_feed *feed, hd_ctx *ctx) {
  hd_sampler *sampler;
  hd_sampler_random(&sampler, ctx, feed->count);
  hd__feed_sample_by(feed, ctx, sampler);
}

/* How many of two feeds' samples, taken together, are missing or come twice. */
static int misplaced(const hd_feed *a, const hd_feed *b) {
  int seen[SAMPLES] = {0}, wrong = 0;
  for (int64_t i = 0; i < a->count; i++)
    seen[hd__feed_sample(a, 0, i)]++;
  for (int64_t i = 0; i < b->count; i++)
    seen[hd__feed_sample(b, 0, i)]++;
  for (int i = 0; i < SAMPLES; i++)
    wrong += seen[i] != 1;
  return wrong;
}

static int descents(const hd_feed *feed) {
  int found = 0;
  for (int64_t i = 1; i < feed->count; i++)
    found += hd__feed_sample(feed, 0, i) <= hd__feed_sample(feed, 0, i - 1);
  return found;
}

static int differing(const hd_feed *a, const hd_feed *b) {
  int found = a->count != b->count;
  for (int64_t i = 0; i < a->count && i < b->count; i++)
    found += hd__feed_sample(a, 0, i) != hd__feed_sample(b, 0, i);
  return found;
}

static void test_split(hd_ctx *ctx) {
  hd_feed train, held, again, held_again;
  open_feed(&train, ctx);
  open_feed(&again, ctx);
  ok(hd__feed_hold_out(&held, &train, ctx, 0.1, 5) == HD_OK, "a tenth is held out");
  is_int(held.count, 100, "rounded to whole samples");
  is_int(train.count, SAMPLES - 100, "the others train");
  is_int(misplaced(&train, &held), 0, "together they are all samples, once each");
  is_int(descents(&train) + descents(&held), 0, "both in file order");
  hd__feed_hold_out(&held_again, &again, ctx, 0.1, 5);
  is_int(differing(&held, &held_again), 0, "the same seed holds the same samples out");
  shuffle(&again, ctx);
  hd__feed_shuffle(&again, 5, 0);
  is_int(misplaced(&again, &held), 0, "an epoch's order has every sample that trains, and no other");
  ok(descents(&again) > 300, "shuffled");
  hd__feed_fini(&again);
  hd__feed_fini(&held_again);
  open_feed(&again, ctx);
  hd__feed_hold_out(&held_again, &again, ctx, 0.1, 6);
  ok(differing(&held, &held_again) > 80, "another seed others");
  hd__feed_fini(&again);
  hd__feed_fini(&held_again);
  open_feed(&again, ctx);
  hd__feed_hold_out(&held_again, &again, ctx, 0.3, 5);
  int lost = 0;
  for (int64_t i = 0, j = 0; i < held.count; i++) {
    while (j < held_again.count && hd__feed_sample(&held_again, 0, j) < hd__feed_sample(&held, 0, i))
      j++;
    lost += j == held_again.count || hd__feed_sample(&held_again, 0, j) != hd__feed_sample(&held, 0, i);
  }
  is_int(lost, 0, "a larger share holds out the same and more");
  hd__feed_fini(&again);
  hd__feed_fini(&held_again);
  hd__feed_fini(&train);
  hd__feed_fini(&held);
}

static void test_fetch(hd_ctx *ctx) {
  hd_feed train, held;
  float pixel[SAMPLES];
  int32_t label[SAMPLES];
  int wrong = 0;
  open_feed(&train, ctx);
  hd__feed_hold_out(&held, &train, ctx, 0.5, 1);
  shuffle(&train, ctx);
  ok(hd__feed_shuffle(&train, 1, 3) && hd__feed_shuffle(&train, 1, 4), "two epochs have their orders");
  ok(!hd__feed_shuffle(&train, 1, 3), "the first of them is still there");
  hd__feed_read(&train, ctx, 3, 10, 200, &(hd_slots){.x = pixel, .x_stride = 1, .target = label, .target_stride = 1});
  for (int i = 0; i < 200; i++) {
    int64_t sample = hd__feed_sample(&train, 3, 10 + i);
    wrong += fabs((double)pixel[i] - (double)(sample % 256)) > 1e-3 || label[i] != sample % 7;
  }
  is_int(wrong, 0, "what is fetched are those samples, with their labels");
  hd__feed_read(&train, ctx, 3, 10, 200, &(hd_slots){.sample = label});
  for (int i = wrong = 0; i < 200; i++)
    wrong += label[i] != hd__feed_sample(&train, 3, 10 + i);
  is_int(wrong, 0, "or their indices");
  hd__feed_fini(&train);
  hd__feed_fini(&held);
}

static void test_bounds(hd_ctx *ctx) {
  static const double bad[] = {0.0001, 0.9999, 1};
  int wrong = 0;
  for (int i = 0; i < 3; i++) {
    hd_feed train, held;
    open_feed(&train, ctx);
    wrong +=
        hd__feed_hold_out(&held, &train, ctx, bad[i], 0) != HD_E_USAGE || !strstr(hd_ctx_message(ctx), "--val-split");
    hd__feed_fini(&train);
    hd__feed_fini(&held);
  }
  is_int(wrong, 0, "a share that leaves one side without samples is refused");
}

static hd_status fetch_nothing(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows,
                               const hd_slots *to) {
  (void)self, (void)rows, (void)to;
  return first == 4 ? HD_OK : hd__fail(ctx, HD_E_FORMAT, "sample %lld", (long long)(step->cursor + first));
}

static void test_failures(void) {
  const hd_step_source source = {.fetch = fetch_nothing};
  const hd_step step = {.cursor = 100};
  hd_exec_caller caller = {.source = &source, .lock = PTHREAD_MUTEX_INITIALIZER};
  ok(hd__exec_fetch(&caller, &step, 4, 1, NULL) == 0 && caller.fault.status == HD_OK, "samples that are read");
  int flags = HD_FLAG_NO_DATA;
  for (int64_t first = 9; first >= 5; first -= 2)
    flags &= (int)hd__exec_fetch(&caller, &step, first, 1, NULL);
  flags &= (int)hd__exec_fetch(&caller, &step, 8, 1, NULL);
  is_int(flags, HD_FLAG_NO_DATA, "samples that are not end the step");
  is_int(caller.fault.status, HD_E_FORMAT, "with the error");
  is_str(caller.fault.message, "sample 105", "of the first of them");
}

int main(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  for (int i = 0; i < SAMPLES; i++) {
    images[i] = (uint8_t)i;
    labels[i] = i % 7;
  }
  test_split(ctx);
  test_fetch(ctx);
  test_bounds(ctx);
  test_failures();
  hd_ctx_destroy(ctx);
  return done_testing();
}
