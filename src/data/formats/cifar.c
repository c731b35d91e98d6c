/* CIFAR-10 and CIFAR-100 as published in binary: folders of files of records.
 *
 *     CIFAR-10    | label | 1024 red | 1024 green | 1024 blue |   data_batch_1.bin .. data_batch_5.bin, test_batch.bin
 *     CIFAR-100   | coarse label | fine label | 3 x 1024 |        train.bin, test.bin
 *
 * Images are 32x32, already in planes. The fine labels are used. A file has whole records, at least one; names are
 * read from batches.meta.txt or fine_label_names.txt, one line per class, if that file exists. */
#include "data/formats/formats.h"

#include <sys/stat.h>

#include "base/alloc.h"
#include "platform/file.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, MOST_FILES = 5 };

typedef struct layout {
  int labels, classes; /* bytes in front of the pixels, the last of which is the label */
  const char *train[MOST_FILES + 1], *test[2];
  const char *names;
} layout;

static const layout layouts[2] = {
    {1,
     10,
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
     {"test_batch.bin"},
     "batches.meta.txt"},
    {2, 100, {"train.bin"}, {"test.bin"}, "fine_label_names.txt"}};

/* The files of a split. */
typedef struct record_files {
  hd_mapping file[MOST_FILES];
} record_files;

static void unmap(record_files *files) {
  for (int i = 0; i < MOST_FILES; i++)
    hd__file_unmap(&files->file[i]);
}

static bool holds(const char *folder, const char *name) {
  char path[HD_PATH_BYTES];
  return snprintf(path, sizeof path, "%s/%s", folder, name) < HD_PATH_BYTES && hd__file_exists(path);
}

static bool holds_records(const char *folder, const char *name, const layout *l) {
  char path[HD_PATH_BYTES];
  struct stat info;
  return snprintf(path, sizeof path, "%s/%s", folder, name) < HD_PATH_BYTES && stat(path, &info) == 0 &&
         info.st_size > 0 && info.st_size % (l->labels + PIXELS) == 0;
}

/* CIFAR-100 has the names of files of tokens (text.c), of which one of both hardly ever has a length of whole records;
 * of a damaged CIFAR-100 the other has. */
static bool is_cifar_100(const char *folder, const layout *l) {
  return holds(folder, l->train[0]) && holds(folder, l->test[0]) && !holds(folder, "val.bin") &&
         (holds(folder, l->names) || holds_records(folder, l->train[0], l) || holds_records(folder, l->test[0], l));
}

static const layout *layout_of(const char *folder) {
  return holds(folder, layouts[0].train[0]) ? &layouts[0] : is_cifar_100(folder, &layouts[1]) ? &layouts[1] : NULL;
}

/* Copies a file's records to samples `first` and up. */
static hd_status take_records(hd_split_memory *to, hd_ctx *ctx, const char *path, const layout *l,
                              const hd_mapping *file, int64_t first) {
  const int record = l->labels + PIXELS;
  for (int64_t i = 0; i < (int64_t)file->length / record; i++) {
    const uint8_t *from = file->bytes + i * record;
    const int label = from[l->labels - 1];
    if (label >= l->classes)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected labels from 0 to %d, found %d in record %lld; fetch the file again", path,
                      l->classes - 1, label, (long long)i);
    to->labels[first + i] = label;
    memcpy(to->images + (first + i) * PIXELS, from + l->labels, PIXELS);
  }
  return HD_OK;
}

static hd_status map_records(hd_mapping *out, hd_ctx *ctx, const char *path, const layout *l) {
  HD_TRY(hd__file_map(out, ctx, path));
  const size_t record = (size_t)l->labels + PIXELS;
  if (out->length > 0 && out->length % record == 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected records of %zu bytes, found %zu bytes in all, which is not a whole number of records; "
                  "fetch the file again",
                  path, record, out->length);
}

static hd_status open_split(hd_dataset *data, hd_ctx *ctx, const char *folder, const layout *l, int split) {
  HD_RELEASED(unmap) record_files files = {0};
  const char *const *name = split ? l->test : l->train;
  char path[HD_PATH_BYTES];
  hd_split *out = &data->split[split];
  *out =
      (hd_split){.channels = 3, .height = SIDE, .width = SIDE, .classes = l->classes, .class_names = data->names.name};
  for (int i = 0; name[i]; i++) {
    HD_TRY(hd__file_join(path, ctx, folder, name[i]));
    HD_TRY(map_records(&files.file[i], ctx, path, l));
    out->count += (int64_t)files.file[i].length / (l->labels + PIXELS);
  }
  HD_TRY(hd__split_allocate(&data->memory[split], out, ctx, folder));
  int64_t first = 0;
  for (int i = 0; name[i]; i++) {
    HD_TRY(hd__file_join(path, ctx, folder, name[i]));
    HD_TRY(take_records(&data->memory[split], ctx, path, l, &files.file[i], first));
    first += (int64_t)files.file[i].length / (l->labels + PIXELS);
  }
  return HD_OK;
}

static bool takes(hd_ctx *ctx, const char *path) { return layout_of(path) != NULL; }

static hd_status open_folder(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  const char *folder = request->name;
  const layout *l = layout_of(folder);
  char path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, folder, l->names));
  if (hd__file_exists(path))
    HD_TRY(hd__names_read(&out->names, ctx, path, l->classes));
  HD_TRY(open_split(out, ctx, folder, l, 0));
  return open_split(out, ctx, folder, l, 1);
}

const hd_format hd__format_cifar = {.name = "a folder of CIFAR's binary files",
                                    .takes = takes,
                                    .open = open_folder,
                                    .folder = "of CIFAR's binary files"};
