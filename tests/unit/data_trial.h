/* Checks of every data set: it opens; or it is refused with one line, without a leak; every allocation may fail. To be
 * included after scratch.h. */
#ifndef HD_TESTS_DATA_TRIAL_H
#define HD_TESTS_DATA_TRIAL_H

#include "data/dataset/dataset.h"
#include "data/formats/formats.h"
#include "scratch.h"

static hd_ctx *ctx;
static hd_dataset_request request = {.ignored = -1}; /* the request beside the path */

static hd_status open_data(hd_dataset **data, const char *path) {
  request.name = path;
  return hd__dataset_open(data, ctx, &request);
}

__attribute__((unused)) static hd_dataset *data_opens(const char *path, const char *title) {
  hd_dataset *data;
  if (!is_int(open_data(&data, path), HD_OK, "%s: opens", title))
    diag("%s", hd_ctx_message(ctx));
  return data;
}

/* `place`: how the message begins. */
__attribute__((unused)) static void data_refused(const char *path, hd_status want, const char *place, const char *says,
                                                 const char *title) {
  hd_dataset *data;
  open_data(&data, path); /* what libraries keep for the next time is kept now */
  hd__dataset_close(data);
  held before = held_now();
  hd_status status = open_data(&data, path);
  refuses(status, want, ctx, place, says, "%s is refused", title);
  ok(!data, "%s: there is no data set", title);
  hd__dataset_close(data);
  holds_same(before, "%s: nothing is left behind", title);
}

/* Every allocation fails once. Two rounds: what libraries keep for the next time is kept in the first. */
__attribute__((unused)) static void data_survives_no_memory(const char *path, const char *title) {
  hd_dataset *data;
  held before = {0};
  for (int round = 0; round < 2; round++) {
    before = held_now();
    survives_no_memory(open_data(&data, path), !data, ctx, "memory", 2, title);
    hd__dataset_close(data);
  }
  holds_same(before, "%s: they leave nothing behind", title);
}

#endif
