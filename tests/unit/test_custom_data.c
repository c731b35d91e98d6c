/* Custom data sets: samples, labels and targets arrive through three callbacks, whatever is cached, or are arrays,
 * which are not copied; an error names the sample; free is called once. */
#include "scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "data/dataset/dataset.h"
#include "data/dataset/format.h"
#include "data/formats/formats.h"
#include "heddle.h"

enum { PIXELS = 6 };

typedef struct store {
  int64_t count;
  int64_t bad; /* a sample that cannot be had, -1: none */
  int32_t label_of_bad;
  float target_of_bad;
  atomic_int freed, asked;
} store;

static int64_t len(void *self) { return ((const store *)self)->count; }

static uint8_t pixel(int64_t index, int i) { return (uint8_t)(index * 7 + i * 31); }

static int get(void *self, int64_t index, hd_custom_sample *sample) {
  store *s = self;
  s->asked++;
  for (int i = 0; i < PIXELS; i++)
    if (sample->bytes)
      sample->bytes[i] = pixel(index, i);
    else
      sample->floats[i] = (float)pixel(index, i) / 8;
  sample->label = (int32_t)(index % 3);
  if (sample->targets) {
    sample->targets[0] = (float)index;
    sample->targets[1] = index == s->bad ? s->target_of_bad : -1;
  }
  if (index != s->bad)
    return 0;
  sample->label = s->label_of_bad;
  snprintf(sample->why, sizeof sample->why, "the tape is torn\n");
  return s->label_of_bad == 0;
}

static void release(void *self) { ((store *)self)->freed++; }

static hd_custom_data describe(store *train, store *test, hd_dtype dtype) {
  return (hd_custom_data){.struct_bytes = sizeof(hd_custom_data),
                          .name = "mine",
                          .channels = 1,
                          .height = 2,
                          .width = 3,
                          .dtype = dtype,
                          .classes = 3,
                          .train = train,
                          .test = test,
                          .len = len,
                          .get = get,
                          .free = release};
}

static int wrong_in(const hd_split *split, hd_ctx *ctx) {
  int wrong = 0, size[2];
  float elems[PIXELS];
  for (int64_t n = 0; n < split->count; n++) {
    wrong += hd__split_get(elems, size, ctx, split, n) != HD_OK || size[0] != 2 || size[1] != 3;
    for (int i = 0; i < PIXELS; i++)
      wrong += split->elem == HD_ELEM_U8 ? ((uint8_t *)elems)[i] != pixel(n, i) : elems[i] != (float)pixel(n, i) / 8;
    wrong += split->labels ? split->labels[n] != n % 3 : split->targets[2 * n] != (float)n;
  }
  return wrong;
}

static void test_good(void) {
  static const hd_cache_choice kind[] = {HD_CACHE_RAM, HD_CACHE_NONE, HD_CACHE_DISK};
  uint64_t sums[HD_DATA_PARTS] = {0}; /* when all is kept */
  for (int way = 0; way < 9; way++) {
    store train = {.count = 50, .bad = -1}, test = {.count = 20, .bad = -1};
    hd_custom_data custom = describe(&train, &test, way / 3 == 0 ? HD_U8 : HD_F32);
    hd_ctx *ctx;
    hd_dataset *data;
    char title[96];
    snprintf(title, sizeof title, "%s, cache %d", way / 3 == 2 ? "targets" : way / 3 ? "floats" : "bytes", way % 3);
    if (way / 3 == 2)
      custom.classes = 0, custom.outputs = 2;
    hd_ctx_create(&ctx);
    is_int(hd_data_add(ctx, &custom), HD_OK, "%s: is registered", title);
    if (is_int(
            hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = "mine", .ignored = -1, .cache = kind[way % 3]}),
            HD_OK, "%s: opens", title)) {
      const int asked = train.asked;
      is_int(wrong_in(hd__dataset_train(data), ctx) + wrong_in(hd__dataset_test(data), ctx), 0, "%s: is what get gave",
             title);
      if (way % 3 == 0)
        memcpy(sums, data->statistics.checksum, sizeof sums);
      ok(!memcmp(sums, data->statistics.checksum, sizeof sums), "%s: has the checksums that it has in memory", title);
      is_int(train.asked - asked, way % 3 == 1 ? 50 : 0, "%s: cached samples are not read again", title);
      hd__dataset_close(data);
    } else
      diag("%s", hd_ctx_message(ctx));
    is_int(train.freed + test.freed, 0, "%s: closing frees nothing", title);
    hd_ctx_destroy(ctx);
    ok(train.freed == 1 && test.freed == 1, "%s: the context's end frees both, once", title);
  }
}

static void test_fifth(void) {
  store all = {.count = 40, .bad = -1};
  hd_custom_data custom = describe(&all, NULL, HD_U8);
  hd_ctx *ctx;
  hd_dataset *data;
  hd_ctx_create(&ctx);
  hd_data_add(ctx, &custom);
  is_int(hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = "mine", .ignored = -1}), HD_OK,
         "without a test set");
  ok(data && hd__dataset_train(data)->count == 32 && hd__dataset_test(data)->count == 8, "a fifth becomes it");
  int wrong = 0;
  for (int64_t i = 0; data && i < 8; i++) {
    const hd_split *test = hd__dataset_test(data);
    int64_t n = 0;
    while (n < 40 && pixel(n, 0) != test->images[i * PIXELS])
      n++;
    wrong += test->labels[i] != n % 3;
  }
  is_int(wrong, 0, "with its labels");
  int of_class[3] = {0};
  for (int64_t i = 0; data && i < 8; i++)
    of_class[hd__dataset_test(data)->labels[i]]++;
  ok(of_class[0] >= 2 && of_class[1] >= 2 && of_class[2] >= 2, "a fifth of each class: %d, %d and %d", of_class[0],
     of_class[1], of_class[2]);
  hd__dataset_close(data);
  hd_ctx_destroy(ctx);
  is_int(all.freed, 1, "and is freed once");
}

static void refused(store *train, hd_custom_data custom, hd_status want, const char *says, const char *title) {
  store test = {.count = 5, .bad = -1};
  hd_ctx *ctx;
  hd_dataset *data;
  hd_ctx_create(&ctx);
  custom.test = &test;
  custom.train = train;
  hd_status status = hd_data_add(ctx, &custom);
  if (status == HD_OK)
    status =
        hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = custom.name, .ignored = -1, .cache = HD_CACHE_NONE});
  refuses(status, want, ctx, "", says, "%s is refused", title);
  hd_ctx_destroy(ctx);
}

static void test_bad(void) {
  store train = {.count = 50, .bad = 17};
  hd_custom_data custom = describe(&train, NULL, HD_F32), other;
  refused(&train, custom, HD_E_IO, "sample 17: the get function failed: the tape is torn", "a failed get");
  train.label_of_bad = 3;
  refused(&train, custom, HD_E_FORMAT, "expected labels from 0 to 2, found 3 in sample 17", "a label too large");
  train.label_of_bad = -1;
  refused(&train, custom, HD_E_FORMAT, "found -1 in sample 17", "a negative label");
  other = custom, other.classes = 0, other.outputs = 2, train.label_of_bad = 1, train.target_of_bad = INFINITY;
  refused(&train, other, HD_E_FORMAT, "NaN or infinity in sample 17", "an infinite target");
  train.count = 0;
  refused(&train, custom, HD_E_FORMAT, "found a len of 0", "an empty set");
  train.count = -5;
  refused(&train, custom, HD_E_FORMAT, "found a len of -5", "a negative length");
  train.count = 50;
  other = custom, other.name = "digits";
  refused(&train, other, HD_E_USAGE, "found 'digits'", "a built-in name");
  other.name = "sums";
  refused(&train, other, HD_E_USAGE, "found 'sums'", "another built-in name");
  other.name = "a/b";
  refused(&train, other, HD_E_USAGE, "found 'a/b'", "a name that is a path");
  other = custom, other.channels = 65;
  refused(&train, other, HD_E_USAGE, "found 65x2x3", "65 channels");
  other = custom, other.width = 0;
  refused(&train, other, HD_E_USAGE, "found 1x2x0", "no width");
  other = custom, other.dtype = HD_I32;
  refused(&train, other, HD_E_USAGE, "HD_U8 or HD_F32", "another type");
  other = custom, other.outputs = 1;
  refused(&train, other, HD_E_USAGE, "one of the two", "classes and targets");
  other = custom, other.get = NULL;
  refused(&train, other, HD_E_USAGE, "found no get", "no get");
}

/* Opens a set whose sample 17 has the label that is ignored: 7, beside the classes 0, 1 and 2, or the last of these. */
static hd_dataset *opens_late(hd_ctx **ctx, store *train, hd_custom_data custom, hd_dataset_request request) {
  hd_dataset *data = NULL;
  *train = (store){.count = 50, .bad = 17, .label_of_bad = request.ignored};
  custom.train = train;
  request.name = custom.name;
  hd_ctx_create(ctx);
  hd_status status = hd_data_add(*ctx, &custom);
  if (status == HD_OK)
    status = hd__dataset_open(&data, *ctx, &request);
  if (status != HD_OK)
    diag("%s", hd_ctx_message(*ctx));
  return data;
}

static void test_ignored(void) {
  static const hd_cache_choice kind[] = {HD_CACHE_RAM, HD_CACHE_NONE};
  store train, test = {.count = 5, .bad = -1};
  hd_ctx *ctx;
  for (int way = 0; way < 8; way++) {
    const bool counted = way / 2 % 2, whole = way / 4;
    hd_custom_data custom = describe(&train, whole ? NULL : &test, HD_U8);
    custom.classes = counted ? 8 : 3; /* as one more than the largest label, and as the caller means it */
    hd_dataset *data =
        opens_late(&ctx, &train, custom, (hd_dataset_request){.ignored = 7, .cache = kind[way % 2], .whole = whole});
    ok(data && hd__dataset_train(data)->classes == 3 && hd__dataset_test(data)->classes == 3 &&
           hd__dataset_train(data)->labels[17] == 7 && hd__dataset_train(data)->labels[16] == 1,
       "%s, cache %d, %s: a label that is ignored is no class", whole ? "whole" : "with a test set", way % 2,
       counted ? "counted" : "beside the classes");
    hd__dataset_close(data);
    hd_ctx_destroy(ctx);
  }
}

/* A run's classes have other numbers, of which its loss may ignore one. */
static void test_names(void) {
  static const char *const names[] = {"red", "green", "blue"}, *const of_run[] = {"blue", "red", "green"};
  static const hd_cache_choice kind[] = {HD_CACHE_RAM, HD_CACHE_NONE};
  store train, test = {.count = 5, .bad = -1};
  hd_ctx *ctx;
  for (int way = 0; way < 4; way++) {
    hd_custom_data custom = describe(&train, &test, HD_U8);
    custom.class_names = names;
    const int ignored = way / 2 ? 2 : 7;
    hd_dataset *data = opens_late(
        &ctx, &train, custom,
        (hd_dataset_request){.ignored = ignored, .cache = kind[way % 2], .classes = {of_run, 3}, .of_run = true});
    int wrong = !data;
    for (int64_t i = 0; i < 50 && data; i++)
      wrong += hd__dataset_train(data)->labels[i] != (i == 17 && ignored == 7 ? 7 : (i % 3 + 1) % 3);
    for (int64_t i = 0; i < 5 && data; i++)
      wrong += hd__dataset_test(data)->labels[i] != (i % 3 + 1) % 3;
    is_int(wrong, 0, "cache %d, %d ignored: labels get the numbers that their names have in a run", way % 2, ignored);
    hd__dataset_close(data);
    hd_ctx_destroy(ctx);
  }
}

/* A run on it, and one on the same samples kept elsewhere, end with the same weights. */
static void train_on(char digest[HD_SHA256_TEXT_BYTES], const char *cache, const char *threads) {
  static const char model[] =
      "model: m\ninput: [1, 2, 3]\nlayers:\n  - flat: {op: flatten}\n  - fc: {op: linear, out: 3}\n";
  store train = {.count = 90, .bad = -1}, test = {.count = 20, .bad = -1};
  const hd_custom_data custom = describe(&train, &test, HD_U8);
  const char *const pair[] = {
      "data", "mine",  "model", model,     "batch", "16",  "epochs",
      "2",    "cache", cache,   "threads", threads, "out", in_scratch("run-%s-%s", cache, threads)};
  hd_ctx *ctx;
  hd_config *config;
  hd_session *session = NULL;
  hd_ctx_create(&ctx);
  hd_data_add(ctx, &custom);
  hd_config_create(&config, ctx);
  hd_status status = HD_OK;
  for (int i = 0; i < 14 && status == HD_OK; i += 2)
    status = hd_config_set(config, ctx, pair[i], pair[i + 1]);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, NULL, NULL);
  if (!is_int(status, HD_OK, "a run with cache %s on %s threads", cache, threads))
    diag("%s", hd_ctx_message(ctx));
  snprintf(digest, HD_SHA256_TEXT_BYTES, "%s", session ? hd_session_report(session)->weights_sha256 : "");
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
}

static void test_runs(void) {
  char digest[3][HD_SHA256_TEXT_BYTES];
  train_on(digest[0], "ram", "1");
  train_on(digest[1], "none", "2");
  train_on(digest[2], "none", "1");
  ok(strlen(digest[0]) == 64, "it has a digest");
  is_str(digest[1], digest[0], "samples decoded by the threads give the same weights");
  is_str(digest[2], digest[0], "by one thread too");
}

/* ---- Arrays ---- */

enum { COUNT = 40 };

typedef struct rows {
  uint8_t bytes[COUNT * PIXELS];
  float floats[COUNT * PIXELS], targets[COUNT * 2];
  int32_t labels[COUNT];
  hd_custom_arrays arrays;
} rows;

static void fill(rows *r) {
  for (int n = 0; n < COUNT; n++) {
    for (int i = 0; i < PIXELS; i++) {
      r->bytes[n * PIXELS + i] = pixel(n, i);
      r->floats[n * PIXELS + i] = (float)pixel(n, i) / 8;
    }
    r->labels[n] = n % 3;
    r->targets[2 * n] = (float)n;
    r->targets[2 * n + 1] = -1;
  }
  r->arrays = (hd_custom_arrays){.struct_bytes = sizeof r->arrays,
                                 .count = COUNT,
                                 .bytes = r->bytes,
                                 .floats = r->floats,
                                 .labels = r->labels,
                                 .targets = r->targets};
}

static hd_custom_data describe_rows(rows *train, rows *test, hd_dtype dtype, bool targets) {
  return (hd_custom_data){.struct_bytes = sizeof(hd_custom_data),
                          .name = "rows",
                          .channels = 1,
                          .height = 2,
                          .width = 3,
                          .dtype = dtype,
                          .classes = targets ? 0 : 3,
                          .outputs = targets ? 2 : 0,
                          .train = &train->arrays,
                          .test = test ? &test->arrays : NULL};
}

static hd_status open_ignoring(hd_dataset **out, hd_ctx **ctx, const hd_custom_data *custom, int ignored) {
  hd_ctx_create(ctx);
  hd_status status = hd_data_add(*ctx, custom);
  return status == HD_OK ? hd__dataset_open(out, *ctx, &(hd_dataset_request){.name = "rows", .ignored = ignored})
                         : status;
}

static hd_status open_rows(hd_dataset **out, hd_ctx **ctx, const hd_custom_data *custom) {
  return open_ignoring(out, ctx, custom, -1);
}

static void test_arrays(void) {
  static rows train, test;
  hd_ctx *ctx;
  hd_dataset *data;
  fill(&train);
  fill(&test);
  for (int way = 0; way < 4; way++) {
    const hd_custom_data custom = describe_rows(&train, &test, way % 2 ? HD_F32 : HD_U8, way / 2);
    is_int(open_rows(&data, &ctx, &custom), HD_OK, "arrays %d: open", way);
    const hd_split *split = hd__dataset_train(data);
    is_int(wrong_in(split, ctx) + wrong_in(hd__dataset_test(data), ctx), 0, "arrays %d: are the samples", way);
    ok(split->images == (way % 2 ? NULL : train.bytes) && split->floats == (way % 2 ? train.floats : NULL),
       "arrays %d: are not copied", way);
    hd__dataset_close(data);
    hd_ctx_destroy(ctx);
  }
  const hd_custom_data alone = describe_rows(&train, NULL, HD_F32, false);
  is_int(open_rows(&data, &ctx, &alone), HD_OK, "arrays without a test set open");
  ok(hd__dataset_train(data)->count == 32 && hd__dataset_test(data)->count == 8, "a fifth becomes it");
  fill(&test);
  ok(!memcmp(train.floats, test.floats, sizeof train.floats), "and the arrays stay as they are");
  hd__dataset_close(data);
  hd_ctx_destroy(ctx);
}

/* The same of arrays. */
static void test_names_of_arrays(void) {
  static const char *const names[] = {"red", "green", "blue"}, *const of_run[] = {"blue", "red", "green"};
  static rows train;
  hd_ctx *ctx;
  hd_dataset *data = NULL;
  fill(&train);
  hd_custom_data custom = describe_rows(&train, &train, HD_U8, false);
  custom.class_names = names;
  hd_ctx_create(&ctx);
  hd_data_add(ctx, &custom);
  const hd_dataset_request request = {.name = "rows", .ignored = 2, .classes = {of_run, 3}, .of_run = true};
  int wrong = hd__dataset_open(&data, ctx, &request) != HD_OK;
  for (int64_t i = 0; i < COUNT && !wrong; i++)
    wrong += hd__dataset_train(data)->labels[i] != (i % 3 + 1) % 3;
  is_int(wrong, 0, "labels of arrays get the numbers of a run too, whichever its loss ignores");
  hd__dataset_close(data);
  hd_ctx_destroy(ctx);
}

static void refuse_rows(const hd_custom_data *custom, hd_status want, const char *says, const char *title) {
  hd_ctx *ctx;
  hd_dataset *data = NULL;
  const hd_status status = open_rows(&data, &ctx, custom);
  refuses(status, want, ctx, "", says, "%s is refused", title);
  hd_ctx_destroy(ctx);
}

static void test_bad_arrays(void) {
  static rows train;
  fill(&train);
  hd_custom_data classes = describe_rows(&train, NULL, HD_U8, false);
  hd_custom_data targets = describe_rows(&train, NULL, HD_F32, true);
  train.labels[7] = 3;
  refuse_rows(&classes, HD_E_FORMAT, "labels from 0 to 2, found 3 in sample 7 of the training set", "a large label");
  hd_ctx *ctx;
  hd_dataset *data = NULL;
  const hd_custom_data both = describe_rows(&train, &train, HD_U8, false);
  is_int(open_ignoring(&data, &ctx, &both, 3), HD_OK, "one that is ignored is taken");
  ok(data && hd__dataset_train(data)->classes == 3 && hd__dataset_train(data)->labels[7] == 3, "and is no class");
  hd__dataset_close(data);
  hd_ctx_destroy(ctx);
  train.targets[15] = NAN;
  refuse_rows(&targets, HD_E_FORMAT, "found NaN in sample 7 of the training set", "a target that is NaN");
  fill(&train);
  train.floats[PIXELS * 39] = INFINITY;
  refuse_rows(&targets, HD_E_FORMAT, "found infinity in sample 39 of the training set", "an infinite sample");
  train.arrays.bytes = NULL;
  refuse_rows(&classes, HD_E_USAGE, "expected arrays of bytes and labels", "no samples");
  fill(&train);
  train.arrays.count = 0;
  refuse_rows(&classes, HD_E_USAGE, "found 0", "an empty array");
  train.arrays.struct_bytes = 0;
  refuse_rows(&classes, HD_E_USAGE, "hd_custom_arrays", "a struct without its size");
}

/* ---- A sample that two threads read at once ---- */

enum { TWICE = 24, MANY_OUTPUTS = 1 << 18, READERS = 2 };

static pthread_barrier_t both;

/* Other targets at each call, given at the same moment. */
static int get_other(void *self, int64_t index, hd_custom_sample *sample) {
  const float number = (float)atomic_fetch_add(&((store *)self)->asked, 1);
  memset(sample->bytes, 0, PIXELS);
  for (int i = 0; i < MANY_OUTPUTS; i++)
    sample->targets[i] = number;
  pthread_barrier_wait(&both);
  return 0;
}

static void *read_all(void *arg) {
  const hd_split *split = arg;
  hd_ctx local = {0};
  uint8_t pixels[PIXELS];
  int size[2];
  for (int64_t n = 0; n < split->count; n++)
    if (hd__split_get(pixels, size, &local, split, n) != HD_OK)
      return arg;
  return NULL;
}

static void test_at_once(void) {
  store train = {.count = TWICE, .bad = -1}, test = {.count = 1, .bad = -1};
  hd_custom_data custom = describe(&train, &test, HD_U8);
  const hd_dataset_request request = {.name = "mine", .ignored = -1};
  hd_dataset *data = hd__calloc(1, sizeof *data);
  hd_ctx *ctx;
  pthread_t thread[READERS];
  void *failed = NULL;
  int torn = 0;
  custom.classes = 0, custom.outputs = MANY_OUTPUTS, custom.get = get_other;
  hd_ctx_create(&ctx);
  hd_data_add(ctx, &custom);
  pthread_barrier_init(&both, NULL, READERS);
  if (!data || hd__format_custom.open(data, ctx, &request) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  for (int i = 0; i < READERS; i++)
    if (pthread_create(&thread[i], NULL, read_all, &data->split[0]))
      bail_out("no thread");
  for (int i = 0; i < READERS; i++) {
    void *result;
    pthread_join(thread[i], &result);
    failed = result ? result : failed;
  }
  for (int64_t n = 0; n < TWICE; n++) {
    const float *target = &data->split[0].targets[n * MANY_OUTPUTS];
    int others = 0;
    for (int i = 1; i < MANY_OUTPUTS; i++)
      others += target[i] != target[0];
    torn += others > 0;
  }
  ok(!failed && torn == 0, "two threads read each sample at once: the targets of one are stored, %d times of both",
     torn);
  hd__dataset_close(data);
  pthread_barrier_destroy(&both);
  hd_ctx_destroy(ctx);
}

int main(void) {
  setenv("HOME", scratch(), 1);
  test_good();
  test_fifth();
  test_bad();
  test_ignored();
  test_names();
  test_names_of_arrays();
  test_runs();
  test_arrays();
  test_bad_arrays();
  test_at_once();
  return done_testing();
}
