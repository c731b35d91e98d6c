/* Memory that ends where it ends: right behind it lies a page that nobody may touch, so that a read or a write past the
 * end kills the test, in every build and on every machine; around it lie canaries, which show a write, and which the
 * address sanitizer takes for foreign memory. What a test leaves is kept for the next one, because asking the system
 * for pages is slow. For one thread. */
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
/* Where pages come from; NULL: from the system, with a forbidden one behind them. A GPU reads its own kind alone. */
extern void *(*guarded_pages)(size_t bytes);

guarded guarded_create(size_t bytes, size_t skew);
void guarded_destroy(guarded *memory);
bool guarded_is_intact(const guarded *memory);

#endif
