/* Labels by the names of their classes: a data set's labels, or those of its pixels, get the class numbers of a run. */
#include "data/dataset/dataset_finish.h"

#include <string.h>

#include "base/alloc.h"

static int32_t find_name(const hd_class_names *names, const char *name) {
  int32_t i = 0;
  while (i < names->count && strcmp(names->name[i], name))
    i++;
  return i < names->count ? i : -1;
}

/* The run's number of each class, -1: it has none. A last class that the run's loss ignores has no name there. */
static bool find_numbers(int32_t *number, const hd_split *split, const hd_class_names *names, int ignored) {
  bool same = split->classes == names->count;
  for (int32_t c = 0; c < split->classes; c++) {
    number[c] = find_name(names, split->class_names[c]);
    if (number[c] < 0 && c == ignored && c >= names->count)
      number[c] = c;
    same = same && number[c] == c;
  }
  return same;
}

static hd_status renumber(int32_t *out, hd_ctx *ctx, const hd_split *split, const int32_t *number, const char *path) {
  for (int64_t i = 0; i < split->count; i++) {
    const int32_t label = split->labels[i];
    const bool known = label >= 0 && label < split->classes;
    out[i] = known ? number[label] : label;
    if (known && out[i] < 0)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected classes of the training set, found '%.100s'; leave it out, or train with it", path,
                      split->class_names[label]);
  }
  return HD_OK;
}

static hd_status match_split(int32_t **owned, hd_split *split, hd_ctx *ctx, const char *path,
                             const hd_class_names *names, int ignored) {
  HD_OWNED int32_t *number = NULL;
  if (!split->labels || !split->class_names)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(number, split->classes + 1, ctx, "%s: out of memory for the names of classes", path));
  if (find_numbers(number, split, names, ignored))
    return HD_OK;
  HD_TRY(HD_NEW_RAW(*owned, split->count + 1, ctx, "%s: out of memory for labels", path));
  HD_TRY(renumber(*owned, ctx, split, number, path));
  split->labels = *owned;
  split->classes = names->count;
  split->class_names = names->name;
  return HD_OK;
}

/* Each pixel's class. A borrowed mask is copied first. */
static hd_status renumber_pixels(hd_split *split, hd_split_memory *to, hd_ctx *ctx, const int32_t *number,
                                 const char *path) {
  const int64_t bytes = hd__split_mask_bytes(split);
  if (split->masks != to->masks) {
    HD_TRY(HD_NEW_RAW(to->masks, bytes + 1, ctx, "%s: out of memory for the masks", path));
    memcpy(to->masks, split->masks, (size_t)bytes);
    split->masks = to->masks;
  }
  for (int64_t i = 0; i < bytes; i++) {
    const int32_t class = to->masks[i];
    if (class == HD_NO_CLASS || class >= split->classes)
      continue;
    if (number[class] < 0)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected classes of the training set, found pixels of '%.100s'; leave them out, or train "
                      "with them",
                      path, split->class_names[class]);
    to->masks[i] = (uint8_t)number[class];
  }
  return HD_OK;
}

static hd_status match_masks(hd_split *split, hd_split_memory *to, hd_ctx *ctx, const char *path,
                             const hd_class_names *names, int ignored) {
  HD_OWNED int32_t *number = NULL;
  if (!split->masks || !split->class_names)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(number, split->classes + 1, ctx, "%s: out of memory for the names of classes", path));
  if (find_numbers(number, split, names, ignored))
    return HD_OK;
  HD_TRY(renumber_pixels(split, to, ctx, number, path));
  split->classes = names->count;
  split->class_names = names->name;
  return HD_OK;
}

hd_status hd__dataset_match_classes(int32_t *owned[2], hd_dataset *data, hd_ctx *ctx, const char *path,
                                    const hd_class_names *names, int ignored) {
  for (int s = 0; s < 2; s++)
    HD_TRY(match_split(&owned[s], &data->split[s], ctx, path, names, ignored));
  if (data->split[0].masks)
    HD_TRY(match_masks(&data->split[0], &data->memory[0], ctx, path, names, ignored));
  if (data->shared && data->split[0].masks)
    data->split[1] = data->split[0];
  else if (data->split[1].masks)
    HD_TRY(match_masks(&data->split[1], &data->memory[1], ctx, path, names, ignored));
  return HD_OK;
}
