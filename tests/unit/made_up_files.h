/* The files of a made-up machine, in a folder that stands for its root. To be included behind scratch.h. */
#ifndef HD_TESTS_MADE_UP_FILES_H
#define HD_TESTS_MADE_UP_FILES_H

#include "scratch.h"

/* Makes the folder anew; its path. */
static const char *begin(void) {
  static char root[SCRATCH_PATH_BYTES];
  snprintf(root, sizeof root, "%s", in_scratch("root"));
  scratch_remove(root);
  mkdir(root, 0755);
  return root;
}

static void make_folder(const char *path) {
  char part[SCRATCH_PATH_BYTES];
  snprintf(part, sizeof part, "%s", path);
  for (char *at = part + 1; (at = strchr(at, '/')); *at++ = '/') {
    *at = 0;
    mkdir(part, 0755);
  }
  mkdir(part, 0755);
}

/* Puts a text into root/folder/name. */
static void put(const char *folder, const char *name, const char *text) {
  char path[SCRATCH_PATH_BYTES];
  snprintf(path, sizeof path, "%s%s%s", in_scratch("root"), *folder ? "/" : "", folder);
  make_folder(path);
  snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", name);
  put_file(path, text, strlen(text));
}

#endif
