/* Waiting until other processes write to files. Only the command uses it. */
#pragma once

/* A descriptor that becomes readable when a watched file is written; -1 with errno. Closed by close. */
int hd__file_watch_open(void);

/* Watches the file that is at a path now: a file that replaces it is not watched. Watching it twice has no further
 * effect; a missing file is not watched. */
void hd__file_watch_add(int watch, const char *path);

/* Discards all events so far: the descriptor becomes readable again after the next write. */
void hd__file_watch_clear(int watch);
