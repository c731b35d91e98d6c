/* Data sets from named arrays: x_train, y_train, x_test, y_test; or train_images, train_labels, test_images,
 * test_labels; or images and labels; or x and y. Of the latter a fifth becomes the test set (format.h).
 *
 * Samples have the shape (N, H, W), (N, C, H, W) or (N, H, W, C), depending on which side has 1 to 4 elements, the
 * first if both have; (N, F) and (N) are rows of numbers. Bytes (uint8) are pixels, every other type becomes float.
 * Labels of the shape (N) or (N, 1) are classes if they are integers; floats, or several a sample, are targets. */
#ifndef HD_DATA_FORMATS_NAMED_ARRAYS_H
#define HD_DATA_FORMATS_NAMED_ARRAYS_H

#include "data/formats/format.h"
#include "data/formats/npy.h"
#include "platform/file.h"

/* One array, and the owner of its bytes. */
typedef struct hd_array_part {
  char name[HD_PATH_BYTES]; /* for messages: "set.npz: x_train" */
  hd_npy npy;
  hd_mapping mapping;
  uint8_t *copy;
} hd_array_part;

/* A source of arrays. */
typedef struct hd_array_source {
  const char *path;
  void *self;
  bool (*has)(void *self, const char *name);
  hd_status (*read)(hd_array_part *out, hd_ctx *ctx, void *self, const char *name);
} hd_array_source;

hd_status hd__arrays_open(hd_opened *out, hd_ctx *ctx, const hd_array_source *source, int ignored);

/* Whether all arrays of a data set exist, under any of the names. */
bool hd__arrays_there(const hd_array_source *source);

#endif
