/* Contact sheets: a few samples of each class of a split, one row per class with its name, as PNG.
 *
 * Samples are taken at even distances through a class, in the split's order, so a sheet is a function of the data
 * alone. With targets in place of classes rows go by the first target, from the lowest to the highest. */
#ifndef HD_DATA_IMAGES_CONTACT_SHEET_H
#define HD_DATA_IMAGES_CONTACT_SHEET_H

#include "data/loader/dataset_split.h"

/* Written atomically. Skipped samples are left out. */
hd_status hd__contact_sheet(hd_ctx *ctx, const char *path, const char *title, const hd_dataset *split);

#endif
