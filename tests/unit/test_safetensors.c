/* Safetensors and digests: what was written is read back bit for bit; a header that lies about anything is refused; the
 * digest is what its definition gives when computed by other means. */
#include "scratch.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/safetensors.h"
#include "exec/weight_store.h"
#include "train/checkpoint/checkpoint.h"

enum { ROOM = 4096 };

static hd_ctx *ctx;

static const float weight[6] = {0.0f, -0.0f, 0.5f, -1.5f, 3.25f, 1e10f}, bias[2] = {1.0f, -2.5f}, seven = 7,
                   pair[2] = {4, 5}, six = 6;
static const double real = 0.1;
static const int64_t whole = INT64_MIN;

static char name_weight[] = "fc.weight", name_bias[] = "fc.bias", name_scalar[] = "Z", name_four[] = "fc-a",
            name_accent[] = "\xc3\xa9", name_real[] = "loss", name_whole[] = "steps", name_quoted[] = "a \"b\"\\\n\t{}";

static hd_st_tensor f32(char *name, hd_shape shape, const float *bytes) {
  return (hd_st_tensor){name, HD_ST_F32, shape, bytes, (size_t)hd__shape_elems(&shape) * 4, NULL, NULL};
}

/* Writes to a file and returns its bytes, for the caller to free. */
static unsigned char *write_tensors(size_t *length, const hd_st_tensor *tensor, int count) {
  const char *path = in_scratch("written.safetensors");
  FILE *file = fopen(path, "wb+");
  unsigned char *bytes = malloc(ROOM);
  if (!file || !bytes || hd__st_write(file, ctx, path, tensor, count) != HD_OK)
    bail_out("expected to write tensors, found: %s", hd_ctx_message(ctx));
  rewind(file);
  *length = fread(bytes, 1, ROOM, file);
  fclose(file);
  return bytes;
}

static void test_round_trip(void) {
  const hd_st_tensor tensor[] = {f32(name_weight, (hd_shape){2, {2, 3}}, weight),
                                 f32(name_bias, (hd_shape){1, {2}}, bias),
                                 {name_real, HD_ST_F64, {1, {1}}, &real, 8, NULL, NULL},
                                 {name_whole, HD_ST_I64, {1, {1}}, &whole, 8, NULL, NULL},
                                 f32(name_scalar, (hd_shape){0, {0}}, &seven),
                                 f32(name_four, (hd_shape){4, {1, 2, 1, 1}}, pair),
                                 f32(name_quoted, (hd_shape){1, {1}}, &six)};
  enum { COUNT = sizeof tensor / sizeof *tensor };
  size_t length;
  uint64_t header;
  hd_st_list list;
  unsigned char *bytes = write_tensors(&length, tensor, COUNT);
  memcpy(&header, bytes, 8);
  ok(header % 8 == 0 && bytes[8] == '{', "the header begins at once and is padded to 8 bytes");
  is_int(length, 8 + (long long)header + 24 + 8 + 8 + 8 + 4 + 8 + 4, "the file is header and tensors, nothing else");
  if (!is_int(hd__st_parse(&list, ctx, "x", bytes, length), HD_OK, "what was written is read"))
    bail_out("%s", hd_ctx_message(ctx));
  is_int(list.count, COUNT, "all tensors are there");
  for (int i = 0; i < COUNT; i++) {
    const hd_st_tensor *t = hd__st_find(&list, tensor[i].name);
    ok(t && t->type == tensor[i].type && hd__shape_equal(&t->shape, &tensor[i].shape) &&
           t->length == tensor[i].length && !memcmp(t->bytes, tensor[i].bytes, t->length),
       "tensor %d: name, type, shape and bytes", i);
  }
  ok(!hd__st_find(&list, "fc") && !hd__st_find(&list, "") && !hd__st_find(&list, "__metadata__"),
     "a missing tensor is not found");
  hd__st_fini(&list);
  ok(!list.tensor && !list.count, "nothing is left after fini");
  for (size_t cut = 0; cut < length; cut++) {
    unsigned char *part = malloc(cut + 1);
    if (!part)
      bail_out("out of memory");
    memcpy(part, bytes, cut);
    hd_status status = hd__st_parse(&list, ctx, "x", part, cut);
    free(part);
    if (status != HD_E_FORMAT || list.tensor) {
      fail("a file cut to %zu bytes is refused", cut);
      break;
    }
  }
  pass("a file cut anywhere is refused");
  free(bytes);
}

static void test_no_tensors(void) {
  size_t length;
  hd_st_list list;
  unsigned char *bytes = write_tensors(&length, NULL, 0);
  ok(hd__st_parse(&list, ctx, "x", bytes, length) == HD_OK && list.count == 0, "a file without tensors");
  hd__st_fini(&list);
  free(bytes);
}

/* A file of this header and `data_length` bytes. */
static size_t make(unsigned char *out, const char *header, size_t data_length) {
  uint64_t length = strlen(header);
  memcpy(out, &length, 8);
  memcpy(out + 8, header, length);
  memset(out + 8 + length, 0, data_length);
  return 8 + length + data_length;
}

static void refused(const unsigned char *bytes, size_t length, const char *says, const char *name) {
  hd_st_list list;
  held before = held_now();
  hd_status status = hd__st_parse(&list, ctx, "m.safetensors", bytes, length);
  refuses(status, HD_E_FORMAT, ctx, "m.safetensors: ", says, "%s is refused", name);
  ok(!list.tensor && !list.count, "%s: the list is empty", name);
  holds_same(before, "%s: nothing is left behind", name);
}

#define A(dtype, shape, begin, end)                                                                                    \
  "\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"
#define B(begin, end) "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[" begin "," end "]}"

static void test_good_headers(void) {
  static const struct {
    const char *header;
    size_t data;
    const char *name;
  } good[] = {{"{" A("F32", "[2]", "0", "8") "}", 8, "the plainest header"},
              {"{" A("F32", "[2]", "8", "16") "," B("0", "8") "}", 16, "tensors listed in another order than they lie"},
              {"{\"__metadata__\":{\"x\":\"y\"}," A("F32", "[]", "0", "4") "}", 4, "metadata and a scalar"},
              {"{" A("F32", "[2]", "0", "8") "}   ", 8, "blanks behind the header"},
              {" {" A("F32", "[2]", "0", "8") "}", 8, "a header of odd length"},
              {"{\"a\":{\"data_offsets\":[0,8],\"shape\":[1,1,1,1],\"dtype\":\"F64\"}}", 8, "entries in another order"},
              {"{" A("BOOL", "[1,1,3,3]", "0", "9") "}", 9, "a mask of truth values"},
              {"{" A("U8", "[3]", "0", "3") "}", 3, "bytes"}};
  unsigned char bytes[ROOM];
  hd_st_list list;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    size_t length = make(bytes, good[i].header, good[i].data);
    if (!is_int(hd__st_parse(&list, ctx, "x", bytes, length), HD_OK, "%s is read", good[i].name))
      diag("%s", hd_ctx_message(ctx));
    hd__st_fini(&list);
  }
  float floats[9];
  static const char *const others[] = {"I64", "U8", "BOOL"};
  for (int i = 0; i < 3; i++) {
    const hd_st_type type[] = {HD_ST_I64, HD_ST_U8, HD_ST_BOOL};
    const hd_st_tensor t = {.type = type[i], .bytes = bytes, .length = 8};
    ok(!hd__st_is_float(&t) && !hd__st_floats(floats, &t), "%s are no floats", others[i]);
  }
}

static void test_bad_headers(void) {
  static const struct {
    const char *header;
    size_t data;
    const char *says, *name;
  } bad[] = {
      {"", 0, "JSON header", "an empty header"},
      {"not JSON", 8, "JSON header", "what is not JSON"},
      {"{" A("F32", "[2]", "0", "8"), 8, "JSON header", "an object that stays open"},
      {"{" A("F32", "[2]", "0", "8") "} x", 8, "JSON header", "text behind the object"},
      {"[1]", 0, "not an object", "a list"},
      {"7", 0, "JSON header", "a number"},
      {"{\"a\":\xff}", 0, "JSON header", "what is not UTF-8"},
      {"{\"a\\u0000\":{}}", 0, "JSON header", "a NUL in a name"},
      {"{" A("F32", "[2]", "0", "8") "," A("F32", "[2]", "8", "16") "}", 16, "duplicate", "a name twice"},
      {"{\"a\":7}", 0, "a dtype, found none", "a number as entry"},
      {"{\"a\":null}", 0, "found none", "null as entry"},
      {"{\"a\":{}}", 0, "found none", "an empty entry"},
      {"{\"a\":{\"dtype\":3,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "found none", "a number as dtype"},
      {"{" A("I32", "[2]", "0", "8") "}", 8, "I64, U8 or BOOL, found I32; save it as F32", "32-bit integers"},
      {"{" A("F16", "[2]", "0", "8") "}", 8, "4 bytes apart", "offsets of half precision"},
      {"{" A("f32", "[2]", "0", "8") "}", 8, "found f32", "a dtype in small letters"},
      {"{" A("F32\\n", "[2]", "0", "8") "}", 8, "found F32?", "a line break in the dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "found none", "no shape"},
      {"{" A("F32", "2", "0", "8") "}", 8, "found none", "a number as shape"},
      {"{" A("F32", "{}", "0", "8") "}", 8, "found none", "an object as shape"},
      {"{" A("F32", "[1,1,1,1,2]", "0", "8") "}", 8, "found more", "five dimensions"},
      {"{" A("F32", "[0]", "0", "0") "}", 0, "found 0 as dimension 0", "a dimension of 0"},
      {"{" A("F32", "[2,-1]", "0", "8") "}", 8, "found -1 as dimension 1", "a negative dimension"},
      {"{" A("F32", "[2.0]", "0", "8") "}", 8, "as dimension 0", "a dimension with a point"},
      {"{" A("F32", "[\"2\"]", "0", "8") "}", 8, "as dimension 0", "a dimension in quotes"},
      {"{" A("F32", "[4294967298]", "0", "8") "}", 8, "found 4294967298", "a dimension that is 2 in 32 bits"},
      {"{" A("F32", "[1048576,1048576,16777216]", "0", "0") "}", 0, "found 16777216 as dimension 2",
       "2^64 elements, none in 64 bits"},
      {"{" A("F32", "[2147483647,2147483647,2147483647,2147483647]", "0", "4") "}", 4, "2^40", "2^124 elements"},
      {"{" A("F32", "[1048576,1048577]", "0", "8") "}", 8, "2^40", "a little more than 2^40 elements"},
      {"{" A("F32", "[9223372036854775808]", "0", "8") "}", 8, "JSON header", "a dimension beyond 64 bits"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "two whole numbers", "no offsets"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":8}}", 8, "two whole numbers", "a number as offsets"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]}}", 8, "two whole numbers", "one offset"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "two whole numbers", "three offsets"},
      {"{" A("F32", "[2]", "0.5", "8") "}", 8, "two whole numbers", "an offset with a point"},
      {"{" A("F32", "[2]", "\"x\"", "8") "}", 8, "two whole numbers", "an offset in quotes"},
      {"{" A("F32", "[2]", "-8", "0") "}", 8, "from 0 to 8, found [-8,0]", "a negative offset"},
      {"{" A("F32", "[2]", "8", "0") "}", 8, "found [8,0]", "offsets that run backwards"},
      {"{" A("F32", "[2]", "8", "16") "}", 8, "found [8,16]", "offsets behind the file's end"},
      {"{" A("F32", "[3]", "0", "12") "}", 8, "found [0,12]", "a tensor half behind the file's end"},
      {"{" A("F32", "[2]", "9223372036854775800", "9223372036854775807") "}", 8, "from 0 to 8", "offsets near 2^63"},
      {"{" A("F32", "[2]", "0", "4") "}", 8, "8 bytes apart", "offsets too close for the shape"},
      {"{" A("F32", "[1]", "0", "8") "}", 8, "4 bytes apart", "offsets too far apart for the shape"},
      {"{" A("F64", "[2]", "0", "8") "}", 8, "16 bytes apart", "offsets of another type"},
      {"{" A("F32", "[2]", "0", "8") "," B("0", "8") "}", 8, "gaps or overlaps", "two tensors in one place"},
      {"{" A("F32", "[2]", "0", "8") "," B("4", "12") "}", 12, "gaps or overlaps", "tensors that overlap"},
      {"{" A("F32", "[4]", "0", "16") "," B("4", "12") "}", 16, "gaps or overlaps", "a tensor inside another"},
      {"{" A("F32", "[2]", "0", "8") "," B("12", "20") "}", 20, "gaps or overlaps", "a gap between tensors"},
      {"{" A("F32", "[2]", "4", "12") "}", 12, "gaps or overlaps", "a gap before the first"},
      {"{" A("F32", "[2]", "0", "8") "}", 9, "expected 8 bytes of tensors, found 9", "a byte behind the last"},
      {"{}", 4, "expected 0 bytes of tensors, found 4", "bytes without tensors"},
  };
  unsigned char bytes[ROOM];
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    size_t length = make(bytes, bad[i].header, bad[i].data);
    refused(bytes, length, bad[i].says, bad[i].name);
  }
}

static void test_bad_lengths(void) {
  static const uint64_t lies[] = {1 << 20,           (64 << 20) + 1, UINT64_C(1) << 32,
                                  UINT64_C(1) << 63, UINT64_MAX - 7, UINT64_MAX};
  unsigned char bytes[ROOM], deep[ROOM];
  size_t length = make(bytes, "{" A("F32", "[2]", "0", "8") "}", 8);
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    char name[64];
    memcpy(bytes, &lies[i], 8);
    snprintf(name, sizeof name, "a header of %llu bytes", (unsigned long long)lies[i]);
    refused(bytes, length, "expected a safetensors header", name);
  }
  uint64_t exact = length - 8 + 1;
  memcpy(bytes, &exact, 8);
  refused(bytes, length, "expected a safetensors header", "a header one byte beyond the file");
  refused(bytes, 0, "found 0 bytes", "an empty file");
  refused(bytes, 7, "found 7 bytes", "seven bytes");
  char header[ROOM - 16];
  memset(header, '[', sizeof header - 1);
  header[sizeof header - 1] = 0;
  length = make(deep, header, 0);
  refused(deep, length, "JSON header", "a header of thousands of brackets");
}

/* Deterministic damage: the file is read, with tensors inside of it, or refused with one line. */
static void test_damage(void) {
  enum { ROUNDS = 20000 };
  unsigned char good[ROOM], bytes[ROOM];
  size_t length = make(good, "{" A("F32", "[2]", "0", "8") "," B("8", "16") "}", 16);
  uint32_t chance = 1;
  int wrong = 0, read = 0;
  held before = held_now();
  for (int round = 0; round < ROUNDS; round++) {
    memcpy(bytes, good, length);
    for (int i = 0; i < 1 + round % 3; i++) {
      chance = chance * 1664525u + 1013904223u;
      bytes[(chance >> 8) % (length - 16)] =
          (unsigned char)(round % 2 ? chance >> 24 : (uint32_t) "0123456789[]{},:"[chance >> 28]);
    }
    hd_st_list list;
    hd_status status = hd__st_parse(&list, ctx, "m.safetensors", bytes, length);
    const char *message = hd_ctx_message(ctx);
    if (status != HD_OK)
      wrong += status != HD_E_FORMAT || strncmp(message, "m.safetensors: ", 15) != 0 || strpbrk(message, "\n\r") ||
               list.tensor;
    for (int i = 0; i < list.count; i++) {
      const unsigned char *at = list.tensor[i].bytes;
      wrong += at < bytes || at + list.tensor[i].length > bytes + length;
    }
    read += status == HD_OK;
    hd__st_fini(&list);
  }
  is_int(wrong, 0, "%d damaged files: %d can still be read, the others are refused", ROUNDS, read);
  ok(read > 0 && read < ROUNDS / 2, "the damage is neither harmless nor hopeless");
  holds_same(before, "and nothing is left behind");
}

static void test_failing_write(void) {
  const hd_st_tensor tensor = f32(name_weight, (hd_shape){2, {2, 3}}, weight);
  FILE *full = fopen("/dev/full", "wb");
  if (!full) {
    skip(1, "no /dev/full here");
    return;
  }
  refuses(hd__st_write(full, ctx, "m.safetensors", &tensor, 1), HD_E_IO, ctx, "m.safetensors: ", "No space left",
          "a full disk is reported");
  fclose(full);
}

static void test_no_memory(void) {
  unsigned char bytes[ROOM];
  size_t length = make(bytes, "{" A("F32", "[2]", "0", "8") "," B("8", "16") "}", 16);
  hd_st_list list = {0};
  char hex[65];
  held before = held_now();
  survives_no_memory(hd__st_parse(&list, ctx, "m.safetensors", bytes, length), !list.tensor, ctx,
                     "m.safetensors: out of memory", 3, "a file");
  survives_no_memory(hd__st_digest(hex, ctx, &list), true, ctx, "", 2, "a digest");
  hd__st_fini(&list);
  holds_same(before, "and nothing is left behind");
}

static void test_hashes(void) {
  static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  static const char million[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  static uint8_t a[1000000];
  char hex[HD_SHA256_HEX_BYTES];
  memset(a, 'a', sizeof a);
  hd__sha256_finish(hd__sha256_create(), hex);
  is_str(hex, empty, "SHA-256 of nothing");
  hd_sha256 *sha = hd__sha256_create();
  for (size_t at = 0, step = 1; at < sizeof a; at += step, step = step * 3 % 1009 + 1)
    hd__sha256_update(sha, a + at, at + step < sizeof a ? step : sizeof a - at);
  hd__sha256_finish(sha, hex);
  is_str(hex, million, "SHA-256 of a million a's in odd blocks, as published");
  held before = held_now();
  hd__sha256_finish(hd__sha256_create(), NULL);
  holds_same(before, "a hash can be given up");
  ok(hd__xxh3(NULL, 0) == 0x2d06800538d394c2, "XXH3 of nothing, as published");
  ok(hd__xxh3(a, 999) == hd__xxh3(a + 1, 999) && hd__xxh3(a, 999) != hd__xxh3(a, 998),
     "XXH3 depends on the bytes and their number");
}

/* The expected values come from the definition (name, NUL, "F32", NUL, shape, NUL, little-endian bytes, by bytewise
 * order of names) and another implementation of SHA-256. */
static void test_digest(void) {
  static const char one[] = "9dfc20b208cd139c610c379569c1f087d9fd0cab32c2298dfbebdbad4973b009";
  static const char five[] = "e36878d44d37663cf80a1fa7d58441deb0249749a7dacaf72debf3490fd3c919";
  static const char none[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  hd_st_tensor tensor[] = {f32(name_accent, (hd_shape){1, {1}}, &six), f32(name_weight, (hd_shape){2, {2, 3}}, weight),
                           f32(name_bias, (hd_shape){1, {2}}, bias), f32(name_four, (hd_shape){4, {1, 2, 1, 1}}, pair),
                           f32(name_scalar, (hd_shape){0, {0}}, &seven)};
  char hex[65];
  hd__st_digest(hex, ctx, &(hd_st_list){tensor, 0});
  is_str(hex, none, "digest of no tensors");
  hd__st_digest(hex, ctx, &(hd_st_list){tensor + 2, 1});
  is_str(hex, one, "digest of one tensor: fc.bias, [2], 1 and -2.5");
  hd__st_digest(hex, ctx, &(hd_st_list){tensor, 5});
  is_str(hex, five, "digest of five tensors: Z before fc-a before fc.bias before fc.weight before an accent");
  for (int i = 0; i < 2; i++) {
    hd_st_tensor swap = tensor[i];
    tensor[i] = tensor[4 - i];
    tensor[4 - i] = swap;
  }
  hd__st_digest(hex, ctx, &(hd_st_list){tensor, 5});
  is_str(hex, five, "the order of the list does not matter");
  size_t length;
  hd_st_list list;
  unsigned char *bytes = write_tensors(&length, tensor, 5);
  if (hd__st_parse(&list, ctx, "x", bytes, length) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd__st_digest(hex, ctx, &list);
  is_str(hex, five, "nor does a way through a file");
  hd__st_fini(&list);
  free(bytes);
}

/* Loading into a store, which expects a weight of 2x3 and a bias of 2. */
static void load(hd_store *store, const hd_st_tensor *tensor, int count, const char *says, const char *name) {
  size_t length;
  unsigned char *bytes = write_tensors(&length, tensor, count);
  const char *path = in_scratch("model.safetensors");
  put_file(path, bytes, length);
  free(bytes);
  int64_t arithmetic;
  hd__checkpoint_load_weights(store, &arithmetic, ctx, path, NULL, NULL);
  held before = held_now();
  hd_status status = hd__checkpoint_load_weights(store, &arithmetic, ctx, path, NULL, NULL);
  if (says)
    refuses_at(status, HD_E_FORMAT, ctx, path, says, "%s is refused", name);
  else
    is_int(status, HD_OK, "%s is loaded", name);
  holds_same(before, "%s: nothing is left behind", name);
}

/* Half precision has the least and the largest number, both zeros, infinity; bfloat16 the bits of floats. */
static void test_load_types(hd_store *store, const float *loaded) {
  static const uint16_t half[6] = {0x0001, 0x7bff, 0x8000, 0x3c01, 0x7c00, 0xc500},
                        brain[6] = {0x3f80, 0x0001, 0x8000, 0x7f7f, 0xff80, 0x4049};
  static const double wide[6] = {0.1, -1e300, 1e-60, 16777217, 3, -0.0};
  static const float halves[6] = {0x1p-24f, 65504, -0.0f, 0x1.004p0f, INFINITY, -5},
                     brains[6] = {1, 0x1p-133f, -0.0f, 0x1.fep127f, -INFINITY, 0x1.92p1f},
                     narrow[6] = {0.1f, -INFINITY, 0, 16777216, 3, -0.0f};
  const struct {
    hd_st_tensor tensor;
    const float *floats;
    const char *name;
  } as[] = {{{name_weight, HD_ST_F16, {2, {2, 3}}, half, sizeof half, NULL, NULL}, halves, "F16"},
            {{name_weight, HD_ST_BF16, {2, {2, 3}}, brain, sizeof brain, NULL, NULL}, brains, "BF16"},
            {{name_weight, HD_ST_F64, {2, {2, 3}}, wide, sizeof wide, NULL, NULL}, narrow, "F64"}};
  for (size_t i = 0; i < sizeof as / sizeof *as; i++) {
    load(store, (hd_st_tensor[]){as[i].tensor, f32(name_bias, (hd_shape){1, {2}}, bias)}, 2, NULL, as[i].name);
    ok(!memcmp(loaded, as[i].floats, sizeof halves), "%s: the floats of its numbers", as[i].name);
  }
}

static void test_load(void) {
  static _Alignas(hd_directory) unsigned char room[sizeof(hd_directory) + 2 * sizeof(hd_store_entry)];
  static float home[2][8];
  hd_directory *d = (hd_directory *)room;
  d->version = 1;
  d->param_elems = 8;
  d->entries = 2;
  d->entry[0] =
      (hd_store_entry){.name = "fc.weight", .shape = {2, {2, 3}}, .rows = 2, .c = 3, .h = 1, .w = 1, .same_as = -1};
  d->entry[1] = (hd_store_entry){
      .name = "fc.bias", .shape = {1, {2}}, .rows = 2, .c = 1, .h = 1, .w = 1, .same_as = -1, .offset = 6};
  hd_store store = {.directory = d, .weights = {home[0], home[1]}};
  static int64_t counts[6];
  hd_st_tensor w = f32(name_weight, (hd_shape){2, {2, 3}}, weight), b = f32(name_bias, (hd_shape){1, {2}}, bias);
  hd_st_tensor turned = f32(name_weight, (hd_shape){2, {3, 2}}, weight),
               flat = f32(name_weight, (hd_shape){1, {6}}, weight);
  hd_st_tensor whole_numbers = {name_weight, HD_ST_I64, {2, {2, 3}}, counts, sizeof counts, NULL, NULL};
  hd_st_tensor other = f32(name_four, (hd_shape){1, {2}}, pair);
  load(&store, (hd_st_tensor[]){b, w}, 2, NULL, "a model's file");
  ok(!memcmp(home[1], weight, sizeof weight) && !memcmp(home[1] + 6, bias, sizeof bias),
     "into the buffer of the last whole version");
  ok(home[0][2] == 0 && home[0][7] == 0, "and not into the other");
  load(&store, (hd_st_tensor[]){w}, 1, "expected 2 tensors, found 1", "a file without the bias");
  load(&store, (hd_st_tensor[]){w, other}, 2, "expected a tensor 'fc.bias' of shape 2, found none",
       "a file with another name");
  load(&store, (hd_st_tensor[]){w, b, other}, 3, "expected 2 tensors, found 3", "a file with one tensor more");
  load(&store, (hd_st_tensor[]){turned, b}, 2, "shape 2x3, found", "a weight turned by 90 degrees");
  load(&store, (hd_st_tensor[]){flat, b}, 2, "shape 2x3, found", "a weight without its second dimension");
  load(&store, (hd_st_tensor[]){whole_numbers, b}, 2, "floats of shape 2x3, found I64 of shape 2x3",
       "a weight of whole numbers");
  test_load_types(&store, home[1]);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_round_trip();
  test_no_tensors();
  test_good_headers();
  test_bad_headers();
  test_bad_lengths();
  test_damage();
  test_failing_write();
  test_no_memory();
  test_hashes();
  test_digest();
  test_load();
  hd_ctx_destroy(ctx);
  return done_testing();
}
