/* This program's file and mappings from /proc/self: see this_program.h. */
#include "platform/this_program.h"

#include <fcntl.h>
#include <unistd.h>

const char *const hd__program_again = "/proc/self/exe";

bool hd__program_path(char *path, size_t bytes) {
  const ssize_t length = readlink(hd__program_again, path, bytes - 1);
  path[length > 0 ? length : 0] = 0;
  return length > 0;
}

/* ---- Mappings ---- */

/* The list of mappings, character by character. */
typedef struct list {
  int fd;
  ssize_t at, filled;
  char bytes[4096];
} list;

/* The next character, -1: none. */
static int next(list *l) {
  if (l->at == l->filled) {
    l->filled = read(l->fd, l->bytes, sizeof l->bytes);
    l->at = 0;
  }
  return l->filled <= 0 ? -1 : (unsigned char)l->bytes[l->at++];
}

/* Reads a number in base 16; returns the character behind it. */
static int number(uintptr_t *out, list *l) {
  int c;
  for (*out = 0; (c = next(l)) != -1; *out = *out * 16 + (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10))
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
      break;
  return c;
}

/* A line is "low-high access offset device inode   name". */
void hd__program_file_at(char *name, size_t bytes, uintptr_t place) {
  static list l;
  name[0] = 0;
  l = (list){.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  for (int c = l.fd < 0 ? -1 : 0; c != -1 && !name[0];) {
    uintptr_t low, high;
    number(&low, &l);
    c = number(&high, &l);
    for (int blanks = 0; c != -1 && c != '\n' && (blanks < 5 || c == ' '); c = next(&l))
      blanks += c == ' ';
    size_t length = 0;
    for (; c != -1 && c != '\n'; c = next(&l))
      if (place >= low && place < high && length < bytes - 1)
        name[length++] = (char)c;
    name[length] = 0;
  }
  if (l.fd >= 0)
    close(l.fd);
}
