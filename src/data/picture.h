/* Pictures of what a model got wrong, as PNG. */
#ifndef HD_DATA_PICTURE_H
#define HD_DATA_PICTURE_H

#include <stdint.h>

#include "base/status.h"

typedef struct hd_mistake {
  const uint8_t *image; /* height x width, 8-bit grey */
  int label, guess;
  float confidence; /* of the guess, 0 .. 1 */
  int64_t index;    /* in the test set */
} hd_mistake;

/* Draws a sheet: a title "WRONG of TOTAL wrong: the most confident", and each image scaled up with its label, guess and
 * confidence below. Written atomically. */
hd_status hd__picture_mistakes(hd_ctx *ctx, const char *path, const hd_mistake *mistake, int count, int64_t wrong,
                               int64_t total, int height, int width);

#endif
