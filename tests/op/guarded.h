/* Guarded memory: an inaccessible page follows it, so that a read or a write past the end ends the test in every
 * build and on every machine. Canaries around it detect writes, and are poisoned for the address sanitizer. Freed
 * memory is kept for the next test, because mapping pages is slow. For one thread. */
#ifndef HD_TEST_GUARDED_H
#define HD_TEST_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

typedef struct guarded {
  unsigned char *base, *data;
  size_t bytes, all; /* of data; from base to the forbidden page */
} guarded;

/* `data` is 64-byte aligned, plus `skew` bytes, and as near the forbidden page as that lets it be: up against it if
 * `bytes` plus the skew is a multiple of 64, or if the skew is AT_THE_END, whatever alignment that makes. */
enum { AT_THE_END = 64 };
/* Allocates pages; NULL: from the system, followed by an inaccessible one. A GPU reads only pages of its driver. */
extern void *(*guarded_pages)(size_t bytes);

guarded guarded_create(size_t bytes, size_t skew);
void guarded_destroy(guarded *memory);
bool guarded_is_intact(const guarded *memory);

#endif
