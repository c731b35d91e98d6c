/* Transforms: constants of what each makes of samples, with every set of kernels; what is random, what changes nothing,
 * what comes out in which shape, odd sizes, any size, and what is refused.
 *
 * The constants are those of docs/determinism.md's chains: a change of one changes every user's results, so the
 * commit must give the reason. */
#include "scratch.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/digest.h"
#include "base/philox.h"
#include "data/transforms/transform.h"

enum { MOST_PIXELS = 64 * 64 * 3, MOST_TARGETS = 16 };

static hd_ctx *ctx;
static const double mean[3] = {0.1307, 0.4, 0.5}, std_dev[3] = {0.3081, 0.25, 0.2};

/* Samples of noise that is smooth enough to look like pictures; made anew for each index. */
static void draw_bytes(uint8_t *out, int64_t count, uint32_t index) {
  uint32_t word[4];
  for (int64_t i = 0; i < count; i++) {
    if (i % 4 == 0)
      hd__rng_block(word, 3, HD_RNG_TEST, 0, index, 0, (uint32_t)(i / 4));
    out[i] = (uint8_t)(word[i % 4] >> 24);
  }
}

static hd_pipeline_input input_of(int channels, int height, int width) {
  return (hd_pipeline_input){.struct_bytes = sizeof(hd_pipeline_input),
                             .channels = channels,
                             .height = height,
                             .width = width,
                             .bytes = 1,
                             .classes = 10,
                             .mean = mean,
                             .std = std_dev};
}

static hd_pipeline *make(const char *list, const hd_pipeline_input *input, hd_pipeline_mode mode,
                         const hd_kernels *kernels) {
  hd_pipeline *p;
  hd_yaml *yaml;
  if (hd__yaml_parse(&yaml, ctx, list, strlen(list), "t.yaml") != HD_OK ||
      hd__pipeline_create(&p, ctx, hd__yaml_root(yaml), input, mode, kernels) != HD_OK)
    bail_out("%s: %s", list, hd_ctx_message(ctx));
  hd__yaml_destroy(yaml);
  return p;
}

static void *scratch_for(const hd_pipeline *p) {
  void *scratch = aligned_alloc(64, hd_pipeline_shape_of(p)->scratch_bytes);
  if (!scratch)
    bail_out("out of memory");
  memset(scratch, 0xa5, hd_pipeline_shape_of(p)->scratch_bytes);
  return scratch;
}

/* One list on images of one kind: sets *image and *target for sample `index`, under a key. */
typedef struct subject {
  hd_pipeline *p;
  hd_pipeline_input input;
  void *scratch;
  float image[MOST_PIXELS], target[MOST_TARGETS];
  int64_t elems;
  int targets;
} subject;

static void open_subject(subject *s, const char *list, const hd_pipeline_input *input, hd_pipeline_mode mode,
                         const hd_kernels *kernels) {
  s->input = *input;
  s->p = make(list, input, mode, kernels);
  s->scratch = scratch_for(s->p);
  const hd_pipeline_shape *shape = hd_pipeline_shape_of(s->p);
  s->elems = (int64_t)shape->height * shape->width * shape->channels;
  s->targets = shape->targets;
  if (s->elems > MOST_PIXELS || s->targets > MOST_TARGETS)
    bail_out("too large");
}

static void close_subject(subject *s) {
  hd_pipeline_destroy(s->p);
  free(s->scratch);
}

static void apply_at(subject *s, uint32_t index, hd_sample_key key) {
  static _Thread_local uint8_t pixels[2][MOST_PIXELS];
  static _Thread_local float floats[2][MOST_PIXELS];
  hd_sample sample[2];
  const int64_t count = (int64_t)s->input.channels * s->input.height * s->input.width;
  for (uint32_t k = 0; k < 2; k++) {
    draw_bytes(pixels[k], count, index + k);
    for (int64_t i = 0; i < count; i++)
      floats[k][i] = (float)pixels[k][i] / 255;
    sample[k] = (hd_sample){.pixels = s->input.bytes ? (const void *)pixels[k] : floats[k],
                            .label = (int)(index + k) % 10,
                            .number = index + k};
  }
  const int partner = hd_pipeline_shape_of(s->p)->partner;
  hd_pipeline_apply(s->image, s->target, s->p, &sample[0], partner ? &sample[1] : NULL, &key, s->scratch);
}

/* ---- Constants ---- */

typedef struct constant {
  const char *list;
  int channels, height, width;
  uint64_t digest;
} constant;

static const constant constants[] = {
#include "transform_digests.h"
};

static uint64_t digest_of(const constant *c, bool bytes, const hd_kernels *kernels) {
  static subject s;
  hd_pipeline_input input = input_of(c->channels, c->height, c->width);
  input.bytes = bytes;
  uint64_t sum = 0;
  open_subject(&s, c->list, &input, HD_PIPELINE_TRAINING, kernels);
  for (uint32_t i = 0; i < 12; i++) {
    const hd_sample_key key = {.seed = 5 + i % 2 * 0x100000000ULL, .epoch = i / 4, .position = i * 7, .count = 1000};
    memset(s.target, 0, sizeof s.target);
    apply_at(&s, i, key);
    sum = sum * 31 + hd__xxh3(s.image, (size_t)s.elems * sizeof(float));
    sum = sum * 31 + hd__xxh3(s.target, (size_t)s.targets * sizeof(float));
  }
  close_subject(&s);
  return sum;
}

static const char *const isas[] = {"reference", "scalar", "avx2", "avx512", "neon"};

static void test_constants(void) {
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
      const char *why = "";
      const constant *c = &constants[i];
      const hd_kernels *kernels = hd__kernels_select(isas[k], &why);
      if (!kernels)
        continue;
      const uint64_t found = digest_of(c, true, kernels);
      if (!ok(found == c->digest, "%s of %dx%dx%d, %s", c->list, c->channels, c->height, c->width, isas[k]))
        diag("found 0x%016llx", (unsigned long long)found);
    }
}

/* Pixels in floats from 0 to 1 go the same ways as bytes: close, since the scale is rounded elsewhere. */
static void test_floats(void) {
  static subject a, b;
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
    const constant *c = &constants[i];
    if (strstr(c->list, "fill: 9") || strstr(c->list, "value: 200") || strstr(c->list, "noise") ||
        strstr(c->list, "hue"))
      continue; /* these mean something else in another unit, or jump */
    hd_pipeline_input input = input_of(c->channels, c->height, c->width);
    open_subject(&a, c->list, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    input.bytes = 0;
    open_subject(&b, c->list, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    float most = 0;
    for (uint32_t k = 0; k < 4; k++) {
      const hd_sample_key key = {.seed = 5, .position = k, .count = 1000};
      apply_at(&a, k, key);
      apply_at(&b, k, key);
      for (int64_t e = 0; e < a.elems; e++)
        most = fmaxf(most, fabsf(a.image[e] - b.image[e]));
    }
    ok(most < 2e-5f, "floats, %s of %dx%dx%d: as bytes, but for %g", c->list, c->channels, c->height, c->width,
       (double)most);
    close_subject(&a);
    close_subject(&b);
  }
}

/* ---- What is random ---- */

enum { SAMPLES = 64, ELEMS = 24 * 24 };

/* Samples that several threads take, from the last on. */
typedef struct keyed_samples {
  const subject *s;
  atomic_int left;
  float (*to)[ELEMS];
} keyed_samples;

static void *apply_backwards(void *arg) {
  keyed_samples *all = arg;
  subject *local = malloc(sizeof *local);
  *local = *all->s;
  local->scratch = scratch_for(all->s->p);
  for (int i = atomic_fetch_sub(&all->left, 1) - 1; i >= 0; i = atomic_fetch_sub(&all->left, 1) - 1) {
    apply_at(local, (uint32_t)i, (hd_sample_key){.seed = 9, .epoch = 3, .position = i, .count = SAMPLES});
    memcpy(all->to[i], local->image, sizeof all->to[i]);
  }
  free(local->scratch);
  free(local);
  return NULL;
}

/* Any order, any number of threads: results depend on the sample's key alone. */
static void test_keys(void) {
  static const char list[] = "[{random_crop: {size: 24, padding: 2}}, horizontal_flip, {rotation: 20}, {elastic: 30}, "
                             "to_float, one_hot, mixup, {erase: {value: noise}}, normalise]";
  const hd_pipeline_input input = input_of(1, 28, 28);
  static float once[SAMPLES][ELEMS], again[SAMPLES][ELEMS];
  static subject s;
  open_subject(&s, list, &input, HD_PIPELINE_TRAINING, hd__kernels_select(NULL, &(const char *){0}));
  for (int i = 0; i < SAMPLES; i++) {
    apply_at(&s, (uint32_t)i, (hd_sample_key){.seed = 9, .epoch = 3, .position = i, .count = SAMPLES});
    memcpy(once[i], s.image, sizeof once[i]);
  }
  keyed_samples all = {.s = &s, .left = SAMPLES, .to = again};
  pthread_t thread[4];
  for (int i = 0; i < 4; i++)
    if (pthread_create(&thread[i], NULL, apply_backwards, &all))
      bail_out("no thread");
  for (int i = 0; i < 4; i++)
    pthread_join(thread[i], NULL);
  is_bytes(again, once, sizeof once, "four threads, backwards: the same samples");
  int same[3] = {0};
  for (int k = 0; k < 3; k++) {
    const hd_sample_key other = {
        .seed = k == 0 ? 10 : 9, .epoch = k == 1 ? 4 : 3, .position = k == 2, .count = SAMPLES};
    apply_at(&s, 0, other);
    same[k] = !memcmp(s.image, once[0], sizeof once[0]);
  }
  ok(!same[0] && !same[1] && !same[2], "another seed, epoch or position gives another sample");
  close_subject(&s);
}

/* Two transforms of a kind draw for themselves: over many samples two flips are independent. */
static void test_flips(void) {
  const hd_pipeline_input input = input_of(1, 1, 2);
  static const char *const lists[] = {"[{horizontal_flip: 0.3}, to_float]",
                                      "[horizontal_flip, horizontal_flip, to_float]",
                                      "[{horizontal_flip: 0}, to_float]", "[{horizontal_flip: 1}, to_float]"};
  static const double wanted[] = {0.3, 0.5, 0, 1};
  for (int l = 0; l < 4; l++) {
    enum { COUNT = 20000 };
    static subject s;
    const uint8_t pixels[2] = {1, 2};
    int flipped = 0;
    open_subject(&s, lists[l], &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    for (int i = 0; i < COUNT; i++) {
      const hd_sample sample = {.pixels = pixels};
      hd_pipeline_apply(s.image, NULL, s.p, &sample, NULL, &(hd_sample_key){.seed = 2, .position = i}, s.scratch);
      flipped += s.image[0] > s.image[1];
    }
    near(flipped / (double)COUNT, wanted[l], wanted[l] == 0 || wanted[l] == 1 ? 0 : 0.012, "%s flips at this rate",
         lists[l]);
    close_subject(&s);
  }
}

/* Every place of a crop is as likely. */
static void test_crop_places(void) {
  enum { COUNT = 25000, PLACES = 25 };
  const hd_pipeline_input input = input_of(1, 5, 5);
  static subject s;
  uint8_t pixels[25];
  int found[PLACES] = {0}, wrong = 0;
  for (int i = 0; i < 25; i++)
    pixels[i] = (uint8_t)(i + 1);
  open_subject(&s, "[{random_crop: {size: 3, padding: 1}}, to_float]", &input, HD_PIPELINE_TRAINING,
               hd__kernels_reference());
  for (int i = 0; i < COUNT; i++) {
    const hd_sample sample = {.pixels = pixels};
    hd_pipeline_apply(s.image, NULL, s.p, &sample, NULL, &(hd_sample_key){.seed = 2, .position = i}, s.scratch);
    const int middle = (int)lrintf(s.image[4] * 255) - 1;
    if (middle < 0 || middle >= PLACES)
      wrong++;
    else
      found[middle]++;
  }
  double chi = 0;
  for (int i = 0; i < PLACES; i++)
    chi += (found[i] - COUNT / 25.0) * (found[i] - COUNT / 25.0) / (COUNT / 25.0);
  ok(wrong == 0 && chi < 51, "25 places of a crop are drawn alike: chi square %.1f, 24 degrees of freedom", chi);
  close_subject(&s);
}

/* A ramp shows where pixels come from: in the middle displacements of all kinds have the mean 0. */
static void test_displacements(void) {
  enum { COUNT = 4000, SIDE = 15 };
  static const char *const lists[] = {"[{rotation: 30}, to_float]", "[{elastic: {alpha: 8, sigma: 2}}, to_float]",
                                      "[{affine: {degrees: 10, translate: 0.2, scale: 0.2, shear: 10}}, to_float]"};
  static subject s;
  for (int l = 0; l < 3; l++)
    for (int axis = 0; axis < 2; axis++) {
      const hd_pipeline_input input = input_of(1, SIDE, SIDE);
      uint8_t pixels[SIDE * SIDE];
      double sum = 0, squares = 0;
      for (int i = 0; i < SIDE * SIDE; i++)
        pixels[i] = (uint8_t)(10 * (axis ? i / SIDE : i % SIDE));
      open_subject(&s, lists[l], &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
      for (int i = 0; i < COUNT; i++) {
        const hd_sample sample = {.pixels = pixels};
        hd_pipeline_apply(s.image, NULL, s.p, &sample, NULL, &(hd_sample_key){.seed = 4, .position = i}, s.scratch);
        const double moved = (double)s.image[7 * SIDE + 7] * 25.5 - 7;
        sum += moved;
        squares += moved * moved;
      }
      const double sigma = sqrt(squares / COUNT);
      ok(fabs(sum / COUNT) < 4 * sigma / sqrt(COUNT) + 1e-5, "%s, %s: mean displacement %.4f, deviation %.3f", lists[l],
         axis ? "y" : "x", sum / COUNT, sigma);
      ok(l == 0 ? sigma < 1e-4 : sigma > 0.1, "the middle %s", l == 0 ? "stays where it is" : "moves");
      close_subject(&s);
    }
}

/* The share of mixup is Beta(alpha, alpha): mean 1/2, variance 1 / (4 (2 alpha + 1)). */
static void test_mixup(void) {
  static const double alphas[] = {0.05, 0.2, 1, 4};
  static subject s;
  for (int a = 0; a < 4; a++) {
    enum { COUNT = 20000 };
    const hd_pipeline_input input = input_of(1, 1, 1);
    char list[100];
    double sum = 0, squares = 0, wrong = 0;
    snprintf(list, sizeof list, "[to_float, one_hot, {mixup: %g}]", alphas[a]);
    open_subject(&s, list, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    ok(hd_pipeline_shape_of(s.p)->partner && s.targets == 10, "%s needs a partner and makes ten targets", list);
    for (int i = 0; i < COUNT; i++) {
      const uint8_t own = 255, other = 0;
      const hd_sample sample = {.pixels = &own, .label = 3}, partner = {.pixels = &other, .label = 7};
      hd_pipeline_apply(s.image, s.target, s.p, &sample, &partner,
                        &(hd_sample_key){.seed = 4, .position = i, .count = COUNT}, s.scratch);
      sum += (double)s.target[3];
      squares += (double)s.target[3] * (double)s.target[3];
      wrong = fmax(wrong, fabs((double)s.target[3] - (double)s.image[0]));
      wrong = fmax(wrong, fabs((double)s.target[3] + (double)s.target[7] - 1));
    }
    const double average = sum / COUNT, variance = squares / COUNT - average * average,
                 theory = 0.25 / (2 * alphas[a] + 1);
    near(average, 0.5, 0.012, "its mean is a half");
    near(variance, theory, 0.03 * theory, "its variance is that of Beta");
    ok(wrong < 1e-6, "image and target have the same share");
    close_subject(&s);
  }
  is_int(hd_pipeline_partner(4, 10), 5, "the partner is the next sample");
  is_int(hd_pipeline_partner(9, 10), 0, "the last one's the first");
}

/* A partner has draws by its key: mixed half and half with itself flipped by its key. */
static void test_partner_is_transformed(void) {
  static subject s;
  const hd_pipeline_input input = input_of(1, 1, 2);
  const uint8_t own[2] = {255, 0}, other[2] = {0, 255};
  open_subject(&s, "[horizontal_flip, to_float, one_hot, mixup]", &input, HD_PIPELINE_TRAINING,
               hd__kernels_reference());
  int seen[4] = {0};
  for (int i = 0; i < 400; i++) {
    const hd_sample sample = {.pixels = own, .label = 0}, partner = {.pixels = other, .label = 1};
    hd_pipeline_apply(s.image, s.target, s.p, &sample, &partner,
                      &(hd_sample_key){.seed = 1, .position = i, .count = 1000}, s.scratch);
    const float share = s.target[0];
    for (int f = 0; f < 4; f++) {
      const float left = (f & 1 ? 0 : share) + (f & 2 ? 1 - share : 0);
      seen[f] += fabsf(s.image[0] - left) < 1e-6f;
    }
  }
  ok(seen[0] > 60 && seen[1] > 60 && seen[2] > 60 && seen[3] > 60, "sample and partner are flipped each by its key");
  close_subject(&s);
}

/* ---- What changes nothing ---- */

static void test_identity(void) {
  static const char *const same[] = {
      "[{pad: 0}, to_float, normalise]",
      "[{random_crop: [19, 22]}, to_float, normalise]",
      "[{centre_crop: [19, 22]}, to_float, normalise]",
      "[{resize: [19, 22]}, to_float, normalise]",
      "[{resize: {size: [19, 22], interpolation: nearest}}, to_float, normalise]",
      "[{random_resized_crop: {size: [19, 22], scale: [1, 1], ratio: [1.15789474, 1.15789474]}}, to_float, normalise]",
      "[{rotation: 0}, to_float, normalise]",
      "[{rotation: {degrees: 0, interpolation: nearest, fill: 77}}, to_float, normalise]",
      "[{affine: {degrees: 0}}, to_float, normalise]",
      "[{elastic: {alpha: 0}}, to_float, normalise]",
      "[{erase: {p: 0}}, to_float, normalise]",
      "[{translate: 0}, {cutout: {size: 3, p: 0}}, to_float, normalise]",
      "[{colour_jitter: {}}, to_float, normalise]",
      "[{horizontal_flip: 1}, {horizontal_flip: 1}, to_float, normalise]",
      "[{vertical_flip: 1}, {vertical_flip: 1}, to_float, normalise]",
      "[{horizontal_flip: 1}, to_float, {horizontal_flip: 1}, normalise]",
      "[{pad: {padding: 3, padding_mode: edge}}, {centre_crop: [19, 22]}, to_float, normalise]",
      "[to_float, one_hot, {mixup: {p: 0}}, normalise]",
      "[to_float, {normalise: {mean: 0, std: 1}}, normalise]",
      "[to_float, {normalise: {mean: [0.1307, 0.4, 0.5], std: [0.3081, 0.25, 0.2]}}]"};
  const hd_pipeline_input input = input_of(3, 19, 22);
  static subject plain, other;
  open_subject(&plain, HD_TRANSFORMS_DEFAULT, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
  for (size_t l = 0; l < sizeof same / sizeof *same; l++) {
    float most = 0;
    open_subject(&other, same[l], &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    for (uint32_t i = 0; i < 5; i++) {
      const hd_sample_key key = {.seed = 1, .position = i, .count = 100};
      apply_at(&plain, i, key);
      apply_at(&other, i, key);
      for (int64_t e = 0; e < plain.elems; e++)
        most = fmaxf(most, fabsf(plain.image[e] - other.image[e]));
    }
    /* Where pixels were scaled before the end there is one rounding more. */
    ok(other.elems == plain.elems && most <= (strstr(same[l], "[to_float, one_hot") ? 1e-6f : 0), "%s changes nothing",
       same[l]);
    close_subject(&other);
  }
  close_subject(&plain);
}

/* The list that a run has without saying so is one FMA a pixel. */
static void test_default(void) {
  enum { PIXELS = 3 * 19 * 22 };
  const hd_pipeline_input input = input_of(3, 19, 22);
  static subject s;
  uint8_t bytes[PIXELS];
  float wanted[PIXELS], by[3], shift[3];
  draw_bytes(bytes, PIXELS, 0);
  for (int c = 0; c < 3; c++) {
    by[c] = (float)(1 / (255 * std_dev[c]));
    shift[c] = (float)(-mean[c] / std_dev[c]);
  }
  hd__kernels_reference()->gather_u8(wanted, bytes, 19 * 22, 3, by, shift);
  open_subject(&s, HD_TRANSFORMS_DEFAULT, &input, HD_PIPELINE_EVALUATION, hd__kernels_reference());
  apply_at(&s, 0, (hd_sample_key){0});
  is_bytes(s.image, wanted, sizeof wanted, "the default is fma(pixel, 1 / (255 std), -mean / std)");
  is_int(s.targets, 0, "and leaves labels alone");
  close_subject(&s);
}

/* A quarter turn and shifts by whole pixels are known. */
static void test_known(void) {
  static const struct {
    const char *list;
    uint8_t out[9];
  } known[] = {
      {"[{rotation: [90, 90]}, to_float]", {30, 60, 90, 20, 50, 80, 10, 40, 70}},
      {"[{rotation: {degrees: [-90, -90], interpolation: nearest}}, to_float]", {70, 40, 10, 80, 50, 20, 90, 60, 30}},
      {"[{rotation: [180, 180]}, to_float]", {90, 80, 70, 60, 50, 40, 30, 20, 10}},
      {"[{affine: {degrees: 0, scale: [0.01, 0.01], fill: 3}}, to_float]", {3, 3, 3, 3, 50, 3, 3, 3, 3}},
      {"[{horizontal_flip: 1}, to_float]", {30, 20, 10, 60, 50, 40, 90, 80, 70}},
      {"[{vertical_flip: 1}, to_float]", {70, 80, 90, 40, 50, 60, 10, 20, 30}},
      {"[{pad: 2}, {centre_crop: 3}, to_float]", {10, 20, 30, 40, 50, 60, 70, 80, 90}},
      {"[{centre_crop: 1}, {pad: {padding: 1, fill: 7}}, to_float]", {7, 7, 7, 7, 50, 7, 7, 7, 7}},
      {"[{centre_crop: 1}, {pad: {padding: 1, padding_mode: edge}}, to_float]", {50, 50, 50, 50, 50, 50, 50, 50, 50}},
      {"[{pad: {padding: 2, padding_mode: reflect}}, {centre_crop: [7, 1]}, {resize: {size: 3, interpolation: "
       "nearest}}, to_float]",
       {50, 50, 50, 50, 50, 50, 50, 50, 50}},
      {"[{resize: 1}, {resize: 3}, to_float]", {50, 50, 50, 50, 50, 50, 50, 50, 50}},
      {"[{erase: {p: 1, scale: [1, 1], ratio: [1, 1], value: 9}}, to_float]", {9, 9, 9, 9, 9, 9, 9, 9, 9}},
      {"[{cutout: {size: 3, value: 9}}, to_float]", {9, 9, 9, 9, 9, 9, 9, 9, 9}},
      {"[{colour_jitter: {brightness: [2, 2]}}, to_float]", {20, 40, 60, 80, 100, 120, 140, 160, 180}},
      {"[{colour_jitter: {contrast: [0, 0]}}, to_float]", {50, 50, 50, 50, 50, 50, 50, 50, 50}}};
  static const uint8_t pixels[9] = {10, 20, 30, 40, 50, 60, 70, 80, 90};
  const hd_pipeline_input input = input_of(1, 3, 3);
  static subject s;
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    const hd_sample sample = {.pixels = pixels};
    float most = 0;
    open_subject(&s, known[k].list, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    hd_pipeline_apply(s.image, NULL, s.p, &sample, NULL, &(hd_sample_key){0}, s.scratch);
    for (int i = 0; i < 9; i++)
      most = fmaxf(most, fabsf(s.image[i] * 255 - (float)known[k].out[i]));
    ok(s.elems == 9 && most < 1e-3f, "%s gives what it should, but for %g", known[k].list, (double)most);
    close_subject(&s);
  }
}

static void test_colours(void) {
  static const struct {
    const char *list;
    uint8_t in[3], out[3];
  } known[] = {{"[{colour_jitter: {saturation: [0, 0]}}, to_float]", {100, 0, 0}, {30, 30, 30}},
               {"[{colour_jitter: {hue: [0.5, 0.5]}}, to_float]", {200, 0, 0}, {0, 200, 200}},
               {"[{colour_jitter: {hue: [-0.5, -0.5]}}, to_float]", {0, 200, 50}, {200, 0, 150}},
               {"[{colour_jitter: {hue: [0.25, 0.25]}}, to_float]", {100, 100, 0}, {0, 100, 50}},
               {"[{colour_jitter: {hue: [0.3, 0.3]}}, to_float]", {77, 77, 77}, {77, 77, 77}},
               {"[{colour_jitter: {brightness: [9, 9]}}, to_float]", {77, 1, 0}, {255, 9, 0}}};
  const hd_pipeline_input input = input_of(3, 1, 1);
  static subject s;
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
    const hd_sample sample = {.pixels = known[k].in};
    float most = 0;
    open_subject(&s, known[k].list, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    hd_pipeline_apply(s.image, NULL, s.p, &sample, NULL, &(hd_sample_key){0}, s.scratch);
    for (int i = 0; i < 3; i++)
      most = fmaxf(most, fabsf(s.image[i] * 255 - (float)known[k].out[i]));
    ok(most < 0.2f, "%s: %d %d %d", known[k].list, known[k].out[0], known[k].out[1], known[k].out[2]);
    close_subject(&s);
  }
}

/* ---- Shapes ---- */

static void test_shapes(void) {
  static const struct {
    const char *list;
    int height, width, targets;
  } shapes[] = {{"[to_float]", 20, 30, 0},
                {"[{resize: 8}, to_float]", 8, 8, 0},
                {"[{resize: [5, 9]}, to_float]", 5, 9, 0},
                {"[{random_resized_crop: [5, 9]}, to_float]", 5, 9, 0},
                {"[{pad: 2}, to_float]", 24, 34, 0},
                {"[{pad: [1, 0]}, to_float]", 22, 30, 0},
                {"[{random_crop: 20}, to_float]", 20, 20, 0},
                {"[{random_crop: {size: 24, padding: 2}}, to_float]", 24, 24, 0},
                {"[{centre_crop: [1, 30]}, to_float]", 1, 30, 0},
                {"[{rotation: 90}, {elastic: 3}, {affine: {degrees: 3}}, to_float]", 20, 30, 0},
                {"[to_float, one_hot]", 20, 30, 10},
                {"[to_float, {one_hot: 13}]", 20, 30, 13}};
  const hd_pipeline_input input = input_of(3, 20, 30);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (int mode = 0; mode < 2; mode++) {
      hd_pipeline *p = make(shapes[i].list, &input, (hd_pipeline_mode)mode, hd__kernels_reference());
      const hd_pipeline_shape *s = hd_pipeline_shape_of(p);
      ok(s->channels == 3 && s->height == shapes[i].height && s->width == shapes[i].width &&
             s->targets == shapes[i].targets && !s->partner,
         "%s: %dx%d, %d targets, %s", shapes[i].list, s->height, s->width, s->targets,
         mode ? "evaluation" : "training");
      hd_pipeline_destroy(p);
    }
}

/* In evaluation nothing is drawn, and a random crop is the middle. */
static void test_evaluation(void) {
  static subject a, b;
  const hd_pipeline_input input = input_of(1, 28, 28);
  open_subject(
      &a,
      "[{random_crop: {size: 20, padding: 4}}, horizontal_flip, alternating_flip, {translate: 3}, {cutout: 5}, "
      "{rotation: 10}, {elastic: 5}, to_float, "
      "{one_hot: {smoothing: 0.1}}, mixup, normalise, {erase: {p: 1}}]",
      &input, HD_PIPELINE_EVALUATION, hd__kernels_reference());
  open_subject(&b, "[{centre_crop: 20}, to_float, normalise]", &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
  apply_at(&a, 0, (hd_sample_key){.position = 3});
  apply_at(&b, 0, (hd_sample_key){0});
  is_bytes(a.image, b.image, 400 * sizeof(float), "an evaluation's list is the training's without what is random");
  ok(!hd_pipeline_shape_of(a.p)->partner && a.targets == 10, "targets stay numbers, without a partner");
  near(a.target[0], 0.91, 1e-7, "smoothed: 0.9 and a tenth of 0.1 for the label");
  near(a.target[1], 0.01, 1e-9, "a tenth of 0.1 for the others");
  close_subject(&a);
  close_subject(&b);
}

/* The crop lies in the image, has its share of the area and its ratio; in evaluation it is the middle. */
static void test_resized_crop(void) {
  static subject s, middle, whole;
  enum { SIDE = 100 };
  static uint8_t slope[2 * SIDE * SIDE]; /* columns in the first channel, rows in the second */
  const hd_pipeline_input input = input_of(2, SIDE, SIDE);
  int outside = 0, odd = 0, crops[2] = {0};
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) {
      slope[y * SIDE + x] = (uint8_t)x;
      slope[SIDE * SIDE + y * SIDE + x] = (uint8_t)y;
    }
  open_subject(&s, "[{random_resized_crop: {size: 2, scale: [0.2, 0.5], ratio: [0.5, 2]}}, to_float]", &input,
               HD_PIPELINE_TRAINING, hd__kernels_reference());
  for (int i = 0; i < 500; i++) {
    hd_pipeline_apply(s.image, NULL, s.p, &(hd_sample){.pixels = slope}, NULL,
                      &(hd_sample_key){.seed = 1, .position = i, .count = 1000}, s.scratch);
    /* The two halves' means lie half a side apart. */
    const double wide = 2 * 255 * (double)(s.image[2] - s.image[0]), tall = 2 * 255 * (double)(s.image[5] - s.image[1]);
    const double area = wide * tall / (SIDE * SIDE), ratio = wide / tall;
    outside += 255 * (double)s.image[0] < wide / 4 - 1 || 255 * (double)s.image[2] > SIDE - wide / 4 + 1;
    odd += area < 0.19 || area > 0.51 || ratio < 0.48 || ratio > 2.08;
    crops[ratio > 1]++;
  }
  is_int(outside, 0, "crops lie inside the image");
  is_int(odd, 0, "with a share of its area and a ratio within the set bounds");
  ok(crops[0] > 200 && crops[1] > 200, "upright ones as often as others");
  close_subject(&s);
  const hd_pipeline_input wide = input_of(1, 20, 60);
  open_subject(&s, "[{random_resized_crop: {size: [20, 24], ratio: [0.8, 1.2]}}, to_float]", &wide,
               HD_PIPELINE_EVALUATION, hd__kernels_reference());
  open_subject(&middle, "[{centre_crop: [20, 24]}, to_float]", &wide, HD_PIPELINE_TRAINING, hd__kernels_reference());
  apply_at(&s, 0, (hd_sample_key){.position = 3});
  apply_at(&middle, 0, (hd_sample_key){0});
  is_bytes(s.image, middle.image, 480 * sizeof(float), "in evaluation the largest box in the middle");
  close_subject(&s);
  close_subject(&middle);
  open_subject(&s, "[{random_resized_crop: {size: [20, 60], ratio: [0.1, 10]}}, to_float]", &wide,
               HD_PIPELINE_EVALUATION, hd__kernels_reference());
  open_subject(&whole, "[to_float]", &wide, HD_PIPELINE_TRAINING, hd__kernels_reference());
  apply_at(&s, 0, (hd_sample_key){.position = 3});
  apply_at(&whole, 0, (hd_sample_key){0});
  is_bytes(s.image, whole.image, 1200 * sizeof(float), "which is the whole where its ratio is allowed");
  close_subject(&s);
  close_subject(&whole);
}

/* Images of any size: a pipeline made for one size and one for any give the same. */
static void test_any_size(void) {
  static const char *const lists[] = {
      "[{resize: [9, 14]}, to_float, normalise]",
      "[{resize: {size: [9, 14], antialias: false}}, to_float]",
      "[{resize: {size: [9, 14], interpolation: nearest}}, {rotation: 9}, to_float]",
      "[horizontal_flip, vertical_flip, {resize: [9, 14]}, to_float, normalise]",
      "[{random_resized_crop: [9, 14]}, to_float, normalise]",
      ("[horizontal_flip, vertical_flip, {random_resized_crop: {size: 7, ratio: [0.2, 0.4], interpolation: nearest}}, "
       "to_float]"),
      "[{random_crop: [3, 2]}, to_float]",
      "[horizontal_flip, one_hot, {centre_crop: [3, 2]}, {elastic: 4}, to_float, mixup]"};
  static const int sizes[][2] = {{3, 2}, {9, 14}, {40, 30}, {5, 61}, {64, 2}};
  static subject fixed, any;
  for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
    int wrong = 0;
    hd_pipeline_input none = input_of(3, 0, 0);
    open_subject(&any, lists[l], &none, HD_PIPELINE_TRAINING, hd__kernels_reference());
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      const int height = sizes[s][0], width = sizes[s][1];
      const hd_pipeline_input input = input_of(3, height, width);
      uint8_t *pixels = malloc((size_t)(3 * height * width)); /* exactly: a sanitizer detects reads beyond */
      draw_bytes(pixels, 3 * height * width, (uint32_t)s);
      open_subject(&fixed, lists[l], &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
      for (int i = 0; i < 8; i++) {
        const hd_sample sample = {.pixels = pixels, .height = height, .width = width, .label = 1};
        const hd_sample_key key = {.seed = 8, .position = i, .count = 100};
        hd_pipeline_apply(fixed.image, fixed.target, fixed.p, &sample, &sample, &key, fixed.scratch);
        hd_pipeline_apply(any.image, any.target, any.p, &sample, &sample, &key, any.scratch);
        wrong += memcmp(fixed.image, any.image, (size_t)any.elems * sizeof(float)) != 0;
      }
      close_subject(&fixed);
      free(pixels);
    }
    is_int(wrong, 0, "any size, %s", lists[l]);
    close_subject(&any);
  }
  hd_pipeline_input none = input_of(1, 0, 0);
  const uint8_t dot = 200;
  open_subject(&any, "[{random_crop: {size: 3, fill: 9}}, to_float]", &none, HD_PIPELINE_TRAINING,
               hd__kernels_reference());
  hd_pipeline_apply(any.image, NULL, any.p, &(hd_sample){.pixels = &dot, .height = 1, .width = 1}, NULL,
                    &(hd_sample_key){0}, any.scratch);
  near(any.image[4] * 255, 200, 1e-3, "a crop of a smaller image has it in the middle");
  near(any.image[0] * 255, 9, 1e-3, "and the fill around it");
  close_subject(&any);
}

/* ---- What is refused ---- */

static const struct {
  const char *list, *message; /* with what it begins, behind "t.yaml:" */
} refused[] = {
#include "transform_refused.h"
};

static void test_refused(void) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    hd_pipeline_input input = input_of(3, 20, 30);
    hd_pipeline *p = NULL;
    hd_yaml *yaml;
    if (!strncmp(refused[i].list, "# any", 5))
      input.height = input.width = 0;
    if (!strncmp(refused[i].list, "# grey", 6))
      input.channels = 1;
    if (!strncmp(refused[i].list, "# numbers", 9))
      input.classes = 0, input.outputs = 2;
    if (!strncmp(refused[i].list, "# unknown", 9))
      input.mean = NULL;
    if (hd__yaml_parse(&yaml, ctx, refused[i].list, strlen(refused[i].list), "t.yaml") != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    const hd_status status =
        hd__pipeline_create(&p, ctx, hd__yaml_root(yaml), &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    hd__yaml_destroy(yaml);
    const char *found = hd_ctx_message(ctx);
    if (!ok(status == HD_E_FORMAT && !p && !strncmp(found, "t.yaml:", 7) &&
                !strncmp(found + 7, refused[i].message, strlen(refused[i].message)),
            "refused: %s", refused[i].list + (refused[i].list[0] == '\n')))
      diag("expected t.yaml:%s, found %s", refused[i].message, found);
    ok(strstr(found, ", found ") && (strstr(found, "; ") || strstr(found, "did you")) && !strchr(found, '\n'),
       "expected, found, remedy: %s", found);
    hd_pipeline_destroy(p);
  }
  enum { SIZE = sizeof(hd_pipeline_input) };
  static const hd_pipeline_input bad[] = {
      {.struct_bytes = SIZE, .channels = 0, .height = 1, .width = 1, .classes = 1},
      {.struct_bytes = SIZE, .channels = 65, .height = 1, .width = 1, .classes = 1},
      {.struct_bytes = SIZE, .channels = 1, .height = 0, .width = 1, .classes = 1},
      {.struct_bytes = SIZE, .channels = 1, .height = 65536, .width = 1, .classes = 1},
      {.struct_bytes = SIZE, .channels = 1, .height = 1, .width = 1},
      {.struct_bytes = SIZE, .channels = 1, .height = 1, .width = 1, .classes = 1, .outputs = 1}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    hd_pipeline *p;
    is_int(hd_pipeline_create(&p, ctx, "[to_float]", &bad[i], HD_PIPELINE_TRAINING), HD_E_USAGE, "refused: %s",
           hd_ctx_message(ctx));
  }
}

static void check_text(const char *list, const char *wanted, bool evaluation) {
  char text[512] = "";
  hd_yaml *yaml;
  if (hd__yaml_parse(&yaml, ctx, list, strlen(list), "t") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const hd_status status = hd__transforms_text(text, sizeof text, ctx, hd__yaml_root(yaml), evaluation);
  hd__yaml_destroy(yaml);
  is_str(status == HD_OK ? text : hd_ctx_message(ctx), wanted, "as one line: %.40s", list);
}

static void test_text(void) {
  check_text("- to_tensor\n- normalize\n", "[to_float, normalise]", false);
  check_text("- center_crop: [20, 18]\n- random_rotation:\n    fill: 3\n    degrees: [ -5, 10 ]\n",
             "[{centre_crop: {size: [20, 18]}}, {rotation: {degrees: [-5, 10], fill: 3}}]", false);
  check_text("[{erase: {}}, {one_hot: }, {normalise: computed}]", "[erase, one_hot, {normalise: {mean: computed}}]",
             false);
  check_text("[]", "[]", false);
  check_text("[to_float, {centre_crop: 3}, one_hot]", "[to_float, {centre_crop: {size: 3}}, one_hot]", true);
  check_text("- to_float\n- random_crop: 3\n",
             "t:2: expected no random transform in evaluation, found random_crop; use centre_crop", true);
  check_text("- to_float\n- mixup\n", "t:2: expected no random transform in evaluation, found mixup; leave it out",
             true);
}

/* ---- Transforms of the program ---- */

static void raise_by_one(const hd_custom_transform_call *call) {
  for (int64_t i = 0; i < (int64_t)call->channels * call->height * call->width; i++)
    call->image[i] += *(const float *)call->user;
}

static void note_random(const hd_custom_transform_call *call) { memcpy(call->user, call->random, sizeof call->random); }

static void apply_custom(float image[6], hd_ctx *with, const char *list, int64_t position, hd_pipeline_mode mode) {
  static const uint8_t pixels[6] = {0, 51, 102, 153, 204, 255};
  hd_pipeline_input input = input_of(1, 2, 3);
  hd_pipeline *p;
  if (!is_int(hd_pipeline_create(&p, with, list, &input, mode), HD_OK, "%s is a list", list))
    bail_out("%s", hd_ctx_message(with));
  void *scratch = aligned_alloc(64, hd_pipeline_shape_of(p)->scratch_bytes);
  const hd_sample sample = {.pixels = pixels};
  const hd_sample_key key = {.seed = 3, .position = position};
  hd_pipeline_apply(image, NULL, p, &sample, NULL, &key, scratch);
  free(scratch);
  hd_pipeline_destroy(p);
}

static void test_custom(void) {
  hd_ctx *with;
  float image[6], one = 1;
  uint32_t first[4], word[4] = {0};
  hd_ctx_create(&with);
  hd_custom_transform t = {.struct_bytes = sizeof t, .name = "raised", .apply = raise_by_one, .user = &one};
  is_int(hd_transform_add(with, &t), HD_OK, "a transform of the program is registered");
  refuses(hd_transform_add(with, &t), HD_E_USAGE, with, "", "found 'raised'", "its name is taken then");
  apply_custom(image, with, "[to_float, raised]", 0, HD_PIPELINE_EVALUATION);
  ok(image[0] == 1 && image[5] == 2, "it sees pixels in [0, 1], in evaluation too");
  apply_custom(image, with, "[raised, to_float]", 0, HD_PIPELINE_TRAINING);
  ok(fabsf(image[0] - 1.0f / 255) < 1e-6f && fabsf(image[5] - 256.0f / 255) < 1e-6f, "or bytes as floats");
  t = (hd_custom_transform){.struct_bytes = sizeof t, .name = "noted", .random = 1, .apply = note_random, .user = word};
  is_int(hd_transform_add(with, &t), HD_OK, "a random one is registered");
  apply_custom(image, with, "[to_float, noted]", 5, HD_PIPELINE_EVALUATION);
  ok(word[0] == 0 && word[1] == 0, "evaluation leaves it out");
  apply_custom(image, with, "[to_float, noted]", 5, HD_PIPELINE_TRAINING);
  memcpy(first, word, sizeof first);
  apply_custom(image, with, "[to_float, noted]", 6, HD_PIPELINE_TRAINING);
  ok(memcmp(first, word, sizeof first), "another position has other random words");
  apply_custom(image, with, "[to_float, noted]", 5, HD_PIPELINE_TRAINING);
  ok(!memcmp(first, word, sizeof first), "the same position the same");
  t.name = "resize";
  refuses(hd_transform_add(with, &t), HD_E_USAGE, with, "", "found 'resize'", "a built-in name is refused");
  t.name = "a b";
  refuses(hd_transform_add(with, &t), HD_E_USAGE, with, "", "found 'a b'", "a name with a blank is refused");
  t.name = "none", t.apply = NULL;
  refuses(hd_transform_add(with, &t), HD_E_USAGE, with, "", "expected a function", "no function is refused");
  hd_ctx_destroy(with);
}

/* A place that is no number is outside of an image, like -1. */
static void test_no_place(void) {
  enum { SIDE = 5, ROW = SIDE + 3, COUNT = 20 };
  static float framed[ROW * ROW], x[COUNT], y[COUNT], found[COUNT];
  for (int i = 0; i < ROW * ROW; i++)
    framed[i] = (float)i;
  for (int i = 0; i < COUNT; i++) {
    x[i] = i % 3 == 0 ? NAN : 2;
    y[i] = i % 4 == 0 ? NAN : 1;
  }
  for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) {
    const char *why = "";
    const hd_kernels *kernels = hd__kernels_select(isas[k], &why);
    if (!kernels)
      continue;
    bool right = true;
    kernels->image.sample(found, framed + ROW + 1, ROW, SIDE, SIDE, x, y, COUNT);
    for (int i = 0; i < COUNT; i++)
      right = right && found[i] == framed[(isnan(y[i]) ? 0 : 2) * ROW + (isnan(x[i]) ? 0 : 3)];
    ok(right, "%s: a place that is no number is outside", isas[k]);
  }
}

/* ---- Masks ---- */

/* A mask goes where its picture goes: one with the mask's numbers as colours becomes the same by these lists, which
 * take the nearest pixel and fill with 255; `smooth` is the list for usual pictures, under which masks are the same. */
static const struct {
  const char *list, *smooth;
} mask_lists[] = {
    {"[horizontal_flip, vertical_flip, alternating_flip, to_float]", NULL},
    {"[{random_crop: {size: [9, 7], padding: 4, fill: 255}}, to_float]",
     "[{random_crop: {size: [9, 7], padding: 4}}, {colour_jitter: {brightness: 0.4}}, to_float, normalise]"},
    {"[{pad: {padding: 3, padding_mode: reflect}}, {centre_crop: 14}, horizontal_flip, to_float]", NULL},
    {"[{translate: {pixels: 2, padding_mode: edge}}, to_float]", NULL},
    {"[{resize: {size: [5, 17], interpolation: nearest}}, to_float]", "[{resize: [5, 17]}, to_float]"},
    {"[{random_resized_crop: {size: 8, interpolation: nearest}}, horizontal_flip, to_float]",
     "[{random_resized_crop: {size: 8}}, horizontal_flip, to_float, {cutout: 3}]"},
    {"[{rotation: {degrees: 40, interpolation: nearest, fill: 255}}, to_float]",
     "[{rotation: 40}, to_float, {erase: {p: 1}}]"},
    {"[{affine: {degrees: 20, translate: [0.2, 0.1], scale: [0.7, 1.2], shear: 10, interpolation: nearest, fill: "
     "255}}, "
     "to_float]",
     "[{affine: {degrees: 20, translate: [0.2, 0.1], scale: [0.7, 1.2], shear: 10}}, to_float]"},
    {"[{elastic: {alpha: 4, sigma: 2, interpolation: nearest, fill: 255}}, to_float]",
     "[{elastic: {alpha: 4, sigma: 2}}, to_float]"},
};

enum { MASK_SIDE = 12, MASK_PIXELS = MASK_SIDE * MASK_SIDE };

static void check_mask_list(const char *list, const char *smooth, int64_t position) {
  static subject s;
  static uint8_t mask[MASK_PIXELS], seen[MOST_PIXELS];
  const hd_pipeline_input input = input_of(1, MASK_SIDE, MASK_SIDE);
  const hd_sample_key key = {.seed = 5, .epoch = 1, .position = position, .count = 100};
  const hd_sample sample = {.pixels = mask, .height = MASK_SIDE, .width = MASK_SIDE, .number = position};
  draw_bytes(mask, MASK_PIXELS, (uint32_t)position);
  open_subject(&s, list, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
  hd_pipeline_apply(s.image, NULL, s.p, &sample, NULL, &key, s.scratch);
  memcpy(seen, hd__pipeline_mask(s.p, &sample, &key, s.scratch), (size_t)s.elems);
  int64_t other = 0;
  for (int64_t i = 0; i < s.elems; i++)
    other += seen[i] != (int)(s.image[i] * 255 + 0.5f);
  is_int(other, 0, "%s: a mask goes where its picture goes, position %lld", list, (long long)position);
  close_subject(&s);
  if (!smooth)
    return;
  open_subject(&s, smooth, &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
  ok(hd__pipeline_check_masks(ctx, s.p) == HD_OK &&
         !memcmp(seen, hd__pipeline_mask(s.p, &sample, &key, s.scratch), (size_t)s.elems),
     "%s: and is not mixed", smooth);
  close_subject(&s);
}

static void test_masks(void) {
  static subject s;
  const hd_pipeline_input input = input_of(1, MASK_SIDE, MASK_SIDE);
  static const char *const ones[] = {"[to_float, one_hot]", "[to_float, one_hot, {mixup: 0.5}]"};
  for (size_t i = 0; i < sizeof mask_lists / sizeof *mask_lists; i++)
    for (int64_t position = 0; position < 4; position++)
      check_mask_list(mask_lists[i].list, mask_lists[i].smooth, position);
  for (int i = 0; i < 2; i++) {
    open_subject(&s, ones[i], &input, HD_PIPELINE_TRAINING, hd__kernels_reference());
    is_int(hd__pipeline_check_masks(ctx, s.p), HD_E_USAGE, "%s: ones for masks", ones[i]);
    close_subject(&s);
  }
}

int main(int argc, char **argv) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  if (argc > 1) { /* writes the constants anew */
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
      printf("    {\"%s\", %d, %d, %d, 0x%016llx},\n", constants[i].list, constants[i].channels, constants[i].height,
             constants[i].width, (unsigned long long)digest_of(&constants[i], true, hd__kernels_reference()));
    return 0;
  }
  test_constants();
  test_custom();
  test_floats();
  test_keys();
  test_flips();
  test_crop_places();
  test_displacements();
  test_mixup();
  test_partner_is_transformed();
  test_identity();
  test_default();
  test_known();
  test_no_place();
  test_colours();
  test_shapes();
  test_evaluation();
  test_resized_crop();
  test_any_size();
  test_refused();
  test_text();
  test_masks();
  hd_ctx_destroy(ctx);
  return done_testing();
}
