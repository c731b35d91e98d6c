/* Reading, writing and digesting safetensors; see safetensors.h. Assumes a little-endian machine, as all
 * targets are. */
#include "base/safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/half.h"
#include "base/json_text.h"

static const struct {
  const char *name;
  size_t bytes;
} types[] = {{"F32", 4}, {"F64", 8}, {"I64", 8}, {"F16", 2}, {"BF16", 2}, {"U8", 1}, {"BOOL", 1}};

enum { TYPES = sizeof types / sizeof *types };

const char *hd__st_type_text(hd_st_type type) { return types[type].name; }

static hd_status out_of_memory(hd_ctx *ctx, const char *path) {
  return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory", path);
}

static json_t *describe(const hd_st_tensor *t, size_t at) {
  json_t *shape = json_array();
  for (int i = 0; i < t->shape.rank; i++)
    json_array_append_new(shape, json_integer(t->shape.dim[i]));
  return json_pack("{s:s, s:o, s:[I,I]}", "dtype", types[t->type].name, "shape", shape, "data_offsets", (json_int_t)at,
                   (json_int_t)(at + t->length));
}

static json_t *make_header(const hd_st_tensor *tensor, int count) {
  json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
  json_t *metadata = json_object_get(header, "__metadata__");
  int failed = 0;
  size_t at = 0;
  for (int i = 0; header && i < count; i++) {
    if (tensor[i].same_as) {
      failed |= json_object_set_new(metadata, tensor[i].name, json_string(tensor[i].same_as));
      continue;
    }
    failed |= json_object_set_new(header, tensor[i].name, describe(&tensor[i], at));
    at += tensor[i].length;
  }
  if (!failed)
    return header;
  json_decref(header);
  return NULL;
}

/* Passes a tensor's bytes to `take`, block by block if they are not in this process. */
static hd_status take_bytes(const hd_st_tensor *t, hd_ctx *ctx, void take(void *, const void *, size_t), void *to) {
  enum { BLOCK_BYTES = 1 << 20 };
  if (!t->source) {
    take(to, t->bytes, t->length);
    return HD_OK;
  }
  HD_OWNED char *block = hd__malloc(BLOCK_BYTES);
  HD_TRY(HD_ALLOCATED(block, ctx, "out of memory for another host's tensor"));
  for (size_t at = 0, some; at < t->length; at += some) {
    some = t->length - at < BLOCK_BYTES ? t->length - at : BLOCK_BYTES;
    HD_TRY(t->source->read(t->source->self, ctx, block, (const char *)t->bytes + at, some));
    take(to, block, some);
  }
  return HD_OK;
}

static void write_bytes(void *to, const void *bytes, size_t length) { fwrite(bytes, 1, length, to); }

hd_status hd__st_write(FILE *to, hd_ctx *ctx, const char *path, const hd_st_tensor *tensor, int count) {
  json_t *header = make_header(tensor, count);
  char *text = header ? hd__json_dump(header, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
  json_decref(header);
  if (!text)
    return out_of_memory(ctx, path);
  uint64_t length = strlen(text), padded = (length + 7) / 8 * 8;
  fwrite(&padded, sizeof padded, 1, to);
  fprintf(to, "%s%*s", text, (int)(padded - length), "");
  free(text);
  for (int i = 0; i < count; i++)
    if (!tensor[i].same_as)
      HD_TRY(take_bytes(&tensor[i], ctx, write_bytes, to));
  if (fflush(to) != 0 || ferror(to))
    return hd__fail(ctx, HD_E_IO, "%s: cannot write it: %s; free some space or choose another folder", path,
                    strerror(errno));
  return HD_OK;
}

static hd_status bad(hd_ctx *ctx, const char *path, const char *name, const char *expected, const char *found) {
  return hd__fail(ctx, HD_E_FORMAT, "%s: tensor '%s': expected %s, found %s; the file is damaged or not safetensors",
                  path, name, expected, found);
}

static hd_status read_shape(hd_st_tensor *t, hd_ctx *ctx, const char *path, const json_t *shape) {
  const int64_t most = INT64_C(1) << 40;
  if (!json_is_array(shape) || json_array_size(shape) > HD_MAX_DIMS)
    return bad(ctx, path, t->name, "a shape of at most 4 dimensions", json_is_array(shape) ? "more" : "none");
  int64_t elems = 1;
  t->shape.rank = (int32_t)json_array_size(shape);
  for (int i = 0; i < t->shape.rank; i++) {
    json_int_t dim = json_integer_value(json_array_get(shape, (size_t)i)); /* 0 if not an integer */
    char found[64];
    snprintf(found, sizeof found, "%lld as dimension %d", (long long)dim, i);
    if (dim < 1 || dim > INT32_MAX || dim > most / elems)
      return bad(ctx, path, t->name, "dimensions from 1 up to 2^40 elements in all", found);
    t->shape.dim[i] = (int32_t)dim;
    elems *= dim;
  }
  t->length = (size_t)elems * types[t->type].bytes;
  return HD_OK;
}

/* What follows the header of a file. */
typedef struct file_data {
  const char *path;
  const unsigned char *data;
  size_t length;
} file_data;

/* Two offsets inside the data whose difference is the tensor's length. */
static hd_status read_offsets(hd_st_tensor *t, hd_ctx *ctx, const file_data *file, const json_t *offsets) {
  const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second))
    return bad(ctx, file->path, t->name, "two whole numbers as data_offsets", "others");
  json_int_t begin = json_integer_value(first), end = json_integer_value(second);
  char expected[80], found[80];
  snprintf(expected, sizeof expected, "data_offsets from 0 to %zu", file->length);
  snprintf(found, sizeof found, "[%lld,%lld]", (long long)begin, (long long)end);
  if (begin < 0 || end < begin || (uint64_t)end > file->length)
    return bad(ctx, file->path, t->name, expected, found);
  snprintf(expected, sizeof expected, "data_offsets %zu bytes apart, as the shape says", t->length);
  if ((size_t)(end - begin) != t->length)
    return bad(ctx, file->path, t->name, expected, found);
  t->bytes = file->data + begin;
  return HD_OK;
}

static hd_status read_entry(hd_st_tensor *t, hd_ctx *ctx, const file_data *file, const char *name,
                            const json_t *entry) {
  t->name = hd__strdup(name);
  if (!t->name)
    return out_of_memory(ctx, file->path);
  const char *type = json_string_value(json_object_get(entry, "dtype"));
  int found = -1;
  for (int i = 0; type && i < TYPES; i++)
    if (!strcmp(types[i].name, type))
      found = i;
  if (!type)
    return bad(ctx, file->path, name, "a dtype", "none");
  if (found < 0)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: tensor '%s': expected dtype F32, F64, F16, BF16, I64, U8 or BOOL, found %s; save it as F32",
                    file->path, name, type);
  t->type = (hd_st_type)found;
  HD_TRY(read_shape(t, ctx, file->path, json_object_get(entry, "shape")));
  return read_offsets(t, ctx, file, json_object_get(entry, "data_offsets"));
}

static int by_offset(const void *a, const void *b) {
  const hd_st_tensor *x = a, *y = b;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Tensors must follow each other without gaps and fill the file. */
static hd_status check_layout(const hd_st_list *list, hd_ctx *ctx, const file_data *file) {
  HD_OWNED hd_st_tensor *sorted = hd__malloc((size_t)(list->count + 1) * sizeof *sorted);
  if (!sorted)
    return out_of_memory(ctx, file->path);
  memcpy(sorted, list->tensor, (size_t)list->count * sizeof *sorted);
  qsort(sorted, (size_t)list->count, sizeof *sorted, by_offset);
  size_t at = 0;
  for (int i = 0; i < list->count; i++) {
    if ((const unsigned char *)sorted[i].bytes != file->data + at)
      return bad(ctx, file->path, sorted[i].name, "tensors without gaps or overlaps", "one");
    at += sorted[i].length;
  }
  if (at != file->length)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected %zu bytes of tensors, found %zu; the file is damaged", file->path,
                    at, file->length);
  return HD_OK;
}

static hd_status read_header(hd_st_list *out, hd_ctx *ctx, const file_data *file, json_t *header) {
  const char *name;
  json_t *entry;
  out->tensor = hd__calloc(json_object_size(header) + 1, sizeof *out->tensor);
  if (!out->tensor)
    return out_of_memory(ctx, file->path);
  json_object_foreach(header, name, entry) {
    if (!strcmp(name, "__metadata__"))
      continue;
    HD_TRY(read_entry(&out->tensor[out->count++], ctx, file, name, entry));
  }
  return check_layout(out, ctx, file);
}

hd_status hd__st_parse(hd_st_list *out, hd_ctx *ctx, const char *path, const unsigned char *bytes, size_t length) {
  *out = (hd_st_list){0};
  uint64_t header_length = 0;
  if (length >= 8)
    memcpy(&header_length, bytes, 8);
  if (length < 8 || header_length > length - 8 || header_length > 64 << 20)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected a safetensors header, found %zu bytes without one; the file is truncated or of another format",
        path, length);
  json_error_t error;
  json_auto_t *header = json_loadb((const char *)bytes + 8, (size_t)header_length, JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object(header))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a JSON header, found: %s; the file is damaged or of another format",
                    path, header ? "not an object" : error.text);
  const file_data file = {path, bytes + 8 + header_length, length - 8 - (size_t)header_length};
  hd_status status = read_header(out, ctx, &file, header);
  if (status != HD_OK)
    hd__st_fini(out);
  return status;
}

void hd__st_fini(hd_st_list *list) {
  for (int i = 0; i < list->count; i++)
    hd__free(list->tensor[i].name);
  hd__free(list->tensor);
  *list = (hd_st_list){0};
}

const hd_st_tensor *hd__st_find(const hd_st_list *list, const char *name) {
  for (int i = 0; i < list->count; i++)
    if (!strcmp(list->tensor[i].name, name))
      return &list->tensor[i];
  return NULL;
}

bool hd__st_is_float(const hd_st_tensor *t) {
  return t->type != HD_ST_I64 && t->type != HD_ST_U8 && t->type != HD_ST_BOOL;
}

bool hd__st_floats(float *out, const hd_st_tensor *t) {
  const char *from = t->bytes;
  const size_t each = types[t->type].bytes;
  for (size_t i = 0; i < t->length / each; i++, from += each) {
    uint16_t half;
    double real;
    switch (t->type) {
    case HD_ST_F32: memcpy(&out[i], from, sizeof *out); break;
    case HD_ST_F64: memcpy(&real, from, sizeof real), out[i] = (float)real; break;
    case HD_ST_F16: memcpy(&half, from, sizeof half), out[i] = hd__from_half(half); break;
    case HD_ST_BF16: memcpy(&half, from, sizeof half), out[i] = hd__from_bfloat16(half); break;
    case HD_ST_I64:
    case HD_ST_U8:
    case HD_ST_BOOL: return false;
    }
  }
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(const hd_st_tensor *const *)a)->name, (*(const hd_st_tensor *const *)b)->name);
}

static void digest_bytes(void *sha, const void *bytes, size_t length) { hd__sha256_update(sha, bytes, length); }

static hd_status digest_tensor(hd_sha256 *sha, hd_ctx *ctx, const hd_st_tensor *t) {
  hd__sha256_update(sha, t->name, strlen(t->name) + 1);
  const char *type = hd__st_type_text(t->type);
  hd__sha256_update(sha, type, strlen(type) + 1);
  char shape[HD_SHAPE_TEXT_BYTES] = "";
  for (int i = 0, at = 0; i < t->shape.rank; i++)
    at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%d", i ? "," : "", t->shape.dim[i]);
  hd__sha256_update(sha, shape, strlen(shape) + 1);
  return take_bytes(t, ctx, digest_bytes, sha);
}

hd_status hd__st_digest(char hex[65], hd_ctx *ctx, const hd_st_list *list) {
  HD_OWNED const hd_st_tensor **sorted = hd__malloc((size_t)(list->count + 1) * sizeof *sorted);
  hd_sha256 *sha = sorted ? hd__sha256_create() : NULL;
  HD_TRY(HD_ALLOCATED(sha, ctx, "out of memory for the digest"));
  for (int i = 0; i < list->count; i++)
    sorted[i] = &list->tensor[i];
  qsort(sorted, (size_t)list->count, sizeof *sorted, by_name);
  hd_status status = HD_OK;
  for (int i = 0; i < list->count && status == HD_OK; i++)
    if (!sorted[i]->same_as)
      status = digest_tensor(sha, ctx, sorted[i]);
  hd__sha256_finish(sha, hex);
  return status;
}
