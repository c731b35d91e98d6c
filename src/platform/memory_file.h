/* Files in memory, without a name in any file system: memory that other processes map by the descriptor. No process can
 * make one shorter, so a mapping never loses a page. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A descriptor of a new file of this many zeros, closed by exec; -1 with errno. A file that may not grow has all of its
 * memory allocated at once, so that a lack of memory shows here. The name only appears in /proc. */
int hd__memory_file(const char *name, int64_t bytes, bool may_grow);

/* Whether no process can make the file shorter or, where it may not grow, longer. */
bool hd__memory_file_is_fixed(int fd, bool may_grow);

/* Gives the memory of a range back to the system: it reads as zeros then. */
void hd__memory_file_free(int fd, int64_t offset, int64_t bytes);
