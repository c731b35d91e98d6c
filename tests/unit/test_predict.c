/* Pictures as users have them: digits of the built-in test set, rendered to PNG files of other sizes, places, colours,
 * depths and layouts, must be recognised by a small trained network about as well as the set itself. Pictures that are
 * cut short, damaged or empty are refused in one line and leave nothing behind. */
#include <math.h>

#include "scratch.h"

#include <png.h>
#include <setjmp.h>
#include <stdint.h>

#ifdef HD_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

#include "data/digits/digits.h"
#include "data/images/image_file.h"
#include "heddle.h"

enum { SIDE = HD_DIGITS_SIDE, PIXELS = SIDE * SIDE, PICTURES = 200, MOST_SIDE = 400, ROOM = 1 << 20 };

/* How a picture is made: canvas, how much the digit is enlarged and where it goes, and how the file keeps it. */
typedef struct form {
  const char *name;
  int width, height, x, y;
  double scale;
  int type, depth, interlaced;
  int paper, ink;  /* grey */
  int transparent; /* the paper is */
} form;

static const form forms[] = {
    {"dark on white, 100x80", 100, 80, 30, 10, 2, PNG_COLOR_TYPE_GRAY, 8, 0, 255, 0, 0},
    {"white on black, 56x56", 56, 56, 0, 0, 2, PNG_COLOR_TYPE_GRAY, 8, 0, 0, 255, 0},
    {"RGBA on white, 300x400", 300, 400, 10, 90, 9, PNG_COLOR_TYPE_RGB_ALPHA, 8, 0, 255, 0, 0},
    {"RGBA, transparent paper", 120, 90, 50, 3, 2.5, PNG_COLOR_TYPE_RGB_ALPHA, 8, 0, 0, 0, 1},
    {"white ink on transparent paper", 90, 120, 3, 50, 2.5, PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0, 255, 255, 1},
    {"16 bits of grey, pale", 111, 77, 40, 5, 2.2, PNG_COLOR_TYPE_GRAY, 16, 0, 210, 120, 0},
    {"16 bits RGB, interlaced", 64, 200, 4, 100, 2, PNG_COLOR_TYPE_RGB, 16, 1, 255, 0, 0},
    {"palette, 8 bits", 80, 100, 10, 20, 2, PNG_COLOR_TYPE_PALETTE, 8, 0, 255, 0, 0},
    {"palette, 4 bits, interlaced", 100, 100, 40, 40, 2, PNG_COLOR_TYPE_PALETTE, 4, 1, 255, 0, 0},
    {"grey, 2 bits", 100, 80, 0, 0, 2.5, PNG_COLOR_TYPE_GRAY, 2, 0, 255, 0, 0},
    {"black and white, 1 bit", 150, 130, 20, 8, 4, PNG_COLOR_TYPE_GRAY, 1, 0, 255, 0, 0},
    {"small, 24x30", 24, 30, 0, 2, 0.85, PNG_COLOR_TYPE_GRAY, 8, 0, 0, 255, 0},
    {"its own size, dark on white", 28, 28, 0, 0, 1, PNG_COLOR_TYPE_GRAY, 8, 0, 255, 0, 0},
};
enum { FORMS = sizeof forms / sizeof *forms };

static hd_ctx *ctx;
static uint8_t *images, *labels;

/* The digit's ink at a place of the canvas, 0 to 1, by linear interpolation. */
static double ink_at(const uint8_t *image, const form *f, int x, int y) {
  double u = (x + 0.5 - f->x) / f->scale - 0.5, v = (y + 0.5 - f->y) / f->scale - 0.5, sum = 0;
  for (int row = (int)floor(v); row <= (int)floor(v) + 1; row++)
    for (int col = (int)floor(u); col <= (int)floor(u) + 1; col++)
      if (row >= 0 && row < SIDE && col >= 0 && col < SIDE)
        sum += image[row * SIDE + col] * (1 - fabs(u - col)) * (1 - fabs(v - row));
  return sum / 255;
}

static int channels_of(int type) {
  return type == PNG_COLOR_TYPE_RGB_ALPHA    ? 4
         : type == PNG_COLOR_TYPE_RGB        ? 3
         : type == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                             : 1;
}

static void fill_row(uint8_t *row, const uint8_t *image, const form *f, int y) {
  int channels = channels_of(f->type), colors = channels > 2 ? 3 : 1;
  memset(row, 0, (size_t)f->width * 8);
  for (int x = 0; x < f->width; x++) {
    double ink = ink_at(image, f, x, y), grey = f->transparent ? f->ink : f->paper + (f->ink - f->paper) * ink;
    for (int c = 0; c < channels; c++) {
      double value = c < colors ? grey / 255 : f->transparent ? ink : 1;
      int top = (1 << f->depth) - 1, level = (int)(value * top + 0.5), at = x * channels + c;
      if (f->depth == 16) {
        row[2 * at] = (uint8_t)(level >> 8);
        row[2 * at + 1] = (uint8_t)level;
      } else if (f->depth == 8) {
        row[at] = (uint8_t)level;
      } else {
        row[at * f->depth / 8] |= (uint8_t)(level << (8 - f->depth - at * f->depth % 8));
      }
    }
  }
}

static void write_picture(const char *path, const uint8_t *image, const form *f) {
  static uint8_t rows[MOST_SIDE][MOST_SIDE * 8];
  png_bytep row[MOST_SIDE];
  png_color palette[256];
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  FILE *file = fopen(path, "wb");
  if (!file || setjmp(png_jmpbuf(png)))
    bail_out("expected to write %s, found no way", path);
  png_init_io(png, file);
  png_set_IHDR(png, info, (png_uint_32)f->width, (png_uint_32)f->height, f->depth, f->type,
               f->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  int colors = f->depth < 8 ? 1 << f->depth : 256;
  for (int i = 0; i < colors; i++)
    palette[i].red = palette[i].green = palette[i].blue = (png_byte)(255 * i / (colors - 1));
  if (f->type == PNG_COLOR_TYPE_PALETTE)
    png_set_PLTE(png, info, palette, colors);
  png_write_info(png, info);
  for (int y = 0; y < f->height; y++) {
    fill_row(rows[y], image, f, y);
    row[y] = rows[y];
  }
  png_write_image(png, row);
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  fclose(file);
}

/* A small network trained for some seconds. */
static const char *train(void) {
  static const char *const pair[][2] = {
      {"model", "lenet5"}, {"max-steps", "400"}, {"log-every", "1000"}, {"lr", "0.002"}};
  const char *out = strdup(in_scratch("run"));
  hd_config *config;
  hd_session *session;
  hd_config_create(&config, ctx);
  for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
    hd_config_set(config, ctx, pair[i][0], pair[i][1]);
  hd_config_set(config, ctx, "out", out);
  if (hd_session_create(&session, ctx, config) != HD_OK || hd_session_train(session, ctx, NULL, NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  diag("accuracy on the test set: %.4f", hd_session_report(session)->test_accuracy);
  hd_session_destroy(session);
  hd_config_destroy(config);
  return out;
}

static void test_recognition(hd_predictor *predictor) {
  int right = 0, right_of[FORMS] = {0}, of[FORMS] = {0};
  for (int i = 0; i < PICTURES; i++) {
    const char *path = in_scratch("picture.png");
    double probability[10], sum = 0;
    write_picture(path, images + (size_t)i * PIXELS, &forms[i % FORMS]);
    if (hd_predict_picture(probability, predictor, ctx, path) != HD_OK) {
      fail("%s: %s", forms[i % FORMS].name, hd_ctx_message(ctx));
      continue;
    }
    for (int c = 0; c < 10; c++)
      sum += probability[c];
    if (fabs(sum - 1) > 1e-12)
      fail("probabilities sum to %.17g", sum);
    int good = hd_predict_class(probability, 10) == labels[i];
    right += good;
    right_of[i % FORMS] += good;
    of[i % FORMS]++;
  }
  for (int f = 0; f < FORMS; f++)
    diag("%-32s %d of %d", forms[f].name, right_of[f], of[f]);
  ok(right * 100 >= PICTURES * 95, "%d of %d pictures are recognised", right, PICTURES);
}

#ifdef HD_HAVE_TURBOJPEG

/* Photographs of digits: grey and in colour. */
static void test_jpeg(hd_predictor *predictor) {
  enum { SIDE_OF_PHOTO = 90, PHOTOS = 60 };
  static uint8_t pixels[SIDE_OF_PHOTO][SIDE_OF_PHOTO * 8];
  int right = 0;
  for (int i = 0; i < PHOTOS; i++) {
    const form f = {
        "", SIDE_OF_PHOTO, SIDE_OF_PHOTO, 10, 20, 2, i % 2 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, 8, 0, 240, 20,
        0};
    double probability[10];
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    tjhandle tj = tjInitCompress();
    for (int y = 0; y < SIDE_OF_PHOTO; y++)
      fill_row(pixels[y], images + (size_t)i * PIXELS, &f, y);
    if (tjCompress2(tj, pixels[0], SIDE_OF_PHOTO, sizeof pixels[0], SIDE_OF_PHOTO, i % 2 ? TJPF_RGB : TJPF_GRAY, &bytes,
                    &length, i % 2 ? TJSAMP_420 : TJSAMP_GRAY, 90, 0) != 0)
      bail_out("expected to pack a JPEG, found: %s", tjGetErrorStr2(tj));
    put_file(in_scratch("photo.jpg"), bytes, length);
    if (hd_predict_picture(probability, predictor, ctx, in_scratch("photo.jpg")) != HD_OK)
      fail("a JPEG: %s", hd_ctx_message(ctx));
    else
      right += hd_predict_class(probability, 10) == labels[i];
    put_file(in_scratch("cut.jpg"), bytes, length / 2);
    if (i == 0)
      refuses(hd_predict_picture(probability, predictor, ctx, in_scratch("cut.jpg")), HD_E_FORMAT, ctx, "",
              "cut.jpg: expected a whole JPEG picture", "one cut short");
    tjFree(bytes);
    tjDestroy(tj);
  }
  ok(right * 100 >= PHOTOS * 90, "%d of %d JPEG files are recognised", right, PHOTOS);
}

#endif

/* A picture of the input's size is the sample itself, whichever way round its colours are. */
static void test_own_size(hd_predictor *predictor) {
  double want[10], found[10];
  int32_t label;
  form f = {"28x28", SIDE, SIDE, 0, 0, 1, PNG_COLOR_TYPE_GRAY, 8, 0, 255, 0, 0};
  is_int(hd_predict_item(want, &label, predictor, ctx, 5), HD_OK, "an item of the data set");
  is_int(label, labels[5], "with its label");
  for (int dark = 0; dark < 2; dark++) {
    f.paper = dark ? 255 : 0;
    f.ink = 255 - f.paper;
    write_picture(in_scratch("own.png"), images + 5 * PIXELS, &f);
    is_int(hd_predict_picture(found, predictor, ctx, in_scratch("own.png")), HD_OK, "a picture of the input's size");
    is_bytes(found, want, sizeof want, "%s is the item, bit by bit", dark ? "dark on white" : "white on black");
  }
  double many[3 * 10];
  is_int(hd_predict_pixels(many, predictor, ctx, images + 4 * PIXELS, 3), HD_OK, "three samples at once");
  is_bytes(many + 10, want, sizeof want, "are predicted as one by one");
  float floats[2 * PIXELS];
  for (int i = 0; i < 2 * PIXELS; i++)
    floats[i] = (float)images[4 * PIXELS + i] / 255;
  is_int(hd_predict_floats(many, predictor, ctx, floats, 2), HD_OK, "two samples of floats");
  double apart = 0;
  for (int i = 0; i < 10; i++)
    apart = fmax(apart, fabs(many[10 + i] - want[i]));
  ok(apart < 1e-5, "are predicted as the bytes that they stand for, found %g apart", apart);
  refuses_at(hd_predict_item(want, NULL, predictor, ctx, 10000), HD_E_USAGE, ctx, "", "10000", "no such item");
}

/* An L of 3 by 6 blocks, anywhere and of any size: where it lands is computed by hand. */
static void test_fit(void) {
  enum { WIDTH = 90, HEIGHT = 70, BLOCK = 5 };
  static uint8_t rgba[WIDTH * HEIGHT * 4], out[PIXELS];
  memset(rgba, 255, sizeof rgba);
  for (int y = 0; y < 6 * BLOCK; y++)
    for (int x = 0; x < 3 * BLOCK; x++)
      if (x < BLOCK || y >= 5 * BLOCK)
        memset(rgba + 4 * ((y + 22) * WIDTH + x + 60), 0, 3);
  hd_picture picture = {WIDTH, HEIGHT, rgba};
  is_int(hd__fit_picture(out, ctx, "L", &picture, SIDE, SIDE), HD_OK, "an L is fitted");
  int left = SIDE, right = -1, top = SIDE, bottom = -1, most = 0;
  for (int i = 0; i < PIXELS; i++)
    if (out[i] > 0) {
      left = i % SIDE < left ? i % SIDE : left;
      right = i % SIDE > right ? i % SIDE : right;
      top = i / SIDE < top ? i / SIDE : top;
      bottom = i / SIDE;
      most = out[i] > most ? out[i] : most;
    }
  is_int(bottom - top + 1, 20, "its height fills the box");
  is_int(right - left + 1, 10, "its width keeps the proportion");
  is_int(most, 255, "its ink is full");
  /* Blocks at heights 0.5 .. 5.5 of 6, the lowest row three: the mean is (0.5 + 1.5 + 2.5 + 3.5 + 4.5 + 3 * 5.5) / 8
   * blocks = 3.625 of 6, so 12.08 of 20 from the top; across (6 * 0.5 + 1.5 + 2.5) / 8 = 0.875 of 3, 2.92 of 10. */
  is_int(top, 2, "its centre of mass is in the middle of the height");
  is_int(left, 11, "and of the width");
}

static size_t read_whole(uint8_t *bytes, const char *path) {
  FILE *file = fopen(path, "rb");
  size_t length = file ? fread(bytes, 1, ROOM, file) : 0;
  if (file)
    fclose(file);
  return length;
}

static void test_damage(void) {
  static uint8_t bytes[ROOM];
  const char *path = in_scratch("damaged.png");
  int bad = 0, refused = 0;
  write_picture(path, images, &forms[8]);
  size_t length = read_whole(bytes, path);
  hd_picture picture;
  hd__png_parse(&picture, ctx, &(hd_picture_file){path, bytes, 30});
  held before = held_now();
  for (size_t keep = 0; keep < length; keep++) {
    hd_status status = hd__png_parse(&picture, ctx, &(hd_picture_file){path, bytes, keep});
    bad += status != HD_E_FORMAT || picture.rgba || !strstr(hd_ctx_message(ctx), "found") ||
           strncmp(hd_ctx_message(ctx), path, strlen(path)) != 0;
  }
  is_int(bad, 0, "a file cut anywhere is refused");
  for (size_t at = 0; at < length; at++) {
    bytes[at] ^= 0x55;
    hd_status status = hd__png_parse(&picture, ctx, &(hd_picture_file){path, bytes, length});
    refused += status == HD_E_FORMAT;
    bad += status != HD_OK && status != HD_E_FORMAT && status != HD_E_UNSUPPORTED;
    hd__picture_fini(&picture);
    bytes[at] ^= 0x55;
  }
  is_int(bad, 0, "a byte changed anywhere is refused or harmless");
  ok(refused > (int)length / 2, "%d of %d are refused", refused, (int)length);
  holds_same(before, "nothing is left behind");
  static const uint8_t huge[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\0\0\0\0\0\0\0";
  refuses(hd__png_parse(&picture, ctx, &(hd_picture_file){"huge.png", huge, sizeof huge - 1}), HD_E_FORMAT, ctx,
          "huge.png", "save", "a header of 2^31 x 2^31 pixels");
  refuses(hd__png_parse(&picture, ctx, &(hd_picture_file){"x.jpg", (const uint8_t *)"\xff\xd8\xff\xe0 JFIF", 9}),
          HD_E_FORMAT, ctx, "x.jpg", "a JPEG", "a JPEG");
  refuses(hd__png_parse(&picture, ctx, &(hd_picture_file){"none.png", bytes, 0}), HD_E_FORMAT, ctx, "none.png", "empty",
          "an empty file");
}

int main(void) {
  hd_predictor *predictor;
  images = malloc((size_t)PICTURES * PIXELS);
  labels = malloc(PICTURES);
  if (!images || !labels || hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  hd__digits_render(images, labels, 1, 0, PICTURES);
  test_fit();
  test_damage();
  const char *run = train();
  if (hd_predictor_create(&predictor, ctx, run, NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  test_recognition(predictor);
  test_own_size(predictor);
#ifdef HD_HAVE_TURBOJPEG
  test_jpeg(predictor);
#endif
  hd_predictor_destroy(predictor);
  hd_ctx_destroy(ctx);
  free((void *)run);
  free(images);
  free(labels);
  return done_testing();
}
