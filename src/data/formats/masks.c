/* Folders of pictures with masks, which hold the class of each pixel (format.h).
 *
 *     PATH/images/NAME.jpg and PATH/masks/NAME.png, of which a fifth becomes the test set
 *     PATH/train/images, PATH/train/masks, and the same in PATH/test (or val, valid, validation, dev)
 *
 * A mask has its picture's name and size; its pixels are numbers, those of a grey PNG or places in a palette. 255 is no
 * class. PATH/classes.txt, if it is there, names the classes, a line for each. Pictures are in the order of the bytes
 * of their names. Masks are decoded when the set is opened, and so are pictures of one size; pictures of several sizes
 * are decoded on demand. To skip what cannot be read, pairs are decoded once more before, and left out. */
#include "data/formats/formats.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/text_buffer.h"
#include "data/dataset/name_list.h"
#include "data/images/image_file.h"
#include "platform/file.h"
#include "platform/parallel_for.h"

enum { GRAIN = 4, SIDES = 2 };

/* The pictures of one split. */
typedef struct set {
  char images[HD_PATH_BYTES], masks[HD_PATH_BYTES]; /* folders */
  hd_name_list picture, mask;
  hd_photo_rules rules;
  hd_palette palette;           /* of the first mask of the data set */
  int (*size)[SIDES], channels; /* size: of each picture */
  hd_mask_place *place;         /* of each mask, where sizes differ */
} set;

/* The data set's state. */
typedef struct folder {
  set part[2];
  char *mixed;
} folder;

static void release(void *self) {
  folder *f = self;
  for (int s = 0; s < 2; s++) {
    hd__name_list_fini(&f->part[s].picture);
    hd__name_list_fini(&f->part[s].mask);
    hd__free(f->part[s].size);
    hd__free(f->part[s].place);
  }
  hd__free(f->mixed);
}

static hd_status no_memory(hd_ctx *ctx, const char *path) {
  return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for the list of pictures", path);
}

/* Bytes of a name without its ending. */
static int stem_of(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (int)(dot - name) : (int)strlen(name);
}

static bool same_stem(const char *a, const char *b) {
  return stem_of(a) == stem_of(b) && !strncmp(a, b, (size_t)stem_of(a));
}

/* Whether there is a file of this name but for the ending; it is likely to be the one at `guess`. */
static bool has_stem(const hd_name_list *n, const char *name, int guess) {
  int i = 0;
  if (guess < n->count && same_stem(n->text[guess], name))
    return true;
  while (i < n->count && !same_stem(n->text[i], name))
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
    const char *name = s->picture.text[i];
    if (!hd__is_picture(name))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s/%s: expected only pictures (.png, .jpg, .jpeg), found this; move it elsewhere", s->images,
                      name);
    if (i > 0 && same_stem(s->picture.text[i - 1], name))
      return hd__fail(ctx, HD_E_FORMAT, "%s/%s: expected one picture of this name, found %s too; remove one", s->images,
                      name, s->picture.text[i - 1]);
    HD_TRY(mask_path(path, ctx, s, name));
    if (!hd__file_exists(path))
      return hd__fail(ctx, HD_E_FORMAT, "%s/%s: expected its mask %s, found none; add it, or remove the picture",
                      s->images, name, path);
  }
  for (int i = 0; i < s->mask.count; i++)
    if (!has_stem(&s->picture, s->mask.text[i], i))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s/%s: expected a picture of this name in %s, found none; add it, or remove "
                      "the mask",
                      s->masks, s->mask.text[i], s->images);
  if (s->picture.count == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected pictures, found none; add some", s->images);
  if (s->picture.count != s->mask.count)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected a mask for each picture, found %lld for %lld; of files whose names differ only by their "
        "ending remove all but one",
        s->masks, (long long)s->mask.count, (long long)s->picture.count);
  return HD_OK;
}

static hd_status read_head(hd_photo_head *out, hd_ctx *ctx, const set *s, int i) {
  char path[HD_PATH_BYTES];
  HD_MAPPED file = {0};
  HD_TRY(hd__file_join(path, ctx, s->images, s->picture.text[i]));
  HD_TRY(hd__file_read(&file, ctx, path));
  return hd__photo_head(out, ctx, &(hd_picture_file){path, file.bytes, file.length}, s->rules);
}

/* The sizes of all pictures, 0 x 0 for those that are skipped; grey if all are. */
static hd_status read_heads(set *s, hd_ctx *ctx, bool skip) {
  s->channels = 1;
  HD_TRY(HD_NEW(s->size, s->picture.count, ctx, "%s: out of memory for the sizes of pictures", s->images));
  for (int i = 0; i < s->picture.count; i++) {
    hd_photo_head head = {.grey = true};
    const hd_status status = read_head(&head, ctx, s, i);
    if (status != HD_OK && (!skip || status == HD_E_NOMEM))
      return status;
    if (status != HD_OK)
      continue;
    memcpy(s->size[i], head.size, sizeof head.size);
    s->channels = head.grey ? s->channels : 3;
  }
  return HD_OK;
}

/* The first picture of another size than `than`, or their number. */
static int odd_size(const set *s, const int than[SIDES]) {
  int i = 0;
  while (i < s->picture.count && !memcmp(s->size[i], than, sizeof s->size[i]))
    i++;
  return i;
}

/* ---- Decoding ---- */

static hd_status read_picture(uint8_t *planes, hd_ctx *ctx, const set *s, int channels, int64_t i) {
  char path[HD_PATH_BYTES];
  HD_MAPPED file = {0};
  HD_TRY(hd__file_join(path, ctx, s->images, s->picture.text[i]));
  HD_TRY(hd__file_read(&file, ctx, path));
  return hd__photo_read(planes, channels, s->size[i], ctx, &(hd_picture_file){path, file.bytes, file.length}, s->rules);
}

static hd_status read_mask(uint8_t *out, hd_ctx *ctx, const set *s, int64_t i) {
  char path[HD_PATH_BYTES];
  HD_MAPPED file = {0};
  HD_TRY(mask_path(path, ctx, s, s->picture.text[i]));
  HD_TRY(hd__file_read(&file, ctx, path));
  return hd__png_mask(out, s->size[i], &s->palette, ctx, &(hd_picture_file){path, file.bytes, file.length});
}

/* Pictures and masks that several threads decode. */
typedef struct job {
  const set *set;
  const hd_split *split;
  hd_split_memory *to;
  atomic_llong worst; /* the lowest that failed */
} job;

static hd_status decode(const job *j, hd_ctx *ctx, int64_t i) {
  if (j->to->images)
    HD_TRY(read_picture(j->to->images + i * hd__split_elems(j->split), ctx, j->set, j->split->channels, i));
  return read_mask(j->to->masks + hd__split_mask(j->split, i).at, ctx, j->set, i);
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

/* ---- Pairs that cannot be read ---- */

/* Pairs that several threads try to read. */
typedef struct trial {
  const set *set;
  uint8_t *bad;
  atomic_bool starved;
} trial;

static hd_status try_pair(const set *s, hd_ctx *ctx, int64_t i) {
  hd_photo_head head;
  HD_TRY(read_head(&head, ctx, s, (int)i));
  const int64_t pixels = (int64_t)head.size[0] * head.size[1];
  HD_OWNED uint8_t *room = hd__malloc((size_t)(pixels * (s->channels + 1)));
  HD_TRY(HD_ALLOCATED(room, ctx, "%s: out of memory for a picture", s->images));
  HD_TRY(read_picture(room, ctx, s, s->channels, i));
  return read_mask(room + pixels * s->channels, ctx, s, i);
}

static void try_some(void *arg, int64_t first, int64_t end) {
  trial *t = arg;
  for (int64_t i = first; i < end; i++) {
    hd_ctx ctx = {0};
    const hd_status status = try_pair(t->set, &ctx, i);
    t->bad[i] = status != HD_OK;
    if (status == HD_E_NOMEM)
      atomic_store(&t->starved, true);
  }
}

/* Keeps the pairs without a mark; how many. */
static int keep_good(set *s, const uint8_t *bad) {
  int kept = 0;
  for (int i = 0; i < s->picture.count; i++) {
    if (bad[i]) {
      hd__free(s->picture.text[i]);
      continue;
    }
    s->picture.text[kept] = s->picture.text[i];
    memcpy(s->size[kept++], s->size[i], sizeof s->size[i]);
  }
  return s->picture.count = kept;
}

/* Leaves out pairs that cannot be read; at least one must be left. */
static hd_status leave_out_bad(hd_dataset *out, int part, set *s, hd_ctx *ctx) {
  const int all = s->picture.count;
  HD_OWNED uint8_t *bad = NULL;
  hd_ctx why = {0};
  int first = 0, count = 0;
  HD_TRY(HD_NEW(bad, all, ctx, "%s: out of memory for a list of pictures", s->images));
  trial t = {.set = s, .bad = bad};
  hd__parallel_for(all, GRAIN, try_some, &t);
  if (t.starved)
    return no_memory(ctx, s->images);
  for (int i = all - 1; i >= 0; i--) {
    first = bad[i] ? i : first;
    count += bad[i];
  }
  if (count == 0 || try_pair(s, count == all ? ctx : &why, first) == HD_OK)
    return HD_OK;
  if (count == all)
    return hd__fail_in(ctx, HD_E_FORMAT, "no picture of %d can be read", all);
  out->split[part].left_out = all - keep_good(s, bad);
  return hd__dataset_note(out, ctx,
                          "%s: %d of %d pictures are left out with their masks, since one of both cannot be "
                          "read: %s",
                          s->images, count, all, why.message);
}

static hd_status decode_all(const hd_split *split, hd_split_memory *to, hd_ctx *ctx, const set *s) {
  job j = {.set = s, .split = split, .to = to, .worst = split->count};
  hd__parallel_for(split->count, GRAIN, decode_some, &j);
  return j.worst == split->count ? HD_OK : decode(&j, ctx, j.worst); /* it fails again */
}

static hd_status take_same_size(hd_dataset *out, int part, hd_ctx *ctx, const set *s, int channels) {
  hd_split *d = &out->split[part];
  *d = (hd_split){.count = s->picture.count,
                  .left_out = d->left_out,
                  .channels = channels,
                  .height = s->size[0][0],
                  .width = s->size[0][1],
                  .masked = true};
  HD_TRY(hd__split_allocate(&out->memory[part], d, ctx, s->images));
  return decode_all(d, &out->memory[part], ctx, s);
}

/* ---- Several sizes ---- */

static hd_status get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  const set *s = split->self;
  memcpy(size, s->size[sample], sizeof s->size[sample]);
  return read_picture(elems, ctx, s, split->channels, sample);
}

/* Moves a fifth of the first set's pictures, or a fold, to the second set. */
static hd_status divide(folder *f, hd_dataset *data, hd_ctx *ctx, const char *path) {
  set *all = &f->part[0], *test = &f->part[1];
  const int count = all->picture.count;
  HD_OWNED uint8_t *marks = NULL;
  HD_TRY(hd__dataset_mark_test(&marks, data, ctx, path, count, NULL));
  memcpy(test->images, all->images, sizeof test->images);
  memcpy(test->masks, all->masks, sizeof test->masks);
  test->rules = all->rules;
  test->channels = all->channels;
  test->picture.text = hd__malloc((size_t)count * sizeof *test->picture.text);
  test->size = hd__malloc((size_t)count * sizeof *test->size);
  if (!test->picture.text || !test->size)
    return no_memory(ctx, path);
  all->picture.count = 0;
  for (int i = 0; i < count; i++) {
    set *to = marks[i] ? test : all;
    const int64_t at = to->picture.count++;
    to->picture.text[at] = all->picture.text[i];
    memcpy(to->size[at], all->size[i], sizeof all->size[i]);
  }
  return HD_OK;
}

static hd_status take_sizes(hd_dataset *out, int part, hd_ctx *ctx, folder *f, int channels) {
  set *s = &f->part[part];
  hd_split *d = &out->split[part];
  HD_TRY(HD_NEW(s->place, s->picture.count + 1, ctx, "%s: out of memory for the list of masks", s->masks));
  *d = (hd_split){.count = s->picture.count,
                  .left_out = d->left_out,
                  .channels = channels,
                  .mixed = f->mixed,
                  .get = get,
                  .self = s,
                  .masked = true,
                  .mask_place = s->place};
  for (int i = 0; i < s->picture.count; i++) {
    const int64_t pixels = (int64_t)s->size[i][0] * s->size[i][1];
    s->place[i].size[0] = s->size[i][0];
    s->place[i].size[1] = s->size[i][1];
    s->place[i + 1].at = s->place[i].at + pixels;
    d->most_elems = pixels * channels > d->most_elems ? pixels * channels : d->most_elems;
  }
  d->all_elems = channels * hd__split_mask_bytes(d);
  HD_TRY(
      HD_NEW_RAW(out->memory[part].masks, hd__split_mask_bytes(d), ctx, "%s: out of memory for the masks", s->masks));
  d->masks = out->memory[part].masks;
  return decode_all(d, &out->memory[part], ctx, s);
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

static hd_status open_set(hd_dataset *out, int part, set *s, hd_ctx *ctx, const hd_dataset_request *request) {
  s->rules = request->photos;
  HD_TRY(hd__name_list_read(&s->picture, ctx, s->images));
  HD_TRY(hd__name_list_read(&s->mask, ctx, s->masks));
  HD_TRY(check_pairs(ctx, s));
  HD_TRY(read_heads(s, ctx, request->skip));
  return request->skip ? leave_out_bad(out, part, s, ctx) : HD_OK;
}

enum { TESTS = 5 };
static const char *const tests[TESTS] = {"test", "val", "valid", "validation", "dev"};

/* The test set beside train/, if there is one; its name, or NULL. */
static const char *find_test(set *out, const char *path) {
  int i = 0;
  while (i < TESTS && !find_set(out, path, tests[i]))
    i++;
  return i < TESTS ? tests[i] : NULL;
}

/* A folder that could be a set has both pictures and masks, or neither. */
static hd_status refuse_halves(hd_ctx *ctx, const char *path) {
  for (int i = 0; i < TESTS; i++) {
    set half;
    const bool whole = find_set(&half, path, tests[i]);
    const bool images = hd__file_is_folder(half.images), masks = hd__file_is_folder(half.masks);
    if (!whole && (images || masks))
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected %s beside it, found none; add it, or move the folder elsewhere",
                      images ? half.images : half.masks, images ? half.masks : half.images);
  }
  return HD_OK;
}

/* Notes sets that are not used. */
static hd_status note_unused(hd_dataset *out, hd_ctx *ctx, const char *path, const char *test, bool parts) {
  char unused[64] = "";
  hd_line line = {unused, sizeof unused, 0};
  set other;
  for (int i = 0; i < TESTS; i++)
    if ((!test || strcmp(test, tests[i]) != 0) && find_set(&other, path, tests[i]))
      hd__line_add(&line, "%s%s", line.length ? ", " : "", tests[i]);
  return line.length == 0 ? HD_OK
                          : hd__dataset_note(out, ctx, "%s: not used: %s; the test set is %s", path, unused,
                                             test    ? test
                                             : parts ? "a fifth of train"
                                                     : "a fifth of images");
}

/* "photos/images: 000.png 16x16 and 004.png 32x32", if two pictures have other sizes. */
static hd_status find_mixed(folder *f, hd_ctx *ctx, const char *path) {
  const set *first = &f->part[0];
  const int *size = first->size[0];
  for (int p = 0; p < 2 && !f->mixed; p++) {
    const set *s = &f->part[p];
    const int odd = odd_size(s, size);
    if (odd == s->picture.count)
      continue;
    f->mixed = hd__printf_alloc("%s/%s: %dx%d and %s/%s: %dx%d", first->images, first->picture.text[0], size[1],
                                size[0], s->images, s->picture.text[odd], s->size[odd][1], s->size[odd][0]);
    if (!f->mixed)
      return no_memory(ctx, path);
  }
  return HD_OK;
}

static const char NAMES[] = "classes.txt";

/* PATH/classes.txt names the classes, of which there are as many then. */
static hd_status name_classes(hd_dataset *out, hd_ctx *ctx, const char *path) {
  char file[HD_PATH_BYTES];
  hd_names *found = &out->names;
  HD_TRY(hd__file_join(file, ctx, path, NAMES));
  if (!hd__file_exists(file))
    return HD_OK;
  HD_TRY(hd__names_read(found, ctx, file, 0));
  if (found->count < 1 || found->count > HD_NO_CLASS)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected the names of 1 to %d classes, a line for each, found %d; fix the file", file,
                    HD_NO_CLASS, found->count);
  for (int c = 0; c < found->count; c++)
    for (int other = 0; other < c; other++)
      if (!strcmp(found->name[c], found->name[other]))
        return hd__fail(ctx, HD_E_FORMAT,
                        "%s: expected a name of its own for each class, found '%s' for %d and %d; "
                        "rename one",
                        file, found->name[c], other, c);
  if (out->split[0].classes > found->count)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected the names of at least %d classes, as the masks have, found %d; add the others", file,
                    out->split[0].classes, found->count);
  for (int s = 0; s < 2; s++) {
    out->split[s].classes = found->count;
    out->split[s].class_names = found->name;
  }
  return HD_OK;
}

/* The colours of the first mask's palette, or a run's, by which all masks number their classes; where these have names,
 * they are matched to a run's by them. */
static hd_status find_palette(hd_dataset *out, folder *f, hd_ctx *ctx, const hd_dataset_request *request) {
  char mask[HD_PATH_BYTES], names[HD_PATH_BYTES];
  HD_MAPPED file = {0};
  HD_TRY(mask_path(mask, ctx, &f->part[0], f->part[0].picture.text[0]));
  HD_TRY(hd__file_read(&file, ctx, mask));
  HD_TRY(hd__png_palette(&out->palette, ctx, &(hd_picture_file){mask, file.bytes, file.length}));
  HD_TRY(hd__file_join(names, ctx, request->name, NAMES));
  const bool named = request->classes.count > 0 && hd__file_exists(names);
  const bool given = request->palette && request->palette->count > 0 && !named;
  f->part[0].palette = f->part[1].palette = given ? *request->palette : out->palette;
  return HD_OK;
}

/* The sets and their palette. */
static hd_status find_pictures(hd_dataset *out, folder *f, hd_ctx *ctx, const hd_dataset_request *request) {
  const char *path = request->name;
  const bool parts = find_set(&f->part[0], path, "train");
  if (!parts)
    find_set(&f->part[0], path, "");
  HD_TRY(refuse_halves(ctx, path));
  const char *test = parts ? find_test(&f->part[1], path) : NULL;
  HD_TRY(note_unused(out, ctx, path, test, parts));
  HD_TRY(open_set(out, 0, &f->part[0], ctx, request));
  if (test)
    HD_TRY(open_set(out, 1, &f->part[1], ctx, request));
  HD_TRY(find_palette(out, f, ctx, request));
  return find_mixed(f, ctx, path);
}

/* Pictures in memory, which hd__dataset_divide and folds can divide. */
static hd_status take_in_memory(hd_dataset *out, folder *f, hd_ctx *ctx, const char *path, int channels) {
  HD_TRY(take_same_size(out, 0, ctx, &f->part[0], channels));
  return f->part[1].picture.count > 0 ? take_same_size(out, 1, ctx, &f->part[1], channels)
                                      : hd__dataset_divide(out, ctx, path);
}

static hd_status take_on_demand(hd_dataset *out, folder *f, hd_ctx *ctx, const char *path, int channels) {
  if (f->part[1].picture.count == 0 && !out->whole)
    HD_TRY(divide(f, out, ctx, path));
  HD_TRY(take_sizes(out, 0, ctx, f, channels));
  return f->part[1].picture.count == 0 && hd__dataset_share(out) ? HD_OK : take_sizes(out, 1, ctx, f, channels);
}

static hd_status open_folder(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  const char *path = request->name;
  folder *f;
  HD_TRY(hd__dataset_hold((void **)&f, out, ctx, sizeof *f, release));
  HD_TRY(find_pictures(out, f, ctx, request));
  const int channels = f->part[1].channels > f->part[0].channels ? f->part[1].channels : f->part[0].channels;
  HD_TRY((f->mixed ? take_on_demand : take_in_memory)(out, f, ctx, path, channels));
  HD_TRY(hd__dataset_count_classes(out->split, ctx, path, request->ignored));
  return name_classes(out, ctx, path);
}

const hd_format hd__format_masks = {.name = "a folder of pictures and masks",
                                    .takes = takes,
                                    .open = open_folder,
                                    .folder = "images/ and masks/",
                                    .pictures = true};
