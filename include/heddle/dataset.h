/* Data sets of one's own: samples that a program makes or fetches itself, by three callbacks, and trains on by
 * name.
 *
 *     static int64_t len(void *self) { return 60000; }
 *     static int get(void *self, int64_t index, hd_own_sample *sample) {
 *       ... fill sample->bytes or sample->floats, sample->label or sample->targets ...
 *       return 0;
 *     }
 *     static const hd_own_data mine = {.name = "mine", .channels = 1, .height = 28, .width = 28, .dtype = HD_U8,
 *                                      .classes = 10, .len = len, .get = get};
 *     hd_data_add(ctx, &mine);
 *     hd_config_set(config, ctx, "data", "mine");
 *
 * A sample must follow from its index alone: the training set is read when a session is created, to find its mean
 * and standard deviation, and what was read is kept where it fits into memory (the option cache); else, and with
 * cache none, samples are asked for again in each epoch. What is drawn at random belongs into the transforms of a
 * run.
 *
 * A sample lies in planes: element (c, y, x) at (c * height + y) * width + x. Bytes stand for pixels and are
 * divided by 255, floats are taken as they are; both are normalised with the training set's mean and standard
 * deviation per channel, rounded to 4 decimals.
 *
 * Ownership: a context keeps the pointer; the struct must outlive it. Ending the context calls `free` once for
 * `train` and once for `test`, unless that is NULL. Sessions, predictors and what else was made with the context
 * must have ended before. Thread safety: `get` is called by several threads at once, each for other samples; `len`
 * and `free` by one. */
#ifndef HEDDLE_DATASET_H
#define HEDDLE_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/dtype.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_OWN_DATA = 16 /* of one context */, HD_OWN_DATA_WHY_BYTES = 256 };

/* What `get` fills: bytes or floats, as the dtype says, channels * height * width of them; with classes the label, from
 * 0 to classes - 1, else `outputs` finite targets. */
typedef struct hd_own_sample {
  uint8_t *bytes; /* NULL with HD_F32 */
  float *floats;  /* NULL with HD_U8 */
  int32_t label;
  float *targets;                  /* NULL with classes */
  char why[HD_OWN_DATA_WHY_BYTES]; /* what a `get` that fails may say: a file's name, what is wrong */
} hd_own_sample;

typedef struct hd_own_data {
  const char *name;                /* what `data` calls it: 1 to 32 letters, digits, '_' and '-', no built-in name */
  int32_t channels, height, width; /* 1 to 4, 1 to 65535 */
  hd_dtype dtype;                  /* HD_U8 or HD_F32 */
  int32_t classes;                 /* up to 65536; 0: targets */
  int32_t outputs;                 /* targets a sample; 0 with classes */
  const char *const *class_names;  /* as many as classes; NULL if they have none */
  void *train, *test;              /* passed to the callbacks; test NULL: a fifth of the training set becomes it */
  int64_t (*len)(void *self);      /* samples, 1 or more; called when a session opens the data */
  int (*get)(void *self, int64_t index, hd_own_sample *sample); /* 0, or anything else if it fails */
  void (*free)(void *self);                                     /* may be NULL */
} hd_own_data;

/* Makes the data set known by its name to whatever is opened with this context. HD_E_USAGE: a name that is taken or
 * unfit, sizes out of bounds, a missing callback, more than HD_OWN_DATA; `free` is not called then. A `get` that fails
 * ends the run with HD_E_IO and what it said. */
HD_API hd_status hd_data_add(hd_ctx *ctx, const hd_own_data *data);

#ifdef __cplusplus
}
#endif
#endif
