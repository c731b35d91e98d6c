/* Published data sets by name, in the folders that may hold them.
 *
 * Places are searched in this order: --data-dir, $HEDDLE_DATA, ~/.cache/heddle (where heddle get stores sets),
 * and Debian's /usr/share/datasets. In each a set may lie in a folder of its name, of torchvision's, of its
 * archive's, or in the place itself. */
#include "data/formats/formats.h"

#include <stdio.h>
#include <stdlib.h>

#include "data/formats/idx.h"

enum { MOST_FOLDERS = 6, PLACES = 4 };

typedef struct published {
  const char *name, *alias;
  const hd_format *format;
  const char *first, *files; /* the file that identifies its folder; the files of the set */
  const char *package;       /* in Debian; "" for none */
  const char *folders[MOST_FOLDERS + 1];
} published;

static const char idx_files[] = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                                "t10k-labels-idx1-ubyte (plain or .gz)";

#define IDX(name, alias, package, ...)                                                                                 \
  {                                                                                                                    \
    name, alias, &hd__format_idx, HD_IDX_TRAIN_IMAGES, idx_files, package, { __VA_ARGS__ }                             \
  }
#define CIFAR(name, alias, first, files, ...)                                                                          \
  {                                                                                                                    \
    name, alias, &hd__format_cifar, first, files, "", { __VA_ARGS__ }                                                  \
  }

/* clang-format off */
static const published sets[] = {
    IDX("mnist", "", "", "mnist", "MNIST", "mnist/raw", "MNIST/raw", "."),
    IDX("fashion", "fashion-mnist", ", or install dataset-fashion-mnist",
        "fashion", "FashionMNIST", "fashion/raw", "FashionMNIST/raw", "fashion-mnist", "."),
    CIFAR("cifar10", "cifar-10", "data_batch_1.bin", "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
          "cifar-10-batches-bin", "cifar10", "cifar10/cifar-10-batches-bin", "."),
    CIFAR("cifar100", "cifar-100", "train.bin", "train.bin and test.bin",
          "cifar-100-binary", "cifar100", "cifar100/cifar-100-binary", "."),
    {"shakespeare", "", &hd__format_text, "input.txt", "input.txt", "",
     {"shakespeare", "shakespeare_char", "tinyshakespeare"}},
};
/* clang-format on */

static const published *set_of(const char *name) {
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (!strcmp(name, sets[i].name) || (*name && !strcmp(name, sets[i].alias)))
      return &sets[i];
  return NULL;
}

bool hd__dataset_is_published(const char *name) { return set_of(name) != NULL; }

/* IDX files may be packed, or have a dot in their names. */
static bool holds(const published *set, const char *folder) {
  char path[HD_PATH_BYTES];
  if (set->format == &hd__format_idx)
    return hd__idx_find(path, folder, set->first);
  return snprintf(path, sizeof path, "%s/%s", folder, set->first) < HD_PATH_BYTES && hd__file_exists(path);
}

static bool find_below(char out[HD_PATH_BYTES], const published *set, const char *place) {
  for (int i = 0; set->folders[i]; i++) {
    const bool itself = !strcmp(set->folders[i], ".");
    const int length = snprintf(out, HD_PATH_BYTES, "%s%s%s", place, itself ? "" : "/", itself ? "" : set->folders[i]);
    if (length < HD_PATH_BYTES && holds(set, out))
      return true;
  }
  return false;
}

static hd_status find(char out[HD_PATH_BYTES], hd_ctx *ctx, const published *set, const char *data_dir) {
  char cache[HD_PATH_BYTES] = "", system[HD_PATH_BYTES];
  const char *home = getenv("HOME"), *root = getenv("HEDDLE_SYSROOT");
  if (home)
    snprintf(cache, sizeof cache, "%s/.cache/heddle", home);
  snprintf(system, sizeof system, "%s/usr/share/datasets", root ? root : "");
  const char *const place[PLACES] = {data_dir, getenv("HEDDLE_DATA"), cache, system};
  for (int i = 0; i < PLACES; i++)
    if (place[i] && *place[i] && find_below(out, set, place[i]))
      return HD_OK;
  const char *shown = *cache ? cache : "~/.cache/heddle";
  return hd__fail(ctx, HD_E_IO,
                  "expected the data set '%s' under --data-dir, $HEDDLE_DATA, %s or %s, found none; run heddle get %s, "
                  "or put %s into %s/%s%s",
                  set->name, shown, system, set->name, set->files, shown, set->folders[0], set->package);
}

static bool takes(hd_ctx *ctx, const char *name) { return hd__dataset_is_published(name); }

static hd_status open_named(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  const published *set = set_of(request->name);
  char folder[HD_PATH_BYTES], file[HD_PATH_BYTES];
  hd_dataset_request there = *request;
  HD_TRY(find(folder, ctx, set, request->data_dir));
  if (set->format == &hd__format_text)
    HD_TRY(hd__file_join(file, ctx, folder, set->first));
  there.name = set->format == &hd__format_text ? file : folder;
  out->format = set->format;
  return set->format->open(out, ctx, &there);
}

const hd_format hd__format_named = {.name = "a published data set",
                                    .takes = takes,
                                    .open = open_named,
                                    .names = {"mnist", "fashion", "cifar10", "cifar100", "shakespeare"}};
