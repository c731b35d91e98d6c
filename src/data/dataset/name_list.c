/* Lists of names of files: see name_list.h. */
#include "data/dataset/name_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset/format.h"
#include "platform/file.h"

bool hd__grow(void *array, int64_t count, int64_t *room, size_t bytes) {
  void *old;
  memcpy(&old, array, sizeof old);
  if (count < *room)
    return true;
  const int64_t more = *room ? 2 * *room : 16;
  void *larger = hd__realloc(old, (size_t)more * bytes);
  if (!larger)
    return false;
  memcpy(array, &larger, sizeof larger);
  *room = more;
  return true;
}

void hd__name_list_fini(hd_name_list *list) {
  for (int64_t i = 0; i < list->count; i++)
    hd__free(list->text[i]);
  hd__free(list->text);
  *list = (hd_name_list){0};
}

bool hd__name_list_add(hd_name_list *list, const char *name) {
  if (!hd__grow(&list->text, list->count, &list->room, sizeof *list->text) ||
      !(list->text[list->count] = hd__strdup(name)))
    return false;
  list->count++;
  return true;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void hd__name_list_sort(hd_name_list *list) {
  if (list->count > 0)
    qsort(list->text, (size_t)list->count, sizeof *list->text, by_bytes);
}

hd_status hd__name_list_read(hd_name_list *out, hd_ctx *ctx, const char *path) {
  HD_FOLDER_OWNED *folder = opendir(path);
  if (!folder)
    return hd__fail(ctx, HD_E_IO, "%s: cannot read the folder: %s; check its permissions", path, strerror(errno));
  errno = 0;
  for (struct dirent *entry = NULL; (entry = readdir(folder)); errno = 0)
    if (entry->d_name[0] != '.' && !hd__name_list_add(out, entry->d_name))
      return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for the names in the folder", path);
  if (errno != 0)
    return hd__file_error(ctx, path, "read the folder");
  hd__name_list_sort(out);
  return HD_OK;
}

bool hd__is_picture(const char *name) {
  return hd__path_ends(name, ".png") || hd__path_ends(name, ".jpg") || hd__path_ends(name, ".jpeg");
}
