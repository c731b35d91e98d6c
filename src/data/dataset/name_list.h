/* Names of files: a list that grows, in the order of their bytes, and which of them are pictures. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/status.h"

typedef struct hd_name_list {
  char **text; /* `count` of them, owned */
  int64_t count, room;
} hd_name_list;

/* A list that ends with its scope; empty, {0}, when it is declared. */
#define HD_NAME_LIST HD_RELEASED(hd__name_list_fini) hd_name_list

void hd__name_list_fini(hd_name_list *list);

/* Adds a copy of a name; false: out of memory. */
bool hd__name_list_add(hd_name_list *list, const char *name);

void hd__name_list_sort(hd_name_list *list);

/* Fills an empty list with the names in a folder that do not begin with a dot, sorted. */
hd_status hd__name_list_read(hd_name_list *out, hd_ctx *ctx, const char *folder);

/* Makes room for one more element of `bytes` bytes in the array whose address `array` is; false: out of memory. */
bool hd__grow(void *array, int64_t count, int64_t *room, size_t bytes);

/* Whether a name ends as a picture's does: .png, .jpg or .jpeg. */
bool hd__is_picture(const char *name);
