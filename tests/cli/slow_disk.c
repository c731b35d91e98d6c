/* For LD_PRELOAD: a disk that takes DISK_S seconds to make sure of the state of a checkpoint. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double DISK_S = 2.5;

__attribute__((visibility("default"))) int fsync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  struct timespec left = {.tv_sec = (time_t)DISK_S, .tv_nsec = (long)((DISK_S - (time_t)DISK_S) * 1e9)};
  char link[64], path[4096] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (readlink(link, path, sizeof path - 1) > 0 && strstr(path, "state.safetensors"))
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
  return real ? real(fd) : -1;
}
