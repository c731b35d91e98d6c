/* Words of memory to sleep on, as futexes: see memory_word.h. */
#include "platform/memory_word.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool hd__word_wait(atomic_uint *word, unsigned seen, int64_t most_ns) {
  const struct timespec most = {most_ns / 1000000000, most_ns % 1000000000};
  return syscall(SYS_futex, word, FUTEX_WAIT, seen, most_ns ? &most : NULL, NULL, 0) == 0 || errno != ETIMEDOUT;
}

void hd__word_wake(atomic_uint *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }
