/* The terminal as a screen: the alternate one, keys without echo, signals as events.
 *
 * The terminal is restored by terminal_close, by a signal that ends the program, except SIGKILL, and by a crash.
 * Ctrl-Z restores the terminal too, and continuing takes it again. */
#pragma once

#include <stddef.h>

/* Events of terminal_wait other than characters. */
enum {
  TERMINAL_TIME = -1, /* nothing happened */
  TERMINAL_DRAW = -2, /* the size has changed, or another program used the screen */
  TERMINAL_END = -3,  /* a signal to end, or the terminal is gone: see terminal_signal */
  TERMINAL_UP = 0x100,
  TERMINAL_DOWN,
  TERMINAL_OTHER /* any other key */
};

/* 0, or -1 if standard input and output are not a capable terminal. */
int terminal_open(void);
void terminal_close(void);

/* The next event within the given number of seconds. */
int terminal_wait(double seconds);

/* The signal of TERMINAL_END; 0: the terminal is gone. */
int terminal_signal(void);

void terminal_size(int *rows, int *columns);

/* Writes all bytes; 0, or -1 if the write fails. */
int terminal_write(const char *text, size_t length);
