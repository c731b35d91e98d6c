/* Tokens of files: see token_file.h. */
#include "data/formats/token_file.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/utf8.h"
#include "data/split/split.h"

bool hd__token_file_takes(const char *path) {
  return hd__path_ends(path, ".txt") || hd__path_ends(path, ".bin") || hd__path_ends(path, ".npy");
}

void hd__token_file_close(hd_token_file *file) {
  hd__file_unmap(&file->file);
  hd__free(file->marks);
  file->marks = NULL;
}

/* ---- Opening ---- */

/* The place in the file of a byte of its text, for messages. */
static long long place_of(const hd_token_file *f, int64_t at) { return (long long)(f->text + at - f->file.bytes); }

static hd_status refuse_character(hd_ctx *ctx, const hd_token_file *f, int64_t at) {
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected UTF-8 text, found the byte 0x%02x at byte %lld; convert the file to UTF-8, or give "
                  "--tokens bytes",
                  f->path, f->text[at], place_of(f, at));
}

/* Counts the characters, and marks every HD_TOKENS_MARKED-th where `marks` has room. */
static hd_status count_characters(int64_t *count, int64_t *marks, hd_ctx *ctx, const hd_token_file *f) {
  int64_t found = 0;
  for (int64_t at = 0; at < f->length; found++) {
    uint32_t code;
    const size_t bytes = hd__utf8_decode(&code, f->text + at, (size_t)(f->length - at));
    if (!bytes)
      return refuse_character(ctx, f, at);
    if (marks && found < *count && found % HD_TOKENS_MARKED == 0)
      marks[found / HD_TOKENS_MARKED] = at;
    at += (int64_t)bytes;
  }
  if (!marks)
    *count = found;
  return HD_OK;
}

static hd_status open_text(hd_token_file *f, hd_ctx *ctx, bool bytes) {
  static const char mark[] = {'\xef', '\xbb', '\xbf'};
  f->text = f->file.bytes;
  f->count = f->length = (int64_t)f->file.length;
  if (bytes)
    return HD_OK;
  f->has_mark = f->file.length >= sizeof mark && !memcmp(f->text, mark, sizeof mark);
  f->text += f->has_mark ? sizeof mark : 0;
  f->length -= f->has_mark ? (int64_t)sizeof mark : 0;
  HD_TRY(count_characters(&f->count, NULL, ctx, f));
  if (f->count == f->length)
    return HD_OK;
  HD_TRY(HD_NEW(f->marks, f->count / HD_TOKENS_MARKED + 1, ctx, "%s: out of memory for a text", f->path));
  return count_characters(&f->count, f->marks, ctx, f);
}

/* Numbers of 16 or 32 bits, little-endian. */
static void take_numbers(hd_token_file *f, const uint8_t *bytes, int64_t count, int elem_bytes) {
  static const uint16_t one = 1;
  f->npy = (hd_npy){.kind = 'u', .elem_bytes = elem_bytes, .rank = 1, .count = count, .bytes = bytes};
  f->npy.swapped = *(const uint8_t *)&one != 1;
}

static uint32_t word_at(const uint8_t *bytes, int index) {
  uint32_t word = 0;
  for (int i = 3; i >= 0; i--)
    word = word << 8 | bytes[4 * index + i];
  return word;
}

/* The headers of llm.c: for tokens of GPT-2 and of Llama 3. */
static const struct head {
  uint32_t magic, version;
  int elem_bytes;
} heads[] = {{20240520, 1, 2}, {20240801, 7, 4}};

/* Numbers of 32 bits below 65,536 look like numbers of 16 of which each second one is 0. */
static bool looks_wide(const hd_npy *numbers) {
  const uint8_t *bytes = numbers->bytes;
  int64_t i = 0;
  while (2 * i + 1 < numbers->count && bytes[4 * i + 2] == 0 && bytes[4 * i + 3] == 0)
    i++;
  return i > 0 && 2 * i + 1 >= numbers->count;
}

static hd_status open_bin(hd_token_file *f, hd_ctx *ctx) {
  enum { HEAD = 1024, HEADS = sizeof heads / sizeof *heads, WORDS = 2 };
  const uint8_t *bytes = f->file.bytes;
  const int64_t length = (int64_t)f->file.length;
  int k = 0;
  while (k < HEADS && (length < HEAD || word_at(bytes, 0) != heads[k].magic))
    k++;
  const struct head none = {.elem_bytes = WORDS}, *head = k < HEADS ? &heads[k] : &none;
  const int64_t at = k < HEADS ? HEAD : 0, count = (length - at) / head->elem_bytes;
  if (at && (word_at(bytes, 1) != head->version || word_at(bytes, 2) != count))
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected a header of version %u for %lld tokens, found version %u and %u tokens; write the "
                    "file again",
                    f->path, head->version, (long long)count, word_at(bytes, 1), word_at(bytes, 2));
  if (length % head->elem_bytes != 0)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected tokens of %d bytes, found %lld bytes in all; write numbers of the type uint%d",
                    f->path, head->elem_bytes, (long long)length, 8 * head->elem_bytes);
  take_numbers(f, bytes + at, count, head->elem_bytes);
  f->looks_wide = !at && looks_wide(&f->npy);
  return HD_OK;
}

static hd_status open_npy(hd_token_file *f, hd_ctx *ctx) {
  HD_TRY(hd__npy_parse(&f->npy, ctx, f->path, f->file.bytes, f->file.length));
  if (f->npy.rank == 1 && f->npy.kind != 'f')
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a row of integers, the tokens of a text, found an array of %d dimensions of %s without "
                  "labels; give samples as a folder with x_train.npy, y_train.npy, x_test.npy and y_test.npy, or an "
                  ".npz file",
                  f->path, f->npy.rank, f->npy.kind == 'f' ? "floats" : "integers");
}

hd_status hd__token_file_open(hd_token_file *f, hd_ctx *ctx, const char *path, bool bytes) {
  *f = (hd_token_file){0};
  snprintf(f->path, sizeof f->path, "%s", path);
  HD_TRY(hd__file_map(&f->file, ctx, path));
  if (f->file.length == 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected text or tokens, found an empty file; give another", path);
  f->numbers = !hd__path_ends(path, ".txt");
  if (!f->numbers)
    return open_text(f, ctx, bytes);
  HD_TRY(hd__path_ends(path, ".npy") ? open_npy(f, ctx) : open_bin(f, ctx));
  f->count = f->npy.count;
  return HD_OK;
}

/* ---- Alphabets ---- */

enum { CODES = 0x110000 };

static int32_t find_code(const hd_alphabet *a, uint32_t code) {
  int32_t low = 0, high = a->count;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (a->code[middle] < code)
      low = middle + 1;
    else
      high = middle;
  }
  return low < a->count && a->code[low] == code ? low : -1;
}

/* The token of a character; -1: it has none. */
static int32_t token_of(const hd_alphabet *a, uint32_t code) {
  return code < 128 ? a->ascii[code] : find_code(a, code);
}

void hd__alphabet_fini(hd_alphabet *alphabet) {
  hd__free(alphabet->code);
  *alphabet = (hd_alphabet){0};
}

static hd_status take_marked(hd_alphabet *out, hd_ctx *ctx, const uint8_t *marked) {
  for (int32_t code = 0; code < CODES; code++)
    out->count += marked[code];
  HD_TRY(HD_NEW_RAW(out->code, out->count + 1, ctx, "out of memory for an alphabet"));
  out->count = 0;
  for (int32_t code = 0; code < CODES; code++)
    if (marked[code])
      out->code[out->count++] = (uint32_t)code;
  for (uint32_t code = 0; code < 128; code++)
    out->ascii[code] = find_code(out, code);
  return HD_OK;
}

hd_status hd__alphabet_of_text(hd_alphabet *out, hd_ctx *ctx, const hd_token_file *f) {
  HD_OWNED uint8_t *marked = hd__calloc(CODES, 1);
  HD_TRY(HD_ALLOCATED(marked, ctx, "out of memory for an alphabet"));
  for (int64_t at = 0, bytes; at < f->length; at += bytes) {
    uint32_t code;
    bytes = (int64_t)hd__utf8_decode(&code, f->text + at, (size_t)(f->length - at));
    if (!bytes)
      return refuse_character(ctx, f, at);
    marked[code] = 1;
  }
  return take_marked(out, ctx, marked);
}

hd_status hd__alphabet_of_names(hd_alphabet *out, hd_ctx *ctx, const char *const *names, int32_t count) {
  HD_OWNED uint8_t *marked = hd__calloc(CODES, 1);
  HD_TRY(HD_ALLOCATED(marked, ctx, "out of memory for an alphabet"));
  for (int32_t i = 0; i < count; i++) {
    const size_t length = strlen(names[i]);
    uint32_t code = 0;
    if (length > 0 && hd__utf8_decode(&code, names[i], length) != length)
      return hd__fail(ctx, HD_E_FORMAT,
                      "expected classes that are one character each, as a text has, found '%.40s'; give the data of "
                      "that run",
                      names[i]);
    marked[code] = 1;
  }
  return take_marked(out, ctx, marked);
}

/* ---- Reading ---- */

static int64_t number_at(const hd_token_file *f, int64_t i) {
  uint16_t number;
  if (f->npy.elem_bytes != 2 || f->npy.swapped || f->npy.kind != 'u')
    return hd__npy_int(&f->npy, i);
  memcpy(&number, f->npy.bytes + 2 * i, sizeof number);
  return number;
}

/* Where a character begins. */
static int64_t byte_of(const hd_token_file *f, int64_t character) {
  int64_t at = f->marks[character / HD_TOKENS_MARKED];
  for (int64_t left = character % HD_TOKENS_MARKED; left > 0 && at < f->length; left--) {
    uint32_t code;
    const size_t bytes = hd__utf8_decode(&code, f->text + at, (size_t)(f->length - at));
    at += bytes ? (int64_t)bytes : 1;
  }
  return at;
}

int64_t hd__token_file_bytes(const hd_token_file *f, int64_t first, int64_t count) {
  if (f->numbers || !f->marks)
    return f->numbers ? 0 : count;
  return (first + count < f->count ? byte_of(f, first + count) : f->length) - byte_of(f, first);
}

static void read_characters(int32_t *out, const hd_token_file *f, int64_t first, int64_t count) {
  int64_t at = count > 0 ? byte_of(f, first) : 0; /* behind the last character there are no marks */
  for (int64_t i = 0; i < count; i++) {
    uint32_t code;
    const size_t left = at < f->length ? (size_t)(f->length - at) : 0;
    const size_t bytes = left ? hd__utf8_decode(&code, f->text + at, left) : 0;
    out[i] = bytes ? token_of(f->alphabet, code) : -1;
    at += bytes ? (int64_t)bytes : 1;
  }
}

void hd__token_file_read(int32_t *out, const hd_token_file *f, int64_t first, int64_t count) {
  if (f->marks) {
    read_characters(out, f, first, count);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    const int64_t number = f->numbers ? number_at(f, first + i) : f->text[first + i];
    if (!f->alphabet)
      out[i] = number >= 0 && number < HD_DATA_MAX_CLASSES ? (int32_t)number : -1;
    else
      out[i] = number < 128 ? f->alphabet->ascii[number] : -1;
  }
}

static hd_status refuse_token(hd_ctx *ctx, const hd_token_file *f, int64_t at) {
  char text[5] = "";
  uint32_t code = 0;
  if (f->numbers)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected tokens from 0 to %d, found %lld at index %lld; number them so",
                    f->path, HD_DATA_MAX_CLASSES - 1, (long long)number_at(f, at), (long long)at);
  const int64_t byte = f->marks ? byte_of(f, at) : at;
  const size_t left = (size_t)(f->length - byte), bytes = hd__utf8_decode(&code, f->text + byte, left);
  if (hd__utf8_shown((const char *)f->text + byte, left))
    memcpy(text, f->text + byte, bytes < 4 ? bytes : 4);
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected characters of the training text, found U+%04X%s%s%s at byte %lld; leave it out, or put "
                  "it into the training text",
                  f->path, (unsigned)code, *text ? " '" : "", text, *text ? "'" : "", place_of(f, byte));
}

hd_status hd__token_file_measure(int32_t *largest, uint64_t *checksum, hd_ctx *ctx, const hd_token_file *f,
                                 int64_t first, int64_t count) {
  enum { BLOCK = 1 << 14 };
  HD_OWNED int32_t *token = hd__malloc(BLOCK * sizeof *token);
  HD_TRY(HD_ALLOCATED(token, ctx, "%s: out of memory for tokens", f->path));
  hd_xxh3 *sum = hd__xxh3_create();
  HD_TRY(HD_ALLOCATED(sum, ctx, "%s: out of memory for a checksum", f->path));
  int64_t bad = -1;
  *largest = 0;
  for (int64_t at = 0; at < count && bad < 0; at += BLOCK) {
    const int64_t some = count - at < BLOCK ? count - at : BLOCK;
    hd__token_file_read(token, f, first + at, some);
    for (int64_t i = 0; i < some && bad < 0; i++) {
      *largest = token[i] > *largest ? token[i] : *largest;
      bad = token[i] < 0 ? first + at + i : -1;
    }
    hd__xxh3_update(sum, token, (size_t)some * sizeof *token);
  }
  *checksum = hd__xxh3_finish(sum);
  return bad < 0 ? HD_OK : refuse_token(ctx, f, bad);
}
