/* Samples that a reader keeps in memory, one array per split. */
#ifndef HD_DATA_FORMATS_RESIDENT_SAMPLES_H
#define HD_DATA_FORMATS_RESIDENT_SAMPLES_H

#include "data/loader/dataset_split.h"

typedef struct hd_resident_samples {
  uint8_t *images; /* memory of the split's fields of these names, or NULL */
  float *floats;
  int32_t *labels;
  float *targets;
} hd_resident_samples;

/* Allocates what `split` needs by its count, shape, element, classes and outputs, and sets its pointers; pointers
 * that are not NULL stay. `path` is for messages. */
hd_status hd__resident_make(hd_resident_samples *out, hd_dataset *split, hd_ctx *ctx, const char *path);
void hd__resident_fini(hd_resident_samples *resident);

/* Divides split[0], all of which resident[0] holds, into a training and a test set, by hd__data_fifth; both keep
 * their order. */
hd_status hd__resident_divide(hd_resident_samples resident[2], hd_dataset split[2], hd_ctx *ctx, const char *path);

/* Sets the classes of both splits to one more than the largest label; `ignored` does not count. HD_E_FORMAT if a label
 * is negative or beyond HD_DATA_MAX_CLASSES. */
hd_status hd__resident_classes(hd_dataset split[2], hd_ctx *ctx, const char *path, int ignored);

#endif
