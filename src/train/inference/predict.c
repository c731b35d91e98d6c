/* Prediction: runs pictures, pixels and items of a data set through a checkpoint's network; see heddle/predict.h. */
#include "heddle/predict.h"

#include <math.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "base/rounding.h"
#include "data/images/image_file.h"
#include "data/split/skipped_samples.h"
#include "platform/thread_start.h"
#include "train/inference/predictor.h"
#include "train/settings/run_record.h"

enum { AT_ONCE = HD_PREDICTED_AT_ONCE };

static hd_status make_room(hd_predictor *p, hd_ctx *ctx) {
  int32_t shape[3], scores = p->trained.network.target.scores;
  hd_predictor_input(shape, p);
  p->outcome.loss = hd__malloc(AT_ONCE * sizeof *p->outcome.loss);
  p->outcome.guess = hd__malloc(AT_ONCE * sizeof *p->outcome.guess);
  if (!hd__predicts_pixels(p))
    p->outcome.score = hd__malloc((size_t)AT_ONCE * (size_t)scores * sizeof *p->outcome.score);
  p->pixels = hd__malloc((size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2]);
  return HD_ALLOCATED(p->outcome.loss && p->outcome.guess && (p->outcome.score || hd__predicts_pixels(p)) && p->pixels,
                      ctx, "out of memory for the predictions");
}

static hd_status set_up(hd_predictor *p, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  HD_TRY(config ? hd__config_copy(&p->config, ctx, config) : hd_config_create(&p->config, ctx));
  HD_TRY(hd__trained_open(&p->trained, ctx, checkpoint, p->config));
  if (hd__network_reads_text(&p->trained.network))
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected a network with one prediction for each sample, found one that predicts every next "
                    "token of a text; use heddle generate",
                    checkpoint);
  if (hd__predicts_pixels(p) && p->trained.network.target.scores > HD_NO_CLASS)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected at most %d classes of a pixel, found %d; use another checkpoint", checkpoint,
                    HD_NO_CLASS, p->trained.network.target.scores);
  if (hd__predicts_pixels(p) && p->trained.tta != HD_TTA_NONE)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--tta %s expects one label for each sample, found a network that predicts a class for each pixel; "
                    "leave it out",
                    hd_choice_name(HD_OPT_TTA, (int32_t)p->trained.tta));
  return make_room(p, ctx);
}

hd_status hd_predictor_create(hd_predictor **out, hd_ctx *ctx, const char *checkpoint, const hd_config *config) {
  HD_ROUNDING_TO_NEAREST;
  *out = NULL;
  HD_TRY(hd__thread_check_stack(ctx));
  hd_predictor *p = *out = hd__calloc(1, sizeof *p);
  HD_TRY(HD_ALLOCATED(p, ctx, "out of memory for the predictions"));
  hd_status status = set_up(p, ctx, checkpoint, config);
  return HD_CREATED(status, out, hd_predictor_destroy);
}

void hd_predictor_destroy(hd_predictor *p) {
  if (!p)
    return;
  hd__trained_fini(&p->trained);
  hd__dataset_close(p->data);
  hd_config_destroy(p->config);
  hd__free(p->outcome.loss);
  hd__free(p->outcome.guess);
  hd__free(p->outcome.score);
  hd__free(p->pixels);
  hd__free(p->mask);
  hd__free(p);
}

hd_prediction hd_predictor_gives(const hd_predictor *p) {
  const hd_target *target = &p->trained.network.target;
  if (hd__predicts_pixels(p))
    return HD_PREDICTS_PIXELS;
  if (hd__target_classes(target) > 0)
    return HD_PREDICTS_CLASSES;
  if (target->heads > 0)
    return HD_PREDICTS_HEADS;
  return hd__target_numbers(target) ? HD_PREDICTS_NUMBERS : HD_PREDICTS_CHANCES;
}

int hd_predictor_head(hd_predicted_head *out, const hd_predictor *p, int32_t index) {
  const hd_target *target = &p->trained.network.target;
  if (index < 0 || index >= target->heads)
    return 0;
  const hd_target_head *head = &target->head[index];
  *out = (hd_predicted_head){.name = head->name, .first = head->is.first, .count = head->is.count};
  out->gives = head->is.loss == HD_HEAD_CROSS_ENTROPY     ? HD_PREDICTS_CLASSES
               : head->is.loss == HD_HEAD_BCE_WITH_LOGITS ? HD_PREDICTS_CHANCES
                                                          : HD_PREDICTS_NUMBERS;
  return 1;
}

const char *hd_predictor_head_class(const hd_predictor *p, int32_t index, int32_t class) {
  hd_predicted_head head;
  if (!hd_predictor_head(&head, p, index) || head.gives != HD_PREDICTS_CLASSES)
    return NULL;
  const int32_t target = p->trained.network.target.head[index].is.target;
  const hd_target_column *of = target < p->trained.features.targets ? &p->trained.features.target[target] : NULL;
  return of && class >= 0 && class < of->classes ? of->class_name[class] : NULL;
}

int32_t hd_predictor_count(const hd_predictor *p) {
  const hd_target *target = &p->trained.network.target;
  int32_t classes = hd__target_classes(target);
  return classes > 0 ? classes : target->scores;
}

const char *hd_predictor_class_name(const hd_predictor *p, int32_t class) {
  const hd_prediction gives = hd_predictor_gives(p);
  const bool classes = gives == HD_PREDICTS_CLASSES || gives == HD_PREDICTS_PIXELS;
  return classes && class >= 0 && class < p->trained.class_names ? p->trained.class_name[class] : NULL;
}

/* A flat input of N counts as one row of N pixels. */
void hd_predictor_input(int32_t shape[3], const hd_predictor *p) {
  const hd_graph *graph = p->trained.plan->graph;
  const hd_shape *input = &graph->values[graph->input].shape;
  for (int i = 0; i < 3; i++)
    shape[i] = i < 3 - input->rank ? 1 : input->dim[i - 3 + input->rank];
}

int32_t hd_predict_class(const double *probability, int32_t classes) {
  int32_t best = 0;
  for (int32_t c = 1; c < classes; c++)
    if (probability[c] > probability[best])
      best = c;
  return best;
}

/* exp(score - largest) over its sum, added in the order of classes. */
static void softmax(double *probability, const float *score, int32_t classes) {
  double sum = 0, largest = (double)score[0];
  for (int32_t c = 1; c < classes; c++)
    largest = (double)score[c] > largest ? (double)score[c] : largest;
  for (int32_t c = 0; c < classes; c++)
    sum += probability[c] = hd__exp((double)score[c] - largest);
  for (int32_t c = 0; c < classes; c++)
    probability[c] /= sum;
}

/* A single score is the second class's, with 0 for the first class. */
static void softmax_of_two(double *probability, float score) {
  const float both[2] = {0, score};
  softmax(probability, both, 2);
}

static void chances(double *value, const float *score, int32_t count) {
  double pair[2];
  for (int32_t i = 0; i < count; i++) {
    softmax_of_two(pair, score[i]);
    value[i] = pair[1];
  }
}

static void convert_heads(double *value, const hd_predictor *p, const float *score) {
  hd_predicted_head head;
  for (int32_t k = 0; hd_predictor_head(&head, p, k); k++) {
    double *to = value + head.first;
    const float *from = score + head.first;
    if (head.gives == HD_PREDICTS_CLASSES)
      softmax(to, from, head.count);
    else if (head.gives == HD_PREDICTS_CHANCES)
      chances(to, from, head.count);
    else
      for (int32_t i = 0; i < head.count; i++)
        to[i] = (double)from[i];
  }
}

static void convert(double *value, const hd_predictor *p, const float *score) {
  int32_t scores = p->trained.network.target.scores;
  switch (hd_predictor_gives(p)) {
  case HD_PREDICTS_CLASSES:
    if (scores == hd_predictor_count(p))
      softmax(value, score, scores);
    else
      softmax_of_two(value, *score);
    return;
  case HD_PREDICTS_CHANCES: chances(value, score, scores); return;
  case HD_PREDICTS_HEADS: convert_heads(value, p, score); return;
  case HD_PREDICTS_NUMBERS:
    for (int32_t i = 0; i < scores; i++)
      value[i] = hd__target_unscaled(&p->trained.targets, i, (double)score[i]);
    return;
  case HD_PREDICTS_PIXELS: return; /* see hd__masks_take */
  }
}

hd_status hd__predict_some(double *value, hd_predictor *p, hd_ctx *ctx, const hd_split *samples,
                           hd_pipeline_mode mode) {
  const int64_t count = samples->count;
  hd_status status = hd__trained_feed(&p->feed, ctx, &p->trained, samples, mode);
  HD_THEN(status, hd__trained_evaluate(&p->outcome, ctx, &p->trained, &p->feed));
  hd__feed_fini(&p->feed);
  if (status == HD_OK && hd__predicts_pixels(p))
    hd__masks_take(value, p, count);
  for (int64_t i = 0; i < count && status == HD_OK && p->outcome.score; i++)
    convert(value + i * hd_predictor_count(p), p, p->outcome.score + i * p->trained.network.target.scores);
  return status;
}

/* Rows of numbers, normalised by columns as the run's were. */
static hd_status predict_rows(double *value, hd_predictor *p, hd_ctx *ctx, const uint8_t *bytes, const float *floats,
                              int64_t count) {
  static const int32_t no_labels[AT_ONCE];
  const int64_t width = p->trained.features.count;
  HD_OWNED float *rows = NULL;
  HD_TRY(HD_NEW_RAW(rows, AT_ONCE * width, ctx, "out of memory for rows"));
  for (int64_t first = 0; first < count; first += AT_ONCE) {
    const int64_t some = count - first < AT_ONCE ? count - first : AT_ONCE;
    for (int64_t i = 0; i < some * width; i++)
      rows[i] = bytes ? (float)bytes[first * width + i] : floats[first * width + i];
    hd__features_apply(rows, &p->trained.features, NULL, some);
    const hd_split samples = {.elem = HD_ELEM_F32,
                              .floats = rows,
                              .labels = no_labels,
                              .count = some,
                              .channels = 1,
                              .height = 1,
                              .width = (int)width,
                              .flat = true,
                              .classes = 1};
    HD_TRY(hd__predict_some(value + first * hd_predictor_count(p), p, ctx, &samples, HD_PIPELINE_FITTED));
  }
  return HD_OK;
}

/* The model takes the shape that a picture has after the run's transforms. */
static hd_status check_size(hd_predictor *p, hd_ctx *ctx, const hd_split *one, const char *path) {
  int32_t shape[3];
  HD_FEED_OWNED feed = {0};
  hd_predictor_input(shape, p);
  HD_TRY(hd__trained_feed(&feed, ctx, &p->trained, one, HD_PIPELINE_EVALUATION));
  const hd_split seen = hd__feed_seen(&feed);
  if (seen.channels == shape[0] && seen.height == shape[1] && seen.width == shape[2])
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE,
                  "%s: expected a picture of %dx%d, or a run whose transforms resize it, found %dx%d; resize it, or "
                  "train with a resize",
                  path, shape[2], shape[1], seen.width, seen.height);
}

/* Samples of the model's size are fitted already, unless a function of the program is among the run's transforms: what
 * it does to numbers all samples need, so that these go through the whole list. */
static hd_status mode_for(hd_pipeline_mode *mode, hd_predictor *p, hd_ctx *ctx, const hd_split *samples) {
  HD_FEED_OWNED feed = {0};
  *mode = HD_PIPELINE_FITTED;
  HD_TRY(hd__trained_feed(&feed, ctx, &p->trained, samples, *mode));
  if (!feed.pipeline || !hd__pipeline_lacks_program(feed.pipeline))
    return HD_OK;
  *mode = HD_PIPELINE_EVALUATION;
  hd__feed_fini(&feed);
  HD_TRY(hd__trained_feed(&feed, ctx, &p->trained, samples, *mode));
  const hd_split seen = hd__feed_seen(&feed);
  if (seen.height == samples->height && seen.width == samples->width)
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE,
                  "the samples: expected transforms that keep their size, as a function of the program is among them, "
                  "found %dx%d made of %dx%d; evaluate a data set, or predict pictures",
                  seen.width, seen.height, samples->width, samples->height);
}

/* Samples of one kind, bytes or floats. */
static hd_status predict_many(double *value, hd_predictor *p, hd_ctx *ctx, const uint8_t *bytes, const float *floats,
                              int64_t count) {
  static const int32_t no_labels[AT_ONCE];
  hd_pipeline_mode mode;
  int32_t shape[3];
  hd_predictor_input(shape, p);
  const int64_t elems = (int64_t)shape[0] * shape[1] * shape[2];
  HD_TRY(hd__masks_begin(p, ctx, count, shape));
  if (hd__trained_reads_columns(&p->trained))
    return predict_rows(value, p, ctx, bytes, floats, count);
  for (int64_t first = 0; first < count; first += AT_ONCE) {
    const hd_split samples = {.elem = bytes ? HD_ELEM_U8 : HD_ELEM_F32,
                              .images = bytes ? bytes + first * elems : NULL,
                              .floats = bytes ? NULL : floats + first * elems,
                              .labels = no_labels,
                              .count = count - first < AT_ONCE ? count - first : AT_ONCE,
                              .channels = shape[0],
                              .height = shape[1],
                              .width = shape[2],
                              .classes = 1};
    if (first == 0)
      HD_TRY(mode_for(&mode, p, ctx, &samples));
    HD_TRY(hd__predict_some(value + first * hd_predictor_count(p), p, ctx, &samples, mode));
  }
  return HD_OK;
}

/* HD_E_SHAPE for samples of another kind than training's. */
static hd_status check_kind(const hd_predictor *p, hd_ctx *ctx, const uint8_t *bytes, const float *floats,
                            int64_t count) {
  int32_t shape[3];
  if (count < 0)
    return hd__fail(ctx, HD_E_USAGE, "expected a number of samples from 0, found %lld", (long long)count);
  hd_predictor_input(shape, p);
  const hd_split all = {.elem = bytes ? HD_ELEM_U8 : HD_ELEM_F32,
                        .floats = floats,
                        .count = count,
                        .channels = shape[0],
                        .height = shape[1],
                        .width = shape[2]};
  return hd__trained_check_kind(&p->trained, ctx, "the samples", &all);
}

hd_status hd_predict_pixels(double *value, hd_predictor *p, hd_ctx *ctx, const uint8_t *pixels, int64_t count) {
  HD_ROUNDING_TO_NEAREST;
  HD_TRY(check_kind(p, ctx, pixels, NULL, count));
  return predict_many(value, p, ctx, pixels, NULL, count);
}

hd_status hd_predict_floats(double *value, hd_predictor *p, hd_ctx *ctx, const float *samples, int64_t count) {
  HD_ROUNDING_TO_NEAREST;
  int32_t shape[3];
  hd_predictor_input(shape, p);
  const int64_t elems = (int64_t)shape[0] * shape[1] * shape[2];
  for (int64_t i = 0; i < count * elems; i++)
    if (!isfinite(samples[i]))
      return hd__fail(ctx, HD_E_NOTFINITE,
                      "expected samples of finite numbers, found %s as number %lld of sample %lld; leave it out",
                      isnan(samples[i]) ? "NaN" : "infinity", (long long)(i % elems), (long long)(i / elems));
  HD_TRY(check_kind(p, ctx, NULL, samples, count));
  return predict_many(value, p, ctx, NULL, samples, count);
}

/* Predicts a single sample; the mask of one that the run's transforms only resize gets its size. */
static hd_status predict_one(double *value, hd_predictor *p, hd_ctx *ctx, const hd_split *one) {
  HD_FEED_OWNED feed = {0};
  int32_t shape[3];
  hd_predictor_input(shape, p);
  HD_TRY(hd__masks_begin(p, ctx, 1, shape));
  HD_TRY(hd__predict_some(value, p, ctx, one, HD_PIPELINE_EVALUATION));
  if (!hd__predicts_pixels(p))
    return HD_OK;
  HD_TRY(hd__trained_feed(&feed, ctx, &p->trained, one, HD_PIPELINE_EVALUATION));
  return feed.pipeline && hd__pipeline_keeps_frame(feed.pipeline)
             ? hd__masks_resize(value, p, ctx, one->height, one->width)
             : HD_OK;
}

/* Brightness by the weights of BT.601; a grey pixel keeps its value. */
static uint8_t brightness(const uint8_t *rgba) {
  return (uint8_t)((299 * rgba[0] + 587 * rgba[1] + 114 * rgba[2] + 500) / 1000);
}

/* As a sample of a data set. */
static hd_status predict_sample(double *value, hd_predictor *p, hd_ctx *ctx, const char *path,
                                const hd_picture *picture, int32_t channels) {
  static const int32_t no_label;
  const size_t plane = (size_t)picture->height * (size_t)picture->width;
  const int32_t classes = hd__target_classes(&p->trained.network.target);
  const bool alpha = !hd__config_data(p->trained.run).photos.ignore_alpha;
  HD_OWNED uint8_t *planes = hd__malloc((size_t)channels * plane);
  HD_TRY(HD_ALLOCATED(planes, ctx, "%s: out of memory for a picture", path));
  for (size_t i = 0; i < plane; i++)
    for (size_t c = 0; c < (size_t)channels; c++) {
      const uint8_t *pixel = picture->rgba + 4 * i;
      planes[c * plane + i] = hd__on_white(channels == 1 ? brightness(pixel) : pixel[c], alpha ? pixel[3] : 255);
    }
  const hd_split one = {.images = planes,
                        .labels = &no_label,
                        .count = 1,
                        .channels = channels,
                        .height = picture->height,
                        .width = picture->width,
                        .classes = classes > 0 ? classes : 1};
  HD_TRY(check_size(p, ctx, &one, path));
  return predict_one(value, p, ctx, &one);
}

/* Whether pictures are drawings of digits: the data have one channel, and classes without names, as in IDX files. Class
 * folders have names, and their grey pictures may be dark on light. */
static bool takes_drawings(const hd_predictor *p, int32_t channels) {
  return channels == 1 && p->trained.class_names == 0 && !hd__predicts_pixels(p);
}

hd_status hd_predict_picture(double *value, hd_predictor *p, hd_ctx *ctx, const char *path) {
  HD_ROUNDING_TO_NEAREST;
  HD_RELEASED(hd__picture_fini) hd_picture picture = {0};
  int32_t shape[3];
  hd_predictor_input(shape, p);
  if (shape[0] != 1 && shape[0] != 3)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected a model with 1 or 3 channels for pictures, found one with %d; give "
                    "its samples as a .npy file",
                    path, shape[0]);
  if (shape[1] == 1)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: the model reads rows of %d numbers, found a picture; give a .csv or .npy file", path,
                    shape[0] * shape[2]);
  if (!hd__trained_may_read_pixels(&p->trained))
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: pictures need a run on pixels (bytes, or floats from 0 to 1), found one on floats of mean %g "
                    "and standard deviation %g; give the numbers as a .npy file of float32",
                    path, p->trained.mean[0], p->trained.std[0]);
  HD_TRY(hd__photo_picture(&picture, ctx, path, hd__config_data(p->trained.run).photos));
  if (!takes_drawings(p, shape[0]))
    return predict_sample(value, p, ctx, path, &picture, shape[0]);
  HD_TRY(hd__fit_picture(p->pixels, ctx, path, &picture, shape[1], shape[2]));
  return predict_many(value, p, ctx, p->pixels, NULL, 1);
}

hd_status hd_predict_item(double *value, int32_t *label, hd_predictor *p, hd_ctx *ctx, int64_t index) {
  HD_ROUNDING_TO_NEAREST;
  static const int32_t no_label;
  hd_evaluated part;
  if (!p->data)
    HD_TRY(hd__trained_data(&p->data, &part, ctx, &p->trained, p->config));
  const hd_split *test = hd__dataset_test(p->data);
  if (index < 0 || index >= test->count)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected an index from 0 to %lld in the test set of %s, found %lld; choose one of these",
                    (long long)test->count - 1, p->data->name, (long long)index);
  if (hd__skips_has(test, index))
    return hd__fail(ctx, HD_E_IO, "sample %lld of the test set of %s cannot be read; choose another", (long long)index,
                    p->data->name);
  if (label)
    *label = test->labels ? test->labels[index] : -1;
  HD_OWNED float *elems = hd__malloc((size_t)hd__split_most_bytes(test)); /* or bytes */
  int size[2];
  HD_TRY(HD_ALLOCATED(elems, ctx, "out of memory for a sample"));
  HD_TRY(hd__split_get(elems, size, ctx, test, index));
  hd_split one = *test;
  one.count = 1;
  one.height = size[0];
  one.width = size[1];
  one.mixed = NULL;
  one.images = test->elem == HD_ELEM_U8 ? (const uint8_t *)elems : NULL;
  one.floats = test->elem == HD_ELEM_U8 ? NULL : elems;
  one.labels = test->labels ? test->labels + index : test->masks ? &no_label : NULL;
  one.targets = test->targets ? test->targets + index * test->outputs : NULL;
  one.masks = NULL;
  one.masked = false;
  return predict_one(value, p, ctx, &one);
}

int32_t hd_predict_item_targets(double *target, const hd_predictor *p, int64_t index) {
  const hd_split *test = p->data ? hd__dataset_test(p->data) : NULL;
  if (!test || !test->targets || index < 0 || index >= test->count)
    return 0;
  for (int32_t k = 0; k < test->outputs; k++)
    target[k] = (double)hd__split_number(test, index, k);
  return test->outputs;
}

const char *hd_predictor_data(const hd_predictor *p) { return p->data ? p->data->name : ""; }
