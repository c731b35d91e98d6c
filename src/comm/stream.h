/* Copies that go past the caches: for outputs so large that their end would push their beginning out, and whose old
 * lines need not be fetched. */
#ifndef HD_COMM_STREAM_H
#define HD_COMM_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

static inline void hd__stream(void *to, const void *from, size_t bytes) {
  char *out = to;
  const char *in = from;
  size_t head = -(uintptr_t)out & 63;
  head = head < bytes ? head : bytes;
  memcpy(out, in, head);
  size_t i = head;
  for (; i + 64 <= bytes; i += 64)
    for (size_t j = 0; j < 64; j += 16)
      _mm_stream_si128((__m128i *)(void *)(out + i + j), _mm_loadu_si128((const __m128i *)(const void *)(in + i + j)));
  memcpy(out + i, in + i, bytes - i);
}

/* Before others are told that it is there. */
static inline void hd__stream_end(void) { _mm_sfence(); }
#else
static inline void hd__stream(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
static inline void hd__stream_end(void) {}
#endif

#endif
