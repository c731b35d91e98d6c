/* Notes for the user on classes of a data set: one alone, some without training samples, or with few test samples if a
 * fifth of the samples is the test set. */
#include "base/alloc.h"
#include "base/text_buffer.h"
#include "data/dataset/dataset_finish.h"
#include "data/dataset/format.h"

enum { SHOWN = 8, LEAST_TEST = 2 };

/* The samples of each class, but for a validation set's. */
static void count_labels(int64_t *count, const hd_split *split) {
  for (int64_t i = 0; i < split->count - split->validation; i++)
    if (split->labels[i] >= 0 && split->labels[i] < split->classes)
      count[split->labels[i]]++;
}

/* Notes the classes with less than `least` samples and at least one in `of`, if there are any. */
static hd_status note_few(hd_dataset *data, hd_ctx *ctx, const char *name, const int64_t *count, int64_t least,
                          const int64_t *of, const char *what) {
  const hd_split *train = &data->split[0];
  char list[SHOWN * 64] = "";
  hd_line line = {list, sizeof list, 0};
  int few = 0;
  for (int c = 0; c < train->classes; c++) {
    if (count[c] >= least || (of && of[c] == 0) || ++few > SHOWN)
      continue;
    hd__line_add(&line, "%s%d", few > 1 ? ", " : "", c);
    if (train->class_names)
      hd__line_add(&line, " '%.40s'", train->class_names[c]);
  }
  if (few == 0)
    return HD_OK;
  return hd__dataset_note(data, ctx, "%s: %d of %d classes %s %s: %s%s", name, few, train->classes,
                          few == 1 ? "has" : "have", what, list, few > SHOWN ? ", ..." : "");
}

/* Notes that all training samples have one label, which leaves nothing to learn. */
static hd_status note_lone(hd_dataset *data, hd_ctx *ctx, const char *name, const int64_t *count) {
  const hd_split *train = &data->split[0];
  const char *const *names = train->class_names;
  int lone = 0, there = 0;
  for (int c = 0; c < train->classes; c++)
    if (count[c] > 0) {
      lone = c;
      there++;
    }
  if (there != 1)
    return HD_OK;
  return hd__dataset_note(data, ctx,
                          "%s: all training samples have one label, %d%s%.40s%s: there is nothing to tell "
                          "apart, add samples of another class",
                          name, lone, names ? " '" : "", names ? names[lone] : "", names ? "'" : "");
}

/* The same of pixels: masks of 0 and 255 are black and white, and 255 is no class. */
static hd_status note_lone_pixels(hd_dataset *data, hd_ctx *ctx, const char *name) {
  const hd_split *train = &data->split[0];
  const int64_t bytes = hd__split_mask_bytes(train);
  bool ignores = false;
  int lone = HD_NO_CLASS;
  for (int64_t i = 0; i < bytes; i++) {
    const int class = train->masks[i];
    ignores = ignores || class == HD_NO_CLASS;
    if (class != HD_NO_CLASS && lone != HD_NO_CLASS && class != lone)
      return HD_OK;
    lone = class == HD_NO_CLASS ? lone : class;
  }
  return hd__dataset_note(data, ctx,
                          "%s: no pixel of the training masks has a class other than %d: there is nothing to "
                          "tell apart%s",
                          name, lone, ignores ? "; 255 is no class, write 1 if it is meant to be one" : "");
}

hd_status hd__dataset_note_classes(hd_dataset *data, hd_ctx *ctx, const char *name) {
  const hd_split *train = &data->split[0], *test = &data->split[1];
  if (train->masks)
    return note_lone_pixels(data, ctx, name);
  if (!train->labels || !test->labels)
    return HD_OK;
  const size_t classes = (size_t)train->classes;
  HD_OWNED int64_t *count = hd__calloc(2 * classes + 1, sizeof *count);
  HD_TRY(HD_ALLOCATED(count, ctx, "%s: out of memory for the counts of %zu classes", name, classes));
  count_labels(count, train);
  count_labels(count + classes, test);
  HD_TRY(note_few(data, ctx, name, count, 1, NULL, "no training samples"));
  HD_TRY(note_lone(data, ctx, name, count));
  if (!data->divided)
    return HD_OK;
  return note_few(data, ctx, name, count + classes, LEAST_TEST, count, "fewer than two samples to test");
}
