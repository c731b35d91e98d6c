/* The terminal as a screen: the alternate one, keys without echo, signals as events.
 *
 * Whatever ends the program, except what nobody can catch, puts the terminal back as it was: terminal_close, a signal
 * that ends it, a crash. Ctrl-Z gives the terminal back too, and takes it again afterwards. */
#ifndef HD_CLI_TERMINAL_H
#define HD_CLI_TERMINAL_H

#include <stddef.h>

/* What terminal_wait tells beside characters. */
enum {
  TERMINAL_TIME = -1, /* nothing happened */
  TERMINAL_DRAW = -2, /* the size has changed, or the screen was another program's */
  TERMINAL_END = -3,  /* a signal asks for the end, or the terminal is gone: see terminal_signal */
  TERMINAL_UP = 0x100,
  TERMINAL_DOWN,
  TERMINAL_OTHER /* a key that means nothing here */
};

/* 0, or -1 if standard input and output are no terminal to draw on. */
int terminal_open(void);
void terminal_close(void);

/* The next event, within so many seconds. */
int terminal_wait(double seconds);

/* The signal that asked for the end; 0: the terminal is gone. */
int terminal_signal(void);

void terminal_size(int *rows, int *columns);

/* Writes all of it; 0, or -1 if the terminal takes no more. */
int terminal_write(const char *text, size_t length);

#endif
