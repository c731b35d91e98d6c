/* A folder of the four IDX files of MNIST's kind.
 *
 * Images are bytes of one channel, mapped where the files are plain. Labels are bytes from 0 to 9 or, in a regression,
 * floats: the file's type decides. */
#include "data/formats/format.h"

#include <math.h>

#include "base/alloc.h"
#include "data/formats/idx.h"

typedef struct idx_set {
  hd_idx file[HD_DATA_PARTS]; /* training images, training labels, test images, test labels */
} idx_set;

static void release(void *self) {
  idx_set *set = self;
  for (int i = 0; i < HD_DATA_PARTS; i++)
    hd__idx_fini(&set->file[i]);
}

static const char *const parts[HD_DATA_PARTS] = {HD_IDX_TRAIN_IMAGES, "train-labels-idx1-ubyte",
                                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

int hd__idx_find(char out[HD_PATH_BYTES], const char *folder, const char *part) {
  char dotted[64];
  snprintf(dotted, sizeof dotted, "%s", part);
  *strstr(dotted, "-idx") = '.';
  const char *const form[] = {part, dotted};
  for (int i = 0; i < 2; i++)
    for (int gzip = 0; gzip < 2; gzip++)
      if (snprintf(out, HD_PATH_BYTES, "%s/%s%s", folder, form[i], gzip ? ".gz" : "") < HD_PATH_BYTES &&
          hd__file_exists(out))
        return 1;
  return 0;
}

/* Class numbers from their bytes, each a class or the ignored one. */
static hd_status take_labels(int32_t **out, hd_ctx *ctx, const char *path, const hd_idx *file, int classes,
                             int ignored) {
  int32_t *label = *out = hd__malloc((size_t)file->length * sizeof *label);
  HD_TRY(HD_ALLOCATED(label, ctx, "%s: out of memory for the labels", path));
  for (int64_t i = 0; i < file->length; i++) {
    label[i] = file->bytes[i];
    if (label[i] >= classes && label[i] != ignored)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected labels from 0 to %d, found %d at index %lld; fetch the file again, or give a "
                      "cross_entropy loss 'ignore_index: %d'",
                      path, classes - 1, label[i], (long long)i, label[i]);
  }
  return HD_OK;
}

/* Floats from their big-endian bytes. */
static hd_status decode_targets(float **out, hd_ctx *ctx, const char *path, const hd_idx *file) {
  int64_t count = file->length / 4, outputs = file->rank == 2 ? file->size[1] : 1;
  float *target = *out = hd__malloc((size_t)count * sizeof *target);
  HD_TRY(HD_ALLOCATED(target, ctx, "%s: out of memory for the targets", path));
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *b = file->bytes + 4 * i;
    uint32_t bits = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    memcpy(&target[i], &bits, sizeof bits);
    if (!isfinite(target[i]))
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected finite targets, found %s at index %lld%s; mend the file", path,
                      isnan(target[i]) ? "NaN" : "infinity", (long long)(i / outputs),
                      outputs > 1 ? " (one of several outputs)" : "");
  }
  return HD_OK;
}

/* Finds the file of labels, under the name of class labels or one of targets; only one may exist. */
static hd_status find_labels(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, int split) {
  static const char *const floats[2][2] = {{"train-labels-idx1-float", "train-labels-idx2-float"},
                                           {"t10k-labels-idx1-float", "t10k-labels-idx2-float"}};
  const char *const name[3] = {parts[2 * split + 1], floats[split][0], floats[split][1]};
  char path[HD_PATH_BYTES];
  int found = 0;
  for (int i = 0; i < 3; i++) {
    if (!hd__idx_find(path, folder, name[i]))
      continue;
    if (found++)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected one file of labels, found %s too; move one elsewhere", out, path);
    snprintf(out, HD_PATH_BYTES, "%s", path);
  }
  if (!found)
    return hd__fail(
        ctx, HD_E_IO,
        "%s: expected the file %s (plain or .gz; with float targets %s), found none; put the four IDX files there",
        folder, name[0], name[1]);
  return HD_OK;
}

static hd_status open_parts(idx_set *set, hd_ctx *ctx, const char *folder, char path[HD_DATA_PARTS][HD_PATH_BYTES]) {
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    if (i % 2) {
      HD_TRY(find_labels(path[i], ctx, folder, i / 2));
      HD_TRY(hd__idx_read_labels(&set->file[i], ctx, path[i]));
      continue;
    }
    if (!hd__idx_find(path[i], folder, parts[i]))
      return hd__fail(ctx, HD_E_IO, "%s: expected the file %s (plain or .gz), found none; put the four IDX files there",
                      folder, parts[i]);
    HD_TRY(hd__idx_read(&set->file[i], ctx, path[i], 3));
  }
  return HD_OK;
}

/* Opens one split from its two files. */
static hd_status open_split(hd_opened *opened, const idx_set *set, hd_ctx *ctx, char path[HD_DATA_PARTS][HD_PATH_BYTES],
                            int split, int ignored) {
  enum { CLASSES = 10, MOST_OUTPUTS = 1 << 20 };
  const hd_idx *images = &set->file[2 * split], *labels = &set->file[2 * split + 1];
  const char *labels_path = path[2 * split + 1];
  hd_resident_samples *resident = &opened->resident[split];
  hd_dataset *out = &opened->split[split];
  if (images->size[0] != labels->size[0])
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected %lld labels, one per image, found %lld; the files do not belong together",
                    labels_path, (long long)images->size[0], (long long)labels->size[0]);
  if (images->size[1] > HD_DATA_MAX_SIDE || images->size[2] > HD_DATA_MAX_SIDE)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected images of at most %d pixels a side, found %lldx%lld",
                    path[2 * split], HD_DATA_MAX_SIDE, (long long)images->size[1], (long long)images->size[2]);
  *out = (hd_dataset){.images = images->bytes,
                      .count = images->size[0],
                      .channels = 1,
                      .height = (int)images->size[1],
                      .width = (int)images->size[2]};
  if (labels->elem_bytes == 1) {
    HD_TRY(take_labels(&resident->labels, ctx, labels_path, labels, CLASSES, ignored));
    out->labels = resident->labels;
    out->classes = CLASSES;
    return HD_OK;
  }
  if (labels->rank == 2 && labels->size[1] > MOST_OUTPUTS)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at most %d targets a sample, found %lld", labels_path, MOST_OUTPUTS,
                    (long long)labels->size[1]);
  HD_TRY(decode_targets(&resident->targets, ctx, labels_path, labels));
  out->targets = resident->targets;
  out->outputs = labels->rank == 2 ? (int)labels->size[1] : 1;
  return HD_OK;
}

static hd_status check_alike(const hd_dataset split[2], hd_ctx *ctx, char path[HD_DATA_PARTS][HD_PATH_BYTES]) {
  const hd_dataset *a = &split[0], *b = &split[1];
  if (a->height != b->height || a->width != b->width)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected test images of %dx%d as in training, found %dx%d; the files do not belong together",
                    path[2], a->height, a->width, b->height, b->width);
  if (a->outputs == b->outputs)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected %d float targets a sample as in training (0: class labels), found %d; the files do not "
                  "belong together",
                  path[3], a->outputs, b->outputs);
}

static hd_status open_folder(hd_opened *out, hd_ctx *ctx, const hd_data_request *request) {
  const char *folder = request->name;
  void *set;
  HD_TRY(hd__opened_hold(&set, out, ctx, sizeof(idx_set), release));
  HD_OWNED char(*path)[HD_PATH_BYTES] = hd__malloc((size_t)HD_DATA_PARTS * sizeof *path);
  HD_TRY(HD_ALLOCATED(path, ctx, "%s: out of memory while opening", folder));
  HD_TRY(open_parts(set, ctx, folder, path));
  for (int split = 0; split < 2; split++)
    HD_TRY(open_split(out, set, ctx, path, split, request->ignored));
  return check_alike(out->split, ctx, path);
}

static bool takes_folder(hd_ctx *ctx, const char *path) {
  char found[HD_PATH_BYTES];
  for (int i = 0; i < HD_DATA_PARTS; i++)
    if (hd__idx_find(found, path, parts[i]))
      return true;
  return false;
}

const hd_format hd__format_idx = {"a folder of IDX files", takes_folder, open_folder};
