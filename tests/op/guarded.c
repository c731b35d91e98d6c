/* See guarded.h. */
#include "op/guarded.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN
#endif
#endif

#if defined(HAVE_ASAN)
#include <sanitizer/asan_interface.h>
#define FORBID(from, bytes) __asan_poison_memory_region(from, bytes)
#define ALLOW(from, bytes) __asan_unpoison_memory_region(from, bytes)
#else
#define FORBID(from, bytes) ((void)(from), (void)(bytes))
#define ALLOW(from, bytes) ((void)(from), (void)(bytes))
#endif

enum { CANARY = 0xA5, GARBAGE = 0x7F, CANARY_BYTES = 256, SIZES = 40 };

/* What was left, by the logarithm of its pages; the first bytes point at the next. */
typedef struct left_memory {
  struct left_memory *next;
} left_memory;

static left_memory *left[SIZES];

void *(*guarded_pages)(size_t bytes);

static int size_of(size_t pages) {
  int size = 0;
  while ((size_t)1 << size < pages)
    size++;
  return size;
}

static unsigned char *take(size_t all, size_t page) {
  left_memory **kept = &left[size_of(all / page)];
  if (*kept) {
    unsigned char *base = (unsigned char *)*kept;
    ALLOW(base, all);
    *kept = (*kept)->next;
    return base;
  }
  if (guarded_pages) {
    unsigned char *given = guarded_pages(all);
    if (!given)
      abort();
    return given;
  }
  unsigned char *base = mmap(NULL, all + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || mprotect(base + all, page, PROT_NONE))
    abort();
  return base;
}

guarded guarded_create(size_t bytes, size_t skew) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t pages = (bytes + CANARY_BYTES + 2 * 64 + page - 1) / page;
  guarded m = {.bytes = bytes, .all = page << size_of(pages)};
  m.base = take(m.all, page);
  size_t first = m.all - bytes;
  m.data = m.base + (skew == AT_THE_END ? first : (first - skew) / 64 * 64 + skew);
  memset(m.data - CANARY_BYTES, CANARY, CANARY_BYTES);
  memset(m.data, GARBAGE, bytes);
  memset(m.data + bytes, CANARY, (size_t)(m.base + m.all - m.data) - bytes);
  FORBID(m.base, m.all);
  ALLOW(m.data, bytes);
  return m;
}

void guarded_destroy(guarded *memory) {
  if (memory->base) {
    left_memory **kept = &left[size_of(memory->all / (size_t)sysconf(_SC_PAGESIZE))], *here = (void *)memory->base;
    ALLOW(memory->base, sizeof *here);
    here->next = *kept;
    *kept = here;
    FORBID(memory->base, memory->all);
  }
  *memory = (guarded){0};
}

bool guarded_is_intact(const guarded *memory) {
  if (!memory->base)
    return true;
  unsigned char *before = memory->data - CANARY_BYTES, *behind = memory->data + memory->bytes;
  unsigned char *end = memory->base + memory->all;
  bool intact = true;
  ALLOW(memory->base, memory->all);
  for (const unsigned char *p = before; p < memory->data; p++)
    intact &= *p == CANARY;
  for (const unsigned char *p = behind; p < end; p++)
    intact &= *p == CANARY;
  FORBID(before, CANARY_BYTES);
  FORBID(behind, (size_t)(end - behind));
  return intact;
}
