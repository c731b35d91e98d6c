/* The built-in data set: the bits of all of it are constants here, any range can be drawn alone, every class has its
 * share; and a stroke text with a mistake is refused with the mistake's line. */
#include "scratch.h"

#include <pthread.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/embed.h"
#include "data/formats/dataset.h"
#include "data/digits/digits.h"
#include "data/digits/strokes.h"

enum { PIXELS = HD_DIGITS_SIDE * HD_DIGITS_SIDE, CLASSES = HD_DIGITS };

/* XXH3 of the training images and labels, then of the test ones. They change when a point in data/digits.strokes or
 * anything in the drawing does, and with them every digest in the documentation: that must be meant. */
static const uint64_t checksum[HD_DATA_PARTS] = {0x6f5dfb8c4b4a181d, 0x087415cc038f4a82, 0xe4249a965dfdfff4,
                                                 0xf1f422a4b5d0e022};
static const char *const part[HD_DATA_PARTS] = {"training images", "training labels", "test images", "test labels"};

static hd_ctx *ctx;

static void test_whole_set(const hd_data *data) {
  const hd_dataset *split[2] = {hd__data_train(data), hd__data_test(data)};
  static const int size[2] = {60000, 10000};
  for (int s = 0; s < 2; s++) {
    ok(split[s]->count == size[s] && split[s]->channels == 1 && split[s]->height == 28 && split[s]->width == 28 &&
           split[s]->classes == CLASSES,
       "%d %s of 28x28", size[s], part[2 * s]);
    for (int i = 2 * s; i < 2 * s + 2; i++) {
      static uint8_t label[60000];
      size_t bytes = (size_t)size[s] * (i % 2 ? 1 : PIXELS);
      for (int k = 0; k < size[s]; k++)
        label[k] = (uint8_t)split[s]->labels[k];
      uint64_t found = hd__xxh3(i % 2 ? label : split[s]->images, bytes);
      if (!ok(found == checksum[i], "%s: every bit is where it always was", part[i]))
        diag("expected 0x%016llx, found 0x%016llx", (unsigned long long)checksum[i], (unsigned long long)found);
      ok(found == hd__data_checksums(data)[i], "%s: the checksum of the data set is this one", part[i]);
    }
  }
}

static void test_shares(const hd_dataset *split, const char *name) {
  int count[256] = {0}, dark = 0, full = 0;
  for (int64_t i = 0; i < split->count; i++) {
    int ink = 0;
    count[split->labels[i]]++;
    for (int p = 0; p < PIXELS; p++)
      ink += split->images[i * PIXELS + p] > 127;
    dark += ink < 10;
    full += ink > PIXELS / 2;
  }
  for (int digit = 0; digit < CLASSES; digit++)
    ok(count[digit] * 100 >= split->count * 8 && count[digit] * 100 <= split->count * 12,
       "%s: between 8 and 12 %% show a %d", name, digit);
  is_int(dark, 0, "%s: none is without ink", name);
  is_int(full, 0, "%s: none is more ink than paper", name);
}

/* Ranges of all lengths, at borders and across them, against the whole. */
static void test_ranges(const hd_digits *digits, const hd_data *data) {
  static uint8_t image[300 * PIXELS], label[300];
  for (int s = 0; s < 2; s++) {
    const hd_dataset *split = s ? hd__data_test(data) : hd__data_train(data);
    int wrong = 0, ranges = 0;
    for (int64_t first = 0; first < split->count; first += 997)
      for (int64_t length = 0; length <= 300; length = 3 * length + 1) {
        int64_t from = first + length > split->count ? split->count - length : first;
        memset(image, 0xaa, sizeof image);
        memset(label, 0xaa, sizeof label);
        hd__digits_render(digits, image, label, s, from, length);
        wrong += memcmp(image, split->images + from * PIXELS, (size_t)(length * PIXELS)) != 0;
        for (int64_t i = 0; i < length; i++)
          wrong += label[i] != split->labels[from + i];
        wrong += length < 300 && (image[length * PIXELS] != 0xaa || label[length] != 0xaa);
        ranges++;
      }
    is_int(wrong, 0, "%s: %d ranges drawn alone are bytes of the whole, and nothing behind them is written",
           part[2 * s], ranges);
  }
  hd__digits_render(digits, image, label, 0, 0, 1);
  hd__digits_render(digits, image + PIXELS, label + 1, 1, 0, 1);
  ok(memcmp(image, image + PIXELS, PIXELS) != 0, "the splits differ");
  hd__digits_render(digits, image, label, 0, HD_DIGITS_TRAIN, 1);
  int same = 0;
  for (int i = 0; i < HD_DIGITS_TEST; i++)
    same += !memcmp(image, hd__data_test(data)->images + (size_t)i * PIXELS, PIXELS);
  is_int(same, 0, "beyond the training set comes nothing of the test set");
}

typedef struct drawer {
  const hd_digits *digits;
  const hd_dataset *split;
  int first, wrong;
} drawer;

static void *draw(void *arg) {
  drawer *d = arg;
  uint8_t image[PIXELS], label;
  for (int i = d->first; i < d->first + 2000; i++) {
    hd__digits_render(d->digits, image, &label, 0, i, 1);
    d->wrong += label != d->split->labels[i] || memcmp(image, d->split->images + (size_t)i * PIXELS, PIXELS) != 0;
  }
  return NULL;
}

static void test_threads(const hd_digits *digits, const hd_data *data) {
  enum { THREADS = 4 };
  pthread_t thread[THREADS];
  drawer d[THREADS];
  int wrong = 0;
  for (int i = 0; i < THREADS; i++) {
    d[i] = (drawer){digits, hd__data_train(data), 500 * i, 0};
    if (pthread_create(&thread[i], NULL, draw, &d[i]) != 0)
      bail_out("expected a thread, found none");
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(thread[i], NULL);
    wrong += d[i].wrong;
  }
  is_int(wrong, 0, "four threads draw overlapping ranges from the same strokes, all alike");
}

/* Stroke texts. A good one has a way for each digit; a bad one is written as its first lines, the rest being good. */
static char text[8192];

static size_t with_all_digits(const char *first) {
  int n = snprintf(text, sizeof text, "%s", first);
  for (int digit = 0; digit < HD_DIGITS; digit++)
    n += snprintf(text + n, sizeof text - (size_t)n, "digit %d\nway plain 1\nstroke 0,0 1,1\n", digit);
  return (size_t)n;
}

static void test_good_strokes(void) {
  static hd_stroke_book book;
  size_t length =
      with_all_digits("# a comment\n\n \t\r\ndigit 3 # here, too\r\nway a 100\nstroke 0.25,0.5! 1,0 0.5,1e-1 # end\n"
                      "way b 7\nstroke 0,0 1,1\nstroke 0,1 1,0!\nstroke 0,0 0.5,0.5! 1,1\n");
  if (!is_int(hd__strokes_parse(&book, ctx, "book", text, length), HD_OK, "a good text is read"))
    diag("%s", hd_ctx_message(ctx));
  ok(book.digit[3].count == 3 && book.digit[3].weight == 108 && book.digit[4].count == 1 && book.digit[4].weight == 1,
     "the ways of a digit add up, wherever they stand");
  const hd_way *a = &book.digit[3].way[0], *b = &book.digit[3].way[1];
  ok(a->weight == 100 && a->count == 1 && a->stroke[0].count == 3, "a way has its weight, strokes and points");
  const hd_stroke_point *p = a->stroke[0].point;
  ok(p[0].x == 0.25f && p[0].y == 0.5f && p[2].x == 0.5f && p[2].y == 0.1f, "points have their coordinates");
  ok(p[0].corner && !p[1].corner && p[2].corner, "both ends of a stroke are corners");
  ok(b->count == 3 && b->stroke[2].point[1].corner, "an exclamation mark makes a corner");
  length = with_all_digits("") - 1;
  is_int(hd__strokes_parse(&book, ctx, "book", text, length), HD_OK, "the last line needs no newline");
  const hd_embedded *file = hd__embed_strokes;
  is_int(hd__strokes_parse(&book, ctx, file->name, (const char *)file->bytes, file->length), HD_OK,
         "the built-in text is read");
}

static void test_bad_strokes(void) {
#define POINTS15 "0,0 0,1 0,0 0,1 0,0 0,1 0,0 0,1 0,0 0,1 0,0 0,1 0,0 0,1 0,0"
#define WAY "way w 1\nstroke 0,0 1,1\n"
  static const struct {
    const char *text;
    int line;
    const char *says, *name;
  } bad[] = {
      {"\n\nfoo 1\n", 3, "found 'foo'", "an unknown word"},
      {"Digit 1\n", 1, "found 'Digit'", "a capital letter"},
      {"digit\n", 1, "from 0 to 9, found ''", "a digit without number"},
      {"digit 10\n", 1, "found '10'", "digit 10"},
      {"digit -1\n", 1, "found '-1'", "digit -1"},
      {"digit 1.5\n", 1, "found '1.5'", "digit 1.5"},
      {"digit 99999999999999999999\n", 1, "found '99999999999999999999'", "a digit beyond 64 bits"},
      {"digit 1 2\n", 1, "end of the line, found '2'", "two digits"},
      {"# one\nway w 1\n", 2, "expected 'digit D'", "a way before the first digit"},
      {"digit 1\nway\n", 2, "found no name", "a way without name"},
      {"digit 1\nway w\n", 2, "from 1 to 100, found ''", "a way without weight"},
      {"digit 1\nway w 0\n", 2, "found '0'", "a weight of 0"},
      {"digit 1\nway w 101\n", 2, "found '101'", "a weight of 101"},
      {"digit 1\nway w 1 1\n", 2, "found '1'", "two weights"},
      {"digit 1\nway a 1\nway b 1\n", 3, "expected a stroke for the way of digit 1",
       "a way without stroke before another"},
      {"digit 1\nway a 1\ndigit 2\n", 3, "expected a stroke for the way of digit 1",
       "a way without stroke before a digit"},
      {"stroke 0,0 1,1\n", 1, "before a stroke", "a stroke before everything"},
      {"digit 1\nstroke 0,0 1,1\n", 2, "before a stroke", "a stroke before the first way"},
      {"digit 1\nway w 1\nstroke 0,0 1,1\ndigit 2\nstroke 0,0 1,1\n", 5, "before a stroke",
       "a stroke of another digit's way"},
      {"digit 1\nway w 1\nstroke\n", 3, "found 0", "a stroke without points"},
      {"digit 1\nway w 1\nstroke 0,0\n", 3, "found 1", "a stroke with one point"},
      {"digit 1\nway w 1\nstroke " POINTS15 " 1,1 1,0\n", 3, "at most 16 points", "17 points"},
      {"digit 1\n" WAY "stroke 0,0 1,1\nstroke 0,0 1,1\nstroke 0,0 1,1\n", 6, "at most 3 strokes", "four strokes"},
      {"digit 1\n" WAY WAY WAY WAY WAY WAY WAY WAY WAY, 18, "at most 8 ways", "nine ways"},
      {"digit 1\nway w 1\nstroke 0,0 1.01,1\n", 3, "found '1.01,1'", "a point to the right of the square"},
      {"digit 1\nway w 1\nstroke 0,0 0.5,-0.01\n", 3, "found '0.5,-0.01'", "a point above the square"},
      {"digit 1\nway w 1\nstroke 0,0 0.5\n", 3, "found '0.5'", "a point without y"},
      {"digit 1\nway w 1\nstroke 0,0 0.5,\n", 3, "found '0.5,'", "a point with nothing as y"},
      {"digit 1\nway w 1\nstroke 0,0 0.5,0.5,0.5\n", 3, "found '0.5,0.5,0.5'", "a point with z"},
      {"digit 1\nway w 1\nstroke 0,0 0.5,0.5!!\n", 3, "found '0.5,0.5!!'", "two exclamation marks"},
      {"digit 1\nway w 1\nstroke 0,0 !,\n", 3, "found '!,'", "an exclamation mark instead of a number"},
      {"digit 1\nway w 1\nstroke 0,0 !\n", 3, "found '!'", "an exclamation mark alone"},
      {"digit 1\nway w 1\nstroke 0,0 nan,0\n", 3, "found 'nan,0'", "not a number"},
      {"digit 1\nway w 1\nstroke 0,0 0x1,0\n", 3, "found '0x1,0'", "a hexadecimal number"},
      {"digit 1\nway w 1\nstroke 0,0 1e999,0\n", 3, "found '1e999,0'", "a number beyond all numbers"},
      {"digit 1\nway w 1\nstroke 0,0 1,1;\n", 3, "found '1,1;'", "a semicolon"},
      {"digit 1\nway 0123456789012345678901234567890123456789012345678901234567890123 1\n", 2, "63 characters",
       "a long name"},
  };
  static hd_stroke_book book;
  char place[32];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    size_t length = with_all_digits(bad[i].text);
    snprintf(place, sizeof place, "book:%d: ", bad[i].line);
    hd_status status = hd__strokes_parse(&book, ctx, "book", text, length);
    refuses_at(status, HD_E_FORMAT, ctx, place, bad[i].says, "%s is refused", bad[i].name);
  }
}

static void test_bad_ends(void) {
  static hd_stroke_book book;
  size_t length = with_all_digits("");
  length = (size_t)(strstr(text, "digit 7") - text);
  refuses_at(hd__strokes_parse(&book, ctx, "book", text, length), HD_E_FORMAT, ctx, "book:21: ", "found none for 7",
             "a text that ends before digit 7 is refused");
  refuses_at(hd__strokes_parse(&book, ctx, "book", "", 0), HD_E_FORMAT, ctx, "book:", "found none for 0",
             "an empty text is refused");
  length = (size_t)snprintf(text, sizeof text, "digit 0\nway w 1\n");
  refuses_at(hd__strokes_parse(&book, ctx, "book", text, length), HD_E_FORMAT, ctx, "book:2: ", "expected a stroke",
             "a text that ends in a way is refused");
  length = with_all_digits("");
  text[length / 2] = 0;
  hd_status status = hd__strokes_parse(&book, ctx, "book", text, length);
  refuses_at(status, HD_E_FORMAT, ctx, "book:", "found a NUL byte", "a NUL byte is refused");
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i * 2654435761u >> 13);
  status = hd__strokes_parse(&book, ctx, "book", text, sizeof text);
  refuses_at(status, HD_E_FORMAT, ctx, "book:1: ", "expected", "binary garbage is refused");
}

/* Any cut of a good text is either good or refused; nothing is read beyond the cut. */
static void test_cut_strokes(void) {
  static hd_stroke_book book;
  size_t length = with_all_digits("");
  int wrong = 0;
  for (size_t cut = 0; cut < length; cut++) {
    char *copy = malloc(cut + 1);
    if (!copy)
      bail_out("out of memory");
    memcpy(copy, text, cut);
    hd_status status = hd__strokes_parse(&book, ctx, "book", copy, cut);
    wrong += status != HD_OK && (status != HD_E_FORMAT || strncmp(hd_ctx_message(ctx), "book:", 5) != 0);
    wrong += status == HD_OK && cut < length - 1;
    free(copy);
  }
  is_int(wrong, 0, "a text cut anywhere is refused with a line");
}

static void test_no_memory(void) {
  hd_digits *digits;
  hd_data *data;
  hd__digits_destroy(NULL);
  hd__alloc_fail_after(3);
  hd__data_open(&data, ctx, &(hd_data_request){.name = "digits", .ignored = -1});
  held before = held_now();
  hd__alloc_fail_after(0);
  hd_status status = hd__digits_create(&digits, ctx);
  hd__alloc_fail_after(-1);
  ok(status == HD_E_NOMEM && !digits, "no memory for the strokes");
  int wrong = 0;
  for (long n = 0; n < 4; n++) {
    hd__alloc_fail_after(n);
    status = hd__data_open(&data, ctx, &(hd_data_request){.name = "digits", .ignored = -1});
    hd__alloc_fail_after(-1);
    wrong += status != HD_E_NOMEM || data;
  }
  is_int(wrong, 0, "no memory for the data set");
  holds_same(before, "and nothing is left behind");
}

int main(void) {
  hd_data *data;
  hd_digits *digits;
  if (hd_ctx_create(&ctx) != HD_OK ||
      hd__data_open(&data, ctx, &(hd_data_request){.name = "digits", .ignored = -1}) != HD_OK ||
      hd__digits_create(&digits, ctx) != HD_OK)
    bail_out("expected the digits, found: %s", hd_ctx_message(ctx));
  test_whole_set(data);
  test_shares(hd__data_train(data), "training set");
  test_shares(hd__data_test(data), "test set");
  test_ranges(digits, data);
  test_threads(digits, data);
  hd__digits_destroy(digits);
  hd__data_close(data);
  test_good_strokes();
  test_bad_strokes();
  test_bad_ends();
  test_cut_strokes();
  test_no_memory();
  hd_ctx_destroy(ctx);
  return done_testing();
}
