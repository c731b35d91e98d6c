/* Scores of networks that give each pixel a class: counts of pixels by class and guess, and what follows from them.
 *
 *   accuracy   pixels that were guessed right, of those that have a class that counts
 *   iou        of a class: pixels that have it and were guessed to, over those of which either is true; the mean is
 *              over the classes for which there are such pixels (the intersection over the union, Jaccard's index)
 *
 * Counts are integers: any order of pixels gives the same. */
#pragma once

#include "data/feed/feed.h"
#include "exec/executor.h"
#include "train/settings/model_source.h"

/* Pixels that count, by class. */
typedef struct hd_pixel_counts {
  int64_t labels[HD_NO_CLASS], guesses[HD_NO_CLASS], right[HD_NO_CLASS];
} hd_pixel_counts;

/* Counts the pixels of a feed's samples. `confusion`, unless NULL: classes x classes, row: label, column: guess; they
 * are added to it. */
void hd__pixels_count(hd_pixel_counts *out, int64_t *confusion, const hd_target *target, const hd_feed *feed,
                      const hd_exec_outcome *outcome);

/* NAN: no pixel has the class, and none was guessed to; of the mean, no pixel counts. */
double hd__pixels_iou(const hd_pixel_counts *counts, int32_t class);
double hd__pixels_mean_iou(const hd_pixel_counts *counts, int32_t classes);

/* The F1 scores' mean over the classes that occur, as metric.h has it. */
double hd__pixels_f1(const hd_pixel_counts *counts, int32_t classes);
