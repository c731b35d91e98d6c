/* Heap memory with a countdown to failure for the allocation-failure sweep. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static atomic_long g_made;
static atomic_long g_limit = -1;

static int may_allocate(void) {
  long made = atomic_fetch_add_explicit(&g_made, 1, memory_order_relaxed);
  long limit = atomic_load_explicit(&g_limit, memory_order_relaxed);
  return limit < 0 || made < limit;
}

void hd__alloc_fail_after(long count) {
  atomic_store(&g_made, 0);
  atomic_store(&g_limit, count);
}

long hd__alloc_count(void) { return atomic_load(&g_made); }

void *hd__malloc(size_t bytes) { return may_allocate() ? malloc(bytes ? bytes : 1) : NULL; }

void *hd__malloc_scattered(size_t bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  void *memory = hd__malloc(bytes);
  const uintptr_t first = ((uintptr_t)memory + page - 1) / page * page, end = ((uintptr_t)memory + bytes) / page * page;
  if (memory && first < end)
    madvise((void *)first, end - first, MADV_HUGEPAGE); /* a refusal costs speed, not results */
  return memory;
}

void *hd__calloc(size_t count, size_t bytes) {
  return may_allocate() ? calloc(count ? count : 1, bytes ? bytes : 1) : NULL;
}

void *hd__realloc(void *ptr, size_t bytes) { return may_allocate() ? realloc(ptr, bytes ? bytes : 1) : NULL; }

char *hd__strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = hd__malloc(bytes);
  return copy ? memcpy(copy, text, bytes) : NULL;
}

char *hd__printf_alloc(const char *fmt, ...) {
  char *text;
  va_list args;
  va_start(args, fmt);
  const bool made = may_allocate() && vasprintf(&text, fmt, args) >= 0;
  va_end(args);
  return made ? text : NULL;
}

void *hd__malloc_aligned(size_t bytes) {
  const size_t line = HD_ALIGNED_BYTES;
  if (bytes > SIZE_MAX - line || !may_allocate())
    return NULL;
  return aligned_alloc(line, bytes ? (bytes + line - 1) / line * line : line);
}

void hd__free(void *ptr) { free(ptr); }
