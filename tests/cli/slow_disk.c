/* For LD_PRELOAD: a disk that takes DISK_S seconds to make sure of a file. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

static const double DISK_S = 0.6;

__attribute__((visibility("default"))) int fsync(int fd) {
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  struct timespec left = {.tv_nsec = (long)(DISK_S * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  return real ? real(fd) : -1;
}
