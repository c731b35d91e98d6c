/* Sleeping until a word of memory changes, in this process or in others that map it too. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleeps while *word is `seen`, at most this many ns, 0: without a limit. May return early: check the word again.
 * False: the time is up. */
bool hd__word_wait(atomic_uint *word, unsigned seen, int64_t most_ns);

/* Wakes all threads that sleep on the word, after it was changed. */
void hd__word_wake(atomic_uint *word);
