/* Views of a sample for test-time augmentation (`--tta`): an evaluation uses the mean of the scores of all views.
 *
 *     mirror             the image and its mirror image, left to right: 1/2 each
 *     mirror+translate   these two with 1/4 each; and both views of the image moved by one pixel down and right, and of
 *                        the image moved by one pixel up and left, padded by reflection: 1/8 each
 *
 * as in section 3.5 of Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv 2404.00498. Shares are powers
 * of two, so a score times a share is exact. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "heddle/options.h"

typedef struct hd_view {
  int32_t down, across; /* pixels by which the image is moved, -1 to 1 */
  bool mirrored;        /* then */
  float share;          /* of its scores in the mean */
} hd_view;

/* The views, in the order in which their scores are added; the first is the image itself. *count: 1 for HD_TTA_NONE. */
const hd_view *hd__views(int *count, hd_tta_choice tta);

/* Makes an image (height, width, channel) its view. `room` has as many floats. */
void hd__view_take(float *image, float *room, const hd_view *view, int32_t height, int32_t width, int32_t channels);
