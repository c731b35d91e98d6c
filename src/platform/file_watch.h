/* Waiting until other processes write to files. Only the command does. */
#pragma once

/* A descriptor that becomes readable when a watched file is written; -1 with errno. Closed by close. */
int hd__file_watch_open(void);

/* Watches what is at a path now: a file that replaces it is another one. Watching it twice is as once; what is not
 * there is not watched. */
void hd__file_watch_add(int watch, const char *path);

/* Forgets all writing so far: it is readable again after the next. */
void hd__file_watch_clear(int watch);
