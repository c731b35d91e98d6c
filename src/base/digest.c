/* SHA-256 by nettle, XXH3 by xxhash. */
#include "base/digest.h"

#include <nettle/sha2.h>
#include <xxhash.h>

#include "base/alloc.h"

struct hd_sha256 {
  struct sha256_ctx state;
};

hd_sha256 *hd__sha256_create(void) {
  hd_sha256 *sha = hd__malloc(sizeof *sha);
  if (sha)
    sha256_init(&sha->state);
  return sha;
}

void hd__sha256_update(hd_sha256 *sha, const void *bytes, size_t length) { sha256_update(&sha->state, length, bytes); }

void hd__sha256_finish(hd_sha256 *sha, char hex[HD_SHA256_HEX_BYTES]) {
  static const char digit[] = "0123456789abcdef";
  uint8_t raw[SHA256_DIGEST_SIZE];
  if (hex) {
    sha256_digest(&sha->state, sizeof raw, raw);
    for (size_t i = 0; i < sizeof raw; i++) {
      hex[2 * i] = digit[raw[i] >> 4];
      hex[2 * i + 1] = digit[raw[i] & 15];
    }
    hex[2 * sizeof raw] = 0;
  }
  hd__free(sha);
}

uint64_t hd__xxh3(const void *bytes, size_t length) { return XXH3_64bits(bytes, length); }

struct hd_xxh3 {
  XXH3_state_t *state;
};

hd_xxh3 *hd__xxh3_create(void) {
  hd_xxh3 *sum = hd__malloc(sizeof *sum);
  if (!sum)
    return NULL;
  sum->state = XXH3_createState();
  if (sum->state && XXH3_64bits_reset(sum->state) == XXH_OK)
    return sum;
  XXH3_freeState(sum->state);
  hd__free(sum);
  return NULL;
}

void hd__xxh3_update(hd_xxh3 *sum, const void *bytes, size_t length) { XXH3_64bits_update(sum->state, bytes, length); }

uint64_t hd__xxh3_finish(hd_xxh3 *sum) {
  if (!sum)
    return 0;
  uint64_t value = XXH3_64bits_digest(sum->state);
  XXH3_freeState(sum->state);
  hd__free(sum);
  return value;
}
