/* Data sets of binary files and arrays: CIFAR, NPY, NPZ. Good ones arrive sample for sample; every kind of bad one is
 * refused with one line that names the file, and leaves nothing behind. */
#include "scratch.h"

#include "data_trial.h"
#include "format_files.h"

#include "base/philox.h"
#include "heddle/dataset.h"

static void refused(const char *path, hd_status want, const char *says, const char *title) {
  data_refused(path, want, path, says, title);
}

/* CIFAR. */

enum { RECORD_PIXELS = 3072, RECORDS = 2, TEST_RECORDS = 3 };

static uint8_t cifar_pixel(int record, int i) { return (uint8_t)(record * 37 + i * 11 + i / 1024 * 50); }

/* Records `first` and up, with labels of `labels` bytes: record r is of class r % classes. */
static void make_records(blob *to, int first, int count, int labels, int classes) {
  to->length = 0;
  for (int r = first; r < first + count; r++) {
    if (labels == 2)
      blob_add(to, &(uint8_t){(uint8_t)(r % 7)}, 1);
    blob_add(to, &(uint8_t){(uint8_t)(r % classes)}, 1);
    for (int i = 0; i < RECORD_PIXELS; i++)
      blob_add(to, &(uint8_t){cifar_pixel(r, i)}, 1);
  }
}

static void put_lines(const char *path, int lines) {
  FILE *file = fopen(path, "w");
  for (int i = 0; file && i < lines; i++)
    fprintf(file, "class %d\n", i);
  if (!file || fputs("\n", file) < 0 || fclose(file) != 0)
    bail_out("expected to write %s, found no way", path);
}

static const char *make_cifar10(void) {
  static blob file;
  static char folder[SCRATCH_PATH_BYTES];
  snprintf(folder, sizeof folder, "%s", in_scratch("cifar-10-batches-bin"));
  mkdir(folder, 0755);
  for (int i = 0; i < 5; i++) {
    make_records(&file, i * RECORDS, RECORDS, 1, 10);
    put_file(in_scratch("cifar-10-batches-bin/data_batch_%d.bin", i + 1), file.byte, file.length);
  }
  make_records(&file, 100, TEST_RECORDS, 1, 10);
  put_file(in_scratch("cifar-10-batches-bin/test_batch.bin"), file.byte, file.length);
  put_lines(in_scratch("cifar-10-batches-bin/batches.meta.txt"), 10);
  return folder;
}

static int cifar_wrong(const hd_split *split, int first, int classes) {
  int wrong = 0;
  for (int64_t r = 0; r < split->count; r++) {
    wrong += split->labels[r] != (first + r) % classes;
    for (int i = 0; i < RECORD_PIXELS; i++)
      wrong += split->images[r * RECORD_PIXELS + i] != cifar_pixel(first + (int)r, i);
  }
  return wrong;
}

static void test_cifar10(void) {
  const char *folder = make_cifar10();
  hd_dataset *data = data_opens(folder, "CIFAR-10");
  if (data) {
    const hd_split *train = hd__dataset_train(data), *test = hd__dataset_test(data);
    ok(train->count == 5 * RECORDS && test->count == TEST_RECORDS && train->channels == 3 && train->height == 32 &&
           train->width == 32 && train->classes == 10 && train->elem == HD_ELEM_U8,
       "samples of 3x32x32 in 10 classes");
    is_int(cifar_wrong(train, 0, 10) + cifar_wrong(test, 100, 10), 0, "pixels and labels are the files'");
    ok(train->class_names && !strcmp(train->class_names[9], "class 9"), "classes have their names");
    uint8_t sample[RECORD_PIXELS];
    int size[2];
    is_int(hd__split_get(sample, size, ctx, test, 2), HD_OK, "a sample can be had alone");
    ok(size[0] == 32 && size[1] == 32 && !memcmp(sample, test->images + 2 * RECORD_PIXELS, RECORD_PIXELS), "whole");
  }
  hd__dataset_close(data);
  data_survives_no_memory(folder, "CIFAR-10");
}

static void test_bad_cifar10(void) {
  static blob file;
  const char *folder = make_cifar10();
  make_records(&file, 4, RECORDS, 1, 10);
  file.byte[RECORD_PIXELS + 1] = 10;
  put_file(in_scratch("cifar-10-batches-bin/data_batch_3.bin"), file.byte, file.length);
  refused(folder, HD_E_FORMAT, "data_batch_3.bin: expected labels from 0 to 9, found 10 in record 1", "a label of 10");
  put_file(in_scratch("cifar-10-batches-bin/data_batch_3.bin"), file.byte, file.length - 1);
  refused(folder, HD_E_FORMAT, "expected records of 3073 bytes, found 6145", "half a record");
  put_file(in_scratch("cifar-10-batches-bin/data_batch_3.bin"), file.byte, 0);
  refused(folder, HD_E_FORMAT, "data_batch_3.bin", "an empty file");
  unlink(in_scratch("cifar-10-batches-bin/data_batch_3.bin"));
  refused(folder, HD_E_IO, "data_batch_3.bin", "a missing file");
  make_cifar10();
  put_lines(in_scratch("cifar-10-batches-bin/batches.meta.txt"), 9);
  refused(folder, HD_E_FORMAT, "expected 10 names, one per line, found 9", "nine names");
  unlink(in_scratch("cifar-10-batches-bin/batches.meta.txt"));
  hd_dataset *data = data_opens(folder, "CIFAR-10 without names");
  ok(data && !hd__dataset_train(data)->class_names, "no names then");
  hd__dataset_close(data);
}

static void test_cifar100(void) {
  static blob file;
  const char *folder = in_scratch("cifar-100-binary");
  mkdir(folder, 0755);
  make_records(&file, 0, 90, 2, 100);
  put_file(in_scratch("cifar-100-binary/train.bin"), file.byte, file.length);
  make_records(&file, 50, 55, 2, 100);
  put_file(in_scratch("cifar-100-binary/test.bin"), file.byte, file.length);
  put_lines(in_scratch("cifar-100-binary/fine_label_names.txt"), 100);
  hd_dataset *data = data_opens(folder, "CIFAR-100");
  if (data) {
    const hd_split *train = hd__dataset_train(data), *test = hd__dataset_test(data);
    ok(train->count == 90 && test->count == 55 && train->classes == 100, "in 100 classes");
    is_int(cifar_wrong(train, 0, 100) + cifar_wrong(test, 50, 100), 0, "pixels and fine labels are the files'");
    ok(test->class_names && !strcmp(test->class_names[99], "class 99"), "classes have their names");
  }
  hd__dataset_close(data);
}

/* NPY. */

static const char *make_folder(const char *name) {
  static char folder[SCRATCH_PATH_BYTES];
  snprintf(folder, sizeof folder, "%s", in_scratch("%s", name));
  scratch_remove(folder);
  mkdir(folder, 0755);
  return folder;
}

/* x of 3 training and 2 test samples of 2x2 bytes, y their classes. */
static const char *make_small(const char *name) {
  static const uint8_t x[] = {0, 1, 2, 3, 4, 5, 6, 7, 250, 251, 252, 255}, y[] = {2, 0, 1};
  const char *folder = make_folder(name);
  put_npy(in_scratch("%s/x_train.npy", name), "|u1", x, 12, "(3, 2, 2)");
  put_npy(in_scratch("%s/y_train.npy", name), "|u1", y, 3, "(3,)");
  put_npy(in_scratch("%s/x_test.npy", name), "|u1", x + 4, 8, "(2, 2, 2)");
  put_npy(in_scratch("%s/y_test.npy", name), "|u1", y, 2, "(2, 1)");
  return folder;
}

static void test_npy(void) {
  const char *folder = make_small("npy");
  hd_dataset *data = data_opens(folder, "a folder of NPY files");
  if (data) {
    const hd_split *train = hd__dataset_train(data), *test = hd__dataset_test(data);
    ok(train->count == 3 && test->count == 2 && train->channels == 1 && train->height == 2 && train->width == 2 &&
           train->classes == 3 && test->classes == 3,
       "samples of 1x2x2 in as many classes as the labels need");
    ok(train->images && train->images[11] == 255 && train->images[4] == 4 && test->images[7] == 255,
       "bytes stay bytes");
    ok(train->labels[0] == 2 && train->labels[2] == 1 && test->labels[1] == 0, "labels are the array's");
  }
  hd__dataset_close(data);
  data_survives_no_memory(folder, "a folder of NPY files");
}

/* One array of each type holds 0, 1, 2, 100 in samples of 1x1x2. */
static void test_types(void) {
  static const struct {
    const char *descr;
    int bytes;
    const char *elems;
  } kind[] = {
      {"|i1", 1, "\0\1\2\144"},
      {"<i2", 2, "\0\0\1\0\2\0\144\0"},
      {">i2", 2, "\0\0\0\1\0\2\0\144"},
      {"<u4", 4, "\0\0\0\0\1\0\0\0\2\0\0\0\144\0\0\0"},
      {">i8", 8, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\144"},
      {"<f2", 2, "\0\0\0\x3c\0\x40\x40\x56"},
      {">f2", 2, "\0\0\x3c\0\x40\0\x56\x40"},
      {"<f4", 4, "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\xc8\x42"},
      {">f4", 4, "\0\0\0\0\x3f\x80\0\0\x40\0\0\0\x42\xc8\0\0"},
      {"<f8", 8, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\x59\x40"},
  };
  for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
    const char *folder = make_small("types");
    put_npy(in_scratch("types/x_train.npy"), kind[i].descr, kind[i].elems, 4 * (size_t)kind[i].bytes, "(2, 1, 2)");
    put_npy(in_scratch("types/y_train.npy"), "<i8", "\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16, "(2,)");
    put_npy(in_scratch("types/x_test.npy"), kind[i].descr, kind[i].elems, 4 * (size_t)kind[i].bytes, "(2, 1, 2)");
    hd_dataset *data = data_opens(folder, kind[i].descr);
    const float *x = data ? hd__dataset_train(data)->floats : NULL;
    ok(x && x[0] == 0 && x[1] == 1 && x[2] == 2 && x[3] == 100, "%s: numbers are what they were", kind[i].descr);
    ok(data && hd__dataset_train(data)->classes == 4, "%s: labels of 8 bytes are classes", kind[i].descr);
    hd__dataset_close(data);
  }
}

static void is_floats(const hd_dataset *data, const float *want, int count, const char *title) {
  const float *x = data ? hd__dataset_train(data)->floats : NULL;
  int wrong = !x;
  for (int i = 0; x && i < count; i++)
    wrong += x[i] != want[i];
  is_int(wrong, 0, "%s: numbers lie in planes", title);
}

/* Sample n, pixel p, channel c is 100 n + 10 p + c; five rows of one pixel, three channels. */
static void test_shapes(void) {
  enum { PIXELS = 5, CELLS = 2 * PIXELS * 3 };
  static float last[CELLS], fortran[CELLS], first[CELLS];
  for (int n = 0; n < 2; n++)
    for (int p = 0; p < PIXELS; p++)
      for (int c = 0; c < 3; c++) {
        const float value = (float)(100 * n + 10 * p + c);
        last[(n * PIXELS + p) * 3 + c] = value;
        first[(n * 3 + c) * PIXELS + p] = value;
        fortran[(c * PIXELS + p) * 2 + n] = value;
      }
  for (int how = 0; how < 3; how++) {
    static const char *const title[] = {"channels last", "channels first", "Fortran's order"};
    const char *folder = make_small("shapes");
    for (int test = 0; test < 2; test++) {
      const char *path = in_scratch("shapes/x_%s.npy", test ? "test" : "train");
      static blob file;
      if (how == 2) {
        blob_npy(&file, "{\"shape\": (2, 5, 1, 3), 'fortran_order': True, 'descr': '<f4'}", fortran, sizeof fortran);
        put_file(path, file.byte, file.length);
      } else
        put_npy(path, "<f4", how ? first : last, sizeof last, how ? "(2, 3, 5, 1)" : "(2, 5, 1, 3)");
    }
    put_npy(in_scratch("shapes/y_train.npy"), "|b1", "\0\1", 2, "(2,)");
    hd_dataset *data = data_opens(folder, title[how]);
    ok(data && hd__dataset_train(data)->channels == 3 && hd__dataset_train(data)->height == 5, "%s: 3 channels",
       title[how]);
    is_floats(data, first, CELLS, title[how]);
    hd__dataset_close(data);
  }
  const char *folder = make_small("shapes");
  put_npy(in_scratch("shapes/x_train.npy"), "<f4", first, 24, "(3, 2)");
  put_npy(in_scratch("shapes/x_test.npy"), "<f4", first, 16, "(2, 2)");
  hd_dataset *data = data_opens(folder, "rows of numbers");
  ok(data && hd__dataset_train(data)->flat && hd__dataset_train(data)->width == 2,
     "they have no shape but their length");
  hd__dataset_close(data);
}

static void test_targets(void) {
  static const float target[] = {0.5f, -1, 2, 3e30f, 0, 1};
  const char *folder = make_small("targets");
  put_npy(in_scratch("targets/y_train.npy"), "<f4", target, 24, "(3, 2)");
  put_npy(in_scratch("targets/y_test.npy"), "<f4", target, 16, "(2, 2)");
  hd_dataset *data = data_opens(folder, "targets");
  const hd_split *train = data ? hd__dataset_train(data) : NULL;
  ok(train && !train->labels && train->outputs == 2 && !memcmp(train->targets, target, 24), "floats are targets");
  hd__dataset_close(data);
  put_npy(in_scratch("targets/y_test.npy"), "<i8", "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0", 16, "(2,)");
  refused(folder, HD_E_FORMAT, "expected 2 float targets per sample as in training", "targets and classes");
  put_npy(in_scratch("targets/y_test.npy"), "<f4", "\0\0\x80\x7f\0\0\0\0\0\0\0\0\0\0\0", 16, "(2, 2)");
  refused(folder, HD_E_FORMAT, "y_test.npy: expected finite numbers, found infinity in sample 0", "an infinite target");
}

/* Integers are numbers where the loss reads numbers. */
static void test_integer_targets(void) {
  const char *folder = make_small("integers");
  put_npy(in_scratch("integers/y_train.npy"), "<i4", "\xff\xff\xff\xff\0\0\1\0\5\0\0", 12, "(3,)");
  put_npy(in_scratch("integers/y_test.npy"), "|u1", "\1\2", 2, "(2,)");
  refused(folder, HD_E_FORMAT, "expected class labels from 0 to 65535, found -1 at index 0", "negative integers");
  request.table.labels = HD_LABELS_NUMBERS;
  hd_dataset *data = data_opens(folder, "the same for a loss on numbers");
  const hd_split *train = data ? hd__dataset_train(data) : NULL, *test = data ? hd__dataset_test(data) : NULL;
  ok(train && !train->labels && train->outputs == 1 && train->targets[0] == -1 && train->targets[1] == 65536,
     "are targets");
  ok(test && test->outputs == 1 && test->targets[1] == 2, "bytes too");
  hd__dataset_close(data);
  request.table.labels = HD_LABELS_AUTO;
}

static void test_many_classes(void) {
  const char *folder = make_small("many");
  put_npy(in_scratch("many/y_train.npy"), "<u2", "\x2c\x01\0\0\x02\0", 6, "(3,)");
  hd_dataset *data = data_opens(folder, "labels beyond a byte");
  ok(data && hd__dataset_train(data)->classes == 301 && hd__dataset_train(data)->labels[0] == 300,
     "are labels like others");
  hd__dataset_close(data);
}

/* Without a test set a fifth becomes it, the same whatever else. */
static void test_fifth(void) {
  enum { ALL = 40 };
  uint8_t x[ALL], y[ALL];
  int seen[ALL] = {0}, wrong = 0;
  for (int i = 0; i < ALL; i++)
    x[i] = (uint8_t)i, y[i] = (uint8_t)(i % 10);
  const char *folder = make_folder("fifth");
  put_npy(in_scratch("fifth/images.npy"), "|u1", x, ALL, "(40, 1, 1)");
  put_npy(in_scratch("fifth/labels.npy"), "|u1", y, ALL, "(40,)");
  hd_dataset *data = data_opens(folder, "images and labels");
  if (data) {
    const hd_split *split[2] = {hd__dataset_train(data), hd__dataset_test(data)};
    ok(split[0]->count == 32 && split[1]->count == 8, "a fifth is the test set");
    for (int s = 0; s < 2; s++)
      for (int64_t i = 0; i < split[s]->count; i++) {
        const int pixel = split[s]->images[i];
        seen[pixel]++;
        wrong += split[s]->labels[i] != pixel % 10 || (i > 0 && pixel <= split[s]->images[i - 1]);
      }
    for (int i = 0; i < ALL; i++)
      wrong += seen[i] != 1;
    is_int(wrong, 0, "every sample is in one of both, with its label, in the file's order");
    ok(x[0] == 0 && split[1]->labels[0] != split[1]->labels[1], "not each fifth, which may be one class");
  }
  hd__dataset_close(data);
  data_survives_no_memory(folder, "images and labels");
  put_npy(in_scratch("fifth/images.npy"), "|u1", x, 1, "(1, 1, 1)");
  put_npy(in_scratch("fifth/labels.npy"), "|u1", y, 1, "(1,)");
  refused(folder, HD_E_FORMAT, "found 1", "a single sample for both");
}

/* Five folds: each sample is tested once, 7 or 8 of each class of 37 in each. A set's own test samples are left out. */
static void test_folds(void) {
  enum { ALL = 74, OWN = 6, FOLDS = 5 };
  uint8_t x[ALL + OWN], y[ALL + OWN];
  int32_t labels[ALL], fold[ALL];
  int seen[ALL] = {0}, wrong = 0;
  hd_ctx quiet = {0};
  for (int i = 0; i < ALL + OWN; i++)
    x[i] = (uint8_t)i, y[i] = (uint8_t)(i % 2);
  for (int i = 0; i < ALL; i++)
    labels[i] = y[i];
  is_int(hd_folds(fold, &quiet, ALL, labels, FOLDS), HD_OK, "samples are dealt out");
  for (int own = 0; own < 2; own++) {
    const char *folder = make_folder(own ? "folds-own" : "folds");
    char path[SCRATCH_PATH_BYTES + 16], part[8];
    snprintf(path, sizeof path, "%s/x_train.npy", folder);
    put_npy(own ? path : in_scratch("folds/images.npy"), "|u1", x, ALL, "(74, 1, 1)");
    snprintf(path, sizeof path, "%s/y_train.npy", folder);
    put_npy(own ? path : in_scratch("folds/labels.npy"), "|u1", y, ALL, "(74,)");
    snprintf(path, sizeof path, "%s/x_test.npy", folder);
    if (own)
      put_npy(path, "|u1", x + ALL, OWN, "(6, 1, 1)");
    snprintf(path, sizeof path, "%s/y_test.npy", folder);
    if (own)
      put_npy(path, "|u1", y + ALL, OWN, "(6,)");
    for (int number = 1; number <= FOLDS; number++) {
      snprintf(part, sizeof part, "%d/%d", number, FOLDS);
      request.fold = (hd_fold){number, FOLDS};
      hd_dataset *data = data_opens(folder, part);
      const hd_split *train = hd__dataset_train(data), *test = hd__dataset_test(data);
      int of_class[2] = {0};
      for (int64_t i = 0; i < test->count; i++) {
        const int pixel = test->images[i];
        seen[pixel % ALL]++;
        of_class[test->labels[i] > 0]++;
        wrong += pixel >= ALL || test->labels[i] != pixel % 2 || fold[pixel] != number;
      }
      wrong += train->count + test->count != ALL || abs(of_class[0] - of_class[1]) > 1 || of_class[0] < 7;
      for (int64_t i = 1; i < train->count; i++)
        wrong += train->images[i] <= train->images[i - 1] || train->labels[i] != train->images[i] % 2;
      hd__dataset_close(data);
    }
    data_survives_no_memory(folder, own ? "a fold of a set with test samples" : "a fold");
  }
  for (int i = 0; i < ALL; i++)
    wrong += seen[i] != 2;
  is_int(wrong, 0, "every sample is tested once in five folds, with a fifth of each class");
  request.fold = (hd_fold){1, ALL + 1};
  refused(in_scratch("folds"), HD_E_FORMAT, "found 75 folds and 74 samples", "more folds than samples");
  request.fold = (hd_fold){0};
}

/* `count` samples of labels[i]: how many of each of two classes are in the test set. */
static void tests_of(int found[2], const uint8_t *labels, int count, const char *title) {
  uint8_t x[64] = {0};
  found[0] = found[1] = 0;
  const char *folder = make_folder("fifth");
  put_npy(in_scratch("fifth/images.npy"), "|u1", x, (size_t)count, "(%d, 1, 1)", count);
  put_npy(in_scratch("fifth/labels.npy"), "|u1", labels, (size_t)count, "(%d,)", count);
  hd_dataset *data = data_opens(folder, title);
  for (int64_t i = 0; data && i < hd__dataset_test(data)->count; i++)
    found[hd__dataset_test(data)->labels[i] > 0]++;
  const char *note = data ? data->note[0] : NULL;
  const bool few = found[0] < 2 || found[1] < 2;
  ok(request.first_rules || labels[2] > 1 || few == (note && strstr(note, "fewer than two samples to test")),
     "%s: the note is '%s'", title, note ? note : "");
  hd__dataset_close(data);
}

/* The fifth of each class. By the first rules it is the end of one permutation: 1 of 30 and 11 of 30. */
static void test_stratified(void) {
  uint8_t y[60];
  int found[2];
  for (int i = 0; i < 60; i++)
    y[i] = i >= 30;
  tests_of(found, y, 60, "two classes of 30");
  ok(found[0] == 6 && found[1] == 6, "have 6 test samples each, found %d and %d", found[0], found[1]);
  request.first_rules = true;
  tests_of(found, y, 60, "two classes of 30 by the first rules");
  request.first_rules = false;
  ok(found[0] == 1 && found[1] == 11, "have 1 and 11, found %d and %d", found[0], found[1]);
  for (int i = 0; i < 60; i++)
    y[i] = i % 20 == 0;
  tests_of(found, y, 60, "classes of 57 and 3");
  ok(found[0] == 11 && found[1] == 1, "have 11 and 1, found %d and %d", found[0], found[1]);
  y[20] = y[40] = 0;
  tests_of(found, y, 60, "a class of one sample");
  ok(found[0] == 12 && found[1] == 0, "is trained alone, found %d and %d", found[0], found[1]);
  for (int i = 0; i < 60; i++)
    y[i] = (uint8_t)i;
  tests_of(found, y, 60, "60 classes of one sample");
  is_int(found[0] + found[1], 12, "have a fifth of all");
}

static void bad_head(const char *dictionary, const char *says, const char *title) {
  static blob file;
  const char *folder = make_small("bad");
  blob_npy(&file, dictionary, "\0\1\2\3\4\5\6\7\0\1\2\3", 12);
  put_file(in_scratch("bad/x_train.npy"), file.byte, file.length);
  refused(folder, HD_E_FORMAT, says, title);
}

static void test_bad_npy(void) {
  static const uint8_t bytes[336];
  const char *folder = make_small("bad");
  bad_head("{'descr': '|O', 'fortran_order': False, 'shape': (3, 2, 2), }", "(Python objects)", "an array of objects");
  bad_head("{'descr': '<U4', 'fortran_order': False, 'shape': (3, 2, 2), }", "'<U4'", "an array of texts");
  bad_head("{'descr': '|i2', 'fortran_order': False, 'shape': (3, 2, 2), }", "'|i2'", "two bytes in no order");
  bad_head("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", "records", "an array of records");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 2, 1, 1), }", "more than 4", "five dimensions");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 65536, 1, 1048576), }", "64 GiB",
           "a shape too large");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999, 2, 2), }", "shape", "a long size");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (3, -2, 2), }", "shape", "a negative size");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2, 2), }", "expected 16 bytes", "too few bytes");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 2), }", "expected 8 bytes", "too many bytes");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 2), 'x': 1}", "unknown key", "another key");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'descr': '|u1'}", "twice", "a key twice");
  bad_head("{'descr': '|u1', 'shape': (3, 2, 2), }", "missing", "a key left out");
  bad_head("{'descr': '|u1', 'fortran_order': 0, 'shape': (3, 2, 2), }", "neither True nor False", "an order of 0");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 2)} x", "after the dictionary",
           "text after the dictionary");
  bad_head("[]", "no dictionary", "no dictionary");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (12, 1, 1, 1)}", "one per sample", "fewer labels");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "expected 1 bytes", "a single number");
  bad_head("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 2, 2), }", "expected 0 bytes", "no samples");
  make_small("bad");
  put_npy(in_scratch("bad/x_train.npy"), "|u1", bytes, 0, "(0, 2, 2)");
  refused(folder, HD_E_FORMAT, "at least one sample", "an empty array");
  put_npy(in_scratch("bad/x_train.npy"), "|u1", bytes, 60, "(1, 5, 2, 6)");
  refused(folder, HD_E_FORMAT, "fewer than rows and columns", "five or six channels");
  put_npy(in_scratch("bad/x_train.npy"), "|u1", bytes, 325, "(1, 65, 1, 5)");
  refused(folder, HD_E_FORMAT, "1 to 64 channels", "65 channels");
  put_file(in_scratch("bad/x_train.npy"), "\x93NUMPY\x01", 7);
  refused(folder, HD_E_FORMAT, "expected an NPY file", "a file of seven bytes");
  put_file(in_scratch("bad/x_train.npy"), "\x93NUMPY\x04\0\4\0{}\n ", 14);
  refused(folder, HD_E_FORMAT, "found 4.0", "another version");
  put_file(in_scratch("bad/x_train.npy"), "\x93NUMPY\x02\0\xff\xff\xff\xff{}", 14);
  refused(folder, HD_E_FORMAT, "a longer one", "a header of 4 GiB");
  put_file(in_scratch("bad/x_train.npy"), "\x93NUMPY\x01\0\x40\0{}", 12);
  refused(folder, HD_E_FORMAT, "truncated", "half a header");
  make_small("bad");
  put_npy(in_scratch("bad/x_train.npy"), "<f4", "\0\0\xc0\x7f\0\0\0\0\0\0\0\0", 12, "(3, 1, 1)");
  refused(folder, HD_E_FORMAT, "expected finite numbers, found NaN in sample 0", "NaN");
  make_small("bad");
  put_npy(in_scratch("bad/y_train.npy"), "|i1", "\0\1\377", 3, "(3,)");
  refused(folder, HD_E_FORMAT, "found -1 at index 2", "a negative label");
  put_npy(in_scratch("bad/y_train.npy"), "<u8", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377", 24,
          "(3,)");
  refused(folder, HD_E_FORMAT, "from 0 to 65535", "a label beyond all bounds");
  put_npy(in_scratch("bad/y_train.npy"), "|u1", bytes, 12, "(3, 2, 2)");
  refused(folder, HD_E_FORMAT, "in the training set alone", "labels that are images");
  unlink(in_scratch("bad/y_train.npy"));
  refused(folder, HD_E_IO, "expected an array y_train", "a folder without labels");
  make_small("bad");
  put_npy(in_scratch("bad/x_test.npy"), "|u1", bytes, 12, "(2, 3, 2)");
  refused(folder, HD_E_FORMAT, "expected test samples of 1x2x2 as in training, found 1x3x2", "another test shape");
  refused(in_scratch("bad/x_test.npy"), HD_E_IO, "without labels", "an array alone");
}

/* NPZ. */

#ifdef HD_HAVE_LIBZIP

static const char *const member[] = {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"};

static int twice = -1; /* this member is there two times */

/* The arrays of make_small in one file; member `bad` becomes `instead`. */
static const char *make_npz(int deflated, int bad, const blob *instead) {
  static char path[SCRATCH_PATH_BYTES];
  static zipper z;
  static blob file;
  const char *folder = make_small("unpacked");
  z.file.length = z.directory.length = 0;
  z.members = 0;
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, member[i]);
    FILE *from = fopen(path, "rb");
    if (!from)
      bail_out("expected to read %s, found no way", path);
    file.length = fread(file.byte, 1, sizeof file.byte, from);
    fclose(from);
    const blob *use = i == bad ? instead : &file;
    for (int times = i == twice ? 2 : 1; use && times > 0; times--)
      zip_add(&z, member[i], use->byte, use->length, deflated);
  }
  snprintf(path, sizeof path, "%s", in_scratch("set.npz"));
  return put_zip(path, &z);
}

static void test_npz(void) {
  static blob file;
  for (int deflated = 0; deflated < 2; deflated++) {
    const char *title = deflated ? "an .npz file, packed" : "an .npz file", *path = make_npz(deflated, -1, NULL);
    hd_dataset *data = data_opens(path, title), *files = data_opens(in_scratch("unpacked"), "its files");
    ok(data && files && !memcmp(data->statistics.checksum, files->statistics.checksum, 4 * sizeof(uint64_t)),
       "%s: holds what its files hold", title);
    hd__dataset_close(data);
    hd__dataset_close(files);
    data_survives_no_memory(path, title);
  }
  const char *path = make_npz(1, 1, NULL);
  refused(path, HD_E_IO, "expected an array y_train", "an .npz file without labels");
  put_file(path, "PK\3\4 and no more", 16);
  refused(path, HD_E_FORMAT, "zip archive", "an .npz file that is none");
  put_file(path, "", 0);
  refused(path, HD_E_FORMAT, "none of these names", "an empty .npz file");
  blob_npy(&file, "{'descr': '|u1', 'fortran_order': False, 'shape': (1048576, 255, 255), }", "abc", 3);
  make_npz(1, 0, &file);
  refused(path, HD_E_FORMAT, "cannot hold them", "a member that promises 64 GiB");
  blob_npy(&file, "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 2), }", "abcdefghijklm", 13);
  make_npz(1, 0, &file);
  refused(path, HD_E_FORMAT, "found more", "a member with a byte too many");
  file.length -= 2;
  make_npz(0, 0, &file);
  refused(path, HD_E_FORMAT, "found fewer", "a member with a byte too few");
  twice = 1;
  make_npz(0, -1, NULL);
  twice = -1;
  refused(path, HD_E_FORMAT, "expected one member y_train.npy, found 2", "a member twice");
}

/* A byte of the content changes: the member's checksum shows it. */
static void test_damaged_npz(void) {
  static blob file;
  const char *path = make_npz(0, -1, NULL);
  FILE *from = fopen(path, "rb");
  file.length = from ? fread(file.byte, 1, sizeof file.byte, from) : 0;
  if (from)
    fclose(from);
  uint8_t *at = memmem(file.byte, file.length, "\0\1\2\3\4\5\6\7", 8);
  if (!at)
    bail_out("expected the pixels in the archive, found none");
  at[3] ^= 1;
  put_file(path, file.byte, file.length);
  refused(path, HD_E_FORMAT, "CRC", "a changed byte");
  int wrong = 0;
  at[3] ^= 1;
  for (size_t length = 0; length < file.length; length += 7) {
    hd_dataset *data;
    put_file(path, file.byte, length);
    wrong += open_data(&data, path) == HD_OK;
    hd__dataset_close(data);
  }
  is_int(wrong, 0, "an archive cut short anywhere is refused");
}

#endif

/* What no format accepts: the message lists what --data may be, from the rows of formats.def. */
static void test_unknown(void) {
  const char *folder = in_scratch("nothing");
  mkdir(folder, 0755);
  refused(folder, HD_E_IO,
          "expected a folder of IDX files (train-images-idx3-ubyte, ...), of CIFAR's binary files, of NPY files "
          "(x_train.npy, ...), train.csv and test.csv, train.txt and val.txt, images/ and masks/, or class folders of "
          "pictures, found none of them; check the path",
          "an empty folder");
  data_refused(
      "nothing.at_all", HD_E_IO,
      "expected digits, sums, mnist, fashion, cifar10, cifar100, shakespeare, random:CxHxW[:CLASSES],",
      " a data folder, an .npz, a .csv or a .txt file as --data, found 'nothing.at_all', which is none of these; check "
      "the path",
      "an unknown name");
  data_refused("fashon", HD_E_IO, "expected digits", "; did you mean fashion?", "a mistyped name");
}

/* Noise. */

/* Bytes of a sample that differ from the stream, where sixteen bytes belong to each counter. */
static int noise_wrong(const hd_split *split, int64_t sample, int64_t first) {
  static uint8_t elems[4000];
  const int64_t bytes = hd__split_elems(split);
  int size[2], wrong = hd__split_get(elems, size, ctx, split, sample) != HD_OK;
  for (int64_t i = 0; i < bytes; i++) {
    const int64_t at = first + sample * bytes + i;
    uint32_t word[4];
    hd__philox(word, 0, (const uint32_t[4]){(uint32_t)(at / 16)});
    wrong += elems[i] != (uint8_t)(word[at % 16 / 4] >> at % 4 * 8);
  }
  return wrong + (size[0] != split->height) + (size[1] != split->width);
}

/* Small samples are in memory; a large set is drawn sample by sample, and never kept. */
static void test_noise(void) {
  static const struct {
    const char *name;
    int in_memory;
  } sets[] = {{"random:1x5x5", 1}, {"random:1x61x61", 0}};
  for (int i = 0; i < 2; i++) {
    hd_dataset *data = data_opens(sets[i].name, sets[i].name);
    if (!data)
      continue;
    const hd_split *train = hd__dataset_train(data), *test = hd__dataset_test(data);
    const int64_t first = train->count * hd__split_elems(train);
    int wrong = 0;
    for (int64_t n = 0; n < 5; n++)
      wrong += noise_wrong(train, n * 2047, 0) + noise_wrong(test, n * 255, first);
    is_int(wrong, 0, "%s: samples are the stream's", sets[i].name);
    is_int(hd__split_in_memory(train), sets[i].in_memory, "%s: in memory or not", sets[i].name);
    hd__dataset_close(data);
  }
  data_survives_no_memory(sets[1].name, "a large set of noise");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  test_noise();
  test_cifar10();
  test_bad_cifar10();
  test_cifar100();
  test_npy();
  test_types();
  test_shapes();
  test_targets();
  test_integer_targets();
  test_many_classes();
  test_fifth();
  test_folds();
  test_stratified();
  test_bad_npy();
  test_unknown();
#ifdef HD_HAVE_LIBZIP
  test_npz();
  test_damaged_npz();
#else
  skip(1, "libzip was not there when this was built");
#endif
  hd_ctx_destroy(ctx);
  return done_testing();
}
