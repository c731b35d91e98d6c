/* A file as a row of tokens, which stays mapped and is not copied: the characters of a UTF-8 text, by their places in
 * an alphabet; its bytes; or the numbers of a .bin or .npy file.
 *
 *     .txt   text; a byte order mark at its beginning is none of its characters
 *     .bin   numbers of 16 bits, little-endian; or | 20240520 | version 1 | tokens | 253 more numbers | numbers |, the
 *            first 256 of 32 bits; or, with 20240801 and version 7, all of 32 bits
 *     .npy   a row of integers
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "data/formats/named_arrays.h"
#include "platform/file.h"

/* Characters, ascending: the token of one is its place. */
typedef struct hd_alphabet {
  uint32_t *code; /* owned */
  int32_t count;
  int32_t ascii[128]; /* tokens of these characters, -1: none */
} hd_alphabet;

typedef struct hd_token_file {
  char path[HD_PATH_BYTES];
  hd_mapping file;
  const uint8_t *text; /* of a text: its bytes, behind the mark that it may begin with */
  int64_t length;
  bool has_mark, looks_wide;   /* looks_wide: numbers that are read as 16 bits may have been written as 32 */
  const hd_alphabet *alphabet; /* NULL: bytes or numbers */
  bool numbers;
  hd_npy npy;     /* numbers */
  int64_t *marks; /* where every HD_TOKENS_MARKED-th character begins; NULL: each character is a byte */
  int64_t count;  /* tokens */
} hd_token_file;

enum { HD_TOKENS_MARKED = 256 };

/* Whether a path ends as such a file does. */
bool hd__token_file_takes(const char *path);

/* Opens a file; a text's characters are counted, and tokens have no alphabet yet. HD_E_FORMAT for what is not UTF-8,
 * unless `bytes` are the tokens. The caller closes it, after a failure too. */
hd_status hd__token_file_open(hd_token_file *out, hd_ctx *ctx, const char *path, bool bytes);
void hd__token_file_close(hd_token_file *file);

/* The characters of a text, or those of a run, which `names` has, one a name. */
hd_status hd__alphabet_of_text(hd_alphabet *out, hd_ctx *ctx, const hd_token_file *file);
hd_status hd__alphabet_of_names(hd_alphabet *out, hd_ctx *ctx, const char *const *names, int32_t count);
void hd__alphabet_fini(hd_alphabet *alphabet);

/* The bytes of these tokens in a text; 0: they are numbers. */
int64_t hd__token_file_bytes(const hd_token_file *file, int64_t first, int64_t count);

/* Tokens first to first + count - 1; -1 where the file has changed, and is no longer text of the alphabet. */
void hd__token_file_read(int32_t *out, const hd_token_file *file, int64_t first, int64_t count);

/* Reads all: the largest token, and a checksum of tokens first to first + count - 1 as 32-bit numbers. HD_E_FORMAT for
 * a character that is not of the alphabet, and for a number that is no token. */
hd_status hd__token_file_measure(int32_t *largest, uint64_t *checksum, hd_ctx *ctx, const hd_token_file *file,
                                 int64_t first, int64_t count);
