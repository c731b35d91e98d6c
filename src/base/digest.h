/* Hashes: SHA-256 for the digest of weights, XXH3-64 to recognise data. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/tools_api.h"

enum { HD_SHA256_HEX_BYTES = 65 };

typedef struct hd_sha256 hd_sha256;

/* NULL when out of memory. */
HD_TOOLS_API hd_sha256 *hd__sha256_create(void);
HD_TOOLS_API void hd__sha256_update(hd_sha256 *sha, const void *bytes, size_t length);

/* Writes 64 hex digits and a NUL, and destroys the hash; hex may be NULL to destroy only. */
HD_TOOLS_API void hd__sha256_finish(hd_sha256 *sha, char hex[HD_SHA256_HEX_BYTES]);

uint64_t hd__xxh3(const void *bytes, size_t length);

/* The same, of bytes given in blocks. */
typedef struct hd_xxh3 hd_xxh3;

/* NULL when out of memory. */
hd_xxh3 *hd__xxh3_create(void);
void hd__xxh3_update(hd_xxh3 *sum, const void *bytes, size_t length);

/* Returns the sum and destroys the hash; 0 for NULL. */
uint64_t hd__xxh3_finish(hd_xxh3 *sum);
