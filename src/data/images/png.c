/* Reading PNG with libpng, which calls back for bytes, memory and errors. Errors longjmp to one place. */
#include "data/images/image_file.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { SIGNATURE_BYTES = 8, REASON_BYTES = 128, MAX_CHUNK_BYTES = 1 << 23 };

/* State of the callbacks. Rows are a field, since a local variable is indeterminate after longjmp. */
typedef struct reader {
  const uint8_t *bytes;
  size_t length, at;
  png_structp png;
  png_infop info;
  uint8_t *rgba;
  uint8_t *mask; /* the caller's, which gets numbers of pixels instead; NULL: none */
  const hd_palette *known;
  uint8_t **row;
  int width, height;
  int out_of_memory;
  char reason[REASON_BYTES];
} reader;

static void give_bytes(png_structp png, png_bytep to, size_t count) {
  reader *r = png_get_io_ptr(png);
  if (count > r->length - r->at)
    png_error(png, "the end of the file too early");
  memcpy(to, r->bytes + r->at, count);
  r->at += count;
}

static void fail(png_structp png, png_const_charp text) {
  reader *r = png_get_error_ptr(png);
  snprintf(r->reason, sizeof r->reason, "%s", text);
  png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp text) {}

/* Bounds libpng's allocations, which follow a chunk's claimed length; rows and its internal buffers are smaller than
 * the largest chunk. */
static png_voidp give_memory(png_structp png, png_alloc_size_t bytes) {
  if (bytes > MAX_CHUNK_BYTES)
    return NULL;
  void *memory = hd__malloc(bytes);
  if (!memory)
    ((reader *)png_get_mem_ptr(png))->out_of_memory = 1;
  return memory;
}

static void take_memory(png_structp png, png_voidp memory) { hd__free(memory); }

/* Converts every colour type to 8-bit RGBA. */
static void transform(reader *r) {
  png_set_expand(r->png); /* palettes, small bit depths, transparent colours */
  png_set_scale_16(r->png);
  png_set_gray_to_rgb(r->png);
  png_set_add_alpha(r->png, 0xff, PNG_FILLER_AFTER);
  png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
}

/* A byte for each pixel: its grey, or its place in the palette. */
static void keep_numbers(reader *r) {
  png_set_packing(r->png);
  png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
}

static void read_rows(reader *r) {
  size_t stride = (size_t)r->width * (r->mask ? 1 : 4);
  if (png_get_rowbytes(r->png, r->info) != stride)
    png_error(r->png, "rows of an unknown layout");
  if (!r->mask)
    r->rgba = hd__calloc((size_t)r->height, stride);
  r->row = hd__malloc((size_t)r->height * sizeof *r->row);
  if ((!r->rgba && !r->mask) || !r->row) {
    r->out_of_memory = 1;
    png_error(r->png, "no memory");
  }
  for (int y = 0; y < r->height; y++)
    r->row[y] = (r->mask ? r->mask : r->rgba) + (size_t)y * stride;
  png_read_image(r->png, r->row);
  png_read_end(r->png, NULL);
}

static hd_status set_up(reader *r, hd_ctx *ctx, const char *path) {
  r->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, fail, ignore, r, give_memory, take_memory);
  r->info = r->png ? png_create_info_struct(r->png) : NULL;
  HD_TRY(HD_ALLOCATED(r->info, ctx, "%s: out of memory for a picture", path));
  png_set_read_fn(r->png, r, give_bytes);
  png_set_user_limits(r->png, HD_PNG_MAX_SIDE, HD_PNG_MAX_SIDE);
  png_set_chunk_malloc_max(r->png, MAX_CHUNK_BYTES);
  png_set_chunk_cache_max(r->png, 128);
  return HD_OK;
}

/* Numbers of classes are grey or places in a palette, of one byte, in a picture of the wanted size. */
static hd_status check_mask(const reader *r, const int size[2], hd_ctx *ctx, const char *path) {
  const int type = png_get_color_type(r->png, r->info), depth = png_get_bit_depth(r->png, r->info);
  if ((type != PNG_COLOR_TYPE_GRAY && type != PNG_COLOR_TYPE_PALETTE) || depth > 8)
    return hd__fail(
        ctx, HD_E_FORMAT,
        "%s: expected the number of a class in each pixel, a grey PNG of 8 bits or one with a palette, found "
        "%s; convert it",
        path, depth > 8 ? "16 bits" : "colours");
  if (r->height != size[0] || r->width != size[1])
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a mask of %dx%d as its picture, found %dx%d; make them equal", path,
                    size[1], size[0], r->width, r->height);
  return HD_OK;
}

static bool same_color(const uint8_t a[3], png_color b) { return a[0] == b.red && a[1] == b.green && a[2] == b.blue; }

/* A place has the colour that it has in the palette known. */
static hd_status check_color(const reader *r, int place, png_color color, hd_ctx *ctx, const char *path) {
  const uint8_t *known = r->known->rgb[place];
  if (place >= r->known->count || same_color(known, color))
    return HD_OK;
  return hd__fail(
      ctx, HD_E_FORMAT,
      "%s: expected the colour #%02x%02x%02x in place %d of its palette, as the first mask of training has it, found "
      "#%02x%02x%02x: places are the numbers of classes; save all masks with one palette",
      path, known[0], known[1], known[2], place, color.red, color.green, color.blue);
}

/* Places beyond a palette have no colour, but 255 is no class. Those that are used have the colours known. */
static hd_status check_places(const reader *r, hd_ctx *ctx, const char *path) {
  enum { NO_CLASS = 255 };
  bool used[256] = {false};
  png_colorp color;
  int count = 0;
  if (png_get_color_type(r->png, r->info) != PNG_COLOR_TYPE_PALETTE || !png_get_PLTE(r->png, r->info, &color, &count))
    return HD_OK;
  for (int y = 0; y < r->height; y++)
    for (int x = 0; x < r->width; x++) {
      used[r->row[y][x]] = true;
      if (r->row[y][x] >= count && r->row[y][x] != NO_CLASS)
        return hd__fail(ctx, HD_E_FORMAT,
                        "%s: expected places in its palette of %d colour%s, or %d for no class, found %d in row %d, "
                        "column %d; save the mask again",
                        path, count, count == 1 ? "" : "s", NO_CLASS, r->row[y][x], y, x);
    }
  for (int place = 0; place < count; place++)
    if (used[place])
      HD_TRY(check_color(r, place, color[place], ctx, path));
  return HD_OK;
}

/* size: of the mask that is wanted; NULL: a picture is. */
static hd_status decode(reader *r, const int size[2], hd_ctx *ctx, const char *path) {
  HD_TRY(set_up(r, ctx, path));
  if (setjmp(png_jmpbuf(r->png))) {
    if (r->out_of_memory)
      return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for a picture", path);
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a whole PNG picture, found: %s; save the picture again", path,
                    r->reason);
  }
  png_read_info(r->png, r->info);
  r->width = (int)png_get_image_width(r->png, r->info);
  r->height = (int)png_get_image_height(r->png, r->info);
  if ((int64_t)r->width * r->height > HD_PNG_MAX_PIXELS)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected a picture of at most %d pixels, found %dx%d; make it smaller",
                    path, HD_PNG_MAX_PIXELS, r->width, r->height);
  if (size)
    HD_TRY(check_mask(r, size, ctx, path));
  if (size)
    keep_numbers(r);
  else
    transform(r);
  read_rows(r);
  return size ? check_places(r, ctx, path) : HD_OK;
}

/* The format of a file that is not PNG, for messages. */
static const char *kind_of(const hd_picture_file *file) {
  static const struct {
    const char *start, *kind;
  } known[] = {{"\xff\xd8\xff", "a JPEG"}, {"GIF8", "a GIF"}, {"BM", "a BMP"}, {"RIFF", "a WebP"}, {"%PDF", "a PDF"}};
  if (file->length == 0)
    return "an empty file";
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (file->length >= strlen(known[i].start) && !memcmp(file->bytes, known[i].start, strlen(known[i].start)))
      return known[i].kind;
  return "another format";
}

hd_status hd__png_parse(hd_picture *out, hd_ctx *ctx, const hd_picture_file *file) {
  *out = (hd_picture){0};
  if (file->length < SIGNATURE_BYTES || png_sig_cmp(file->bytes, 0, SIGNATURE_BYTES))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a PNG or JPEG picture, found %s; convert it", file->path,
                    kind_of(file));
  reader r = {.bytes = file->bytes, .length = file->length};
  hd_status status = decode(&r, NULL, ctx, file->path);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  hd__free(r.row);
  if (status == HD_OK)
    *out = (hd_picture){.width = r.width, .height = r.height, .rgba = r.rgba};
  else
    hd__free(r.rgba);
  return status;
}

hd_status hd__png_mask(uint8_t *out, const int size[2], const hd_palette *known, hd_ctx *ctx,
                       const hd_picture_file *file) {
  if (file->length < SIGNATURE_BYTES || png_sig_cmp(file->bytes, 0, SIGNATURE_BYTES))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a mask as PNG, found %s; convert it", file->path, kind_of(file));
  reader r = {.bytes = file->bytes, .length = file->length, .mask = out, .known = known};
  const hd_status status = decode(&r, size, ctx, file->path);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  hd__free(r.row);
  return status;
}

/* Fills the palette of the picture; false: it has none, or cannot be read. */
static bool read_palette(hd_palette *out, reader *r) {
  png_colorp color;
  int count = 0;
  if (setjmp(png_jmpbuf(r->png)))
    return false;
  png_read_info(r->png, r->info);
  if (png_get_color_type(r->png, r->info) != PNG_COLOR_TYPE_PALETTE || !png_get_PLTE(r->png, r->info, &color, &count))
    return false;
  for (int i = 0; i < count && i < 256; i++) {
    const uint8_t rgb[3] = {color[i].red, color[i].green, color[i].blue};
    memcpy(out->rgb[i], rgb, sizeof rgb);
    out->count = i + 1;
  }
  return true;
}

hd_status hd__png_palette(hd_palette *out, hd_ctx *ctx, const hd_picture_file *file) {
  reader r = {.bytes = file->bytes, .length = file->length};
  *out = (hd_palette){0};
  if (file->length < SIGNATURE_BYTES || png_sig_cmp(file->bytes, 0, SIGNATURE_BYTES))
    return HD_OK;
  hd_status status = set_up(&r, ctx, file->path);
  if (status == HD_OK && !read_palette(out, &r) && r.out_of_memory)
    status = hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for a picture", file->path);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return status;
}

void hd__picture_fini(hd_picture *picture) {
  hd__free(picture->rgba);
  *picture = (hd_picture){0};
}
