/* The memory of data sets, and what formats use to fill them: see dataset.h and format.h. */
#include "data/dataset/format.h"

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

hd_status hd__dataset_hold(void **self, hd_dataset *out, hd_ctx *ctx, size_t bytes, void (*release)(void *self)) {
  *self = hd__calloc(1, bytes);
  HD_TRY(HD_ALLOCATED(*self, ctx, "out of memory for the data set"));
  out->self = *self;
  out->release = release;
  return HD_OK;
}

hd_status hd__dataset_note(hd_dataset *out, hd_ctx *ctx, const char *fmt, ...) {
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

enum { MOST_BYTES = 1 << 16, SHOWN = 40 };

/* The number of lines that are not empty. */
static int count_lines(const hd_mapping *file) {
  int lines = 0;
  bool empty = true;
  for (size_t i = 0; i < file->length; i++) {
    const uint8_t byte = file->bytes[i];
    lines += empty && byte != '\n' && byte != '\r';
    empty = byte == '\n' || (empty && byte == '\r');
  }
  return lines;
}

static hd_status take_lines(hd_names *out, hd_ctx *ctx, const char *path, const hd_mapping *file, int count) {
  const char *at = file->bytes ? (const char *)file->bytes : "", *end = at + file->length;
  out->text = hd__malloc(file->length + (size_t)count + 1);
  out->name = hd__calloc((size_t)count, sizeof *out->name);
  HD_TRY(HD_ALLOCATED(out->text && out->name, ctx, "%s: out of memory for the names of classes", path));
  char *to = out->text;
  bool gap = false;
  at += file->length >= 3 && !memcmp(at, "\xef\xbb\xbf", 3) ? 3 : 0; /* a byte order mark */
  while (at < end) {
    const char *line = memchr(at, '\n', (size_t)(end - at)), *stop = line ? line : end;
    const size_t length = (size_t)(stop - at) - (stop > at && stop[-1] == '\r');
    if (length > 0 && gap)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected a name in each line, found none in front of '%.*s': lines are numbered as classes "
                      "are; remove the empty line or name the class",
                      path, length < SHOWN ? (int)length : SHOWN, at);
    gap = gap || length == 0;
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
  return take_lines(out, ctx, path, &file, count ? count : count_lines(&file));
}

/* ---- Samples in memory ---- */

static bool make(void *pointer, int64_t count, int64_t bytes) {
  void *memory = hd__malloc_scattered(count > 0 ? (size_t)(count * bytes) : 1);
  memcpy(pointer, &memory, sizeof memory);
  return memory != NULL;
}

hd_status hd__split_allocate(hd_split_memory *out, hd_split *split, hd_ctx *ctx, const char *path) {
  const int64_t elems = split->count * hd__split_elems(split);
  bool enough = true;
  if (!hd__split_in_memory(split) && split->elem == HD_ELEM_U8) {
    enough = make(&out->images, elems, 1);
    split->images = out->images;
  } else if (!hd__split_in_memory(split)) {
    enough = make(&out->floats, elems, sizeof *out->floats);
    split->floats = out->floats;
  }
  if (enough && split->outputs > 0 && !split->targets) {
    enough = make(&out->targets, split->count * split->outputs, sizeof *out->targets);
    split->targets = out->targets;
  } else if (enough && split->masked && !split->masks) {
    enough = make(&out->masks, split->count * hd__split_plane(split), sizeof *out->masks);
    split->masks = out->masks;
  } else if (enough && split->outputs == 0 && !split->masked && !split->labels) {
    enough = make(&out->labels, split->count, sizeof *out->labels);
    split->labels = out->labels;
  }
  return HD_ALLOCATED(enough, ctx, "%s: out of memory for %lld samples", path, (long long)split->count);
}

hd_status hd__split_take_weights(hd_split_memory *out, hd_split *split, hd_ctx *ctx, const char *path) {
  HD_TRY(
      HD_NEW_RAW(out->weights, split->count, ctx, "%s: out of memory for %lld weights", path, (long long)split->count));
  split->weights = out->weights;
  return HD_OK;
}

static void release_memory(hd_split_memory *memory) {
  hd__free(memory->images);
  hd__free(memory->floats);
  hd__free(memory->labels);
  hd__free(memory->masks);
  hd__free(memory->targets);
  hd__free(memory->weights);
  hd__free(memory->numbers);
  *memory = (hd_split_memory){0};
}

void hd__dataset_close(hd_dataset *data) {
  if (!data)
    return;
  if (data->release)
    data->release(data->self);
  hd__free(data->self);
  for (int s = 0; s < 2; s++) {
    release_memory(&data->memory[s]);
    hd__cache_fini(&data->cache[s]);
    hd__skips_destroy(data->skips[s]);
    hd__free(data->rows[s]);
    hd__free(data->labels[s]);
  }
  for (int i = 0; i < HD_DATA_NOTES; i++)
    hd__free(data->note[i]);
  hd__free(data->names.name);
  hd__free(data->names.text);
  hd__features_fini(&data->features);
  hd__free(data->name);
  hd__free(data);
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

bool hd__dataset_share(hd_dataset *data) {
  if (data->whole) {
    data->split[1] = data->split[0];
    data->shared = true;
  }
  return data->whole;
}

/* Memory for what a split has elsewhere, in a mapped file or in the caller's arrays. */
static hd_status take_copy(hd_split_memory *to, hd_split *split, hd_ctx *ctx, const char *path) {
  const hd_split from = *split;
  const int64_t elems = from.count * hd__split_elems(&from);
  split->images = to->images;
  split->floats = to->floats;
  split->labels = to->labels;
  split->masks = to->masks;
  split->targets = to->targets;
  HD_TRY(hd__split_allocate(to, split, ctx, path));
  if (from.images != to->images)
    memcpy(to->images, from.images, (size_t)elems);
  if (from.floats != to->floats)
    memcpy(to->floats, from.floats, (size_t)elems * sizeof *to->floats);
  if (from.labels != to->labels)
    memcpy(to->labels, from.labels, (size_t)from.count * sizeof *to->labels);
  if (from.masks != to->masks)
    memcpy(to->masks, from.masks, (size_t)(from.count * hd__split_plane(&from)));
  if (from.targets != to->targets)
    memcpy(to->targets, from.targets, (size_t)(from.count * from.outputs) * sizeof *to->targets);
  if (from.weights != to->weights) {
    HD_TRY(hd__split_take_weights(to, split, ctx, path));
    memcpy(to->weights, from.weights, (size_t)from.count * sizeof *to->weights);
  }
  return HD_OK;
}

static hd_status divide(hd_dataset *data, hd_ctx *ctx, const char *path) {
  hd_split_memory *all = &data->memory[0], *taken = &data->memory[1];
  hd_split *train = &data->split[0], *test = &data->split[1];
  const int64_t count = train->count, elems = hd__split_elems(train);
  HD_OWNED uint8_t *marks = NULL;
  int64_t marked = 0;
  HD_TRY(take_copy(all, train, ctx, path));
  HD_TRY(hd__dataset_mark_test(&marks, data, ctx, path, count, train->labels));
  for (int64_t i = 0; i < count; i++)
    marked += marks[i];
  *test = *train;
  test->count = marked;
  test->left_out = 0;
  test->images = NULL;
  test->floats = NULL;
  test->labels = NULL;
  test->masks = NULL;
  test->targets = NULL;
  test->weights = NULL;
  HD_TRY(hd__split_allocate(taken, test, ctx, path));
  if (train->weights)
    HD_TRY(hd__split_take_weights(taken, test, ctx, path));
  divide_rows(taken->images, all->images, count, elems, marks);
  divide_rows(taken->floats, all->floats, count, elems * (int64_t)sizeof(float), marks);
  if (all->numbers)
    HD_TRY(
        HD_NEW_RAW(taken->numbers, marked * elems, ctx, "%s: out of memory for %lld samples", path, (long long)count));
  divide_rows(taken->numbers, all->numbers, count, elems * (int64_t)sizeof(double), marks);
  divide_rows(taken->labels, all->labels, count, sizeof(int32_t), marks);
  divide_rows(taken->masks, all->masks, count, hd__split_plane(train), marks);
  divide_rows(taken->targets, all->targets, count, train->outputs * (int64_t)sizeof(float), marks);
  divide_rows(taken->weights, all->weights, count, sizeof(float), marks);
  train->count = count - marked;
  return HD_OK;
}

hd_status hd__dataset_divide(hd_dataset *data, hd_ctx *ctx, const char *path) {
  return hd__dataset_share(data) ? HD_OK : divide(data, ctx, path);
}

hd_status hd__dataset_take_fold(hd_dataset *data, hd_ctx *ctx) {
  const char *name = data->name;
  if (data->fold.of == 0 || data->divided)
    return HD_OK;
  if (!hd__split_in_memory(&data->split[0]))
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: --fold expects samples in memory or a set without a test set, found %s",
                    name, "others; leave --fold out");
  HD_TRY(hd__dataset_note(data, ctx,
                          "%s: --fold divides the training set; the %lld samples of its test set are left out", name,
                          (long long)data->split[1].count));
  release_memory(&data->memory[1]);
  return divide(data, ctx, name);
}

/* One more than the largest class of a pixel. */
static hd_status count_pixel_classes(hd_split split[2], int ignored) {
  int32_t most = -1;
  for (int s = 0; s < 2; s++)
    for (int64_t i = 0; i < hd__split_mask_bytes(&split[s]); i++) {
      const int32_t class = split[s].masks[i];
      most = class > most && class != ignored && class != HD_NO_CLASS ? class : most;
    }
  split[0].classes = split[1].classes = most < 0 ? 1 : most + 1;
  return HD_OK;
}

hd_status hd__dataset_count_classes(hd_split split[2], hd_ctx *ctx, const char *path, int ignored) {
  int32_t most = -1;
  if (split[0].masked && split[1].masked)
    return count_pixel_classes(split, ignored);
  if (split[0].masked || split[1].masked)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected a class for each pixel in both sets or in none, found it in the %s alone; they do not "
        "belong together",
        path, split[0].masked ? "training set" : "test set");
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
