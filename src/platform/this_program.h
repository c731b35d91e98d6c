/* This program's file, and the files that it maps. The command has a copy of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A path that starts this program again, even if its file was replaced. */
extern const char *const hd__program_again;

/* The path of this program's file; false where it is not known. */
bool hd__program_path(char *path, size_t bytes);

/* The file that this program maps at an address, cut to `bytes` - 1; "" if there is none. A signal handler may call it:
 * it takes no memory, no stream and no lock, but only one thread at a time may. */
void hd__program_file_at(char *name, size_t bytes, uintptr_t place);
