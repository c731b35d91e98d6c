/* Reading IDX files, and folders of the four of MNIST's kind; see idx.h. */
#include "data/formats/idx.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#define ZLIB_CONST /* the input is read-only */
#include <zlib.h>

#include "base/alloc.h"
#include "data/formats/formats.h"

enum { TYPE_U8 = 8, TYPE_F32 = 13, MAX_BYTES_LOG2 = 36 };

/* The lowest accepted rank. */
static int least_rank(int rank) { return rank == HD_IDX_LABELS ? 1 : rank; }

static int64_t head_bytes(int rank) { return 4 + 4 * (int64_t)rank; }

/* Checks the first four bytes; fills type and rank. */
static hd_status read_magic(hd_idx *idx, hd_ctx *ctx, const char *path, const uint8_t *head, int rank) {
  uint32_t magic = (uint32_t)head[0] << 24 | (uint32_t)head[1] << 16 | (uint32_t)head[2] << 8 | head[3];
  uint32_t labels = TYPE_U8 << 8 | 1, one = TYPE_F32 << 8 | 1, several = TYPE_F32 << 8 | 2;
  uint32_t wanted = TYPE_U8 << 8 | (uint32_t)rank;
  if (rank == HD_IDX_LABELS && magic != labels && magic != one && magic != several)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected magic 0x%08x (bytes, 1 dimensions), or 0x%08x or 0x%08x (floats), found 0x%08x; is "
                    "it the right IDX file?",
                    path, labels, one, several, magic);
  if (rank != HD_IDX_LABELS && magic != wanted)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected magic 0x%08x (bytes, %d dimensions), found 0x%08x; is it the right IDX file?", path,
                    wanted, rank, magic);
  idx->rank = (int)(magic & 255);
  idx->elem_bytes = head[2] == TYPE_F32 ? 4 : 1;
  return HD_OK;
}

/* Checks the sizes after the magic; fills them and the length. */
static hd_status read_sizes(hd_idx *idx, hd_ctx *ctx, const char *path, const uint8_t *head) {
  idx->length = idx->elem_bytes;
  for (int i = 0; i < idx->rank; i++) {
    const uint8_t *b = head + 4 + 4 * i;
    idx->size[i] = (int64_t)((uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]);
    if (idx->size[i] == 0 || idx->length > (INT64_C(1) << MAX_BYTES_LOG2) / idx->size[i])
      return hd__fail(
          ctx, HD_E_FORMAT,
          "%s: expected dimensions from 1 up to 64 GiB in all, found %lld as dimension %d; the header is damaged", path,
          (long long)idx->size[i], i);
    idx->length *= idx->size[i];
  }
  return HD_OK;
}

static hd_status wrong_length(hd_ctx *ctx, const char *path, int64_t expected, const char *found) {
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected %lld bytes after the header, found %s; fetch the file again", path,
                  (long long)expected, found);
}

static hd_status short_header(hd_ctx *ctx, const char *path, int rank, int64_t found) {
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected an IDX header of %lld bytes, found a file of %lld; fetch the file again", path,
                  (long long)head_bytes(rank), (long long)found);
}

static hd_status read_plain(hd_idx *idx, hd_ctx *ctx, const char *path, int rank) {
  HD_TRY(hd__file_map(&idx->mapping, ctx, path));
  int64_t all = (int64_t)idx->mapping.length;
  char text[48];
  if (all < head_bytes(least_rank(rank)))
    return short_header(ctx, path, least_rank(rank), all);
  HD_TRY(read_magic(idx, ctx, path, idx->mapping.bytes, rank));
  int64_t head = head_bytes(idx->rank), found = all - head;
  if (found < 0)
    return short_header(ctx, path, idx->rank, all);
  HD_TRY(read_sizes(idx, ctx, path, idx->mapping.bytes));
  snprintf(text, sizeof text, "%lld", (long long)found);
  if (found != idx->length)
    return wrong_length(ctx, path, idx->length, text);
  idx->bytes = idx->mapping.bytes + head;
  return HD_OK;
}

/* A gzip file being unpacked from its mapping: one or more members, each with its own checksum. */
typedef struct unpacker {
  z_stream z;
  const uint8_t *end; /* of the file */
  bool ended;         /* the last member is complete, its checksum right */
} unpacker;

static size_t packed_left(const unpacker *u) { return (size_t)(u->end - u->z.next_in); }

static bool starts_gzip(const unpacker *u) {
  return packed_left(u) >= 2 && u->z.next_in[0] == 0x1f && u->z.next_in[1] == 0x8b;
}

/* Unpacks up to `room` bytes and stores their number in *got: fewer only at the end of the data. */
static hd_status unpack(int64_t *got, unpacker *u, hd_ctx *ctx, const char *path, uint8_t *to, int64_t room) {
  const int64_t most = 1 << 30; /* zlib counts in unsigned int */
  for (*got = 0; *got < room && !u->ended;) {
    int64_t step = room - *got < most ? room - *got : most;
    u->z.next_out = to + *got;
    u->z.avail_out = (uInt)step;
    u->z.avail_in = (uInt)(packed_left(u) < (size_t)most ? packed_left(u) : (size_t)most);
    int code = inflate(&u->z, Z_NO_FLUSH);
    *got += step - u->z.avail_out;
    if (code == Z_STREAM_END && starts_gzip(u))
      code = inflateReset(&u->z);
    u->ended = code == Z_STREAM_END;
    if (code == Z_MEM_ERROR)
      return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory while unpacking", path);
    if (code == Z_BUF_ERROR)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected whole gzip data, found a truncated file; fetch the file again",
                      path);
    if (code != Z_OK && code != Z_STREAM_END)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected valid gzip data, found damage (%s); fetch the file again", path,
                      u->z.msg ? u->z.msg : "unknown");
  }
  return HD_OK;
}

/* Reads to the end of the data, checks the checksum and the end of the file. */
static hd_status unpack_end(unpacker *u, hd_ctx *ctx, const char *path, int64_t expected) {
  uint8_t rest;
  int64_t got;
  HD_TRY(unpack(&got, u, ctx, path, &rest, 1));
  if (got > 0)
    return wrong_length(ctx, path, expected, "more");
  if (packed_left(u) > 0)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected the file's end after the gzip data, found %zu bytes; fetch the file again", path,
                    packed_left(u));
  return HD_OK;
}

static hd_status unpack_header(hd_idx *idx, unpacker *u, hd_ctx *ctx, const char *path, int rank) {
  uint8_t head[4 + 4 * HD_IDX_MAX_RANK];
  int64_t first = head_bytes(least_rank(rank)), got, rest = 0;
  HD_TRY(unpack(&got, u, ctx, path, head, first));
  idx->rank = least_rank(rank);
  if (got == first) {
    HD_TRY(read_magic(idx, ctx, path, head, rank));
    HD_TRY(unpack(&rest, u, ctx, path, head + first, head_bytes(idx->rank) - first));
  }
  if (got + rest < head_bytes(idx->rank))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected an IDX header of %lld bytes, found %lld; fetch the file again",
                    path, (long long)head_bytes(idx->rank), (long long)(got + rest));
  return read_sizes(idx, ctx, path, head);
}

static hd_status read_unpacked(hd_idx *idx, hd_ctx *ctx, const char *path, int rank, unpacker *u) {
  enum { MOST_PER_BYTE = 1040 }; /* deflate's limit is 1032 */
  size_t packed = packed_left(u);
  int64_t got;
  char text[80];
  if (!starts_gzip(u))
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected gzip data, found %zu bytes of something else; fetch the file again or drop the .gz",
                    path, packed);
  HD_TRY(unpack_header(idx, u, ctx, path, rank));
  snprintf(text, sizeof text, "%zu packed ones that cannot hold them", packed);
  if (idx->length / MOST_PER_BYTE > (int64_t)packed)
    return wrong_length(ctx, path, idx->length, text);
  idx->copy = hd__malloc_scattered((size_t)idx->length);
  HD_TRY(HD_ALLOCATED(idx->copy, ctx, "%s: %lld bytes of memory are not available; free some", path,
                      (long long)idx->length));
  HD_TRY(unpack(&got, u, ctx, path, idx->copy, idx->length));
  snprintf(text, sizeof text, "%lld", (long long)got);
  if (got < idx->length)
    return wrong_length(ctx, path, idx->length, text);
  idx->bytes = idx->copy;
  return unpack_end(u, ctx, path, idx->length);
}

static hd_status read_gzip(hd_idx *idx, hd_ctx *ctx, const char *path, int rank) {
  enum { WINDOW_LOG2 = 15, GZIP_ONLY = 16 };
  HD_MAPPED packed = {0};
  HD_TRY(hd__file_map(&packed, ctx, path));
  unpacker u = {.z.next_in = packed.bytes ? packed.bytes : (const uint8_t *)""};
  u.end = u.z.next_in + packed.length;
  HD_TRY(
      HD_ALLOCATED(inflateInit2(&u.z, WINDOW_LOG2 + GZIP_ONLY) == Z_OK, ctx, "%s: out of memory while opening", path));
  const hd_status status = read_unpacked(idx, ctx, path, rank, &u);
  inflateEnd(&u.z);
  return status;
}

hd_status hd__idx_read(hd_idx *out, hd_ctx *ctx, const char *path, int rank) {
  *out = (hd_idx){0};
  size_t length = strlen(path);
  bool gzip = length > 3 && !strcmp(path + length - 3, ".gz");
  hd_status status = gzip ? read_gzip(out, ctx, path, rank) : read_plain(out, ctx, path, rank);
  if (status != HD_OK)
    hd__idx_fini(out);
  return status;
}

void hd__idx_fini(hd_idx *idx) {
  hd__file_unmap(&idx->mapping);
  hd__free(idx->copy);
  *idx = (hd_idx){0};
}

/* ---- A folder of the four files ----
 *
 * Images are bytes of one channel, mapped where the files are plain. Labels are bytes, or floats in a regression: the
 * file's type decides. */

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

/* Class numbers from their bytes. */
static hd_status take_labels(int32_t **out, hd_ctx *ctx, const char *path, const hd_idx *file) {
  int32_t *label = *out = hd__malloc((size_t)file->length * sizeof *label);
  HD_TRY(HD_ALLOCATED(label, ctx, "%s: out of memory for the labels", path));
  for (int64_t i = 0; i < file->length; i++)
    label[i] = file->bytes[i];
  return HD_OK;
}

/* The largest label that is not the ignored one, -1 for none, and the first index of it. */
static int32_t largest_label(int64_t *at, const hd_split *split, int ignored) {
  int32_t most = -1;
  *at = 0;
  for (int64_t i = 0; i < split->count; i++)
    if (split->labels[i] != ignored && split->labels[i] > most)
      most = split->labels[ *at = i];
  return most;
}

/* The number of classes is that of the training labels. The test set may lack some of them and has no others. */
static hd_status count_classes(hd_split split[2], hd_ctx *ctx, const char *test_labels, int ignored) {
  int64_t at;
  const int32_t most = largest_label(&at, &split[0], ignored), found = largest_label(&at, &split[1], ignored);
  if (found > most)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected labels from 0 to %d as in training, found %d at index %lld; the files do not belong "
                    "together, or, if the label means nothing, give the cross_entropy loss 'ignore_index: %d'",
                    test_labels, most, found, (long long)at, found);
  split[0].classes = split[1].classes = most < 0 ? 1 : most + 1;
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
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected finite targets, found %s at index %lld%s; fix the file", path,
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
      HD_TRY(hd__idx_read(&set->file[i], ctx, path[i], HD_IDX_LABELS));
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
static hd_status open_split(hd_dataset *data, const idx_set *set, hd_ctx *ctx, char path[HD_DATA_PARTS][HD_PATH_BYTES],
                            int split) {
  enum { MOST_OUTPUTS = 1 << 20 };
  const hd_idx *images = &set->file[2 * split], *labels = &set->file[2 * split + 1];
  const char *labels_path = path[2 * split + 1];
  hd_split_memory *memory = &data->memory[split];
  hd_split *out = &data->split[split];
  if (images->size[0] != labels->size[0])
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected %lld labels, one per image, found %lld; the files do not belong together",
                    labels_path, (long long)images->size[0], (long long)labels->size[0]);
  if (images->size[1] > HD_DATA_MAX_SIDE || images->size[2] > HD_DATA_MAX_SIDE)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected images of at most %d pixels per side, found %lldx%lld; scale them down",
                    path[2 * split], HD_DATA_MAX_SIDE, (long long)images->size[1], (long long)images->size[2]);
  *out = (hd_split){.images = images->bytes,
                    .count = images->size[0],
                    .channels = 1,
                    .height = (int)images->size[1],
                    .width = (int)images->size[2]};
  if (labels->elem_bytes == 1) {
    HD_TRY(take_labels(&memory->labels, ctx, labels_path, labels));
    out->labels = memory->labels;
    return HD_OK;
  }
  if (labels->rank == 2 && labels->size[1] > MOST_OUTPUTS)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at most %d targets per sample, found %lld; leave some out",
                    labels_path, MOST_OUTPUTS, (long long)labels->size[1]);
  HD_TRY(decode_targets(&memory->targets, ctx, labels_path, labels));
  out->targets = memory->targets;
  out->outputs = labels->rank == 2 ? (int)labels->size[1] : 1;
  return HD_OK;
}

static hd_status check_alike(const hd_split split[2], hd_ctx *ctx, char path[HD_DATA_PARTS][HD_PATH_BYTES]) {
  const hd_split *a = &split[0], *b = &split[1];
  if (a->height != b->height || a->width != b->width)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected test images of %dx%d as in training, found %dx%d; the files do not belong together",
                    path[2], a->height, a->width, b->height, b->width);
  if (a->outputs == b->outputs)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s: expected %d float targets per sample as in training (0: class labels), found %d; the files do not "
      "belong together",
      path[3], a->outputs, b->outputs);
}

static hd_status open_folder(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  const char *folder = request->name;
  void *set;
  HD_TRY(hd__dataset_hold(&set, out, ctx, sizeof(idx_set), release));
  HD_OWNED char(*path)[HD_PATH_BYTES] = hd__malloc((size_t)HD_DATA_PARTS * sizeof *path);
  HD_TRY(HD_ALLOCATED(path, ctx, "%s: out of memory while opening", folder));
  HD_TRY(open_parts(set, ctx, folder, path));
  for (int split = 0; split < 2; split++)
    HD_TRY(open_split(out, set, ctx, path, split));
  HD_TRY(check_alike(out->split, ctx, path));
  return out->split[0].labels ? count_classes(out->split, ctx, path[3], request->ignored) : HD_OK;
}

static bool takes_folder(hd_ctx *ctx, const char *path) {
  char found[HD_PATH_BYTES];
  for (int i = 0; i < HD_DATA_PARTS; i++)
    if (hd__idx_find(found, path, parts[i]))
      return true;
  return false;
}

const hd_format hd__format_idx = {.name = "a folder of IDX files",
                                  .takes = takes_folder,
                                  .open = open_folder,
                                  .folder = "of IDX files (train-images-idx3-ubyte, ...)"};
