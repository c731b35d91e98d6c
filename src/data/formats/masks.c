/* Folders of pictures with masks, which hold the class of each pixel (format.h).
 *
 *     PATH/images/NAME.jpg and PATH/masks/NAME.png, of which a fifth becomes the test set
 *     PATH/train/images, PATH/train/masks, and the same in PATH/test (or val, valid, validation, dev)
 *
 * A mask has its picture's name and size; its pixels are numbers, those of a grey PNG or places in a palette. 255 is no
 * class. Pictures are in the order of the bytes of their names, and all of one size; they are decoded when the set is
 * opened. */
#include "data/formats/formats.h"

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "data/images/image_file.h"
#include "platform/file.h"
#include "platform/parallel_for.h"

enum { GRAIN = 4, SIDES = 2 };

/* The names in a folder, sorted by their bytes. */
typedef struct names {
  struct dirent **entry;
  int count;
} names;

static void names_fini(names *n) {
  for (int i = 0; i < n->count; i++)
    free(n->entry[i]);
  free(n->entry);
  *n = (names){0};
}

#define NAMES HD_RELEASED(names_fini) names

static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static hd_status list(names *out, hd_ctx *ctx, const char *folder) {
  const int found = scandir(folder, &out->entry, is_shown, by_bytes);
  if (found < 0)
    return hd__fail(ctx, HD_E_IO, "%s: cannot read the folder: %s; check its permissions", folder, strerror(errno));
  out->count = found;
  return HD_OK;
}

/* The pictures of one split. */
typedef struct set {
  char images[HD_PATH_BYTES], masks[HD_PATH_BYTES]; /* folders */
  names picture, mask;
  hd_photo_rules rules;
  int size[SIDES], channels;
} set;

static void set_fini(set *s) {
  names_fini(&s->picture);
  names_fini(&s->mask);
}

/* Bytes of a name without its ending. */
static int stem_of(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (int)(dot - name) : (int)strlen(name);
}

static bool same_stem(const char *a, const char *b) {
  return stem_of(a) == stem_of(b) && !strncmp(a, b, (size_t)stem_of(a));
}

static bool is_picture(const char *name) {
  return hd__path_ends(name, ".png") || hd__path_ends(name, ".jpg") || hd__path_ends(name, ".jpeg");
}

/* Whether there is a file of this name but for the ending; it is likely to be the one at `guess`. */
static bool has_stem(const names *n, const char *name, int guess) {
  int i = 0;
  if (guess < n->count && same_stem(n->entry[guess]->d_name, name))
    return true;
  while (i < n->count && !same_stem(n->entry[i]->d_name, name))
    i++;
  return i < n->count;
}

/* masks/NAME.png of images/NAME.jpg. */
static hd_status mask_path(char path[HD_PATH_BYTES], hd_ctx *ctx, const set *s, const char *picture) {
  char name[HD_NAME_MAX + 5];
  snprintf(name, sizeof name, "%.*s.png", stem_of(picture) < HD_NAME_MAX ? stem_of(picture) : HD_NAME_MAX, picture);
  return hd__file_join(path, ctx, s->masks, name);
}

/* Each picture has a mask, and each mask a picture. */
static hd_status check_pairs(hd_ctx *ctx, const set *s) {
  char path[HD_PATH_BYTES];
  for (int i = 0; i < s->picture.count; i++) {
    const char *name = s->picture.entry[i]->d_name;
    if (!is_picture(name))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s/%s: expected only pictures (.png, .jpg, .jpeg), found this; move it elsewhere", s->images,
                      name);
    if (i > 0 && same_stem(s->picture.entry[i - 1]->d_name, name))
      return hd__fail(ctx, HD_E_FORMAT, "%s/%s: expected one picture of this name, found %s too; remove one", s->images,
                      name, s->picture.entry[i - 1]->d_name);
    HD_TRY(mask_path(path, ctx, s, name));
    if (!hd__file_exists(path))
      return hd__fail(ctx, HD_E_FORMAT, "%s/%s: expected its mask %s, found none; add it, or remove the picture",
                      s->images, name, path);
  }
  for (int i = 0; i < s->mask.count; i++)
    if (!has_stem(&s->picture, s->mask.entry[i]->d_name, i))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s/%s: expected a picture of this name in %s, found none; add it, or remove "
                      "the mask",
                      s->masks, s->mask.entry[i]->d_name, s->images);
  if (s->picture.count == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected pictures, found none; add some", s->images);
  return HD_OK;
}

static hd_status read_head(hd_photo_head *out, hd_ctx *ctx, const set *s, int i) {
  char path[HD_PATH_BYTES];
  HD_MAPPED file = {0};
  HD_TRY(hd__file_join(path, ctx, s->images, s->picture.entry[i]->d_name));
  HD_TRY(hd__file_read(&file, ctx, path));
  return hd__photo_head(out, ctx, path, file.bytes, file.length, s->rules);
}

/* All pictures of one size; grey if all are. */
static hd_status read_heads(set *s, hd_ctx *ctx) {
  hd_photo_head head;
  s->channels = 1;
  for (int i = 0; i < s->picture.count; i++) {
    HD_TRY(read_head(&head, ctx, s, i));
    if (i == 0)
      memcpy(s->size, head.size, sizeof s->size);
    if (memcmp(s->size, head.size, sizeof s->size) != 0)
      return hd__fail(
          ctx, HD_E_FORMAT,
          "%s: expected pictures of one size, found %s of %dx%d and %s of %dx%d; resize them and their masks, "
          "those by the nearest pixel",
          s->images, s->picture.entry[0]->d_name, s->size[1], s->size[0], s->picture.entry[i]->d_name, head.size[1],
          head.size[0]);
    s->channels = head.grey ? s->channels : 3;
  }
  return HD_OK;
}

/* Pictures and masks that several threads decode. */
typedef struct job {
  const set *set;
  const hd_split *split;
  hd_split_memory *to;
  atomic_llong worst; /* the lowest that failed */
} job;

static hd_status decode(const job *j, hd_ctx *ctx, int64_t i) {
  const set *s = j->set;
  const char *name = s->picture.entry[i]->d_name;
  char path[HD_PATH_BYTES];
  HD_MAPPED picture = {0}, mask = {0};
  HD_TRY(hd__file_join(path, ctx, s->images, name));
  HD_TRY(hd__file_read(&picture, ctx, path));
  HD_TRY(hd__photo_read(j->to->images + i * hd__split_elems(j->split), j->split->channels, s->size, ctx, path,
                        picture.bytes, picture.length, s->rules));
  HD_TRY(mask_path(path, ctx, s, name));
  HD_TRY(hd__file_read(&mask, ctx, path));
  return hd__png_mask(j->to->masks + i * hd__split_plane(j->split), s->size, ctx, path, mask.bytes, mask.length);
}

static void decode_some(void *arg, int64_t first, int64_t end) {
  job *j = arg;
  for (int64_t i = first; i < end; i++) {
    hd_ctx ctx = {0};
    if (decode(j, &ctx, i) == HD_OK)
      continue;
    long long lowest = atomic_load(&j->worst);
    while (i < lowest && !atomic_compare_exchange_weak(&j->worst, &lowest, i))
      ;
  }
}

static hd_status decode_all(hd_split *split, hd_split_memory *to, hd_ctx *ctx, const set *s, int channels) {
  *split = (hd_split){
      .count = s->picture.count, .channels = channels, .height = s->size[0], .width = s->size[1], .masked = true};
  HD_TRY(hd__split_allocate(to, split, ctx, s->images));
  job j = {.set = s, .split = split, .to = to, .worst = split->count};
  hd__parallel_for(split->count, GRAIN, decode_some, &j);
  return j.worst == split->count ? HD_OK : decode(&j, ctx, j.worst); /* it fails again */
}

/* PATH/NAME/images and PATH/NAME/masks, or without a name PATH's. */
static bool find_set(set *out, const char *path, const char *name) {
  const char *slash = *name ? "/" : "";
  return snprintf(out->images, sizeof out->images, "%s%s%s/images", path, slash, name) < HD_PATH_BYTES &&
         snprintf(out->masks, sizeof out->masks, "%s%s%s/masks", path, slash, name) < HD_PATH_BYTES &&
         hd__file_is_folder(out->images) && hd__file_is_folder(out->masks);
}

static bool takes(hd_ctx *ctx, const char *path) {
  set found;
  return find_set(&found, path, "") || find_set(&found, path, "train");
}

static hd_status open_set(set *s, hd_ctx *ctx, hd_photo_rules rules) {
  s->rules = rules;
  HD_TRY(list(&s->picture, ctx, s->images));
  HD_TRY(list(&s->mask, ctx, s->masks));
  HD_TRY(check_pairs(ctx, s));
  return read_heads(s, ctx);
}

/* The test set beside train/, if there is one. */
static bool find_test(set *out, const char *path) {
  static const char *const name[] = {"test", "val", "valid", "validation", "dev"};
  size_t i = 0;
  while (i < sizeof name / sizeof *name && !find_set(out, path, name[i]))
    i++;
  return i < sizeof name / sizeof *name;
}

static hd_status open_folder(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  HD_RELEASED(set_fini) set train = {0};
  HD_RELEASED(set_fini) set test = {0};
  const char *path = request->name;
  const bool parts = find_set(&train, path, "train"), has_test = parts && find_test(&test, path);
  if (!parts)
    find_set(&train, path, "");
  HD_TRY(open_set(&train, ctx, request->photos));
  if (has_test)
    HD_TRY(open_set(&test, ctx, request->photos));
  const int channels = has_test && test.channels > train.channels ? test.channels : train.channels;
  HD_TRY(decode_all(&out->split[0], &out->memory[0], ctx, &train, channels));
  if (has_test)
    HD_TRY(decode_all(&out->split[1], &out->memory[1], ctx, &test, channels));
  else
    HD_TRY(hd__dataset_divide(out, ctx, path));
  return hd__dataset_count_classes(out->split, ctx, path, request->ignored);
}

const hd_format hd__format_masks = {.name = "a folder of pictures and masks",
                                    .takes = takes,
                                    .open = open_folder,
                                    .folder = "images/ and masks/",
                                    .pictures = true};
