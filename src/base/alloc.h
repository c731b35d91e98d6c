/* All heap allocations of the library, so that a test can make the n-th one fail.
 *
 * hd__alloc_fail_after(n) lets n allocations succeed and fails every later one; a negative n ends that. The counter is
 * the only process-wide state and exists for tests alone. */
#pragma once

#include <stddef.h>
#include <string.h>

#include "base/status.h"

HD_TOOLS_API void *hd__malloc(size_t bytes);

/* Not cleared, for data read in random order: in large pages where the system provides them, since each access to
 * another page costs an address translation. */
void *hd__malloc_scattered(size_t bytes);
HD_TOOLS_API void *hd__calloc(size_t count, size_t bytes);
HD_TOOLS_API void *hd__realloc(void *ptr, size_t bytes);
HD_TOOLS_API char *hd__strdup(const char *text);
char *hd__printf_alloc(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* NULL when out of memory */
HD_TOOLS_API void hd__free(void *ptr);

enum { HD_ALIGNED_BYTES = 128 }; /* two cache lines: processors prefetch pairs */

/* Aligned to HD_ALIGNED_BYTES, not cleared; release with hd__free. */
HD_TOOLS_API void *hd__malloc_aligned(size_t bytes);

/* Allocates `count` elements for the pointer `list`, zeroed or, by HD_NEW_RAW, not: HD_OK, or a failure with the
 * formatted message. */
#define HD_NEW(list, count, ctx, ...)                                                                                  \
  HD_ALLOCATED((list) = hd__calloc((size_t)(count), sizeof *(list)), ctx, __VA_ARGS__)
#define HD_NEW_RAW(list, count, ctx, ...)                                                                              \
  HD_ALLOCATED((list) = hd__malloc((size_t)(count) * sizeof *(list)), ctx, __VA_ARGS__)

/* Releases a variable at the end of its scope, on every path: `release` gets the variable's address. HD_OWNED is for
 * memory: a pointer, NULL allowed, that hd__free takes. The variable is initialised where it is declared. */
#define HD_RELEASED(release) __attribute__((cleanup(release)))
#define HD_OWNED HD_RELEASED(hd__free_owned)
static inline void hd__free_owned(void *variable) {
  void *memory;
  memcpy(&memory, variable, sizeof memory);
  hd__free(memory);
}

/* Defines `name` for HD_RELEASED and pointers to `type`, NULL allowed. */
#define HD_RELEASER(name, type, destroy)                                                                               \
  static inline void name(type **variable) {                                                                           \
    if (*variable)                                                                                                     \
      destroy(*variable);                                                                                              \
  }

void hd__alloc_fail_after(long count);
long hd__alloc_count(void); /* allocations since the last hd__alloc_fail_after */
