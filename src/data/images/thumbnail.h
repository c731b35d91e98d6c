/* Samples of a split as small pictures on a canvas: grey, or in the colours of their first three channels. */
#ifndef HD_DATA_IMAGES_THUMBNAIL_H
#define HD_DATA_IMAGES_THUMBNAIL_H

#include "data/images/canvas.h"
#include "data/loader/dataset_split.h"

typedef struct hd_thumbnails {
  const hd_dataset *split;
  void *elems;     /* of one sample */
  float low, high; /* of floats: the values of black and white */
  bool fitted;
} hd_thumbnails;

hd_status hd__thumbnails_init(hd_thumbnails *out, hd_ctx *ctx, const hd_dataset *split);
void hd__thumbnails_fini(hd_thumbnails *thumbnails); /* one of zeros allowed */

/* Extends the range of floats to include a sample's. Required before a sample is drawn. */
hd_status hd__thumbnails_fit(hd_thumbnails *thumbnails, hd_ctx *ctx, int64_t sample);

/* Draws a sample into the middle of a square with its upper left corner at (left, top). */
hd_status hd__thumbnail_draw(hd_canvas *on, int left, int top, int side, const hd_thumbnails *thumbnails, hd_ctx *ctx,
                             int64_t sample);

#endif
