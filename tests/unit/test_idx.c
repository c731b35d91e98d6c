/* IDX files and data sets made of them: good ones arrive byte for byte, plain or packed; every kind of bad one is
 * refused with one line that names the file and leaves nothing behind. */
#include "scratch.h"

#include <stdint.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "data/dataset/dataset.h"
#include "data/formats/formats.h"
#include "data/formats/idx.h"
#include "data/split/split_statistics.h"
#include "data_trial.h"

enum {
  IMAGES = 50,
  SIDE = 28,
  PIXELS = SIDE * SIDE,
  CONTENT = IMAGES * PIXELS,
  HEAD3 = 16,
  HEAD1 = 8,
  ROOM = CONTENT + 64
};

/* A file's bytes while it is being made. */
typedef struct text {
  size_t length;
  uint8_t byte[2 * ROOM];
} text;

static void add(text *to, const void *bytes, size_t length) {
  memcpy(to->byte + to->length, bytes, length);
  to->length += length;
}

static void add_word(text *to, uint32_t word) {
  uint8_t big_endian[4] = {(uint8_t)(word >> 24), (uint8_t)(word >> 16), (uint8_t)(word >> 8), (uint8_t)word};
  add(to, big_endian, 4);
}

/* Pixels with long runs, so that they pack, and no two images alike. */
static uint8_t pixel(int i, int salt) { return (uint8_t)(i % 7 > 4 ? 0 : i / PIXELS * 5 + i % 251 / 16 + salt); }

static void make_images(text *to, int images, int salt) {
  to->length = 0;
  add_word(to, 0x00000803);
  add_word(to, (uint32_t)images);
  add_word(to, SIDE);
  add_word(to, SIDE);
  for (int i = 0; i < images * PIXELS; i++)
    to->byte[to->length++] = pixel(i, salt);
}

static void make_labels(text *to, int labels) {
  to->length = 0;
  add_word(to, 0x00000801);
  add_word(to, (uint32_t)labels);
  for (int i = 0; i < labels; i++)
    to->byte[to->length++] = (uint8_t)(i * 7 % 10);
}

/* The text as one gzip member, behind what `to` already holds. */
static void add_gzip(text *to, const uint8_t *bytes, size_t length) {
  z_stream z = {.next_in = (z_const Bytef *)(size_t)bytes, .avail_in = (uInt)length};
  z.next_out = to->byte + to->length;
  z.avail_out = (uInt)(sizeof to->byte - to->length);
  if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK || deflate(&z, Z_FINISH) != Z_STREAM_END)
    bail_out("expected zlib to pack, found that it does not");
  to->length += z.total_out;
  deflateEnd(&z);
}

static const char *put(const char *path, const text *content) {
  put_file(path, content->byte, content->length);
  return path;
}

static const char *put_gzip(const char *path, const text *content) {
  static text packed;
  packed.length = 0;
  add_gzip(&packed, content->byte, content->length);
  return put(path, &packed);
}

static void test_good_files(void) {
  static text images, packed;
  make_images(&images, IMAGES, 1);
  const char *plain = put(in_scratch("good-images"), &images), *gzip = put_gzip(in_scratch("good-images.gz"), &images);
  packed.length = 0; /* two members, cut inside the content */
  add_gzip(&packed, images.byte, 1000);
  add_gzip(&packed, images.byte + 1000, images.length - 1000);
  const char *path[] = {plain, gzip, put(in_scratch("two-members.gz"), &packed)};
  static const char *const kind[] = {"plain", "gzip", "gzip in two members"};
  for (int i = 0; i < 3; i++) {
    hd_idx idx;
    if (!is_int(hd__idx_read(&idx, ctx, path[i], 3), HD_OK, "%s images can be read", kind[i])) {
      diag("%s", hd_ctx_message(ctx));
      continue;
    }
    ok(idx.rank == 3 && idx.size[0] == IMAGES && idx.size[1] == SIDE && idx.size[2] == SIDE && idx.length == CONTENT,
       "%s: the sizes are the header's", kind[i]);
    is_bytes(idx.bytes, images.byte + HEAD3, CONTENT, "%s: the bytes are the content's", kind[i]);
    hd__idx_fini(&idx);
    ok(!idx.bytes && !idx.copy && !idx.mapping.bytes, "%s: nothing is left after fini", kind[i]);
  }
}

/* Reads a bad file and looks at everything that a refusal must be. */
static void refused(const char *path, int rank, hd_status want, const char *says, const char *name) {
  hd_idx idx;
  hd__idx_fini(&(hd_idx){0});
  hd__idx_read(&idx, ctx, path, rank); /* what libraries keep for the next time is kept now */
  held before = held_now();
  hd_status status = hd__idx_read(&idx, ctx, path, rank);
  refuses(status, want, ctx, path, says, "%s is refused", name);
  static const hd_idx nothing;
  ok(!memcmp(&idx, &nothing, sizeof idx), "%s: the result is empty", name);
  holds_same(before, "%s: nothing is left behind", name);
}

/* A header alone, with these sizes, and a few bytes. */
static const char *put_header(const char *path, uint32_t magic, const uint32_t *size, int rank) {
  static text file;
  file.length = 0;
  add_word(&file, magic);
  for (int i = 0; i < rank; i++)
    add_word(&file, size[i]);
  add(&file, "abcd", 4);
  return strstr(path, ".gz") ? put_gzip(path, &file) : put(path, &file);
}

/* What can be wrong in plain files and, with the same words, in packed ones. */
static void test_bad_content(const char *end) {
  static text file;
  int gzip = *end != 0;
  const char *(*put_it)(const char *, const text *) = gzip ? put_gzip : put;
  const char *kind = gzip ? "packed" : "plain";
  char name[128];
#define NAME(what) (snprintf(name, sizeof name, "%s: %s", kind, what), name)
  make_images(&file, IMAGES, 1);
  file.length--;
  refused(put_it(in_scratch("one-short%s", end), &file), 3, HD_E_FORMAT, "expected 39200 bytes",
          NAME("one byte too short"));
  file.length = HEAD3 - 1;
  refused(put_it(in_scratch("half-header%s", end), &file), 3, HD_E_FORMAT, "header of 16 bytes", NAME("half a header"));
  file.length = HEAD3;
  refused(put_it(in_scratch("no-content%s", end), &file), 3, HD_E_FORMAT, "expected 39200 bytes",
          NAME("a header and no content"));
  make_images(&file, IMAGES, 1);
  file.byte[file.length++] = 0;
  refused(put_it(in_scratch("one-long%s", end), &file), 3, HD_E_FORMAT, "expected 39200 bytes",
          NAME("one byte too long"));
  make_images(&file, IMAGES, 1);
  file.byte[2] = 0x0d;
  refused(put_it(in_scratch("floats%s", end), &file), 3, HD_E_FORMAT, "0x00000d03", NAME("floats instead of bytes"));
  make_images(&file, IMAGES, 1);
  memcpy(file.byte, "\x89PNG", 4);
  refused(put_it(in_scratch("png%s", end), &file), 3, HD_E_FORMAT, "0x89504e47", NAME("a picture's magic"));
  make_labels(&file, 100);
  refused(put_it(in_scratch("rank%s", end), &file), 3, HD_E_FORMAT, "3 dimensions", NAME("labels where images belong"));
  make_images(&file, 2, 1);
  refused(put_it(in_scratch("rank3%s", end), &file), 1, HD_E_FORMAT, "1 dimensions",
          NAME("images where labels belong"));
  const uint32_t huge[] = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};
  const uint32_t wraps[] = {1 << 20, 1 << 20, 1 << 20, 1 << 4}; /* 2^64, which is 0 in 64 bits */
  const uint32_t wraps_small[] = {0x80000000, 2, 0x80000000, 4}, none[] = {0, 28, 28},
                 much[] = {1 << 12, 1 << 12, 1 << 12};
  refused(put_header(in_scratch("huge%s", end), 0x803, huge, 3), 3, HD_E_FORMAT, "64 GiB", NAME("sizes of 2^96"));
  refused(put_header(in_scratch("huge4%s", end), 0x804, huge, 4), 4, HD_E_FORMAT, "64 GiB", NAME("sizes of 2^128"));
  refused(put_header(in_scratch("wraps%s", end), 0x804, wraps, 4), 4, HD_E_FORMAT, "64 GiB",
          NAME("sizes that wrap to 0"));
  refused(put_header(in_scratch("wraps2%s", end), 0x804, wraps_small, 4), 4, HD_E_FORMAT, "64 GiB",
          NAME("sizes that wrap to 4"));
  refused(put_header(in_scratch("none%s", end), 0x803, none, 3), 3, HD_E_FORMAT, "found 0 as dimension 0",
          NAME("no images"));
  refused(put_header(in_scratch("much%s", end), 0x803, much, 3), 3, HD_E_FORMAT, "68719476736 bytes",
          NAME("64 GiB in 20 bytes"));
#undef NAME
}

/* What only a packed file can have wrong. */
static void test_bad_gzip(void) {
  static text file, packed, bad;
  make_images(&file, IMAGES, 1);
  packed.length = 0;
  add_gzip(&packed, file.byte, file.length);
  diag("%zu bytes packed", packed.length);
  static const int cut[] = {1, 4, 7, 8, 9, 100};
  char name[128];
  for (int i = 0; i < 6; i++) {
    bad = packed;
    bad.length -= (size_t)cut[i];
    snprintf(name, sizeof name, "a gzip file cut %d bytes before its end", cut[i]);
    refused(put(in_scratch("cut-%d.gz", cut[i]), &bad), 3, HD_E_FORMAT, "truncated", name);
  }
  bad = packed;
  bad.length = 5;
  refused(put(in_scratch("cut-head.gz"), &bad), 3, HD_E_FORMAT, "truncated", "a gzip file cut in its own header");
  bad = packed;
  add(&bad, "garbage", 7);
  refused(put(in_scratch("behind.gz"), &bad), 3, HD_E_FORMAT, "found 7 bytes", "garbage behind the gzip data");
  bad = packed;
  add(&bad, "\x1f\x8bgarbage", 9);
  refused(put(in_scratch("behind2.gz"), &bad), 3, HD_E_FORMAT, "found damage",
          "garbage that looks like another member");
  bad = packed;
  bad.byte[bad.length - 6] ^= 1;
  refused(put(in_scratch("checksum.gz"), &bad), 3, HD_E_FORMAT, "found damage", "a wrong checksum");
  bad = packed;
  bad.byte[bad.length - 2] ^= 1;
  refused(put(in_scratch("length.gz"), &bad), 3, HD_E_FORMAT, "found damage", "a wrong length behind the data");
  bad = packed;
  memset(bad.byte + bad.length / 2, 0xff, 16);
  refused(put(in_scratch("middle.gz"), &bad), 3, HD_E_FORMAT, "expected", "damage in the middle");
  bad = packed;
  add_gzip(&bad, (const uint8_t *)"more", 4);
  refused(put(in_scratch("more.gz"), &bad), 3, HD_E_FORMAT, "found more",
          "a second member with more than the header says");
  refused(put(in_scratch("not-packed.gz"), &file), 3, HD_E_FORMAT, "drop the .gz", "a plain file named .gz");
  refused(put(in_scratch("packed-without-name"), &packed), 3, HD_E_FORMAT, "0x1f8b", "a packed file without .gz");
}

static void test_bad_paths(void) {
  put_file(in_scratch("empty"), "", 0);
  put_file(in_scratch("empty.gz"), "", 0);
  mkdir(in_scratch("folder"), 0755);
  mkdir(in_scratch("folder.gz"), 0755);
  refused(in_scratch("empty"), 3, HD_E_FORMAT, "a file of 0", "an empty file");
  refused(in_scratch("empty.gz"), 3, HD_E_FORMAT, "found 0 bytes", "an empty file named .gz");
  refused(in_scratch("missing"), 3, HD_E_IO, "No such file", "a missing file");
  refused(in_scratch("missing.gz"), 3, HD_E_IO, "No such file", "a missing file named .gz");
  refused(in_scratch("folder"), 3, HD_E_IO, "found a folder", "a folder");
  refused(in_scratch("folder.gz"), 3, HD_E_IO, "found a folder", "a folder named .gz");
  refused(in_scratch("empty/x"), 3, HD_E_IO, "Not a directory", "a file where a folder belongs");
  if (mkfifo(in_scratch("fifo"), 0600) == 0)
    refused(in_scratch("fifo"), 3, HD_E_IO, "a pipe", "a pipe, which must not block");
  else
    skip(3, "no pipes here");
  static text file;
  make_images(&file, 2, 1);
  chmod(put(in_scratch("secret"), &file), 0);
  if (lose_rights())
    refused(in_scratch("secret"), 3, HD_E_IO, "Permission denied", "a file without permission");
  else
    skip(3, "root cannot give up its rights here");
  regain_rights();
}

static const char *const part[HD_DATA_PARTS] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
enum { TEST_IMAGES = 20 };

typedef enum naming { HYPHENS, DOTS, NAMINGS } naming;

/* A folder of four good files, made anew. */
static const char *make_folder(const char *name, naming how, int gzip) {
  static text file;
  const char *folder = in_scratch("%s", name);
  scratch_remove(folder);
  mkdir(folder, 0755);
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    char path[SCRATCH_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s%s", folder, part[i], gzip ? ".gz" : "");
    if (how == DOTS)
      *strstr(path + strlen(folder), "-idx") = '.';
    if (i % 2)
      make_labels(&file, i < 2 ? IMAGES : TEST_IMAGES);
    else
      make_images(&file, i < 2 ? IMAGES : TEST_IMAGES, i);
    (gzip ? put_gzip : put)(path, &file);
  }
  return folder;
}

/* The split must be what make_folder wrote. */
static int split_is(const hd_split *split, int images, int salt) {
  int wrong = split->count != images || split->channels != 1 || split->height != SIDE || split->width != SIDE ||
              split->classes != 10;
  for (int i = 0; !wrong && i < images * PIXELS; i++)
    wrong = split->images[i] != pixel(i, salt);
  for (int i = 0; !wrong && i < images; i++)
    wrong = split->labels[i] != i * 7 % 10;
  return !wrong;
}

/* From the definition: mean and standard deviation of all pixels over 255, to 4 decimals. */
static void expected_statistics(double *mean, double *std) {
  int64_t sum = 0, squares = 0, count = CONTENT;
  for (int i = 0; i < CONTENT; i++) {
    sum += pixel(i, 0);
    squares += pixel(i, 0) * pixel(i, 0);
  }
  *mean = (double)sum / (double)count / 255;
  *std = sqrt((double)(squares * count - sum * sum)) / (double)count / 255;
}

static void check_folder(const char *name, const char *data_dir, const char *title) {
  hd_dataset *data;
  double mean, std;
  if (!is_int(hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = name, .data_dir = data_dir, .ignored = -1}),
              HD_OK, "%s: opens", title)) {
    diag("%s", hd_ctx_message(ctx));
    return;
  }
  ok(split_is(hd__dataset_train(data), IMAGES, 0), "%s: the training set is the files'", title);
  ok(split_is(hd__dataset_test(data), TEST_IMAGES, 2), "%s: the test set is the files'", title);
  is_str(data->name, name, "%s: the name is kept", title);
  expected_statistics(&mean, &std);
  near(data->statistics.mean[0], mean, 0.5001e-4, "%s: the mean, to 4 decimals", title);
  near(data->statistics.std[0], std, 0.5001e-4, "%s: the standard deviation, to 4 decimals", title);
  ok(rint(data->statistics.mean[0] * 1e4) / 1e4 == data->statistics.mean[0], "%s: the mean is rounded", title);
  const hd_split *split[2] = {hd__dataset_train(data), hd__dataset_test(data)};
  int wrong = 0;
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    size_t count = (size_t)split[i / 2]->count;
    uint8_t label[IMAGES];
    for (size_t k = 0; k < count; k++)
      label[k] = (uint8_t)split[i / 2]->labels[k];
    uint64_t want = i % 2 ? hd__xxh3(label, count) : hd__xxh3(split[i / 2]->images, count * PIXELS);
    wrong += data->statistics.checksum[i] != want;
  }
  is_int(wrong, 0, "%s: the checksums are over the unpacked bytes", title);
  hd__dataset_close(data);
}

static void test_good_folders(void) {
  for (int how = 0; how < NAMINGS; how++)
    for (int gzip = 0; gzip < 2; gzip++) {
      char title[64];
      snprintf(title, sizeof title, "%s, %s", how == DOTS ? "dotted names" : "hyphens", gzip ? "packed" : "plain");
      const char *folder = make_folder("set", (naming)how, gzip);
      check_folder(folder, NULL, title);
    }
  mkdir(in_scratch("torch"), 0755);
  mkdir(in_scratch("torch/MNIST"), 0755);
  make_folder("torch/MNIST/raw", HYPHENS, 1);
  make_folder("fashion", DOTS, 0);
  check_folder("mnist", in_scratch("torch"), "mnist as torchvision lays it out");
  check_folder("fashion", scratch(), "fashion in a folder of that name");
  setenv("HEDDLE_DATA", in_scratch("torch"), 1);
  check_folder("mnist", NULL, "mnist under HEDDLE_DATA");
  setenv("HEDDLE_DATA", in_scratch("nowhere"), 1);
  setenv("HOME", in_scratch("nowhere"), 1);
  hd_dataset *data;
  refuses(hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = "mnist", .ignored = -1}), HD_E_IO, ctx, "",
          "train-images-idx3-ubyte", "mnist that is nowhere is refused");
  ok(!data, "and there is no data set");
}

/* Opens a folder in which one file was spoilt. */
static void folder_refused(const char *folder, const char *place, hd_status want, const char *says, const char *name) {
  hd_dataset *data;
  hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = folder, .ignored = -1});
  held before = held_now();
  hd_status status = hd__dataset_open(&data, ctx, &(hd_dataset_request){.name = folder, .ignored = -1});
  refuses(status, want, ctx, place, says, "%s is refused", name);
  ok(!data, "%s: there is no data set", name);
  holds_same(before, "%s: nothing is left behind", name);
}

static void test_bad_folders(void) {
  static text file;
  char path[SCRATCH_PATH_BYTES];
  const char *folder = make_folder("set", HYPHENS, 0);
#define PART(i) (snprintf(path, sizeof path, "%s/%s", folder, part[i]), path)
  make_labels(&file, TEST_IMAGES);
  file.byte[HEAD1 + 17] = 10;
  put(PART(3), &file);
  folder_refused(folder, path, HD_E_FORMAT, "from 0 to 9 as in training, found 10 at index 17", "a test label of 10");
  file.byte[HEAD1 + 18] = 255;
  put(PART(3), &file);
  folder_refused(folder, path, HD_E_FORMAT, "found 255 at index 18", "a test label of 255");
  make_labels(&file, IMAGES - 1);
  put(PART(1), &file);
  folder_refused(folder, path, HD_E_FORMAT, "expected 50 labels, one per image, found 49", "one label too few");
  make_folder("set", HYPHENS, 0);
  make_labels(&file, TEST_IMAGES + 1);
  put(PART(3), &file);
  folder_refused(folder, path, HD_E_FORMAT, "expected 20 labels, one per image, found 21", "one test label too many");
  make_folder("set", HYPHENS, 0);
  for (int wide = 0; wide < 2; wide++) {
    make_images(&file, 2 * TEST_IMAGES, 2);
    file.byte[7] = TEST_IMAGES;
    file.byte[wide ? 15 : 11] = 2 * SIDE;
    put(PART(2), &file);
    folder_refused(folder, path, HD_E_FORMAT, wide ? "found 28x56" : "found 56x28",
                   wide ? "wider test images" : "higher test images");
  }
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    make_folder("set", HYPHENS, 0);
    unlink(PART(i));
    snprintf(path, sizeof path, "without %s", part[i]);
    folder_refused(folder, folder, HD_E_IO, part[i], path);
  }
#undef PART
  folder_refused(in_scratch("nothing/here"), "", HD_E_IO, "nothing/here", "a path that does not exist");
  folder_refused(in_scratch("empty"), "", HD_E_IO, "which is none", "a file instead of a folder");
}

/* Labels from `first`, in so many classes. */
static void put_classes(const char *path, int labels, int first, int classes) {
  static text file;
  make_labels(&file, labels);
  for (int i = 0; i < labels; i++)
    file.byte[HEAD1 + i] = (uint8_t)(first + i % classes);
  put(path, &file);
}

/* Classes are as many as the largest training label needs; those without training samples are said. */
static void classes_are(int classes, int test_classes, int first, const char *note, const char *title) {
  char path[SCRATCH_PATH_BYTES];
  const char *folder = make_folder("set", HYPHENS, 0);
  snprintf(path, sizeof path, "%s/%s", folder, part[1]);
  put_classes(path, IMAGES, first, classes);
  snprintf(path, sizeof path, "%s/%s", folder, part[3]);
  put_classes(path, TEST_IMAGES, first, test_classes);
  hd_dataset *data = data_opens(folder, title);
  if (!data)
    return;
  is_int(hd__dataset_train(data)->classes, first + classes, "%s: the classes of the training set", title);
  is_int(hd__dataset_test(data)->classes, first + classes, "%s: the test set has as many", title);
  const char *found = data->note[0];
  ok(note ? found && strstr(found, note) : !found, "%s: the note is '%s'", title, found ? found : "");
  hd__dataset_close(data);
}

static void test_classes(void) {
  classes_are(10, 10, 0, NULL, "ten classes");
  classes_are(2, 2, 0, NULL, "two classes");
  classes_are(47, 20, 0, NULL, "47 classes, of which the test set has 20");
  classes_are(26, 20, 1, "1 of 27 classes has no training samples: 0", "letters from 1");
  classes_are(1, 1, 12, "12 of 13 classes have no training samples: 0, 1, 2, 3, 4, 5, 6, 7, ...", "a class of 12");
  request.ignored = 12;
  classes_are(12, 13, 0, NULL, "a label that is ignored");
  request.ignored = -1;
}

static void test_no_memory(int gzip) {
  data_survives_no_memory(make_folder("set", HYPHENS, gzip), gzip ? "packed" : "plain");
}

static void test_constant_images(void) {
  static uint8_t images[4 * PIXELS];
  hd_split split = {.images = images, .count = 4, .channels = 1, .height = SIDE, .width = SIDE, .classes = 10};
  double mean, std;
  memset(images, 255, sizeof images);
  hd__channel_statistics(&mean, &std, &split, 0);
  ok(mean == 1 && std == 1, "white images have mean 1, and a standard deviation of 0 becomes 1");
  memset(images, 0, sizeof images / 2);
  hd__channel_statistics(&mean, &std, &split, 0);
  ok(mean == 0.5 && std == 0.5, "half white, half black: mean 0.5, standard deviation 0.5");
  split.channels = 2; /* planes of 784 pixels: black, black, white, white */
  split.count = 2;
  images[0] = 255;
  hd__channel_statistics(&mean, &std, &split, 1);
  ok(mean == 0.5 && std == 0.5, "the second of two channels is measured alone");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_good_files();
  test_bad_content("");
  test_bad_content(".gz");
  test_bad_gzip();
  test_bad_paths();
  test_good_folders();
  test_bad_folders();
  test_classes();
  test_no_memory(0);
  test_no_memory(1);
  test_constant_images();
  hd_ctx_destroy(ctx);
  return done_testing();
}
