/* Contact sheets: a few samples of each class of a split, one row per class with its name, as PNG.
 *
 * Samples are taken at even distances through a class, in the split's order, so a sheet is a function of the data
 * alone. With targets in place of classes rows go by the first target, from the lowest to the highest. */
#pragma once

#include <stdint.h>

#include "data/split/split.h"

/* Written atomically. Skipped samples are left out. */
hd_status hd__contact_sheet(hd_ctx *ctx, const char *path, const char *title, const hd_split *split);

/* ---- Sheets of misclassified samples, as PNG ---- */

typedef struct hd_mistake {
  int label, guess;
  float confidence; /* of the guess, 0 .. 1 */
  int64_t index;    /* in the test set */
} hd_mistake;

/* Draws a sheet: a title "WRONG of TOTAL wrong: the most confident", and each image fitted into a square with its
 * label, guess and confidence below. Written atomically. */
hd_status hd__picture_mistakes(hd_ctx *ctx, const char *path, const hd_mistake *mistake, int count, int64_t wrong,
                               int64_t total, const hd_split *split);
