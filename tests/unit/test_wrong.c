/* The sheet of mistakes draws every kind of sample: grey, in colours, floats, and pictures of different sizes. */
#include "scratch.h"

#include "data/images/contact_sheet.h"
#include "data/images/image_file.h"
#include "platform/file.h"

enum { LEFT = 10, TOP = 34, SIDE = 84 }; /* of the first picture on a sheet */

static hd_ctx *ctx;
static hd_picture sheet;

static void draw(const hd_split *split) {
  const hd_mistake mistake = {.label = 1, .guess = 2, .confidence = 0.5f, .index = split->count - 1};
  hd_mapping map = {0};
  const char *path = in_scratch("wrong.png");
  hd__picture_fini(&sheet);
  sheet = (hd_picture){0};
  hd_status status = hd__picture_mistakes(ctx, path, &mistake, 1, 1, split->count, split);
  if (status == HD_OK)
    status = hd__file_map(&map, ctx, path);
  if (status == HD_OK)
    status = hd__png_parse(&sheet, ctx, &(hd_picture_file){path, map.bytes, map.length});
  ok(status == HD_OK, "a sheet is drawn and is a picture: %s", status == HD_OK ? "" : hd_ctx_message(ctx));
  hd__file_unmap(&map);
}

static int shows(int x, int y, int r, int g, int b) {
  if (!sheet.rgba)
    return 0;
  const uint8_t *at = sheet.rgba + 4 * ((size_t)(TOP + y) * (size_t)sheet.width + (size_t)(LEFT + x));
  return at[0] == r && at[1] == g && at[2] == b;
}

/* A wide sample of three channels that lies nowhere in memory. */
static hd_status get_wide(void *elems, int size[2], hd_ctx *c, const hd_split *split, int64_t sample) {
  static const uint8_t wide[] = {1, 2, 3, 4, 5, 6};
  memcpy(elems, wide, sizeof wide);
  size[0] = 1;
  size[1] = 2;
  return HD_OK;
}

int main(void) {
  static const uint8_t bytes[] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,   0,   0,
                                  10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};
  static const float floats[] = {-1, 0, 0.5f, 1};
  hd_ctx_create(&ctx);
  draw(&(hd_split){.count = 6, .channels = 1, .height = 2, .width = 2, .images = bytes});
  ok(shows(0, 0, 90, 90, 90) && shows(SIDE - 1, SIDE - 1, 120, 120, 120), "one channel is grey");
  draw(&(hd_split){.count = 2, .channels = 3, .height = 2, .width = 2, .images = bytes});
  ok(shows(0, 0, 10, 50, 90) && shows(SIDE - 1, 0, 20, 60, 100), "three channels are red, green and blue: above");
  ok(shows(0, SIDE - 1, 30, 70, 110) && shows(SIDE - 1, SIDE - 1, 40, 80, 120), "and below");
  draw(&(hd_split){.count = 1, .elem = HD_ELEM_F32, .channels = 1, .height = 2, .width = 2, .floats = floats});
  ok(shows(0, 0, 0, 0, 0) && shows(SIDE - 1, SIDE - 1, 255, 255, 255), "floats go from black to white");
  draw(&(hd_split){.count = 1, .channels = 3, .most_elems = 6, .get = get_wide});
  ok(shows(0, SIDE / 2, 1, 3, 5) && shows(SIDE - 1, SIDE / 2, 2, 4, 6), "a sample that must be read is drawn, too");
  ok(!shows(0, 0, 1, 3, 5) && !shows(0, SIDE - 1, 1, 3, 5), "and keeps its proportions");
  hd__picture_fini(&sheet);
  hd_ctx_destroy(ctx);
  return done_testing();
}
