/* The environment of the process. Other threads, those of the calling program included, may read it at any time, so
 * it is never changed in place. */
#pragma once

/* A copy of the environment with some variables set ("NAME=VALUE", the list ends with NULL), for a new process; it
 * shares the texts. NULL: out of memory. */
char **hd__environment_with(const char *const *set);

/* Calls `call` with these variables added to the environment, unless they are set already: for libraries that read
 * them once, when they are opened. The list of the environment is replaced by one store of one pointer, and the new
 * list is never freed: a thread that reads meanwhile sees one list or the other. Out of memory, `call` runs without
 * them. Not by two threads at once, nor while another thread changes the environment. */
void hd__environment_during(const char *const *set, void (*call)(void *arg), void *arg);
