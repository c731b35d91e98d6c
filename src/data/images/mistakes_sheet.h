/* Sheets of misclassified samples, as PNG. */
#ifndef HD_DATA_IMAGES_MISTAKES_SHEET_H
#define HD_DATA_IMAGES_MISTAKES_SHEET_H

#include <stdint.h>

#include "data/loader/dataset_split.h"

typedef struct hd_mistake {
  int label, guess;
  float confidence; /* of the guess, 0 .. 1 */
  int64_t index;    /* in the test set */
} hd_mistake;

/* Draws a sheet: a title "WRONG of TOTAL wrong: the most confident", and each image fitted into a square with its label,
 * guess and confidence below. Written atomically. */
hd_status hd__picture_mistakes(hd_ctx *ctx, const char *path, const hd_mistake *mistake, int count, int64_t wrong,
                               int64_t total, const hd_dataset *split);

#endif
