/* Samples that cannot be read. Skipped ones have the next readable one in their place, in training, and are left out of
 * evaluation: for any number of workers, wherever samples are kept, whether they fail from the beginning or later.
 * Where they are not to be skipped a run ends with a message that names the sample, and can be resumed. */
#include "scratch.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "data/dataset/dataset.h"
#include "data/formats/formats.h"
#include "data/split/skipped_samples.h"
#include "exec/executor.h"
#include "heddle.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, SAMPLES = 150, TESTS = 40 };

/* What happens to bad samples. */
typedef enum mode { GOOD, FAIL, COPY } mode;

typedef struct store {
  int64_t count;
  int64_t bad[3]; /* -1: none; each has its replacement */
  int64_t stand_in[3];
  atomic_int mode;
} store;

static int64_t len(void *self) { return ((const store *)self)->count; }

static int get(void *self, int64_t index, hd_custom_sample *sample) {
  store *s = self;
  for (int b = 0; b < 3; b++) {
    if (s->bad[b] != index || s->mode == GOOD)
      continue;
    if (s->mode == FAIL) {
      snprintf(sample->why, sizeof sample->why, "tape %d is torn", (int)index);
      return 1;
    }
    index = s->stand_in[b];
    break;
  }
  for (int i = 0; i < PIXELS; i++)
    sample->bytes[i] = (uint8_t)(index * 7 + i * 31 + index % 10 * (i % 10) * 9);
  sample->label = (int32_t)(index / 4 % 10);
  return 0;
}

/* Two neighbours of one class, and the last, for which the first stands. */
static store make_store(int64_t count, mode is) {
  return (store){.count = count, .bad = {17, 18, count - 1}, .stand_in = {19, 19, 0}, .mode = is};
}

/* A run. */
typedef struct trial {
  mode at_opening, in_training, of_tests;
  bool last; /* which is bad too: the first, of another class, stands for it */
  const char *policy, *cache, *workers, *transforms;
  int64_t tests; /* samples */
  const char *resume;
} trial;

typedef struct outcome {
  hd_status status;
  hd_report report;
  char digest[HD_SHA256_TEXT_BYTES], message[1024], out[SCRATCH_PATH_BYTES];
} outcome;

static void set(hd_config *config, hd_ctx *ctx, const char *name, const char *value) {
  if (value && hd_config_set(config, ctx, name, value) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
}

static hd_custom_data describe(store *train, store *test, const char *const *class_names) {
  return (hd_custom_data){.struct_bytes = sizeof(hd_custom_data),
                          .name = "mine",
                          .channels = 1,
                          .height = SIDE,
                          .width = SIDE,
                          .dtype = HD_U8,
                          .classes = 10,
                          .class_names = class_names,
                          .train = train,
                          .test = test,
                          .len = len,
                          .get = get};
}

static outcome run(trial t) {
  static int runs;
  store train = make_store(SAMPLES, t.at_opening), test = make_store(t.tests ? t.tests : TESTS, t.of_tests);
  const hd_custom_data custom = describe(&train, &test, NULL);
  train.bad[2] = t.last ? SAMPLES - 1 : -1;
  outcome o = {0};
  hd_ctx *ctx;
  hd_config *config;
  hd_session *session = NULL;
  hd_ctx_create(&ctx);
  hd_config_create(&config, ctx);
  hd_data_add(ctx, &custom);
  snprintf(o.out, sizeof o.out, "%s", t.resume ? t.resume : in_scratch("run-%d", runs++));
  set(config, ctx, "data", "mine");
  set(config, ctx, "threads", "2");
  set(config, ctx, "resume", t.resume);
  if (!t.resume) {
    set(config, ctx, "out", o.out);
    set(config, ctx, "model", "simplenet");
    set(config, ctx, "batch", "16");
    set(config, ctx, "epochs", "2");
    set(config, ctx, "transforms", t.transforms);
    set(config, ctx, "on-error", t.policy);
  }
  set(config, ctx, "cache", t.cache ? t.cache : "none");
  set(config, ctx, "workers", t.workers ? t.workers : "0");
  o.status = hd_session_create(&session, ctx, config);
  if (o.status == HD_OK) {
    train.mode = (int)t.in_training;
    o.status = hd_session_train(session, ctx, NULL, NULL);
    o.report = *hd_session_report(session);
    snprintf(o.digest, sizeof o.digest, "%s", o.report.weights_sha256);
  }
  snprintf(o.message, sizeof o.message, "%s", hd_ctx_message(ctx));
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return o;
}

static void same(const outcome *found, const outcome *wanted, const char *title) {
  if (!ok(found->status == HD_OK && wanted->status == HD_OK && *found->digest && !strcmp(found->digest, wanted->digest),
          "%s", title))
    diag("%s (%s) and %s (%s)", found->digest, found->message, wanted->digest, wanted->message);
}

static void test_digests(void) {
  static const char *const workers[] = {"0", "1", "4"}, *const kinds[] = {"ram", "none"};
  static const char *const lists[] = {NULL,
                                      "[{random_crop: {size: 28, padding: 2}}, to_float, normalise, one_hot, mixup]"};
  for (int l = 0; l < 2; l++) {
    const outcome copied = run((trial){COPY, COPY, .last = true, .transforms = lists[l]});
    const outcome late = run((trial){GOOD, COPY, .transforms = lists[l]});
    const outcome good = run((trial){GOOD, GOOD, .transforms = lists[l]});
    ok(strcmp(copied.digest, good.digest) && strcmp(late.digest, copied.digest), "copies change the weights");
    for (int w = 0; w < 3; w++) {
      const trial from_now = {
          FAIL, FAIL, .last = true, .policy = "skip", .workers = workers[w], .transforms = lists[l]};
      trial later = from_now;
      later.at_opening = GOOD;
      later.last = false; /* a program's labels are those of the first time */
      const outcome now = run(from_now), then = run(later);
      same(&now, &copied, "what cannot be read from the beginning is as a copy of the next");
      same(&then, &late, "so is what cannot be read later on");
      is_int(now.report.workers, w == 2 ? 4 : w, "%s workers ran", workers[w]);
      is_int(now.report.skipped, 3, "three are counted");
      is_int(then.report.skipped, 2, "two then");
      is_int(now.report.test_skipped, 0, "none of the test set's");
    }
  }
  const outcome copied = run((trial){COPY, COPY, .policy = "skip"});
  for (int k = 0; k < 2; k++) {
    const outcome kept = run((trial){FAIL, FAIL, .policy = "skip", .cache = kinds[k]});
    same(&kept, &copied, "wherever samples are kept");
  }
}

static void test_evaluation(void) {
  const outcome all = run((trial){GOOD, GOOD, GOOD, .policy = "skip"});
  const outcome less = run((trial){GOOD, GOOD, FAIL, .policy = "skip"});
  const outcome short_one = run((trial){GOOD, GOOD, GOOD, .policy = "stop", .tests = 17});
  const outcome shortest = run((trial){GOOD, GOOD, FAIL, .policy = "skip", .tests = 18});
  ok(all.status == HD_OK && less.status == HD_OK && !strcmp(all.digest, less.digest),
     "the weights do not see the tests");
  is_int(less.report.test_skipped, 3, "three tests are left out");
  ok(less.report.test_loss != all.report.test_loss, "of the score");
  is_int(shortest.report.test_skipped, 1, "one test is left out at the end");
  ok(shortest.report.test_loss == short_one.report.test_loss &&
         shortest.report.test_accuracy == short_one.report.test_accuracy &&
         shortest.report.wrong == short_one.report.wrong,
     "the score is that of the others");
  is_int(short_one.report.skipped, -1, "without the option nothing is counted");
}

static void test_stop(void) {
  static const char *const workers[] = {"0", "1", "4"};
  const outcome good = run((trial){GOOD, GOOD, .policy = "stop"});
  for (int w = 0; w < 3; w++) {
    const outcome ended = run((trial){GOOD, FAIL, .policy = "stop", .workers = workers[w]});
    is_int(ended.status, HD_E_IO, "a run that cannot read on ends");
    ok(strstr(ended.message, " is torn") && strstr(ended.message, "--resume"), "and says why, and how to go on");
    const outcome resumed = run((trial){GOOD, GOOD, .resume = ended.out, .workers = workers[w]});
    same(&resumed, &good, "once fixed it comes to the same weights");
  }
  const outcome refused = run((trial){FAIL, FAIL, .policy = "stop"});
  ok(refused.status == HD_E_IO && strstr(refused.message, "sample 17") && strstr(refused.message, "tape 17 is torn"),
     "what cannot be read from the beginning does not begin");
}

static hd_dataset *open_mine(hd_ctx *ctx, hd_cache_choice cache) {
  hd_dataset *data = NULL;
  hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = "mine", .ignored = -1, .cache = cache, .skip = true});
  return data;
}

/* Nothing to go on with, and nothing to remember it by. */
static void test_no_memory(void) {
  for (int kind = 0; kind < 3; kind++) {
    store train = make_store(SAMPLES, kind == 2 ? GOOD : FAIL), test = make_store(TESTS, FAIL);
    const hd_custom_data custom = describe(&train, &test, NULL);
    hd_ctx *ctx;
    hd_dataset *data = NULL;
    hd_ctx_create(&ctx);
    hd_data_add(ctx, &custom);
    hd__dataset_close(open_mine(ctx, (hd_cache_choice)(2 * kind)));
    held before = held_now();
    survives_no_memory((data = open_mine(ctx, (hd_cache_choice)(2 * kind))) ? HD_OK : HD_E_NOMEM, true, ctx, "memory",
                       1, "an opening");
    ok(data && hd__skips_count(hd__dataset_train(data)) == (kind == 2 ? 0 : 3), "the bad samples are skipped");
    hd__dataset_close(data);
    holds_same(before, "they leave nothing behind");
    hd_ctx_destroy(ctx);
  }
}

static void test_look(void) {
  store train = make_store(SAMPLES, FAIL), test = make_store(TESTS, FAIL);
  static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
  const hd_custom_data custom = describe(&train, &test, names);
  hd_ctx *ctx;
  hd_config *config;
  hd_data_look *look;
  hd_ctx_create(&ctx);
  hd_config_create(&config, ctx);
  hd_data_add(ctx, &custom);
  set(config, ctx, "data", "mine");
  is_int(hd_data_look_create(&look, ctx, config), HD_E_IO, "a look stops where a run would");
  ok(!look && strstr(hd_ctx_message(ctx), "tape 17 is torn"), "and says why");
  set(config, ctx, "on-error", "skip");
  held before = held_now();
  survives_no_memory(hd_data_look_create(&look, ctx, config), !look, ctx, "memory", 1, "a look");
  if (look) {
    const hd_data_facts *f = hd_data_look_facts(look);
    ok(f->samples[0] == SAMPLES && f->samples[1] == TESTS && f->bytes[0] == SAMPLES * PIXELS && f->classes == 10 &&
           f->class_names == names && f->dtype == HD_U8 && f->largest[1] == SIDE && f->smallest[0] == SIDE,
       "sizes and shapes without reading all");
    ok(f->per_class[0][0] == 17 && f->per_class[0][4] == 16 && f->per_class[0][7] == 13,
       "replacements count in their classes");
    is_int(f->bad_count, 6, "and all that cannot be read");
    static const int64_t bad[6] = {17, 18, SAMPLES - 1, 17, 18, TESTS - 1};
    for (int i = 0; i < 6 && i < f->bad_count; i++) {
      char why[64];
      snprintf(why, sizeof why, "tape %d is torn", (int)bad[i]);
      ok(f->bad[i].part == i / 3 && f->bad[i].sample == bad[i] && strstr(f->bad[i].why, why), "which is %s", why);
    }
    survives_no_memory(hd_data_look_sheet(look, ctx, in_scratch("sheet.png")), true, ctx, "memory", 1, "a sheet");
    is_int(hd_data_look_sheet(look, ctx, in_scratch("nowhere/sheet.png")), HD_E_IO, "a sheet goes where it can go");
    hd_data_look_destroy(look);
  }
  holds_same(before, "nothing is left behind");
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
}

/* ---- What a source is given ---- */

/* Whether nothing but the message of the context is anything but zero. */
static hd_status look_at_context(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows,
                                 const hd_slots *to) {
  const unsigned char *at = (const unsigned char *)ctx;
  bool *clear = self;
  *clear = true;
  for (size_t i = HD_MESSAGE_BYTES; i < sizeof *ctx; i++)
    *clear = *clear && at[i] == 0;
  return HD_OK;
}

__attribute__((noinline)) static void fill_stack(void) {
  volatile unsigned char used[1 << 15];
  for (size_t i = 0; i < sizeof used; i++)
    used[i] = 0xa5;
}

static void test_context(void) {
  bool clear = false;
  const hd_step_source source = {.self = &clear, .fetch = look_at_context};
  hd_exec_caller caller = {.source = &source, .lock = PTHREAD_MUTEX_INITIALIZER};
  fill_stack();
  const uint32_t flags = hd__exec_fetch(&caller, &(hd_step){0}, 0, 1, &(hd_slots){0});
  ok(flags == 0 && clear, "the context of a fetch has no services, not those that memory held before");
}

int main(void) {
  test_context();
  test_digests();
  test_evaluation();
  test_stop();
  test_no_memory();
  test_look();
  return done_testing();
}
