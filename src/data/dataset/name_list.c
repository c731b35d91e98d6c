/* Lists of names of files: see name_list.h. */
#include "data/dataset/name_list.h"

#include <stdlib.h>
#include <string.h>

#include "data/dataset/format.h"

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

bool hd__is_picture(const char *name) {
  return hd__path_ends(name, ".png") || hd__path_ends(name, ".jpg") || hd__path_ends(name, ".jpeg");
}
