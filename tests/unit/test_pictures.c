/* Folders of class folders of pictures: PNG and JPEG arrive pixel for pixel, in the order of names; every kind of
 * bad one is refused with one line that names the file, and leaves nothing behind. Decoded sets are kept in memory
 * and on disk. */
#include "scratch.h"

#include <fcntl.h>
#include <png.h>
#include <stdint.h>

#include "data_trial.h"

#include "data/images/exif.h"
#include "data/images/image_file.h"
#include "data/split/skipped_samples.h"
#include "data/feed/feed.h"

#ifdef HD_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

static void refused(const char *path, hd_status want, const char *says, const char *title) {
  data_refused(path, want, "", says, title);
}

/* Pixel i of channel c of the picture `salt`. */
static uint8_t pixel(int salt, int c, int i) { return (uint8_t)(salt * 40 + c * 70 + i * 3); }

static void put_png(const char *path, int salt, int height, int width, int channels) {
  static uint8_t pixels[4 * 4096];
  png_image image = {.version = PNG_IMAGE_VERSION, .width = (png_uint_32)width, .height = (png_uint_32)height};
  image.format = channels == 1   ? PNG_FORMAT_GRAY
                 : channels == 2 ? PNG_FORMAT_GA
                 : channels == 3 ? PNG_FORMAT_RGB
                                 : PNG_FORMAT_RGBA;
  for (int i = 0; i < height * width; i++)
    for (int c = 0; c < channels; c++)
      pixels[i * channels + c] = pixel(salt, c, i);
  if (!png_image_write_to_file(&image, path, 0, pixels, 0, NULL))
    bail_out("expected to write %s, found no way", path);
}

/* PATH/CLASS/N.png, `count` of them in each of three classes. */
static void make_split(const char *split, int count, int height, int width, int channels) {
  static const char *const name[] = {"b", "a", "a b"};
  mkdir(in_scratch("photos/%s", split), 0755);
  for (int k = 0; k < 3; k++) {
    mkdir(in_scratch("photos/%s/%s", split, name[k]), 0755);
    for (int i = 0; i < count; i++)
      put_png(in_scratch("photos/%s/%s/%d.png", split, name[k], i), 10 * k + i, height, width, channels);
  }
}

static const char *make_folder(int channels) {
  static char folder[SCRATCH_PATH_BYTES];
  snprintf(folder, sizeof folder, "%s", in_scratch("photos"));
  scratch_remove(folder);
  mkdir(folder, 0755);
  make_split("train", 3, 5, 4, channels);
  make_split("test", 2, 5, 4, channels);
  return folder;
}

/* Sample n of a split with `count` pictures a class: classes are sorted a, a b, b. */
static int wrong_sample(const hd_split *split, int count, int n, const uint8_t *elems, int channels) {
  static const int salt_of[] = {1, 2, 0};
  const int k = n / count, salt = 10 * salt_of[k] + n % count;
  int wrong = split->labels[n] != k;
  for (int c = 0; c < split->channels; c++)
    for (int i = 0; i < 20; i++) {
      const int color = pixel(salt, channels < 3 ? 0 : c, i);
      const int alpha = channels % 2 || request.photos.ignore_alpha ? 255 : pixel(salt, channels - 1, i);
      wrong += elems[c * 20 + i] != (color * alpha + 255 * (255 - alpha) + 127) / 255;
    }
  return wrong;
}

static void check_all(const hd_dataset *data, int channels, const char *title) {
  const hd_split *split[2] = {hd__dataset_train(data), hd__dataset_test(data)};
  uint8_t elems[64];
  int wrong = 0, size[2];
  for (int s = 0; s < 2; s++)
    for (int n = 0; n < split[s]->count; n++) {
      wrong += hd__split_get(elems, size, ctx, split[s], n) != HD_OK || size[0] != 5 || size[1] != 4;
      wrong += wrong_sample(split[s], s ? 2 : 3, n, elems, channels);
    }
  is_int(wrong, 0, "%s: pixels and labels are the files', by class and by name", title);
}

static void test_png(void) {
  for (int channels = 1; channels <= 4; channels++)
    for (int kind = 0; kind < 2; kind++) {
      char title[64];
      request.cache = kind ? HD_CACHE_NONE : HD_CACHE_RAM;
      snprintf(title, sizeof title, "PNG of %d channels, %s", channels, kind ? "decoded each time" : "kept in memory");
      hd_dataset *data = data_opens(make_folder(channels), title);
      if (data) {
        const hd_split *train = hd__dataset_train(data);
        ok(train->count == 9 && hd__dataset_test(data)->count == 6 && train->channels == (channels < 3 ? 1 : 3) &&
               train->height == 5 && train->width == 4 && train->classes == 3,
           "%s: 9 and 6 samples in 3 classes", title);
        ok(hd__split_in_memory(train) == !kind, "%s: they are", title);
        ok(!strcmp(train->class_names[1], "a b"), "%s: classes are called as folders are, in their order", title);
        check_all(data, channels, title);
        const char *note = data->note[0];
        ok(channels % 2 ? !note : note && strstr(note, "15 pictures may be transparent and are laid on white"),
           "%s: the note is '%s'", title, note ? note : "");
      }
      hd__dataset_close(data);
    }
  request.cache = HD_CACHE_RAM;
  request.photos.ignore_alpha = true;
  hd_dataset *data = data_opens(make_folder(4), "transparency that is ignored");
  if (data)
    check_all(data, 4, "transparency that is ignored");
  hd__dataset_close(data);
  request.photos.ignore_alpha = false;
}

/* ---- Orientations: a picture of 2x3 and what it becomes ---- */

static const char *const turned[] = {"abcdef", "abcdef", "cbafed", "fedcba", "defabc",
                                     "adbecf", "daebfc", "fcebda", "cfbead", "abcdef"};

/* A TIFF structure with this orientation alone. */
static size_t make_tiff(uint8_t *to, int orientation, bool big) {
  static const uint8_t large[26] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0?\0\0\0\0\0";
  static const uint8_t little[26] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0?\0\0\0\0\0\0";
  memcpy(to, big ? large : little, 26);
  to[big ? 19 : 18] = (uint8_t)orientation;
  return 26;
}

static size_t put_big(uint8_t *to, uint32_t number) {
  for (int i = 0; i < 4; i++)
    to[i] = (uint8_t)(number >> (24 - 8 * i));
  return 4;
}

static uint32_t crc_of(const uint8_t *bytes, size_t length) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < 8 * length; i++) {
    const uint32_t bit = (crc ^ bytes[i / 8] >> i % 8) & 1;
    crc = crc >> 1 ^ (bit ? 0xedb88320 : 0);
  }
  return ~crc;
}

/* Inserts a chunk eXIf behind the header of a PNG, whose bytes have room for it. */
static size_t add_exif(uint8_t *png, size_t length, int orientation, bool big) {
  enum { HEADER_END = 33, MORE = 12 + 26 };
  memmove(png + HEADER_END + MORE, png + HEADER_END, length - HEADER_END);
  uint8_t *at = png + HEADER_END;
  at += put_big(at, 26);
  memcpy(at, "eXIf", 4);
  make_tiff(at + 4, orientation, big);
  put_big(at + 30, crc_of(at, 30));
  return length + MORE;
}

static void test_turned_png(void) {
  static const hd_photo_rules as_stored = {.ignore_exif = true};
  png_image image = {.version = PNG_IMAGE_VERSION, .width = 3, .height = 2, .format = PNG_FORMAT_GRAY};
  for (int o = 0; o < 10; o++)
    for (int big = 0; big < 2; big++) {
      uint8_t bytes[512], planes[6];
      png_alloc_size_t length = sizeof bytes;
      hd_photo_head head;
      if (!png_image_write_to_memory(&image, bytes, &length, 0, turned[1], 0, NULL))
        bail_out("expected to write a PNG, found no way");
      length = add_exif(bytes, length, o, big);
      is_int(hd__photo_head(&head, ctx, &(hd_picture_file){"p.png", bytes, length}, (hd_photo_rules){0}), HD_OK,
             "a PNG of orientation %d", o);
      ok(head.size[0] == (o >= 5 && o < 9 ? 3 : 2) && head.size[0] * head.size[1] == 6, "%d: its size is turned", o);
      hd_status status =
          hd__photo_read(planes, 1, head.size, ctx, &(hd_picture_file){"p.png", bytes, length}, (hd_photo_rules){0});
      ok(status == HD_OK && !memcmp(planes, turned[o], 6), "%d: it is turned: %.6s for %s", o, planes, turned[o]);
      const int stored[2] = {2, 3};
      status = hd__photo_read(planes, 1, stored, ctx, &(hd_picture_file){"p.png", bytes, length}, as_stored);
      ok(status == HD_OK && !memcmp(planes, turned[1], 6), "%d: or taken as it is stored", o);
    }
}

#ifdef HD_HAVE_TURBOJPEG
/* The file of a JPEG picture of 16x24 pixels, with a segment APP1 before the others. */
static void test_turned_jpeg(void) {
  enum { HEIGHT = 16, WIDTH = 24, PIXELS = HEIGHT * WIDTH };
  uint8_t rgb[3 * PIXELS], plain[3 * PIXELS], planes[3 * PIXELS], wanted[3 * PIXELS], *packed = NULL, bytes[8192];
  const int stored[2] = {HEIGHT, WIDTH};
  unsigned long length = 0;
  for (int i = 0; i < 3 * PIXELS; i++)
    rgb[i] = (uint8_t)(i * i * 7 / 5);
  tjhandle pack = tjInitCompress();
  if (tjCompress2(pack, rgb, WIDTH, 0, HEIGHT, TJPF_RGB, &packed, &length, TJSAMP_444, 90, 0) || length > 8000)
    bail_out("expected to pack a JPEG, found no way");
  is_int(hd__photo_read(plain, 3, stored, ctx, &(hd_picture_file){"p.jpg", packed, length}, (hd_photo_rules){0}), HD_OK,
         "a JPEG");
  for (int o = 1; o < 9; o++) {
    hd_photo_head head = {0};
    memcpy(bytes,
           "\xff\xd8\xff\xe1\0\x22"
           "Exif\0\0",
           12);
    make_tiff(bytes + 12, o, o % 2);
    memcpy(bytes + 38, packed + 2, length - 2);
    hd_status status = hd__photo_head(&head, ctx, &(hd_picture_file){"p.jpg", bytes, length + 36}, (hd_photo_rules){0});
    HD_THEN(status, hd__photo_read(planes, 3, head.size, ctx, &(hd_picture_file){"p.jpg", bytes, length + 36},
                                   (hd_photo_rules){0}));
    for (int c = 0; c < 3; c++)
      hd__exif_turn(wanted + c * PIXELS, plain + c * PIXELS, stored, 1, o);
    ok(status == HD_OK && head.orientation == o && !memcmp(planes, wanted, sizeof wanted), "a JPEG of orientation %d",
       o);
  }
  tjFree(packed);
  tjDestroy(pack);
}
#endif

/* However samples are kept, mean, standard deviation and checksums are the same. */
static void test_same_survey(void) {
  const char *folder = make_folder(3);
  setenv("HOME", in_scratch("home"), 1);
  hd_dataset *data[4];
  static const hd_cache_choice kind[] = {HD_CACHE_RAM, HD_CACHE_NONE, HD_CACHE_DISK, HD_CACHE_DISK};
  int wrong = 0;
  for (int i = 0; i < 4; i++) {
    request.cache = kind[i];
    data[i] = data_opens(folder, "one folder");
    for (int p = 0; data[0] && data[i] && p < HD_DATA_PARTS; p++)
      wrong += data[i]->statistics.checksum[p] != data[0]->statistics.checksum[p];
    for (int c = 0; data[0] && data[i] && c < 3; c++)
      wrong += data[i]->statistics.mean[c] != data[0]->statistics.mean[c] ||
               data[i]->statistics.std[c] != data[0]->statistics.std[c];
  }
  is_int(wrong, 0, "statistics and checksums do not depend on where samples are kept");
  check_all(data[3], 3, "from the disk");
  for (int i = 0; i < 4; i++)
    hd__dataset_close(data[i]);
  request.cache = HD_CACHE_RAM;
}

/* A file of the cache whose name begins so. */
static const char *cache_file(const char *begin, int which) {
  static char path[2 * SCRATCH_PATH_BYTES];
  DIR *folder = opendir(in_scratch("home/.cache/heddle"));
  for (struct dirent *entry = NULL; folder && (entry = readdir(folder));)
    if (!strncmp(entry->d_name, begin, strlen(begin)) && which-- == 0)
      snprintf(path, sizeof path, "%s/%s", in_scratch("home/.cache/heddle"), entry->d_name);
  if (folder)
    closedir(folder);
  return path;
}

static const char *kept_file(int which) { return cache_file("decoded-", which); }

/* A picture that is garbage now, with the size and the time that it had. */
static void garble(const char *path) {
  struct stat info;
  FILE *file = fopen(path, "r+b");
  if (!file || stat(path, &info) != 0)
    bail_out("expected to change %s, found no way", path);
  for (int64_t i = 0; i < info.st_size; i++)
    fputc('x', file);
  fclose(file);
  if (utimensat(AT_FDCWD, path, (struct timespec[2]){info.st_atim, info.st_mtim}, 0) != 0)
    bail_out("expected to set the time of %s, found no way", path);
}

/* With a cache on disk no picture is opened again, unless what is kept of their headers is damaged. */
static void test_heads(void) {
  const char *folder = make_folder(3);
  scratch_remove(in_scratch("home/.cache"));
  setenv("HOME", in_scratch("home"), 1);
  request.cache = HD_CACHE_DISK;
  hd__dataset_close(data_opens(folder, "headers are kept"));
  garble(in_scratch("photos/train/a/0.png"));
  hd_dataset *data = data_opens(folder, "pictures that are not opened");
  check_all(data, 3, "from the disk, headers too");
  hd__dataset_close(data);
  FILE *file = fopen(cache_file("heads-", 0), "r+b");
  if (!file || fseek(file, -1, SEEK_END) != 0 || fputc(7, file) == EOF || fclose(file) != 0)
    bail_out("expected to change the kept headers, found no way");
  refused(folder, HD_E_FORMAT, "photos/train/a/0.png", "headers are read again where what was kept is damaged");
  request.cache = HD_CACHE_RAM;
}

static void test_disk(void) {
  char home[SCRATCH_PATH_BYTES];
  snprintf(home, sizeof home, "%s", in_scratch("home"));
  scratch_remove(home);
  setenv("HOME", home, 1);
  const char *folder = make_folder(3);
  request.cache = HD_CACHE_DISK;
  hd__dataset_close(data_opens(folder, "written"));
  is_int(entries_in(in_scratch("home/.cache/heddle")), 3, "a file for each split, one of headers");
  for (int damage = 0; damage < 3; damage++) {
    struct stat info;
    const char *path = kept_file(0);
    FILE *file = fopen(path, "r+b");
    if (!file || stat(path, &info) != 0)
      bail_out("expected to change %s, found no way", path);
    fseek(file, damage == 0 ? info.st_size - 1 : damage == 1 ? 8 : 0, SEEK_SET);
    fputc(damage == 0 ? fgetc(file) + 1 : 7, file);
    if (damage == 2 && ftruncate(fileno(file), info.st_size / 2) != 0)
      bail_out("expected to cut %s short, found no way", path);
    fclose(file);
    hd_dataset *data = data_opens(folder, "a damaged file");
    check_all(data, 3, "what was damaged is written anew");
    hd__dataset_close(data);
  }
  is_int(entries_in(in_scratch("home/.cache/heddle")), 3, "under the same names");
  put_png(in_scratch("photos/train/a/0.png"), 99, 5, 4, 3);
  hd_dataset *data = data_opens(folder, "a changed picture");
  ok(data && hd__dataset_train(data)->images[0] == pixel(99, 0, 0), "is seen");
  hd__dataset_close(data);
  unsetenv("HOME");
  refused(folder, HD_E_USAGE, "--cache disk", "a cache without a home");
  setenv("HOME", home, 1);
  request.cache = HD_CACHE_RAM;
}

/* Sizes that change in the file once it is open: memory for a sample is made by what was verified. */
static void test_changing_sizes(void) {
  enum { SIZES_AT = 72 };
  const char *folder = make_folder(3);
  const int32_t huge[2] = {30000, 30000};
  scratch_remove(in_scratch("home/.cache"));
  put_png(in_scratch("photos/test/b/1.png"), 7, 3, 6, 3);
  setenv("HOME", in_scratch("home"), 1);
  request.cache = HD_CACHE_DISK;
  hd__dataset_close(data_opens(folder, "pictures of two sizes, kept on disk"));
  hd_dataset *data = data_opens(folder, "and opened again");
  const hd_split *split[2] = {hd__dataset_train(data), hd__dataset_test(data)};
  uint8_t elems[64];
  int size[2] = {0}, wrong = 0;
  for (int which = 0; which < 2; which++) {
    int fd = open(kept_file(which), O_WRONLY | O_CLOEXEC);
    wrong += fd < 0 || pwrite(fd, huge, sizeof huge, SIZES_AT) != (ssize_t)sizeof huge;
    close(fd);
  }
  is_int(wrong, 0, "sizes change in both files");
  for (int s = 0; s < 2; s++)
    wrong += hd__split_get(elems, size, ctx, split[s], 0) != HD_OK || size[0] != 5 || size[1] != 4;
  is_int(wrong, 0, "samples have the sizes that were verified");
  hd__dataset_close(data);
  request.cache = HD_CACHE_RAM;
}

/* Files and folders of the cache that others may write, or own. */
static void test_foreign_cache(void) {
  const char *folder = make_folder(3);
  struct stat before, after;
  char path[2 * SCRATCH_PATH_BYTES];
  scratch_remove(in_scratch("home/.cache"));
  setenv("HOME", in_scratch("home"), 1);
  request.cache = HD_CACHE_DISK;
  const mode_t mask = umask(0);
  hd__dataset_close(data_opens(folder, "kept on disk, with no mask"));
  umask(mask);
  snprintf(path, sizeof path, "%s", kept_file(0));
  ok(stat(path, &before) == 0 && !(before.st_mode & 022), "a kept file is written by its owner alone");
  chmod(path, 0666);
  hd__dataset_close(data_opens(folder, "one that others may write"));
  ok(stat(path, &after) == 0 && after.st_ino != before.st_ino && !(after.st_mode & 022), "is written anew");
  is_int(chmod(in_scratch("home/.cache/heddle"), 0777), 0, "a folder that all may write");
  refused(folder, HD_E_IO, "expected a folder that other users may not write, or a sticky one", "is refused");
  is_int(chmod(in_scratch("home/.cache/heddle"), 01777), 0, "a sticky one");
  hd__dataset_close(data_opens(folder, "is not"));
  char real[SCRATCH_PATH_BYTES];
  snprintf(real, sizeof real, "%s", in_scratch("home/kept"));
  ok(rename(path, real) == 0 && symlink(real, path) == 0, "a link to a kept file");
  hd__dataset_close(data_opens(folder, "takes its place"));
  ok(lstat(path, &after) == 0 && S_ISREG(after.st_mode) && stat(real, &after) == 0, "and is replaced, not followed");
  if (chown(path, 12345, (gid_t)-1) == 0) {
    hd__dataset_close(data_opens(folder, "another user's file"));
    ok(stat(path, &after) == 0 && after.st_uid == 12345, "stays");
    is_int(entries_in(in_scratch("home/.cache/heddle")), 4, "beside one of this user");
  } else
    skip(3, "only root may give a file away");
  request.cache = HD_CACHE_RAM;
}

static void test_mixed(void) {
  static const hd_cache_choice kind[] = {HD_CACHE_RAM, HD_CACHE_NONE, HD_CACHE_DISK, HD_CACHE_DISK};
  const char *folder = make_folder(3);
  uint64_t first = 0;
  put_png(in_scratch("photos/test/b/1.png"), 7, 3, 6, 3);
  setenv("HOME", in_scratch("home"), 1);
  for (int i = 0; i < 4; i++) {
    request.cache = kind[i];
    hd_dataset *data = data_opens(folder, "pictures of two sizes");
    if (data) {
      const hd_split *test = hd__dataset_test(data);
      uint8_t elems[64];
      int size[2] = {0}, wrong = 0;
      ok(test->mixed && strstr(test->mixed, "train/a/0.png: 4x5 and ") && strstr(test->mixed, "test/b/1.png: 6x3"),
         "the first that differs is reported");
      ok(!hd__split_in_memory(test) && hd__split_most_bytes(test) == 60, "samples have different sizes");
      wrong += hd__split_get(elems, size, ctx, test, 5) != HD_OK || size[0] != 3 || size[1] != 6;
      for (int p = 0; p < 18; p++)
        wrong += elems[18 + p] != pixel(7, 1, p);
      wrong += hd__split_get(elems, size, ctx, test, 0) != HD_OK || size[0] != 5 || size[1] != 4;
      wrong += wrong_sample(test, 2, 0, elems, 3);
      is_int(wrong, 0, "each comes in its size");
      first = i ? first : data->statistics.checksum[2];
      ok(data->statistics.checksum[2] == first, "with one checksum");
    }
    hd__dataset_close(data);
  }
  request.cache = HD_CACHE_RAM;
}

/* A folder of classes alone: a fifth is the test set. */
static void test_one_folder(void) {
  make_folder(1);
  hd_dataset *data = data_opens(in_scratch("photos/train"), "one folder of classes");
  ok(data && hd__dataset_train(data)->count == 7 && hd__dataset_test(data)->count == 2, "is divided");
  hd__dataset_close(data);
  scratch_remove(in_scratch("photos/test"));
  data = data_opens(in_scratch("photos"), "a folder with train alone");
  ok(data && hd__dataset_train(data)->count == 7 && hd__dataset_test(data)->count == 2, "is divided too");
  hd__dataset_close(data);
  make_split("val", 2, 5, 4, 1);
  data = data_opens(in_scratch("photos"), "a folder with train and val");
  ok(data && hd__dataset_train(data)->count == 9 && hd__dataset_test(data)->count == 6, "tests on val");
  hd__dataset_close(data);
}

/* A test set of another name, and folders that are left. */
static void test_named_sets(void) {
  static const char *const name[] = {"validation", "dev", "valid"};
  for (int i = 0; i < 3; i++) {
    make_folder(3);
    scratch_remove(in_scratch("photos/test"));
    make_split(name[i], 2, 5, 4, 3);
    hd_dataset *data = data_opens(in_scratch("photos"), name[i]);
    ok(data && hd__dataset_test(data)->count == 6 && !data->note[0], "%s is the test set", name[i]);
    hd__dataset_close(data);
  }
  make_split("test", 1, 5, 4, 3);
  make_split("dev", 1, 5, 4, 3);
  hd_dataset *data = data_opens(in_scratch("photos"), "test, valid and dev");
  char *const *note = data ? data->note : NULL;
  ok(note && note[0] && strstr(note[0], "not used: dev; the test set is test/"), "the first note names dev");
  ok(note && note[0] && note[1] && strstr(note[1], "the validation set is valid/, the test set test/"),
     "the second says which set is which");
  ok(data && hd__dataset_train(data)->count == 15 && hd__dataset_train(data)->validation == 6 &&
         hd__dataset_test(data)->count == 3 && hd__dataset_test(data)->validation == 0,
     "the last training samples are held out");
  hd__dataset_close(data);
  request.first_rules = true;
  data = data_opens(in_scratch("photos"), "the same by the first rules");
  ok(data && hd__dataset_train(data)->count == 9 && hd__dataset_train(data)->validation == 0, "no validation set");
  hd__dataset_close(data);
  request.first_rules = false;
  scratch_remove(in_scratch("photos/dev"));
  scratch_remove(in_scratch("photos/test"));
  scratch_remove(in_scratch("photos/valid"));
  make_split("dev", 2, 5, 4, 3);
  request.first_rules = true;
  data = data_opens(in_scratch("photos"), "dev by the first rules");
  ok(data && hd__dataset_train(data)->count == 7 && hd__dataset_test(data)->count == 2, "is no test set");
  hd__dataset_close(data);
  request.first_rules = false;
}

static void test_empty_class(void) {
  make_folder(3);
  mkdir(in_scratch("photos/train/c"), 0755);
  mkdir(in_scratch("photos/test/c"), 0755);
  request.allow_empty = true;
  hd_dataset *data = data_opens(in_scratch("photos"), "an empty class that is allowed");
  const char *note = data ? data->note[0] : NULL;
  ok(data && hd__dataset_train(data)->classes == 4 && note &&
         strstr(note, "1 of 4 classes has no training samples: 3 'c'"),
     "is a class without samples: '%s'", note ? note : "");
  hd__dataset_close(data);
  scratch_remove(in_scratch("photos/train"));
  mkdir(in_scratch("photos/train"), 0755);
  for (const char *const *name = (const char *const[]){"a", "a b", "b", "c", NULL}; *name; name++)
    mkdir(in_scratch("photos/train/%s", *name), 0755);
  refused(in_scratch("photos"), HD_E_FORMAT, "expected class folders with pictures, found none",
          "a set of empty classes");
  request.allow_empty = false;
}

static void test_bad(void) {
  static const uint8_t png_start[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\1\0\0\10\2\0\0\0xxxx";
  const char *folder = make_folder(3);
  mkdir(in_scratch("photos/train/c"), 0755);
  mkdir(in_scratch("photos/test/c"), 0755);
  refused(folder, HD_E_FORMAT, "--allow-empty", "an empty class");
  put_png(in_scratch("photos/train/c/0.png"), 1, 5, 4, 3);
  refused(folder, HD_E_FORMAT, "test/c: expected pictures", "an empty class of the test set");
  rmdir(in_scratch("photos/test/c"));
  refused(folder, HD_E_FORMAT, "found no 'c'", "a class without tests");
  folder = make_folder(3);
  mkdir(in_scratch("photos/test/aa"), 0755);
  refused(folder, HD_E_FORMAT, "found besides them 'aa'", "a class of tests alone");
  folder = make_folder(3);
  put_file(in_scratch("photos/train/a/x.txt"), "x", 1);
  refused(folder, HD_E_FORMAT, "train/a/x.txt: expected only pictures", "another file");
  unlink(in_scratch("photos/train/a/x.txt"));
  put_file(in_scratch("photos/train/a/.hidden"), "x", 1);
  hd__dataset_close(data_opens(folder, "a hidden file"));
  put_file(in_scratch("photos/train/b/2.png"), "", 0);
  refused(folder, HD_E_FORMAT, "train/b/2.png: expected a PNG or JPEG picture, found an empty file",
          "an empty picture");
  put_file(in_scratch("photos/train/b/2.png"), "GIF89a and so on, for more bytes than a header", 46);
  refused(folder, HD_E_FORMAT, "train/b/2.png", "a picture of another format");
  put_file(in_scratch("photos/train/b/2.png"), png_start, 33);
  refused(folder, HD_E_UNSUPPORTED, "found 65536x65536", "a picture that promises too much");
  for (int kind = 0; kind < 3; kind++) { /* the header is good, the rest is not */
    request.cache = (hd_cache_choice)kind;
    struct stat info;
    put_png(in_scratch("photos/train/b/2.png"), 1, 5, 4, 3);
    if (stat(in_scratch("photos/train/b/2.png"), &info) != 0 ||
        truncate(in_scratch("photos/train/b/2.png"), info.st_size - 20) != 0)
      bail_out("expected to cut a picture short, found no way");
    refused(folder, HD_E_FORMAT, "train/b/2.png: expected a whole PNG picture", "a picture cut short");
  }
  request.cache = HD_CACHE_RAM;
  scratch_remove(in_scratch("photos/train/b"));
  mkdir(in_scratch("photos/train/b"), 0755);
  mkdir(in_scratch("photos/train/b/deep.png"), 0755);
  refused(folder, HD_E_IO, "train/b/deep.png: expected a regular file", "a folder in a class");
}

/* A picture that is damaged while a run is under way. */
static void test_late_damage(void) {
  const double mean[3] = {0}, std[3] = {1, 1, 1};
  static float x[20 * 3];
  int32_t label;
  hd_feed feed;
  request.cache = HD_CACHE_NONE;
  hd_dataset *data = data_opens(make_folder(3), "a folder without a cache");
  if (data && hd__feed_init(&feed, ctx, hd__dataset_train(data), hd__kernels_reference(), mean, std) == HD_OK) {
    void *scratch = hd__malloc_aligned((size_t)hd__feed_scratch_bytes(&feed));
    const hd_slots to = {.x = x, .x_stride = 60, .target = &label, .target_stride = 1, .scratch = scratch};
    is_int(hd__feed_read(&feed, ctx, 0, 0, 1, &to), HD_OK, "a sample is decoded by its reader");
    near((double)x[4], pixel(10, 1, 1) / 255.0, 1e-6, "into pixels of [0, 1], channels fastest");
    put_file(in_scratch("photos/train/a/1.png"), "no more", 7);
    refuses(hd__feed_read(&feed, ctx, 0, 1, 1, &to), HD_E_FORMAT, ctx, "", "train/a/1.png", "a damaged one is refused");
    put_png(in_scratch("photos/train/a/1.png"), 1, 4, 4, 3);
    refuses(hd__feed_read(&feed, ctx, 0, 1, 1, &to), HD_E_FORMAT, ctx, "",
            "expected a picture of 4x5 as before, found 4x4",
            "so does "
            "one of another size");
    hd__free(scratch);
    hd__feed_fini(&feed);
  }
  hd__dataset_close(data);
  request.cache = HD_CACHE_RAM;
}

static void test_no_memory(int kinds) {
  static const char *const title[] = {"kept in memory", "kept on disk", "decoded each time"};
  for (int kind = 0; kind < kinds; kind++) {
    const char *folder = make_folder(3);
    if (kind == 1)
      put_png(in_scratch("photos/test/b/1.png"), 7, 3, 6, 3);
    request.cache = (hd_cache_choice)kind;
    data_survives_no_memory(folder, title[kind]);
  }
  request.cache = HD_CACHE_RAM;
}

#ifdef HD_HAVE_TURBOJPEG

static void put_jpeg(const char *path, int salt, int height, int width, int space) {
  static uint8_t pixels[3 * 4096];
  unsigned char *bytes = NULL;
  unsigned long length = 0;
  tjhandle tj = tjInitCompress();
  for (int i = 0; i < height * width * 3; i++)
    pixels[i] = (uint8_t)(128 + salt + i / 3 / width * 4 + i % 3 * 8);
  const int bad = tjCompress2(tj, pixels, width, 0, height, space == TJSAMP_GRAY ? TJPF_GRAY : TJPF_RGB, &bytes,
                              &length, space, 100, 0);
  if (bad)
    bail_out("expected to pack a JPEG, found: %s", tjGetErrorStr2(tj));
  put_file(path, bytes, length);
  tjFree(bytes);
  tjDestroy(tj);
}

/* Colours that change from pixel to pixel, more than are parted at once: each arrives as the library decodes it. */
static void test_jpeg_planes(void) {
  enum { HEIGHT = 13, WIDTH = 11, PIXELS = HEIGHT * WIDTH };
  uint8_t rgb[3 * PIXELS], planes[3 * PIXELS], *bytes = NULL;
  const int size[2] = {HEIGHT, WIDTH};
  unsigned long length = 0;
  int wrong = 0;
  for (int i = 0; i < 3 * PIXELS; i++)
    rgb[i] = (uint8_t)(i * i * 7 / 5);
  tjhandle pack = tjInitCompress(), unpack = tjInitDecompress();
  int bad = tjCompress2(pack, rgb, WIDTH, 0, HEIGHT, TJPF_RGB, &bytes, &length, TJSAMP_420, 90, 0);
  bad |= tjDecompress2(unpack, bytes, length, rgb, WIDTH, 0, HEIGHT, TJPF_RGB, TJFLAG_ACCURATEDCT);
  is_int(bad, 0, "a colourful JPEG is packed and unpacked");
  is_int(hd__photo_read(planes, 3, size, ctx, &(hd_picture_file){"p.jpg", bytes, length}, (hd_photo_rules){0}), HD_OK,
         "and read");
  for (int i = 0; i < 3 * PIXELS; i++)
    wrong += planes[i % 3 * PIXELS + i / 3] != rgb[i];
  is_int(wrong, 0, "every colour of every pixel is in its plane");
  tjFree(bytes);
  tjDestroy(pack);
  tjDestroy(unpack);
}

/* A picture that becomes larger or smaller between the two looks at its header. */
static void test_jpeg_changes(void) {
  enum { HEIGHT = 13, WIDTH = 11 };
  static const int sizes[][2] = {
      {HEIGHT, WIDTH - 1}, {HEIGHT - 1, WIDTH}, {1, 1}, {HEIGHT + 1, WIDTH}, {WIDTH, HEIGHT}};
  uint8_t rgb[3 * HEIGHT * WIDTH] = {0}, *bytes = NULL;
  unsigned long length = 0;
  tjhandle pack = tjInitCompress();
  is_int(tjCompress2(pack, rgb, WIDTH, 0, HEIGHT, TJPF_RGB, &bytes, &length, TJSAMP_420, 90, 0), 0, "a JPEG is packed");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int channels = 1; channels <= 3; channels += 2) {
      const size_t room = (size_t)(channels * sizes[i][0] * sizes[i][1]);
      uint8_t *planes = malloc(room + 4096);
      memset(planes, 'x', room + 4096);
      refuses(hd__jpeg_read(planes, channels, sizes[i], ctx, &(hd_picture_file){"p.jpg", bytes, length}), HD_E_FORMAT,
              ctx, "p.jpg", "as before, found 11x13", "%dx%d was reported before", sizes[i][1], sizes[i][0]);
      int changed = 0;
      for (size_t k = 0; k < room + 4096; k++)
        changed += planes[k] != 'x';
      is_int(changed, 0, "and nothing is written");
      free(planes);
    }
  tjFree(bytes);
  tjDestroy(pack);
}

/* Bytes in front of the end are harmless. Bytes in front of another marker are a warning too, behind which the library
 * tells no other: whether the rest is whole is not known. */
static void test_jpeg_warnings(void) {
  enum { SIDE = 32, ADDED = 4 };
  const int size[2] = {SIDE, SIDE};
  uint8_t rgb[3 * SIDE * SIDE], planes[SIDE * SIDE], *bytes = NULL, *more = NULL;
  unsigned long length = 0, at = 0;
  for (int i = 0; i < 3 * SIDE * SIDE; i++)
    rgb[i] = (uint8_t)(i * i * 7 / 5);
  tjhandle pack = tjInitCompress();
  setenv("TJ_RESTART", "1", 1);
  is_int(tjCompress2(pack, rgb, SIDE, 0, SIDE, TJPF_RGB, &bytes, &length, TJSAMP_GRAY, 90, 0), 0,
         "a JPEG with restart markers is packed");
  unsetenv("TJ_RESTART");
  more = malloc(length + ADDED);
  for (int marker = 0xd0; marker <= 0xd9; marker += 0xd9 - 0xd0) {
    for (at = length - 2; at > 0 && (bytes[at] != 0xff || bytes[at + 1] != marker);)
      at--;
    memcpy(more, bytes, at);
    memcpy(more + at, "\1\2\3\4", ADDED);
    memcpy(more + at + ADDED, bytes + at, length - at);
    const hd_picture_file file = {"p.jpg", more, length + ADDED}, half = {"p.jpg", more, (length + at) / 2};
    if (marker == 0xd9)
      is_int(hd__jpeg_read(planes, 1, size, ctx, &file), HD_OK, "bytes in front of the end are passed over");
    else
      refuses(hd__jpeg_read(planes, 1, size, ctx, &half), HD_E_FORMAT, ctx, "p.jpg", "a whole JPEG",
              "bytes between two parts, and cut short behind them");
  }
  free(more);
  tjFree(bytes);
  tjDestroy(pack);
}

static void test_jpeg(void) {
  const char *folder = make_folder(3);
  unlink(in_scratch("photos/train/a/0.png"));
  put_jpeg(in_scratch("photos/train/a/0.jpeg"), 5, 5, 4, TJSAMP_444);
  hd_dataset *data = data_opens(folder, "a JPEG among PNGs");
  if (data) {
    const uint8_t *image = hd__dataset_train(data)->images;
    int far = 0;
    for (int c = 0; c < 3; c++)
      for (int i = 0; i < 20; i++) {
        const int away = image[c * 20 + i] - (133 + i / 4 * 4 + c * 8);
        far += away > 4 || away < -4;
      }
    is_int(far, 0, "its pixels are nearly those that were packed, in planes");
  }
  hd__dataset_close(data);
  struct stat info;
  if (stat(in_scratch("photos/train/a/0.jpeg"), &info) != 0 ||
      truncate(in_scratch("photos/train/a/0.jpeg"), info.st_size - 30) != 0)
    bail_out("expected to cut a picture short, found no way");
  refused(folder, HD_E_FORMAT, "train/a/0.jpeg: expected a whole JPEG picture", "a JPEG cut short");
  put_file(in_scratch("photos/train/a/0.jpeg"), "\xff\xd8\xff\xe0nothing more", 16);
  refused(folder, HD_E_FORMAT, "train/a/0.jpeg", "the start of a JPEG");
  make_folder(1);
  put_jpeg(in_scratch("photos/test/b/0.jpg"), 5, 5, 4, TJSAMP_GRAY);
  data = data_opens(folder, "a grey JPEG among grey PNGs");
  ok(data && hd__dataset_test(data)->channels == 1, "all have one channel");
  hd__dataset_close(data);
  put_jpeg(in_scratch("photos/test/b/0.jpg"), 5, 5, 4, TJSAMP_420);
  data = data_opens(folder, "a JPEG in colour among grey PNGs");
  ok(data && hd__dataset_test(data)->channels == 3, "all have three");
  hd__dataset_close(data);
}

#endif

/* What is wrong with a picture. */
typedef enum damage { EMPTY, OTHER, TORN, TORN_JPEG, DAMAGES } damage;

static void cut(const char *path, int bytes) {
  struct stat info;
  if (stat(path, &info) != 0 || truncate(path, info.st_size - bytes) != 0)
    bail_out("expected to cut %s short, found no way", path);
}

/* Damages a/1.png, for which a/2.png stands; or writes what stands there. */
static void spoil(damage what) {
  const char *path = in_scratch("photos/train/a/1.png");
  if (what == DAMAGES)
    put_png(path, 12, 5, 4, 3);
  else if (what == TORN)
    cut(path, 20);
  else
    put_file(path, "GIF89a and so on, for more bytes than a header", what == EMPTY ? 0 : 46);
#ifdef HD_HAVE_TURBOJPEG
  if (what == TORN_JPEG) {
    put_jpeg(path, 5, 5, 4, TJSAMP_444);
    cut(path, 30);
  }
#endif
}

/* The same set, but for what it is kept in and how it is called. */
static void check_same(const hd_dataset *a, const hd_dataset *b, const char *title) {
  int wrong = 0;
  for (int p = 0; a && b && p < HD_DATA_PARTS; p++)
    wrong += a->statistics.checksum[p] != b->statistics.checksum[p];
  for (int c = 0; a && b && c < 3; c++)
    wrong += a->statistics.mean[c] != b->statistics.mean[c] || a->statistics.std[c] != b->statistics.std[c];
  ok(a && b && wrong == 0, "%s", title);
}

/* Each kind of damage is skipped, wherever samples are kept, in sets of one size and of two. */
static void test_skip(void) {
  setenv("HOME", in_scratch("home"), 1);
  for (int round = 0; round < 3 * DAMAGES; round++) {
    const damage what = (damage)(round / 3);
    const bool mixed = round % 2;
    char title[96];
    snprintf(title, sizeof title, "damage %d, %s, cache %d", (int)what, mixed ? "two sizes" : "one size", round % 3);
    request.cache = (hd_cache_choice)(round % 3);
    const char *folder = make_folder(3);
    if (mixed)
      put_png(in_scratch("photos/train/b/1.png"), 7, 3, 6, 3);
    spoil(DAMAGES);
    hd_dataset *whole = data_opens(folder, "a copy");
    spoil(what);
    request.skip = true;
    hd_dataset *data = data_opens(folder, title), *again = data_opens(folder, title);
    check_same(data, whole, "is as if the next picture were there twice");
    check_same(again, whole, "once more, too");
    ok(data && hd__skips_count(hd__dataset_train(data)) == 1 && hd__skips_has(hd__dataset_train(data), 1) &&
           hd__skips_count(hd__dataset_test(data)) == 0,
       "one sample cannot be read");
    hd__dataset_close(data);
    hd__dataset_close(again);
    hd__dataset_close(whole);
    request.skip = false;
    refused(folder, HD_E_FORMAT, "train/a/1.png", "what is not to be skipped");
  }
  request.cache = HD_CACHE_RAM;
}

static void test_skip_all(void) {
  const char *folder = make_folder(3);
  request.skip = true;
  for (int torn = 0; torn < 2; torn++) {
    for (int i = 0; i < 6; i++) {
      const char *path = in_scratch("photos/test/%s/%d.png", i / 2 == 0 ? "a" : i / 2 == 1 ? "a b" : "b", i % 2);
      put_png(path, 1, 5, 4, 3);
      if (torn)
        cut(path, 20);
      else
        put_file(path, "", 0);
    }
    refused(folder, HD_E_FORMAT, "test/a/0.png", "a set of which nothing can be read");
  }
  put_png(in_scratch("photos/test/b/1.png"), 1, 5, 4, 3);
  hd__dataset_close(data_opens(folder, "a set of which one can be read"));
  put_file(in_scratch("photos/train/a/0.png"), "", 0);
  test_no_memory(1);
  request.skip = false;
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  test_png();
  test_same_survey();
  test_disk();
  test_mixed();
  test_changing_sizes();
  test_heads();
  test_foreign_cache();
  test_one_folder();
  test_named_sets();
  test_empty_class();
  test_turned_png();
#ifdef HD_HAVE_TURBOJPEG
  test_turned_jpeg();
#endif
  test_bad();
  test_late_damage();
  test_no_memory(3);
  test_skip();
  test_skip_all();
#ifdef HD_HAVE_TURBOJPEG
  test_jpeg_planes();
  test_jpeg();
  test_jpeg_changes();
  test_jpeg_warnings();
#else
  skip(1, "libjpeg-turbo was not there when this was built");
#endif
  hd_ctx_destroy(ctx);
  return done_testing();
}
