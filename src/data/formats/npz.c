/* NPZ files, as numpy.savez and numpy.savez_compressed write them: zip archives of NPY files, read with libzip.
 *
 * A member is unpacked into exactly the size that its header declares, after a check against deflate's limit of 1032
 * bytes per packed byte. Checksums are verified by libzip at a member's end. */
#include "data/formats/formats.h"
#include "data/formats/named_arrays.h"

#ifdef HD_HAVE_LIBZIP

#include <string.h>
#include <zip.h>

#include "base/alloc.h"

typedef struct archive {
  const char *path;
  zip_t *zip;
  hd_mapping file;
} archive;

static bool has(const void *self, const char *name) {
  char member[32];
  snprintf(member, sizeof member, "%s.npy", name);
  return zip_name_locate(((const archive *)self)->zip, member, 0) >= 0;
}

HD_RELEASER(close_member, zip_file_t, zip_fclose)

static hd_status damaged(hd_ctx *ctx, const char *name, const char *why) {
  return hd__fail(ctx, HD_E_FORMAT, "%s: expected a whole member of a zip archive, found: %s; save the archive again",
                  name, why);
}

/* Reads up to `room` bytes, fewer only at the member's end. */
static hd_status read_some(int64_t *got, zip_file_t *from, hd_ctx *ctx, const char *name, uint8_t *to, int64_t room) {
  const int64_t most = 1 << 30;
  for (*got = 0; *got < room;) {
    const int64_t step = room - *got < most ? room - *got : most;
    const zip_int64_t n = zip_fread(from, to + *got, (zip_uint64_t)step);
    if (n < 0)
      return damaged(ctx, name, zip_file_strerror(from));
    if (n == 0)
      break;
    *got += n;
  }
  return HD_OK;
}

/* Unpacks the header, and then the declared elements. */
static hd_status unpack(hd_named_array *out, hd_ctx *ctx, zip_file_t *from, uint8_t *head, int64_t archive_bytes) {
  enum { MOST_PER_BYTE = 1040 };
  int64_t first, rest, more;
  size_t head_bytes;
  uint8_t behind;
  HD_TRY(read_some(&first, from, ctx, out->name, head, HD_NPY_MAX_HEAD));
  HD_TRY(hd__npy_head(&out->npy, &head_bytes, ctx, out->name, head, (size_t)first));
  const int64_t expected = out->npy.count * out->npy.elem_bytes, here = first - (int64_t)head_bytes;
  if (here > expected || (expected - here) / MOST_PER_BYTE > archive_bytes)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected %lld bytes after the header, found %s; save the array again",
                    out->name, (long long)expected, here > expected ? "more" : "an archive that cannot hold them");
  out->copy = hd__malloc(expected > 0 ? (size_t)expected : 1);
  HD_TRY(HD_ALLOCATED(out->copy, ctx, "%s: out of memory for %lld bytes", out->name, (long long)expected));
  memcpy(out->copy, head + head_bytes, (size_t)here);
  HD_TRY(read_some(&rest, from, ctx, out->name, out->copy + here, expected - here));
  HD_TRY(read_some(&more, from, ctx, out->name, &behind, 1));
  if (here + rest != expected || more > 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected %lld bytes after the header, found %s; save the array again",
                    out->name, (long long)expected, more > 0 ? "more" : "fewer");
  out->npy.bytes = out->copy;
  return HD_OK;
}

/* An archive may hold a name twice, and programs differ in which one they use. */
static hd_status check_single(const archive *a, hd_ctx *ctx, const char *name, const char *member) {
  const zip_int64_t count = zip_get_num_entries(a->zip, 0);
  int found = 0;
  for (zip_int64_t i = 0; i < count; i++) {
    const char *other = zip_get_name(a->zip, (zip_uint64_t)i, 0);
    found += other && !strcmp(other, member);
  }
  return found <= 1
             ? HD_OK
             : hd__fail(ctx, HD_E_FORMAT, "%s: expected one member %s, found %d of this name; save the archive again",
                        name, member, found);
}

static hd_status read_member(hd_named_array *out, hd_ctx *ctx, const void *self, const char *name) {
  const archive *a = self;
  char member[32];
  snprintf(member, sizeof member, "%s.npy", name);
  snprintf(out->name, sizeof out->name, "%.4000s: %s", a->path, name);
  HD_TRY(check_single(a, ctx, out->name, member));
  HD_RELEASED(close_member) zip_file_t *from = zip_fopen(a->zip, member, 0);
  if (!from)
    return damaged(ctx, out->name, zip_strerror(a->zip));
  HD_OWNED uint8_t *head = hd__malloc(HD_NPY_MAX_HEAD);
  HD_TRY(HD_ALLOCATED(head, ctx, "%s: out of memory while unpacking", out->name));
  return unpack(out, ctx, from, head, (int64_t)a->file.length);
}

static void close_archive(archive *a) {
  zip_discard(a->zip);
  hd__file_unmap(&a->file);
}

static hd_status open_archive(archive *a, hd_ctx *ctx) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source = zip_source_buffer_create(a->file.bytes, a->file.length, 0, &error);
  if (source)
    a->zip = zip_open_from_source(source, ZIP_RDONLY, &error);
  if (!a->zip)
    hd__fail(ctx, HD_E_FORMAT, "%s: expected a zip archive of NPY files, found: %s; save it with numpy.savez", a->path,
             zip_error_strerror(&error));
  if (!a->zip && source)
    zip_source_free(source);
  zip_error_fini(&error);
  return a->zip ? HD_OK : HD_E_FORMAT;
}

static hd_status open_file(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  HD_RELEASED(close_archive) archive a = {.path = request->name};
  const hd_named_arrays arrays = {.path = a.path, .self = &a, .has = has, .read = read_member};
  HD_TRY(hd__file_map(&a.file, ctx, a.path));
  HD_TRY(open_archive(&a, ctx));
  return hd__arrays_open(out, ctx, &arrays, request);
}

#else

static hd_status open_file(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "%s: expected a build with libzip for .npz files, found one without; install libzip-dev and build "
                  "again, or unpack it into a folder of .npy files",
                  request->name);
}

#endif

static bool takes(hd_ctx *ctx, const char *path) { return hd__path_ends(path, ".npz"); }

const hd_format hd__format_npz = {.name = "an .npz file", .takes = takes, .open = open_file, .file = "an .npz"};
