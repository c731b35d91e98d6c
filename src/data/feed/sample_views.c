/* The table of views, and moving pixels: see sample_views.h. */
#include "data/feed/sample_views.h"

#include <stddef.h>
#include <string.h>

const hd_view *hd__views(int *count, hd_tta_choice tta) {
  static const hd_view mirror[] = {{.share = 0.5f}, {.mirrored = true, .share = 0.5f}};
  static const hd_view moved[] = {{0, 0, false, 0.25f}, {0, 0, true, 0.25f},     {1, 1, false, 0.125f},
                                  {1, 1, true, 0.125f}, {-1, -1, false, 0.125f}, {-1, -1, true, 0.125f}};
  *count = tta == HD_TTA_NONE ? 1 : tta == HD_TTA_MIRROR ? 2 : 6;
  return tta == HD_TTA_MIRROR_TRANSLATE ? moved : mirror;
}

/* The source of a coordinate at most one pixel outside of [0, count). */
static int32_t reflected(int32_t at, int32_t count) {
  if (at >= 0 && at < count)
    return at;
  return count == 1 ? 0 : at < 0 ? -at : 2 * count - 2 - at;
}

void hd__view_take(float *image, float *room, const hd_view *view, int32_t height, int32_t width, int32_t channels) {
  const int64_t row = (int64_t)width * channels;
  if (!view->down && !view->across && !view->mirrored)
    return;
  memcpy(room, image, (size_t)(height * row) * sizeof *image);
  for (int32_t y = 0; y < height; y++) {
    const float *const from = room + reflected(y - view->down, height) * row;
    for (int32_t x = 0; x < width; x++, image += channels) {
      const int32_t at = reflected((view->mirrored ? width - 1 - x : x) - view->across, width);
      memcpy(image, from + (int64_t)at * channels, (size_t)channels * sizeof *image);
    }
  }
}
