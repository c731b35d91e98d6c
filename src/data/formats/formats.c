/* Opening a data set: the table of formats, and what is said if none accepts a name; see formats.h. */
#include "data/formats/formats.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "base/nearest.h"
#include "base/text_buffer.h"
#include "data/dataset/dataset_finish.h"
#include "platform/file.h"

static const hd_format *const formats[] = {
#define FORMAT(name) &hd__format_##name,
#include "data/formats/formats.def"
};
enum { FORMATS = sizeof formats / sizeof *formats, LIST_BYTES = 512 };

/* ---- A name or path that no format accepts ---- */

/* What the formats have in a field, a text: "A, B, or C", with `last` before C. */
static void list_texts(char list[LIST_BYTES], size_t field, const char *last) {
  hd_line line = {list, LIST_BYTES, 0};
  const char *held = NULL; /* written when it is known whether it is the last one */
  for (int i = 0; i < FORMATS; i++) {
    const char *text;
    memcpy(&text, (const char *)formats[i] + field, sizeof text);
    if (text && held)
      hd__line_add(&line, "%s%s", line.length ? ", " : "", held);
    held = text ? text : held;
  }
  hd__line_add(&line, "%s%s", last, held);
}

/* Names, the nearest of which may be meant; one that stands for many, "random:CxHxW", is not offered. */
static void list_names(char list[LIST_BYTES], hd_nearest *nearest) {
  hd_line line = {list, LIST_BYTES, 0};
  for (int i = 0; i < FORMATS; i++)
    for (const char *const *name = formats[i]->names; *name; name++) {
      hd__line_add(&line, "%s, ", *name);
      if (!strchr(*name, ':'))
        hd__nearest_try(nearest, *name);
    }
}

/* A file that no format accepts, or a mistyped name. */
static hd_status refuse_name(hd_ctx *ctx, const char *name) {
  hd_nearest nearest = {.word = name};
  char names[LIST_BYTES], files[LIST_BYTES], remedy[64] = "check the path";
  if (strlen(name) > 4 && hd__path_ends(name, ".tsv") && hd__file_exists(name))
    return hd__fail(ctx, HD_E_IO, "%s: expected a .csv file with commas, found one separated by tabs; write commas",
                    name);
  list_names(names, &nearest);
  list_texts(files, offsetof(hd_format, file), " or ");
  if (nearest.name)
    snprintf(remedy, sizeof remedy, "did you mean %s?", nearest.name);
  return hd__fail(ctx, HD_E_IO, "expected %sa data folder, %s file as --data, found '%s', which is none of these; %s",
                  names, files, name, remedy);
}

static hd_status refuse_folder(hd_ctx *ctx, const char *path) {
  char folders[LIST_BYTES];
  list_texts(folders, offsetof(hd_format, folder), ", or ");
  return hd__fail(ctx, HD_E_IO, "%s: expected a folder %s, found none of them; check the path", path, folders);
}

/* ---- Opening ---- */

static hd_status find_format(const hd_format **out, hd_ctx *ctx, const char *name) {
  for (int i = 0; i < FORMATS; i++)
    if (formats[i]->takes(ctx, name)) {
      *out = formats[i];
      return HD_OK;
    }
  return hd__file_is_folder(name) ? refuse_folder(ctx, name) : refuse_name(ctx, name);
}

static hd_status open_all(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request) {
  data->name = hd__strdup(request->name);
  HD_TRY(HD_ALLOCATED(data->name, ctx, "out of memory for the data set"));
  data->first_rules = request->first_rules;
  data->fold = request->fold;
  data->whole = request->whole;
  HD_TRY(find_format(&data->format, ctx, request->name));
  HD_TRY(data->format->open(data, ctx, request));
  return hd__dataset_finish(data, ctx, request);
}

hd_status hd__dataset_open(hd_dataset **out, hd_ctx *ctx, const hd_dataset_request *request) {
  hd_dataset *data = *out = hd__calloc(1, sizeof *data);
  HD_TRY(HD_ALLOCATED(data, ctx, "out of memory for the data set"));
  hd_status status = open_all(data, ctx, request);
  if (status == HD_OK)
    HD_LOG(DATA, "%s opened, %s: %lld training and %lld test samples", data->name, data->format->name,
           (long long)data->split[0].count, (long long)data->split[1].count);
  return HD_CREATED(status, out, hd__dataset_close);
}
