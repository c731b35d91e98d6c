/* Names of classes: run.json has them and other data find a class by its name, so each is UTF-8 and has one class. */
#include "data/dataset/dataset_finish.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

static int compare(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

hd_status hd__dataset_check_names(const hd_dataset *data, hd_ctx *ctx) {
  const hd_split *train = &data->split[0];
  HD_OWNED const char **sorted = NULL;
  if (!train->class_names || train->window)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(sorted, train->classes + 1, ctx, "%s: out of memory for the names of classes", data->name));
  for (int32_t c = 0; c < train->classes; c++) {
    const char *name = sorted[c] = train->class_names[c];
    if (!name || !hd__utf8_is(name, strlen(name)))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected names of classes in UTF-8, found '%.100s' for class %d; rename it", data->name,
                      name ? name : "", c);
  }
  qsort(sorted, (size_t)train->classes, sizeof *sorted, compare);
  for (int32_t c = 1; c < train->classes; c++)
    if (!strcmp(sorted[c - 1], sorted[c]))
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected a name of its own for each class, found '%.100s' for two; rename one", data->name,
                      sorted[c]);
  return HD_OK;
}
