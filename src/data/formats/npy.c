/* NPY files: a strict parser of their header, a dictionary of three keys in any order. See named_arrays.h. */
#include "data/formats/named_arrays.h"

#include <string.h>

#include "base/half.h"

enum { MAGIC_BYTES = 6, MAX_BYTES_LOG2 = 36 };

static const uint16_t one = 1;

static bool little_endian(void) { return *(const uint8_t *)&one == 1; }

/* State of parsing the dictionary. */
typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_blanks(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
    c->at++;
}

static bool eat(cursor *c, const char *text) {
  skip_blanks(c);
  size_t length = strlen(text);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, text, length))
    return false;
  c->at += length;
  return true;
}

/* 'text' or "text" of fewer than `bytes` bytes. */
static bool eat_text(char *out, size_t bytes, cursor *c) {
  skip_blanks(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
    return false;
  const char *from = c->at + 1, *to = memchr(from, *c->at, (size_t)(c->end - from));
  if (!to || (size_t)(to - from) >= bytes)
    return false;
  memcpy(out, from, (size_t)(to - from));
  out[to - from] = 0;
  c->at = to + 1;
  return true;
}

/* A size from 0 up to 2^48. */
static bool eat_size(int64_t *out, cursor *c) {
  skip_blanks(c);
  const char *from = c->at;
  for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9' && *out < INT64_C(1) << 48; c->at++)
    *out = 10 * *out + (*c->at - '0');
  return c->at > from && *out <= INT64_C(1) << 48;
}

static bool eat_shape(hd_npy *out, cursor *c) {
  if (!eat(c, "("))
    return false;
  for (out->rank = 0; !eat(c, ")"); out->rank++) {
    if (out->rank == HD_NPY_MAX_RANK || !eat_size(&out->size[out->rank], c))
      return false;
    eat(c, "L"); /* Python 2 */
    if (!eat(c, ",")) {
      out->rank++;
      return eat(c, ")");
    }
  }
  return true;
}

/* "<f4" and similar; false for any other type. */
static bool take_type(hd_npy *out, const char *descr) {
  static const char *const known[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"};
  const char order = *descr;
  if (!order || !strchr("<>=|", order))
    return false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(descr + 1, known[i])) {
      out->kind = descr[1];
      out->elem_bytes = descr[2] - '0';
      out->swapped = out->elem_bytes > 1 && ((order == '<' && !little_endian()) || (order == '>' && little_endian()));
      return order != '|' || out->elem_bytes == 1;
    }
  return false;
}

/* Parses the dictionary; returns the error, or NULL. */
static const char *take_dictionary(hd_npy *out, char descr[32], bool *fortran, cursor *c) {
  enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
  char key[32];
  int seen = 0;
  if (!eat(c, "{"))
    return "no dictionary";
  while (!eat(c, "}")) {
    if (!eat_text(key, sizeof key, c) || !eat(c, ":"))
      return "no key where one is expected";
    const int which = !strcmp(key, "descr")           ? DESCR
                      : !strcmp(key, "fortran_order") ? ORDER
                      : !strcmp(key, "shape")         ? SHAPE
                                                      : 0;
    if (!which || seen & which)
      return "an unknown key, or the same key twice";
    seen |= which;
    if (which == DESCR && !eat_text(descr, 32, c))
      return "records, which are not plain numbers";
    if (which == ORDER) {
      *fortran = eat(c, "True");
      if (!*fortran && !eat(c, "False"))
        return "an order that is neither True nor False";
    }
    if (which == SHAPE && !eat_shape(out, c))
      return "an invalid shape, or one of more than 4 dimensions";
    if (!eat(c, ",")) {
      if (!eat(c, "}"))
        return "no end of the dictionary";
      break;
    }
  }
  skip_blanks(c);
  if (c->at < c->end)
    return "text after the dictionary";
  return seen == (DESCR | ORDER | SHAPE) ? NULL : "a missing key";
}

/* Counts elements; false beyond the limit. */
static bool count_elems(hd_npy *out, bool fortran) {
  out->count = 1;
  for (int k = 0; k < out->rank; k++) {
    const int i = fortran ? k : out->rank - 1 - k;
    out->stride[i] = out->count;
    if (out->size[i] > 0 && out->count > (INT64_C(1) << MAX_BYTES_LOG2) / out->elem_bytes / out->size[i])
      return false;
    out->count *= out->size[i];
  }
  return true;
}

static hd_status take_head(hd_npy *out, hd_ctx *ctx, const char *path, cursor c) {
  char descr[32] = "";
  bool fortran = false;
  const char *wrong = take_dictionary(out, descr, &fortran, &c);
  if (wrong)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected a header of descr, fortran_order and shape, found %s; save the array again", path,
                    wrong);
  if (!take_type(out, descr))
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected plain numbers (bool, int8 to uint64, float16 to float64), found the type '%s'%s; "
                    "convert the array with .astype",
                    path, descr, strchr(descr, 'O') ? " (Python objects)" : "");
  if (!count_elems(out, fortran))
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected an array of up to 64 GiB, found a larger shape; the header is damaged", path);
  return HD_OK;
}

hd_status hd__npy_head(hd_npy *out, size_t *head, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length) {
  *out = (hd_npy){0};
  if (length < MAGIC_BYTES + 4 || memcmp(bytes, "\x93NUMPY", MAGIC_BYTES))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected an NPY file, found something else; save the array with numpy.save",
                    path);
  const int version = bytes[6], field = version == 1 ? 2 : 4;
  const size_t first = MAGIC_BYTES + 2 + (size_t)field;
  if (version < 1 || version > 3 || bytes[7] != 0)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected NPY version 1.0, 2.0 or 3.0, found %d.%d; save the array again",
                    path, version, bytes[7]);
  size_t text = 0;
  for (int i = 0; i < field && first <= length; i++)
    text |= (size_t)bytes[MAGIC_BYTES + 2 + i] << 8 * i;
  *head = first + text;
  if (first > length || text > length - first || *head > HD_NPY_MAX_HEAD)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected an NPY header of up to %d bytes, found %s; save the array again",
                    path, HD_NPY_MAX_HEAD, *head > HD_NPY_MAX_HEAD ? "a longer one" : "a truncated file");
  return take_head(out, ctx, path, (cursor){(const char *)bytes + first, (const char *)bytes + *head});
}

hd_status hd__npy_parse(hd_npy *out, hd_ctx *ctx, const char *path, const uint8_t *bytes, size_t length) {
  size_t head;
  HD_TRY(hd__npy_head(out, &head, ctx, path, bytes, length));
  const int64_t expected = out->count * out->elem_bytes;
  if ((int64_t)(length - head) != expected)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected %lld bytes after the header, found %zu; save the array again", path,
                    (long long)expected, length - head);
  out->bytes = bytes + head;
  return HD_OK;
}

/* An element's bits, the lowest byte lowest. */
static uint64_t bits_of(const hd_npy *npy, int64_t elem) {
  const uint8_t *from = npy->bytes + elem * npy->elem_bytes;
  const bool big = little_endian() == npy->swapped;
  uint64_t bits = 0;
  for (int i = 0; i < npy->elem_bytes; i++)
    bits |= (uint64_t)from[i] << 8 * (big ? npy->elem_bytes - 1 - i : i);
  return bits;
}

int64_t hd__npy_int(const hd_npy *npy, int64_t elem) {
  const uint64_t bits = bits_of(npy, elem);
  const int unused = 64 - 8 * npy->elem_bytes;
  if (npy->kind == 'i')
    return (int64_t)(bits << unused) >> unused;
  return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
}

float hd__npy_float(const hd_npy *npy, int64_t elem) {
  const uint64_t bits = bits_of(npy, elem);
  const uint32_t word = (uint32_t)bits;
  float single;
  double real;
  if (npy->kind == 'u')
    return (float)bits;
  if (npy->kind != 'f')
    return (float)hd__npy_int(npy, elem);
  if (npy->elem_bytes == 2)
    return hd__from_half(word);
  memcpy(&single, &word, sizeof single);
  memcpy(&real, &bits, sizeof real);
  return npy->elem_bytes == 4 ? single : (float)real;
}
