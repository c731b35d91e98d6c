/* The checkpoints of a run's folder: see step_folders.h. */
#include "train/checkpoint/step_folders.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/number.h"

enum { NAME_BYTES = 48 };

static const char *step_name(char name[NAME_BYTES], int64_t step) {
  snprintf(name, NAME_BYTES, "step-%lld", (long long)step);
  return name;
}

bool hd__steps_parse(int64_t *step, const char *name) {
  char canonical[NAME_BYTES];
  return !strncmp(name, "step-", 5) && hd__parse_int64(step, name + 5) && !strcmp(step_name(canonical, *step), name);
}

static const char *const file_names[] = {"model.safetensors", "state.safetensors", "run.json"};

enum { FILES = sizeof file_names / sizeof *file_names };

bool hd__steps_is_file(const char *name) {
  for (int i = 0; i < FILES; i++)
    if (!strcmp(name, file_names[i]))
      return true;
  return false;
}

bool hd__steps_names(const char *name) {
  int64_t step;
  return !strcmp(name, "last") || !strcmp(name, "best") || hd__steps_parse(&step, name);
}

bool hd__steps_is_whole(const char *path) {
  char file[HD_PATH_BYTES];
  bool is = hd__file_holds_only(path, hd__steps_is_file);
  for (int i = 0; i < FILES && is; i++)
    is = hd__file_join(file, NULL, path, file_names[i]) == HD_OK && hd__file_exists(file);
  return is;
}

hd_status hd__steps_path(char path[HD_PATH_BYTES], hd_ctx *ctx, const char *run, int64_t step) {
  char name[NAME_BYTES];
  return hd__file_join(path, ctx, run, step_name(name, step));
}

bool hd__steps_has(const char *run, int64_t step) {
  char folder[HD_PATH_BYTES], record[HD_PATH_BYTES];
  return hd__steps_path(folder, NULL, run, step) == HD_OK && hd__file_join(record, NULL, folder, "run.json") == HD_OK &&
         hd__file_exists(record);
}

hd_status hd__steps_link(hd_ctx *ctx, const char *run, const char *link, int64_t step) {
  char name[NAME_BYTES], path[HD_PATH_BYTES];
  HD_TRY(hd__file_join(path, ctx, run, link));
  return hd__file_link(ctx, step_name(name, step), path);
}

static int by_step(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int64_t *hd__steps_list(int *count, const char *run) {
  char path[HD_PATH_BYTES];
  int64_t *steps = NULL, step;
  HD_FOLDER_OWNED *folder = opendir(run);
  struct dirent *entry;
  *count = 0;
  while (folder && (entry = readdir(folder))) {
    if (!hd__steps_parse(&step, entry->d_name) || hd__steps_path(path, NULL, run, step) != HD_OK ||
        !hd__steps_is_whole(path))
      continue;
    int64_t *more = hd__realloc(steps, (size_t)(*count + 1) * sizeof *steps);
    if (!more)
      break;
    steps = more;
    steps[(*count)++] = step;
  }
  if (steps)
    qsort(steps, (size_t)*count, sizeof *steps, by_step);
  return steps;
}

int64_t hd__steps_newest(const char *run) {
  int count;
  HD_OWNED int64_t *step = hd__steps_list(&count, run);
  return count > 0 ? step[count - 1] : -1;
}

hd_status hd__steps_resumed(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *run) {
  HD_TRY(hd__file_join(out, ctx, run, "last"));
  const bool has_last = hd__file_exists(out);
  const int64_t newest = has_last ? -1 : hd__steps_newest(run);
  snprintf(out, HD_PATH_BYTES, "%s", has_last ? run : "");
  return newest < 0 ? HD_OK : hd__steps_path(out, ctx, run, newest);
}

int64_t hd__steps_linked(const char *run, const char *link) {
  char path[HD_PATH_BYTES], name[64];
  int64_t step;
  const ssize_t length = hd__file_join(path, NULL, run, link) == HD_OK ? readlink(path, name, sizeof name - 1) : -1;
  name[length > 0 ? length : 0] = 0;
  return hd__steps_parse(&step, name) ? step : -1;
}

void hd__steps_remove(const char *folder) {
  char path[HD_PATH_BYTES];
  hd__file_remove_folder(folder);
  for (int i = 0; i < FILES; i++)
    if (hd__file_join(path, NULL, folder, file_names[i]) == HD_OK)
      unlink(path);
  rmdir(folder);
}
