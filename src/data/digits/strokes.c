/* Reads stroke descriptions: by lines and words; errors name the line. */
#include "data/digits/strokes.h"

#include <stdbool.h>
#include <string.h>

#include "base/number.h"

enum { WORD_BYTES = 64 };

typedef struct reader {
  hd_ctx *ctx;
  const char *name, *at, *end; /* end: of the current line, comment left out */
  int line;
  hd_stroke_book *book;
  int digit; /* -1 before the first */
  hd_way *way;
} reader;

#define REFUSE(r, fmt, ...) hd__fail((r)->ctx, HD_E_FORMAT, "%s:%d: " fmt, (r)->name, (r)->line, __VA_ARGS__)

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next word of the line, "" at its end. */
static hd_status next_word(reader *r, char word[WORD_BYTES]) {
  while (r->at < r->end && is_blank(*r->at))
    r->at++;
  const char *start = r->at;
  while (r->at < r->end && !is_blank(*r->at))
    r->at++;
  size_t length = (size_t)(r->at - start);
  if (memchr(start, 0, length))
    return REFUSE(r, "expected text, found a %s byte; is it the right file?", "NUL");
  if (length >= WORD_BYTES)
    return REFUSE(r, "expected words of at most %d characters, found a longer one; check the line", WORD_BYTES - 1);
  memcpy(word, start, length);
  word[length] = 0;
  return HD_OK;
}

static hd_status expect_end(reader *r) {
  char word[WORD_BYTES];
  HD_TRY(next_word(r, word));
  return *word ? REFUSE(r, "expected the end of the line, found '%s'; start a new line or a comment", word) : HD_OK;
}

static hd_status whole_number(int *out, reader *r, const char *what, int min, int max) {
  char word[WORD_BYTES];
  int64_t value;
  HD_TRY(next_word(r, word));
  if (!hd__parse_int64(&value, word) || value < min || value > max)
    return REFUSE(r, "expected %s from %d to %d, found '%s'", what, min, max, word);
  *out = (int)value;
  return HD_OK;
}

/* The current variant must have a stroke before the next one begins. */
static hd_status finish_way(reader *r) {
  return r->way && !r->way->count ? REFUSE(r, "expected a stroke for the way of digit %d above, found none", r->digit)
                                  : HD_OK;
}

static hd_status read_digit(reader *r) {
  HD_TRY(finish_way(r));
  HD_TRY(whole_number(&r->digit, r, "a digit", 0, HD_DIGITS - 1));
  r->way = NULL;
  return expect_end(r);
}

static hd_status read_way(reader *r) {
  char name[WORD_BYTES];
  int weight = 0;
  HD_TRY(finish_way(r));
  if (r->digit < 0)
    return REFUSE(r, "expected 'digit %s' before the first way, found none", "D");
  HD_TRY(next_word(r, name));
  if (!*name)
    return REFUSE(r, "expected 'way NAME WEIGHT', found no %s", "name");
  HD_TRY(whole_number(&weight, r, "a weight", 1, HD_WAY_MAX_WEIGHT));
  if (r->book->digit[r->digit].count == HD_DIGIT_MAX_WAYS)
    return REFUSE(r, "expected at most %d ways for a digit, found one more; drop one", HD_DIGIT_MAX_WAYS);
  r->way = &r->book->digit[r->digit].way[r->book->digit[r->digit].count++];
  r->way->weight = weight;
  r->book->digit[r->digit].weight += weight;
  return expect_end(r);
}

/* "x,y" or "x,y!". */
static bool parse_point(hd_stroke_point *out, char *word) {
  size_t length = strlen(word);
  char *comma = strchr(word, ',');
  double x, y;
  if (!comma)
    return false;
  out->corner = word[length - 1] == '!';
  if (out->corner)
    word[length - 1] = 0;
  *comma = 0;
  if (!hd__parse_double(&x, word) || !hd__parse_double(&y, comma + 1))
    return false;
  out->x = (float)x;
  out->y = (float)y;
  return x >= 0 && x <= 1 && y >= 0 && y <= 1;
}

static hd_status read_stroke(reader *r) {
  if (!r->way)
    return REFUSE(r, "expected 'way NAME %s' before a stroke, found none", "WEIGHT");
  if (r->way->count == HD_WAY_MAX_STROKES)
    return REFUSE(r, "expected at most %d strokes for a way, found one more; join two", HD_WAY_MAX_STROKES);
  hd_stroke *stroke = &r->way->stroke[r->way->count++];
  for (;;) {
    char word[WORD_BYTES], shown[WORD_BYTES];
    HD_TRY(next_word(r, word));
    if (!*word)
      break;
    memcpy(shown, word, sizeof shown);
    if (stroke->count == HD_STROKE_MAX_POINTS)
      return REFUSE(r, "expected at most %d points for a stroke, found more; leave some out", HD_STROKE_MAX_POINTS);
    if (!parse_point(&stroke->point[stroke->count++], word))
      return REFUSE(r, "expected points as x,y with both from 0 to 1, found '%s'", shown);
  }
  if (stroke->count < 2)
    return REFUSE(r, "expected a stroke through at least 2 points, found %d", stroke->count);
  stroke->point[0].corner = stroke->point[stroke->count - 1].corner = 1;
  return HD_OK;
}

static hd_status read_line(reader *r) {
  char word[WORD_BYTES];
  HD_TRY(next_word(r, word));
  if (!*word)
    return HD_OK;
  if (!strcmp(word, "digit"))
    return read_digit(r);
  if (!strcmp(word, "way"))
    return read_way(r);
  if (!strcmp(word, "stroke"))
    return read_stroke(r);
  return REFUSE(r, "expected 'digit', 'way', 'stroke' or a comment, found '%s'", word);
}

hd_status hd__strokes_parse(hd_stroke_book *book, hd_ctx *ctx, const char *name, const char *text, size_t length) {
  reader r = {.ctx = ctx, .name = name, .book = book, .digit = -1};
  const char *end = text + length;
  memset(book, 0, sizeof *book);
  while (text < end) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    const char *line_end = newline ? newline : end;
    const char *comment = memchr(text, '#', (size_t)(line_end - text));
    r.line++;
    r.at = text;
    r.end = comment ? comment : line_end;
    HD_TRY(read_line(&r));
    text = newline ? newline + 1 : end;
  }
  HD_TRY(finish_way(&r));
  for (int digit = 0; digit < HD_DIGITS; digit++)
    if (!book->digit[digit].count)
      return REFUSE(&r, "expected a way for each digit, found none for %d; add 'digit %d' and its ways", digit, digit);
  return HD_OK;
}
