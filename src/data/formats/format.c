/* Functions that readers of formats share: see format.h. */
#include "data/formats/format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "platform/file.h"

bool hd__path_ends(const char *path, const char *end) {
  size_t length = strlen(path), tail = strlen(end);
  return length >= tail && !strcasecmp(path + length - tail, end);
}

hd_status hd__opened_hold(void **self, hd_opened *out, hd_ctx *ctx, size_t bytes, void (*release)(void *self)) {
  *self = hd__calloc(1, bytes);
  HD_TRY(HD_ALLOCATED(*self, ctx, "out of memory for the data set"));
  out->self = *self;
  out->release = release;
  return HD_OK;
}

hd_status hd__opened_note(hd_opened *out, hd_ctx *ctx, const char *fmt, ...) {
  char line[HD_PATH_BYTES + 256];
  int at = 0;
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  while (at < HD_DATA_NOTES && out->note[at])
    at++;
  if (at == HD_DATA_NOTES)
    return HD_OK;
  out->note[at] = hd__strdup(line);
  return HD_ALLOCATED(out->note[at], ctx, "out of memory for a note on the data set");
}

/* ---- Names of classes ---- */

enum { MOST_BYTES = 1 << 16 };

static hd_status take_lines(hd_names *out, hd_ctx *ctx, const char *path, const hd_mapping *file, int count) {
  const char *at = file->bytes ? (const char *)file->bytes : "", *end = at + file->length;
  out->text = hd__malloc(file->length + (size_t)count + 1);
  out->name = hd__calloc((size_t)count, sizeof *out->name);
  HD_TRY(HD_ALLOCATED(out->text && out->name, ctx, "%s: out of memory for the names of classes", path));
  char *to = out->text;
  while (at < end) {
    const char *line = memchr(at, '\n', (size_t)(end - at)), *stop = line ? line : end;
    const size_t length = (size_t)(stop - at) - (stop > at && stop[-1] == '\r');
    if (length > 0 && out->count < count) {
      hd__utf8_clean(to, length + 1, at, length);
      out->name[out->count] = to;
      to += strlen(to) + 1;
    }
    out->count += length > 0;
    at = stop + 1;
  }
  if (out->count == count)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected %d names, one per line, found %d; fetch the file again", path, count,
                  out->count);
}

hd_status hd__names_read(hd_names *out, hd_ctx *ctx, const char *path, int count) {
  HD_MAPPED file = {0};
  HD_TRY(hd__file_read(&file, ctx, path));
  if (file.length > MOST_BYTES)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at most %d bytes of names, found %zu; fetch the file again", path,
                    MOST_BYTES, file.length);
  return take_lines(out, ctx, path, &file, count);
}

/* ---- Samples in memory ---- */

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

void hd__resident_fini(hd_resident_samples *samples) {
  hd__free(samples->images);
  hd__free(samples->floats);
  hd__free(samples->labels);
  hd__free(samples->targets);
  hd__free(samples->numbers);
  *samples = (hd_resident_samples){0};
}

void hd__opened_fini(hd_opened *opened) {
  if (opened->release)
    opened->release(opened->self);
  hd__free(opened->self);
  for (int s = 0; s < 2; s++)
    hd__resident_fini(&opened->resident[s]);
  for (int i = 0; i < HD_DATA_NOTES; i++)
    hd__free(opened->note[i]);
  hd__free(opened->names.name);
  hd__free(opened->names.text);
  hd__features_fini(&opened->features);
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

bool hd__opened_share(hd_opened *opened) {
  if (opened->whole) {
    opened->split[1] = opened->split[0];
    opened->shared = true;
  }
  return opened->whole;
}

hd_status hd__resident_divide(hd_opened *opened, hd_ctx *ctx, const char *path) {
  hd_resident_samples *all = &opened->resident[0], *taken = &opened->resident[1];
  hd_dataset *train = &opened->split[0], *test = &opened->split[1];
  const int64_t count = train->count, elems = hd__dataset_elems(train);
  HD_OWNED uint8_t *marks = NULL;
  int64_t marked = 0;
  if (hd__opened_share(opened))
    return HD_OK;
  HD_TRY(hd__data_fifth(&marks, opened, ctx, path, count, train->labels));
  for (int64_t i = 0; i < count; i++)
    marked += marks[i];
  *test = *train;
  test->count = marked;
  test->images = NULL;
  test->floats = NULL;
  test->labels = NULL;
  test->targets = NULL;
  HD_TRY(hd__resident_make(taken, test, ctx, path));
  divide_rows(taken->images, all->images, count, elems, marks);
  divide_rows(taken->floats, all->floats, count, elems * (int64_t)sizeof(float), marks);
  if (all->numbers)
    HD_TRY(
        HD_NEW_RAW(taken->numbers, marked * elems, ctx, "%s: out of memory for %lld samples", path, (long long)count));
  divide_rows(taken->numbers, all->numbers, count, elems * (int64_t)sizeof(double), marks);
  divide_rows(taken->labels, all->labels, count, sizeof(int32_t), marks);
  divide_rows(taken->targets, all->targets, count, train->outputs * (int64_t)sizeof(float), marks);
  train->count = count - marked;
  return HD_OK;
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
