/* Watching files by inotify: see file_watch.h. */
#include "platform/file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

int hd__file_watch_open(void) { return inotify_init1(IN_NONBLOCK | IN_CLOEXEC); }

void hd__file_watch_add(int watch, const char *path) { inotify_add_watch(watch, path, IN_MODIFY | IN_CLOSE_WRITE); }

void hd__file_watch_clear(int watch) {
  char events[4096];
  while (read(watch, events, sizeof events) > 0)
    ;
}
