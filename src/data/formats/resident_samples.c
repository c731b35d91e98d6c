/* Memory of samples; see format.h. */
#include "data/formats/format.h"

#include "base/alloc.h"

static bool make(void *pointer, int64_t count, int64_t bytes) {
  void *memory = hd__malloc_scattered(count > 0 ? (size_t)(count * bytes) : 1);
  memcpy(pointer, &memory, sizeof memory);
  return memory != NULL;
}

hd_status hd__resident_make(hd_resident_samples *out, hd_dataset *split, hd_ctx *ctx, const char *path) {
  const int64_t elems = split->count * hd__dataset_elems(split);
  bool enough = true;
  if (!hd__dataset_resident(split) && split->elem == HD_ELEM_U8) {
    enough = make(&out->images, elems, 1);
    split->images = out->images;
  } else if (!hd__dataset_resident(split)) {
    enough = make(&out->floats, elems, sizeof *out->floats);
    split->floats = out->floats;
  }
  if (enough && split->outputs > 0 && !split->targets) {
    enough = make(&out->targets, split->count * split->outputs, sizeof *out->targets);
    split->targets = out->targets;
  } else if (enough && split->outputs == 0 && !split->labels) {
    enough = make(&out->labels, split->count, sizeof *out->labels);
    split->labels = out->labels;
  }
  return HD_ALLOCATED(enough, ctx, "%s: out of memory for %lld samples", path, (long long)split->count);
}

void hd__resident_fini(hd_resident_samples *r) {
  hd__free(r->images);
  hd__free(r->floats);
  hd__free(r->labels);
  hd__free(r->targets);
  *r = (hd_resident_samples){0};
}

/* Moves the marked rows to `taken` and closes the gaps. NULL stays NULL. */
static void divide_rows(void *taken, void *all, int64_t count, int64_t row_bytes, const uint8_t *marks) {
  uint8_t *from = all, *kept = all, *to = taken;
  for (int64_t i = 0; i < count && all; i++, from += row_bytes) {
    uint8_t **end = marks[i] ? &to : &kept;
    if (*end != from)
      memmove(*end, from, (size_t)row_bytes);
    *end += row_bytes;
  }
}

hd_status hd__resident_divide(hd_resident_samples resident[2], hd_dataset split[2], hd_ctx *ctx, const char *path) {
  hd_resident_samples *all = &resident[0], *taken = &resident[1];
  hd_dataset *train = &split[0], *test = &split[1];
  const int64_t count = train->count, elems = hd__dataset_elems(train);
  uint8_t *marks;
  int64_t marked = 0;
  HD_TRY(hd__data_fifth(&marks, ctx, path, count));
  for (int64_t i = 0; i < count; i++)
    marked += marks[i];
  *test = *train;
  test->count = marked;
  test->images = NULL;
  test->floats = NULL;
  test->labels = NULL;
  test->targets = NULL;
  hd_status status = hd__resident_make(taken, test, ctx, path);
  if (status == HD_OK) {
    divide_rows(taken->images, all->images, count, elems, marks);
    divide_rows(taken->floats, all->floats, count, elems * (int64_t)sizeof(float), marks);
    divide_rows(taken->labels, all->labels, count, sizeof(int32_t), marks);
    divide_rows(taken->targets, all->targets, count, train->outputs * (int64_t)sizeof(float), marks);
    train->count = count - marked;
  }
  hd__free(marks);
  return status;
}

hd_status hd__resident_classes(hd_dataset split[2], hd_ctx *ctx, const char *path, int ignored) {
  int32_t most = -1;
  for (int s = 0; s < 2; s++)
    for (int64_t i = 0; i < split[s].count; i++) {
      int32_t label = split[s].labels[i];
      if (label < 0 || label >= HD_DATA_MAX_CLASSES)
        return hd__fail(ctx, HD_E_FORMAT,
                        "%s: expected class labels from 0 to %d, found %d at index %lld of the %s; number them from 0",
                        path, HD_DATA_MAX_CLASSES - 1, label, (long long)i, s ? "test set" : "training set");
      if (label != ignored && label > most)
        most = label;
    }
  split[0].classes = split[1].classes = most < 0 ? 1 : most + 1;
  return HD_OK;
}
