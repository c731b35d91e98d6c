/* A folder of NPY files: x_train.npy and the others, as named_arrays.h names them. */
#include "data/formats/formats.h"
#include "data/formats/named_arrays.h"

#include <stdio.h>

static bool has(const void *folder, const char *name) {
  char path[HD_PATH_BYTES];
  return snprintf(path, sizeof path, "%s/%s.npy", (const char *)folder, name) < HD_PATH_BYTES && hd__file_exists(path);
}

static hd_status read_file(hd_named_array *out, hd_ctx *ctx, const void *folder, const char *name) {
  char file[32];
  snprintf(file, sizeof file, "%s.npy", name);
  HD_TRY(hd__file_join(out->name, ctx, folder, file));
  HD_TRY(hd__file_map(&out->mapping, ctx, out->name));
  return hd__npy_parse(&out->npy, ctx, out->name, out->mapping.bytes, out->mapping.length);
}

static hd_named_arrays arrays_of(const char *path) {
  return (hd_named_arrays){.path = path, .self = path, .has = has, .read = read_file};
}

static bool takes(hd_ctx *ctx, const char *path) {
  const hd_named_arrays arrays = arrays_of(path);
  return hd__arrays_there(&arrays);
}

static hd_status open_folder(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  const hd_named_arrays arrays = arrays_of(request->name);
  return hd__arrays_open(out, ctx, &arrays, request);
}

const hd_format hd__format_npy = {
    .name = "a folder of NPY files", .takes = takes, .open = open_folder, .folder = "of NPY files (x_train.npy, ...)"};
