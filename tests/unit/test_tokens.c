/* Texts as data: windows and the tokens that follow, alphabets, files of tokens, sums; and what is refused. */
#include "scratch.h"

#include "data_trial.h"
#include "format_files.h"

#include "data/feed/feed.h"

enum { WINDOW = 4 };

static const char *put_text(const char *name, const char *text) {
  static char path[4][SCRATCH_PATH_BYTES];
  static int used;
  char *to = path[used++ % 4];
  snprintf(to, SCRATCH_PATH_BYTES, "%s", in_scratch("%s", name));
  put_file(to, text, strlen(text));
  return to;
}

/* Tokens and labels of a window as letters: '0' + token, '.' for no label. */
static const char *window_text(const hd_split *split, int64_t sample, int64_t offset) {
  static char text[4 * WINDOW + 2];
  float x[2 * WINDOW] = {0};
  int32_t label[2 * WINDOW] = {0};
  int at = 0;
  split->window(x, label, split, &(hd_window){sample, offset, 0, split->width});
  for (int i = 0; i < split->width; i++)
    text[at++] = isfinite(x[i]) ? (char)('0' + (int)x[i]) : '?';
  text[at++] = ' ';
  for (int i = 0; i < split->width; i++)
    text[at++] = label[i] < 0 ? '.' : (char)('0' + label[i]);
  text[at] = 0;
  return text;
}

/* 30 characters: the last three are the test set. */
static void check_one_file(void) {
  const char *path = put_text("abc.txt", "abcabcabcabcabcabcabcabcabccba");
  request.context = 2;
  hd_dataset *data = data_opens(path, "a text");
  const hd_split *train = &data->split[0], *test = &data->split[1];
  is_int(train->classes, 3, "it has three characters");
  is_str(train->class_names[2], "c", "their names are the characters, in order");
  is_int(train->count, 12, "windows of an epoch leave room for any offset");
  is_int(train->offsets, 2, "there are as many offsets as tokens of a window");
  is_int(test->count, 1, "the last tenth has one window");
  is_str(window_text(train, 0, 0), "01 12", "the first window, and the tokens that follow");
  is_str(window_text(train, 0, 1), "12 20", "the same, one token later");
  is_str(window_text(train, 11, 1), "20 01", "the last window ends within the training text");
  is_str(window_text(test, 0, 0), "21 10", "the test set begins with its own first token");
  hd__dataset_close(data);
  request.context = 4;
  request.whole = true;
  data = data_opens(path, "the whole of it");
  is_int(data->split[1].count, 8, "it has windows for every token");
  is_str(window_text(&data->split[1], 7, 0), "1000 0...", "the last one ends early, without labels there");
  request.whole = false;
  hd__dataset_close(data);
}

static int kind_of(int64_t i) { return (int)((i * 5 % 7 + i / 7) % 4); }

/* Every window is right, wherever the reader begins: characters of one to four bytes, more than a mark's worth. */
static void check_utf8(void) {
  static const char *const character[] = {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
  static char text[4 * 2000];
  int wrong = 0;
  *text = 0;
  for (int i = 0, at = 0; i < 1500; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, "%s", character[kind_of(i)]);
  request.context = WINDOW;
  hd_dataset *data = data_opens(put_text("wide.txt", text), "a text of characters of one to four bytes");
  const hd_split *split = &data->split[0];
  is_int(split->classes, 4, "it has four characters");
  is_str(split->class_names[3], character[3], "the last is that of the largest code");
  for (int64_t sample = 0; sample < split->count; sample++)
    for (int offset = 0; offset < WINDOW; offset++) {
      char wanted[2 * WINDOW + 2] = "";
      const int64_t first = sample * WINDOW + offset;
      for (int i = 0; i < WINDOW; i++) {
        wanted[i] = (char)('0' + kind_of(first + i));
        wanted[WINDOW + 1 + i] = (char)('0' + kind_of(first + i + 1));
      }
      wanted[WINDOW] = ' ';
      wrong += strcmp(window_text(split, sample, offset), wanted) != 0;
    }
  is_int(wrong, 0, "every window has its characters");
  hd__dataset_close(data);
  request.bytes = true;
  data = data_opens(in_scratch("wide.txt"), "the bytes of it");
  is_int(data->split[0].classes, 256, "bytes are 256 tokens");
  ok(!data->split[0].class_names, "which have no names");
  request.bytes = false;
  hd__dataset_close(data);
}

static void check_folder(void) {
  mkdir(in_scratch("parts"), 0755);
  put_text("parts/train.txt", "0123012301230123");
  put_text("parts/val.txt", "33221");
  request.context = 3;
  hd_dataset *data = data_opens(in_scratch("parts"), "a folder with train and val");
  is_str(window_text(&data->split[1], 0, 0), "332 322", "val is the test set where there is no other");
  is_int(data->split[0].validation, 0, "and no validation set");
  const uint64_t alone = data->split[0].key;
  hd__dataset_close(data);
  put_text("parts/test.txt", "01230");
  data = data_opens(in_scratch("parts"), "a folder with train, val and test");
  const hd_split *train = &data->split[0];
  is_int(train->validation, 2, "val is the validation set");
  is_str(window_text(train, train->count - 2, 1), "332 322", "whose windows have no offset");
  is_str(window_text(train, train->count - 1, 0), "210 1..", "and end with its tokens");
  is_str(window_text(&data->split[1], 0, 0), "012 123", "test is the test set");
  ok(train->key != alone, "the checksum has the validation set");
  hd__dataset_close(data);
  put_text("parts/test.txt", "0120\xe2\x82\xac");
  data_refused(in_scratch("parts"), HD_E_FORMAT, in_scratch("parts/test.txt"), "found U+20AC '\xe2\x82\xac' at byte 4",
               "a character that the training text lacks");
  unlink(in_scratch("parts/test.txt"));
  unlink(in_scratch("parts/val.txt"));
  data_refused(in_scratch("parts"), HD_E_IO, in_scratch("parts"), "expected a val or a test file", "train alone");
}

/* The same tokens, whatever holds them. */
static void check_tokens(void) {
  static const uint16_t token[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4,
                                   6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7};
  static blob file;
  int64_t wide[40];
  uint64_t key = 0;
  file.length = 0;
  for (int i = 0; i < 40; i++) {
    wide[i] = token[i];
    blob_add_word(&file, token[i], 2);
  }
  put_file(in_scratch("raw.bin"), file.byte, file.length);
  file.length = 0;
  for (int i = 0; i < 256; i++)
    blob_add_word(&file, i == 0 ? 20240520 : i == 1 ? 1 : i == 2 ? 40 : 0, 4);
  for (int i = 0; i < 40; i++)
    blob_add_word(&file, token[i], 2);
  put_file(in_scratch("head.bin"), file.byte, file.length);
  put_npy(in_scratch("row.npy"), "<i8", wide, sizeof wide, "(40,)");
  request.context = 3;
  for (int i = 0; i < 3; i++) {
    const char *name = (const char *const[]){"raw.bin", "head.bin", "row.npy"}[i];
    hd_dataset *data = data_opens(in_scratch("%s", name), name);
    is_str(window_text(&data->split[0], 1, 0), "159 592", "%s: its tokens", name);
    is_int(data->split[0].classes, 10, "%s: one more than the largest is their number", name);
    ok(i == 0 || data->split[0].key == key, "%s: the checksum is that of the tokens", name);
    key = data->split[0].key;
    hd__dataset_close(data);
  }
  put_npy(in_scratch("rows.npy"), "<i8", wide, sizeof wide, "(4, 10)");
  data_refused(in_scratch("rows.npy"), HD_E_IO, in_scratch("rows.npy"), "of 2 dimensions of integers", "rows");
  wide[7] = -1;
  put_npy(in_scratch("row.npy"), "<i8", wide, sizeof wide, "(40,)");
  data_refused(in_scratch("row.npy"), HD_E_FORMAT, in_scratch("row.npy"), "found -1 at index 7", "a negative token");
  put_file(in_scratch("odd.bin"), file.byte + 1024, 13);
  data_refused(in_scratch("odd.bin"), HD_E_FORMAT, in_scratch("odd.bin"), "found 13 bytes", "half a token");
  put_file(in_scratch("head.bin"), file.byte, 1024 + 20);
  data_refused(in_scratch("head.bin"), HD_E_FORMAT, in_scratch("head.bin"), "found version 1 and 40 tokens",
               "a header of more tokens than there are");
}

static void check_refused(void) {
  request.context = WINDOW;
  data_refused(put_text("bad.txt", "abc\xff"
                                   "def"),
               HD_E_FORMAT, in_scratch("bad.txt"), "expected UTF-8 text, found the byte 0xff at byte 3",
               "what is not UTF-8");
  data_refused(put_text("cut.txt", "abcdefghijklmnopqrstuvwxyz\xe2\x82"), HD_E_FORMAT, in_scratch("cut.txt"),
               "0xe2 at byte 26", "a character that is cut off");
  data_refused(put_text("short.txt", "abcd"), HD_E_FORMAT, in_scratch("short.txt"), "expected at least 5 tokens",
               "a text that is shorter than a window");
  data_refused(put_text("tenth.txt", "abcdabcdabcd"), HD_E_FORMAT, in_scratch("tenth.txt"), "for the test set",
               "a text whose last tenth is too short");
  data_refused(put_text("none.txt", ""), HD_E_FORMAT, in_scratch("none.txt"), "found an empty file", "an empty file");
}

static void check_sums(void) {
  request.context = 0;
  hd_dataset *data = data_opens("sums", "the built-in sums");
  int wrong = 0;
  static bool seen[100][100];
  for (int s = 0; s < 2; s++)
    for (int64_t i = 0; i < data->split[s].count; i++) {
      const hd_split *split = &data->split[s];
      char text[16] = "";
      float x[9];
      int32_t label[9];
      int a = 0, b = 0, sum = 0;
      split->window(x, label, split, &(hd_window){.sample = i, .count = 9});
      for (int k = 0; k < 9; k++)
        text[k] = *split->class_names[(int)x[k]];
      wrong += sscanf(text, "%d+%d=%d", &a, &b, &sum) != 3 || a + b != sum || seen[a][b];
      seen[a][b] = true;
      for (int k = 0; k < 9; k++)
        wrong += label[k] >= 0 ? k < 5 || (k < 8 && label[k] != (int)x[k + 1]) : k >= 5 && k < 8;
    }
  is_int(data->split[0].count + data->split[1].count, 8100, "there is one for each two numbers");
  is_int(wrong, 0, "they are right, each one once, and what follows the equals sign is to be found");
  hd__dataset_close(data);
}

/* An epoch's windows begin at an offset that its number and the seed decide. */
static void check_epochs(void) {
  request.context = WINDOW;
  hd_dataset *data =
      data_opens(put_text("long.txt", "abcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefgh"), "a text");
  HD_FEED_OWNED feed;
  hd_sampler *sampler;
  int offsets = 0;
  hd__feed_init(&feed, ctx, &data->split[0], hd__kernels_reference(), data->statistics.mean, data->statistics.std);
  hd_sampler_random(&sampler, ctx, feed.count);
  hd__feed_sample_by(&feed, ctx, sampler);
  for (uint32_t epoch = 0; epoch < 50; epoch++) {
    float x[WINDOW];
    int32_t label[16];
    hd__feed_shuffle(&feed, 3, epoch);
    hd__feed_read(&feed, ctx, epoch, 0, 1,
                  &(hd_slots){.x = x, .x_stride = WINDOW, .target = label, .target_stride = 16, .outputs = WINDOW});
    offsets |= 1 << (int)x[0] % WINDOW;
  }
  is_int(offsets, 15, "every offset comes in fifty epochs");
  hd__dataset_close(data);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  check_one_file();
  check_utf8();
  check_folder();
  check_tokens();
  check_refused();
  check_sums();
  check_epochs();
  data_survives_no_memory(
      put_text("memory.txt", "abc\xc3\xa4 abc abc abc abc abc abc abc abc abc abc abc abc abc abc abc abc"), "a text");
  hd_ctx_destroy(ctx);
  return done_testing();
}
