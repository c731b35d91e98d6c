/* Folders of class folders of PNG and JPEG pictures.
 *
 *     PATH/train/CLASS/NAME.png and PATH/test/CLASS/NAME.jpg (or validation, valid, val, dev)
 *     PATH/CLASS/NAME.png, of which a fifth becomes the test set (format.h); PATH/train alone is such a PATH too
 *
 * Classes are numbered by name, in the order of its bytes, pictures by class and then by name. Names that begin with
 * a dot are ignored; anything else in a class folder is a picture or an error. If all pictures are grey there is one
 * channel, else three. Headers are read when the set is opened, pictures on demand. A skipped header has the size
 * 0x0. With --cache disk the sizes of all pictures are kept too, in heads-KEY: later runs read no header. */
#include "data/formats/formats.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/text_buffer.h"
#include "data/dataset/name_list.h"
#include "data/images/image_file.h"
#include "data/split/cache_file.h"
#include "platform/file.h"
#include "platform/parallel_for.h"

enum { GRAIN = 16 }; /* pictures at a time */

typedef struct photo {
  char *path;
  int32_t label;
  hd_photo_head head;
  uint64_t mark; /* hash of its class, name, size and time */
} photo;

/* The pictures of one split. */
typedef struct album {
  photo *photo;
  int64_t count, room;
  hd_photo_rules rules;
} album;

typedef struct folder_set {
  hd_name_list classes;
  album album[2];
  int64_t validation; /* the last pictures of the first album, a validation set */
  bool has_test;      /* in a folder of its own */
  char *mixed;
} folder_set;

static void release(void *self) {
  folder_set *set = self;
  hd__name_list_fini(&set->classes);
  for (int s = 0; s < 2; s++) {
    for (int64_t i = 0; i < set->album[s].count; i++)
      hd__free(set->album[s].photo[i].path);
    hd__free(set->album[s].photo);
  }
  hd__free(set->mixed);
}

static hd_status no_memory(hd_ctx *ctx, const char *path) {
  return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for the list of pictures", path);
}

/* The names in a folder, sorted; only folders if `folders` is set. */
static hd_status list(hd_name_list *out, hd_ctx *ctx, const char *path, bool folders) {
  char inside[HD_PATH_BYTES];
  HD_NAME_LIST all = {0};
  HD_TRY(hd__name_list_read(&all, ctx, path));
  for (int64_t i = 0; i < all.count; i++) {
    HD_TRY(hd__file_join(inside, ctx, path, all.text[i]));
    if ((!folders || hd__file_is_folder(inside)) && !hd__name_list_add(out, all.text[i]))
      return no_memory(ctx, path);
  }
  return HD_OK;
}

static hd_status add_class(album *to, hd_ctx *ctx, const char *path, int32_t label, bool allow_empty) {
  HD_NAME_LIST names = {0};
  HD_TRY(list(&names, ctx, path, false));
  for (int64_t i = 0; i < names.count; i++) {
    const char *name = names.text[i];
    if (!hd__is_picture(name))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s/%s: expected only pictures (.png, .jpg, .jpeg), found this; move it elsewhere", path, name);
    if (!hd__grow(&to->photo, to->count, &to->room, sizeof *to->photo) ||
        !(to->photo[to->count].path = hd__printf_alloc("%s/%s", path, name)))
      return no_memory(ctx, path);
    to->photo[to->count++].label = label;
  }
  if (names.count == 0 && !allow_empty)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected pictures of this class, found none; add some, remove the folder, or give "
                    "--allow-empty",
                    path);
  return HD_OK;
}

/* Both lists are sorted: reports the first name that is in only one of them. */
static hd_status check_classes(hd_ctx *ctx, const char *path, const hd_name_list *known, const hd_name_list *found) {
  int64_t i = 0;
  while (i < known->count && i < found->count && !strcmp(known->text[i], found->text[i]))
    i++;
  const char *a = i < known->count ? known->text[i] : NULL, *b = i < found->count ? found->text[i] : NULL;
  if (!a && !b)
    return HD_OK;
  const bool missing = a && (!b || strcmp(a, b) < 0);
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected the classes of the training set, found %s '%s'; use the same classes in both", path,
                  missing ? "no" : "besides them", missing ? a : b);
}

/* The pictures of all class folders; the classes must equal those of an earlier split, if there is one. */
static hd_status add_split(album *to, hd_name_list *classes, hd_ctx *ctx, const char *path, bool allow_empty) {
  char inside[HD_PATH_BYTES];
  HD_NAME_LIST found = {0};
  HD_TRY(list(&found, ctx, path, true));
  if (found.count > HD_DATA_MAX_CLASSES)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected up to %d classes, found %lld; use fewer folders", path,
                    HD_DATA_MAX_CLASSES, (long long)found.count);
  if (found.count == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a folder of pictures for each class, found none; create them",
                    path);
  if (classes->count == 0) {
    *classes = found;
    found = (hd_name_list){0};
  } else {
    HD_TRY(check_classes(ctx, path, classes, &found));
  }
  for (int64_t i = 0; i < classes->count; i++) {
    HD_TRY(hd__file_join(inside, ctx, path, classes->text[i]));
    HD_TRY(add_class(to, ctx, inside, (int32_t)i, allow_empty));
  }
  if (to->count == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected class folders with pictures, found none; add some", path);
  return HD_OK;
}

/* Moves a fifth of the first album to the second. */
static hd_status divide(album both[2], hd_dataset *data, hd_ctx *ctx, const char *path) {
  const int64_t count = both[0].count;
  HD_OWNED uint8_t *marks = NULL;
  HD_OWNED int32_t *labels = hd__malloc((size_t)count * sizeof *labels);
  if (!labels)
    return no_memory(ctx, path);
  for (int64_t i = 0; i < count; i++)
    labels[i] = both[0].photo[i].label;
  HD_TRY(hd__dataset_mark_test(&marks, data, ctx, path, count, labels));
  both[1].photo = hd__malloc((size_t)count * sizeof *both[1].photo);
  if (!both[1].photo)
    return no_memory(ctx, path);
  int64_t kept = 0;
  for (int64_t i = 0; i < count; i++)
    if (marks[i])
      both[1].photo[both[1].count++] = both[0].photo[i];
    else
      both[0].photo[kept++] = both[0].photo[i];
  both[0].count = kept;
  return HD_OK;
}

/* The cache key of a picture: CLASS/NAME, size and time. */
static uint64_t mark_of(const photo *p, const struct stat *info) {
  char text[HD_PATH_BYTES + 64];
  const char *name = strrchr(p->path, '/');
  while (name > p->path && name[-1] != '/')
    name--;
  const int length = snprintf(text, sizeof text, "%s %lld %lld.%09ld", name, (long long)info->st_size,
                              (long long)info->st_mtim.tv_sec, (long)info->st_mtim.tv_nsec);
  return hd__xxh3(text, (size_t)length);
}

static hd_status read_head(photo *p, hd_ctx *ctx, hd_photo_rules rules) {
  HD_MAPPED file = {0};
  HD_TRY(hd__file_read(&file, ctx, p->path));
  return hd__photo_head(&p->head, ctx, &(hd_picture_file){p->path, file.bytes, file.length}, rules);
}

/* Headers that several threads read. */
typedef struct heads {
  album *album;
  atomic_llong worst, good, starved; /* worst: the lowest that failed */
} heads;

static void read_some_heads(void *arg, int64_t first, int64_t end) {
  heads *h = arg;
  for (int64_t i = first; i < end; i++) {
    photo *p = &h->album->photo[i];
    hd_ctx ctx = {0};
    const hd_status status = read_head(p, &ctx, h->album->rules);
    if (status == HD_OK || status == HD_E_NOMEM)
      atomic_fetch_add(status == HD_OK ? &h->good : &h->starved, 1);
    if (status == HD_OK)
      continue;
    p->head = (hd_photo_head){0};
    long long lowest = atomic_load(&h->worst);
    while (i < lowest && !atomic_compare_exchange_weak(&h->worst, &lowest, i))
      ;
  }
}

/* All headers; the first failure in the pictures' order is reported, unless unreadable pictures are skipped and at
 * least one is readable. */
static hd_status read_heads(album *a, hd_ctx *ctx, bool skip) {
  heads h = {.album = a, .worst = a->count};
  hd__parallel_for(a->count, GRAIN, read_some_heads, &h);
  const bool fine = h.worst == a->count || (skip && h.good > 0 && h.starved == 0);
  return fine ? HD_OK : read_head(&a->photo[h.worst], ctx, a->rules); /* it fails again */
}

static void find_some_marks(void *arg, int64_t first, int64_t end) {
  album *a = arg;
  for (int64_t i = first; i < end; i++) {
    struct stat info;
    if (stat(a->photo[i].path, &info) == 0)
      a->photo[i].mark = mark_of(&a->photo[i], &info);
  }
}

/* Keys are computed before headers are read: a picture that changes meanwhile has another key next time. */
static void find_marks(album *a) { hd__parallel_for(a->count, GRAIN, find_some_marks, a); }

/* A header as it is kept on disk. */
typedef struct kept_head {
  int32_t size[2], grey, alpha;
} kept_head;

static void keep_heads(kept_head *to, const album *a) {
  for (int64_t i = 0; i < a->count; i++)
    to[i] = (kept_head){
        {a->photo[i].head.size[0], a->photo[i].head.size[1]}, a->photo[i].head.grey, a->photo[i].head.alpha};
}

/* False if one of them cannot be a picture's header. */
static bool take_heads(album *a, const kept_head *from) {
  for (int64_t i = 0; i < a->count; i++) {
    const int32_t height = from[i].size[0], width = from[i].size[1];
    if (height < 1 || width < 1 || height > HD_PNG_MAX_PIXELS / width)
      return false;
    a->photo[i].head = (hd_photo_head){.size = {height, width}, .grey = from[i].grey, .alpha = from[i].alpha};
  }
  return true;
}

static bool is_known(const photo *p) { return p->head.size[0] > 0; }

/* Why the header could not be read; a picture repaired since then is used by the next run only. */
static hd_status unknown(hd_ctx *ctx, const photo *p, hd_photo_rules rules) {
  photo again = *p;
  HD_TRY(read_head(&again, ctx, rules));
  return hd__fail(ctx, HD_E_FORMAT, "%s: the picture has changed during the run; start again", p->path);
}

static hd_status get(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  const album *a = split->self;
  const photo *p = &a->photo[sample];
  HD_MAPPED file = {0};
  if (!is_known(p))
    return unknown(ctx, p, a->rules);
  HD_TRY(hd__file_read(&file, ctx, p->path));
  memcpy(size, p->head.size, sizeof p->head.size);
  return hd__photo_read(elems, split->channels, p->head.size, ctx, &(hd_picture_file){p->path, file.bytes, file.length},
                        a->rules);
}

static bool same_size(const photo *a, const photo *b) {
  return !memcmp(a->head.size, b->head.size, sizeof a->head.size);
}

/* The first readable picture, or with `than` the first of another size than that; NULL if there is none. */
static const photo *first_photo(const folder_set *set, const photo *than) {
  for (int s = 0; s < 2; s++)
    for (int64_t i = 0; i < set->album[s].count; i++)
      if (is_known(&set->album[s].photo[i]) && !(than && same_size(&set->album[s].photo[i], than)))
        return &set->album[s].photo[i];
  return NULL;
}

/* The bits of a cache key that stand for the rules; 0 for those of the first version. */
static int32_t rule_bits(hd_photo_rules rules) {
  return (rules.ignore_exif ? 0 : 1 << 8) | (rules.ignore_alpha ? 0 : 1 << 9);
}

/* The cache key of all pictures of some albums, and a number. */
static hd_status find_key(uint64_t *key, hd_ctx *ctx, const album *a, int albums, int32_t number) {
  hd_xxh3 *sum = hd__xxh3_create();
  HD_TRY(HD_ALLOCATED(sum, ctx, "out of memory for a checksum of the pictures' names"));
  hd__xxh3_update(sum, &number, sizeof number);
  for (int s = 0; s < albums; s++)
    for (int64_t i = 0; i < a[s].count; i++)
      hd__xxh3_update(sum, &a[s].photo[i].mark, sizeof a[s].photo[i].mark);
  *key = hd__xxh3_finish(sum);
  return HD_OK;
}

static hd_status describe(hd_dataset *out, folder_set *set, hd_ctx *ctx, const char *path) {
  const photo *first = first_photo(set, NULL), *odd = first_photo(set, first);
  bool grey = true;
  if (odd)
    set->mixed = hd__printf_alloc("%s: %dx%d and %s: %dx%d", first->path, first->head.size[1], first->head.size[0],
                                  odd->path, odd->head.size[1], odd->head.size[0]);
  if (odd && !set->mixed)
    return no_memory(ctx, path);
  for (int s = 0; s < 2; s++) {
    album *a = &set->album[s];
    hd_split *d = &out->split[s];
    *d = (hd_split){.count = a->count,
                    .validation = s == 0 ? set->validation : 0,
                    .height = odd ? 0 : first->head.size[0],
                    .width = odd ? 0 : first->head.size[1],
                    .mixed = set->mixed,
                    .get = get,
                    .self = a,
                    .classes = (int)set->classes.count,
                    .class_names = (const char *const *)set->classes.text};
    int32_t *labels = out->memory[s].labels = hd__malloc((size_t)(a->count + 1) * sizeof *labels);
    if (!labels)
      return no_memory(ctx, path);
    d->labels = labels;
    for (int64_t i = 0; i < a->count; i++) {
      const int64_t pixels = (int64_t)a->photo[i].head.size[0] * a->photo[i].head.size[1];
      labels[i] = a->photo[i].label;
      grey = grey && (a->photo[i].head.grey || !is_known(&a->photo[i]));
      d->all_elems += pixels;
      d->most_elems = pixels > d->most_elems ? pixels : d->most_elems;
    }
  }
  for (int s = 0; s < 2; s++) {
    out->split[s].channels = grey ? 1 : 3;
    out->split[s].most_elems *= grey ? 1 : 3;
    out->split[s].all_elems *= grey ? 1 : 3;
    HD_TRY(
        find_key(&out->split[s].key, ctx, &set->album[s], 1, out->split[s].channels | rule_bits(set->album[s].rules)));
  }
  return HD_OK;
}

static bool all_known(const album *a) {
  int64_t i = 0;
  while (i < a->count && is_known(&a->photo[i]) && a->photo[i].mark)
    i++;
  return i == a->count;
}

/* The headers of both splits, from the cache on disk if it has them. */
static hd_status find_heads(album both[2], hd_ctx *ctx, const hd_dataset_request *request, const char *path) {
  const size_t bytes = (size_t)(both[0].count + both[1].count) * sizeof(kept_head);
  const bool keeps = request->cache == HD_CACHE_DISK;
  HD_OWNED kept_head *kept = keeps ? hd__malloc(bytes) : NULL;
  bool found = false;
  uint64_t key = 0;
  if (keeps && !kept)
    return no_memory(ctx, path);
  find_marks(&both[0]);
  find_marks(&both[1]);
  if (keeps) {
    HD_TRY(find_key(&key, ctx, both, 2, rule_bits(both[0].rules)));
    HD_TRY(hd__cache_file_read(kept, &found, ctx, "heads", key, bytes));
  }
  if (found && take_heads(&both[0], kept) && take_heads(&both[1], kept + both[0].count))
    return HD_OK;
  HD_TRY(read_heads(&both[0], ctx, request->skip));
  HD_TRY(read_heads(&both[1], ctx, request->skip));
  if (!keeps || !all_known(&both[0]) || !all_known(&both[1]))
    return HD_OK;
  keep_heads(kept, &both[0]);
  keep_heads(kept + both[0].count, &both[1]);
  return hd__cache_file_write(ctx, "heads", key, kept, bytes);
}

/* PATH/NAME if it is a folder of folders. */
static bool find_folder(char out[HD_PATH_BYTES], const char *path, const char *name) {
  return snprintf(out, HD_PATH_BYTES, "%s/%s", path, name) < HD_PATH_BYTES && hd__file_is_folder(out);
}

/* The folders beside train/ that are used; NULL for none. */
typedef struct other_folders {
  const char *test, *validation;
} other_folders;

/* The first that is there is the test set, and a second one beside test/ the validation set. */
static other_folders find_others(const char *path, const hd_dataset_request *request) {
  static const char *const names[] = {"test", "val", "valid", "validation", "dev"};
  const size_t known = request->first_rules ? 3 : sizeof names / sizeof *names;
  char inside[HD_PATH_BYTES];
  other_folders o = {NULL, NULL};
  for (size_t i = 0; i < known && request->fold.of == 0; i++) {
    if (!find_folder(inside, path, names[i]))
      continue;
    if (!o.test)
      o.test = names[i];
    else if (!o.validation && o.test == names[0] && !request->first_rules)
      o.validation = names[i];
  }
  return o;
}

/* Notes the folders beside train/ that are not used. */
static hd_status note_unused(hd_dataset *out, hd_ctx *ctx, const char *path, const other_folders *used) {
  const char *test = used->test, *validation = used->validation;
  HD_NAME_LIST found = {0};
  char unused[256] = "";
  hd_line line = {unused, sizeof unused, 0};
  HD_TRY(list(&found, ctx, path, true));
  for (int64_t i = 0; i < found.count; i++)
    if (strcmp(found.text[i], "train") != 0 && !(test && !strcmp(found.text[i], test)) &&
        !(validation && !strcmp(found.text[i], validation)))
      hd__line_add(&line, "%s%.60s", line.length ? ", " : "", found.text[i]);
  if (line.length == 0)
    return HD_OK;
  char part[48] = "a fifth of train";
  if (out->fold.of > 0)
    snprintf(part, sizeof part, "part %d of %d of train", out->fold.number, out->fold.of);
  return hd__dataset_note(out, ctx, "%s: not used: %s; the test set is %s/", path, unused, test ? test : part);
}

/* Whether the folder contains a folder. */
static bool takes(hd_ctx *ctx, const char *path) {
  char inside[HD_PATH_BYTES];
  HD_FOLDER_OWNED *folder = opendir(path);
  bool good = false;
  for (struct dirent *entry = NULL; folder && !good && (entry = readdir(folder));)
    good = entry->d_name[0] != '.' && find_folder(inside, path, entry->d_name);
  return good;
}

/* The pictures of both splits. */
static hd_status list_pictures(hd_dataset *out, folder_set *set, hd_ctx *ctx, const hd_dataset_request *request) {
  char train[HD_PATH_BYTES], other[HD_PATH_BYTES];
  const char *path = request->name;
  if (!find_folder(train, path, "train")) {
    HD_TRY(add_split(&set->album[0], &set->classes, ctx, path, request->allow_empty));
    return request->whole ? HD_OK : divide(set->album, out, ctx, path);
  }
  const other_folders use = find_others(path, request);
  HD_TRY(note_unused(out, ctx, path, &use));
  HD_TRY(add_split(&set->album[0], &set->classes, ctx, train, request->allow_empty));
  if (!use.test)
    return request->whole ? HD_OK : divide(set->album, out, ctx, path);
  if (use.validation) {
    const int64_t trained = set->album[0].count;
    HD_TRY(hd__file_join(other, ctx, path, use.validation));
    HD_TRY(add_split(&set->album[0], &set->classes, ctx, other, request->allow_empty));
    set->validation = set->album[0].count - trained;
    if (set->validation == 0)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected class folders with pictures, found none; add some, or remove it",
                      other);
    HD_TRY(
        hd__dataset_note(out, ctx, "%s: the validation set is %s/, the test set %s/", path, use.validation, use.test));
  }
  set->has_test = true;
  HD_TRY(hd__file_join(other, ctx, path, use.test));
  return add_split(&set->album[1], &set->classes, ctx, other, request->allow_empty);
}

/* Says why samples have three channels although the folder of the training set is grey. */
static hd_status note_colours(hd_dataset *out, const folder_set *set, hd_ctx *ctx, const char *path) {
  const int64_t trained = set->album[0].count - set->validation;
  const photo *coloured = NULL;
  if (!set->has_test || out->split[0].channels == 1)
    return HD_OK;
  for (int s = 0; s < 2; s++)
    for (int64_t i = 0; i < set->album[s].count; i++) {
      const photo *p = &set->album[s].photo[i];
      if (p->head.grey || !is_known(p))
        continue;
      if (s == 0 && i < trained)
        return HD_OK;
      coloured = coloured ? coloured : p;
    }
  return hd__dataset_note(out, ctx,
                          "%s: all pictures of train/ are grey, but %s has colours: samples have 3 channels, and grey "
                          "ones three equal channels",
                          path, coloured ? coloured->path : "the rest");
}

/* Transparent pictures are ordinary in drawings, and a mistake in photos. */
static hd_status note_alpha(hd_dataset *out, const folder_set *set, hd_ctx *ctx, const char *path) {
  long long count = 0;
  for (int s = 0; s < 2; s++)
    for (int64_t i = 0; i < set->album[s].count; i++)
      count += set->album[s].photo[i].head.alpha;
  if (count == 0 || set->album[0].rules.ignore_alpha)
    return HD_OK;
  return hd__dataset_note(out, ctx, "%s: %lld picture%s may be transparent and %s laid on white", path, count,
                          count == 1 ? "" : "s", count == 1 ? "is" : "are");
}

static hd_status open_folder(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  const char *path = request->name;
  void *self;
  HD_TRY(hd__dataset_hold(&self, out, ctx, sizeof(folder_set), release));
  folder_set *set = self;
  for (int s = 0; s < 2; s++)
    set->album[s].rules = request->photos;
  HD_TRY(list_pictures(out, set, ctx, request));
  HD_TRY(find_heads(set->album, ctx, request, path));
  HD_TRY(note_alpha(out, set, ctx, path));
  HD_TRY(describe(out, set, ctx, path));
  HD_TRY(note_colours(out, set, ctx, path));
  if (set->album[1].count == 0)
    hd__dataset_share(out);
  return HD_OK;
}

const hd_format hd__format_image_folder = {.name = "a folder of class folders of pictures",
                                           .takes = takes,
                                           .open = open_folder,
                                           .folder = "class folders of pictures",
                                           .pictures = true};
