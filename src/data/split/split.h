/* One split of a data set, training or test: samples with class labels or, for regression, with float targets. Formats
 * fill it (data/dataset/format.h); feeds, statistics and pictures read it.
 *
 * Samples are bytes, which represent pixels in [0, 1], or floats, which are used as they are. Labels and targets are
 * always in memory; samples are, except where a set is decoded sample by sample. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

enum { HD_DATA_MAX_CHANNELS = 64, HD_DATA_MAX_SIDE = 65535, HD_DATA_MAX_CLASSES = 65536, HD_DATA_PARTS = 4 };

/* In a mask: a pixel that has no class, and does not count. Classes are below it. */
enum { HD_NO_CLASS = 255 };

typedef enum hd_elem { HD_ELEM_U8, HD_ELEM_F32 } hd_elem;

typedef struct hd_split hd_split;

/* Fills `elems` (room for hd__split_most_bytes) with one sample in planes: channel, row, column; size gets its
 * height and width. A failure names the file. Thread-safe with a separate context per thread. */
typedef hd_status hd_get_fn(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample);

/* Some places of a sample that is a window of a text: `count` of them from the place `first` on. `offset` moves the
 * windows of training. */
typedef struct hd_window {
  int64_t sample, offset;
  int32_t first, count;
} hd_window;

/* Fills x with the tokens of these places as numbers, and label with the token that follows each, -1 where none does or
 * it is no target; either may be NULL. */
typedef void hd_window_fn(float *x, int32_t *label, const hd_split *split, const hd_window *window);

/* Where a mask begins in the memory of all, and its size: height, width. */
typedef struct hd_mask_place {
  int64_t at;
  int32_t size[2];
} hd_mask_place;

struct hd_split {
  int64_t count;
  int64_t validation; /* of them, the last: a validation set that came with the training set */
  hd_elem elem;
  int channels, height, width; /* of every sample; height and width 0: each has its own */
  bool flat;                   /* rows of numbers, 1 x 1 x width: fit any input of one channel and as many elements */
  int64_t most_elems;          /* of the largest sample; 0: channels * height * width */
  int64_t all_elems;           /* of all samples, if sizes differ */
  const char *mixed;           /* if sizes differ: the first two that do, "a.png 3x4, b.png 5x6" */

  /* Samples in memory, one after the other, each in planes; NULL if they are elsewhere. */
  const uint8_t *images;  /* HD_ELEM_U8 */
  const float *floats;    /* HD_ELEM_F32 */
  bool borrowed;          /* arrays of the program, which should not change them */
  hd_get_fn *get;         /* if they are not */
  void *self;             /* argument of get */
  bool drawn;             /* get takes about as long as reading memory: its samples are never cached */
  hd_window_fn *window;   /* of a text; then labels and targets are NULL, and `classes` tokens are known */
  int64_t offsets;        /* of windows of training: how many there are */
  int64_t tokens;         /* of a text, a validation set among them */
  double token_bytes;     /* of a predicted token of a text, on average; 0: unknown */
  bool whole_answers;     /* windows are right if all their labels are guessed: tasks, not a text */
  struct hd_skips *skips; /* unreadable samples; NULL: these are failures (skipped_samples.h) */
  int64_t left_out;       /* unreadable ones that are none of the samples */
  uint64_t key;           /* identifies the samples before they are decoded; 0: nothing */

  const int32_t *labels;          /* class numbers; NULL with targets */
  int classes;                    /* 0 with targets */
  const char *const *class_names; /* NULL if unknown */
  const float *targets;           /* finite numbers, `outputs` a sample; NULL with labels */
  int outputs;
  const struct hd_target_column *target_column; /* of each output, in a table with several columns of labels
                                                   (tables/features.h); else NULL */
  bool masked;          /* each pixel has a class of its own; then there are neither labels nor targets, but */
  const uint8_t *masks; /* height x width of them a sample, HD_NO_CLASS for none */
  const hd_mask_place *mask_place; /* of each, and after them their end, if sizes differ; else NULL */
  const float *weights;            /* of samples in losses and scores (sample_weights.h); NULL: all count once */
};

static inline int64_t hd__split_elems(const hd_split *split) {
  return (int64_t)split->channels * split->height * split->width;
}

/* Pixels of a sample, all of one size. */
static inline int64_t hd__split_plane(const hd_split *split) { return (int64_t)split->height * split->width; }

/* Where the mask of a sample begins, and its size; the bytes of all masks. */
static inline hd_mask_place hd__split_mask(const hd_split *split, int64_t sample) {
  return split->mask_place
             ? split->mask_place[sample]
             : (hd_mask_place){sample * hd__split_plane(split), {(int32_t)split->height, (int32_t)split->width}};
}

static inline int64_t hd__split_mask_bytes(const hd_split *split) { return hd__split_mask(split, split->count).at; }

static inline int64_t hd__split_elem_bytes(const hd_split *split) { return split->elem == HD_ELEM_U8 ? 1 : 4; }

/* Bytes that the largest sample takes. */
static inline int64_t hd__split_most_bytes(const hd_split *split) {
  int64_t elems = split->most_elems ? split->most_elems : hd__split_elems(split);
  return elems * hd__split_elem_bytes(split);
}

/* Every sample is in memory, all of one size: sample i begins at element i * hd__split_elems. */
static inline bool hd__split_in_memory(const hd_split *split) { return split->images || split->floats; }

/* Samples are decoded one by one. */
static inline bool hd__split_decodes(const hd_split *split) { return !hd__split_in_memory(split) && !split->window; }

/* One sample of any split, as hd_get_fn. */
static inline hd_status hd__split_get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  if (!hd__split_in_memory(split))
    return split->get(elems, size, ctx, split, sample);
  int64_t bytes = hd__split_elems(split) * hd__split_elem_bytes(split);
  const uint8_t *all = split->images ? split->images : (const uint8_t *)split->floats;
  memcpy(elems, all + sample * bytes, (size_t)bytes);
  size[0] = split->height;
  size[1] = split->width;
  return HD_OK;
}

static inline double hd__split_weight(const hd_split *split, int64_t sample) {
  return split->weights ? (double)split->weights[sample] : 1;
}

/* The target of a loss on numbers: a target, or the label as a number. */
static inline float hd__split_number(const hd_split *split, int64_t sample, int output) {
  return split->targets ? split->targets[sample * split->outputs + output] : (float)split->labels[sample];
}
