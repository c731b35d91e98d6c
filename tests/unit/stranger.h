/* A hostile second user of the machine, for tests: changes to another user, who binds the socket names of ranks'
 * rendezvous and of CPU reservations, and answers there with hostile memory.
 *
 * To be included after scratch.h or with _GNU_SOURCE. */
#ifndef HD_TESTS_STRANGER_H
#define HD_TESTS_STRANGER_H

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/version.h"

enum { STRANGER = 65533, NAMES = 8, NAME_BYTES = 108 };

static bool become_stranger(void) {
  return setgroups(0, NULL) == 0 && setresgid(STRANGER, STRANGER, STRANGER) == 0 &&
         setresuid(STRANGER, STRANGER, STRANGER) == 0;
}

__attribute__((unused)) static bool has_second_user(void) {
  static int known = -1;
  int how = 1;
  if (known >= 0)
    return known;
  const pid_t pid = fork();
  if (pid == 0)
    _exit(become_stranger() ? 0 : 1);
  if (pid > 0)
    waitpid(pid, &how, 0);
  known = how == 0;
  return known;
}

typedef struct names {
  char name[2 * NAMES][NAME_BYTES];
  int count;
} names;

static uint64_t sum_of(const char *key) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325);
  for (; *key; key++)
    sum = (sum ^ (unsigned char)*key) * UINT64_C(0x100000001b3);
  return sum;
}

/* The first `count` names of the rendezvous of root's ranks by this method. */
static names names_of(const char *method, int count) {
  names n = {.count = count};
  for (int i = 0; i < count; i++)
    snprintf(n.name[i], NAME_BYTES, "heddle-group-%u-%016llx-%d", (unsigned)geteuid(),
             (unsigned long long)sum_of(method), i);
  return n;
}

/* `count` names of each of some CPUs from `cpu` on. */
static names names_of_cpus(int cpu, int count, int cpus) {
  names n = {.count = count * cpus};
  for (int i = 0; i < n.count; i++)
    snprintf(n.name[i], NAME_BYTES, "heddle/cpu/%d/%d", cpu + i / count, i % count);
  return n;
}

/* A memory file that its maker can cut short, with a head that looks right. */
static int hostile_file(void) {
  const struct {
    uint64_t magic;
    uint32_t version;
    int32_t ranks, parent;
  } head = {UINT64_C(0x646c726f77646468), hd__version_hash(), 2, 0};
  const int fd = memfd_create("heddle-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, 64 << 20) != 0 || pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
    _exit(1);
  return fd;
}

static void hand_over(int peer, int fd) {
  char text[1] = "";
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec part = {text, sizeof text};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
  memcpy(CMSG_DATA(head), &fd, sizeof fd);
  sendmsg(peer, &message, MSG_NOSIGNAL);
}

/* Binds a name that a run of another test may hold for a while: up to 20 s. */
static bool bind_when_free(int socket, const struct sockaddr_un *at, socklen_t length) {
  const struct timespec pause = {0, 5000000};
  for (int tries = 0; tries < 4000; tries++) {
    if (bind(socket, (const void *)at, length) == 0)
      return true;
    if (errno != EADDRINUSE)
      return false;
    nanosleep(&pause, NULL);
  }
  return false;
}

/* Holds the names, and gives to each process that comes a memory file, which it then cuts to nothing. */
static bool squat(void *arg, int tell) {
  const names *n = arg;
  int listener[2 * NAMES];
  fd_set ready;
  for (int i = 0; i < n->count; i++) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const size_t length = strlen(n->name[i]);
    memcpy(at.sun_path + 1, n->name[i], length);
    listener[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (listener[i] < 0 ||
        !bind_when_free(listener[i], &at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) ||
        listen(listener[i], 64) != 0)
      return false;
  }
  if (write(tell, "r", 1) != 1)
    return false;
  for (;;) {
    FD_ZERO(&ready);
    for (int i = 0; i < n->count; i++)
      FD_SET(listener[i], &ready);
    if (select(listener[n->count - 1] + 1, &ready, NULL, NULL, NULL) <= 0)
      continue;
    for (int i = 0; i < n->count; i++) {
      char said[256];
      if (!FD_ISSET(listener[i], &ready))
        continue;
      const int peer = accept4(listener[i], NULL, NULL, SOCK_CLOEXEC), fd = hostile_file();
      hand_over(peer, fd);
      const bool spoke = recv(peer, said, sizeof said, 0) > 0;
      (void)!write(tell, spoke ? "ch" : "c", spoke ? 2 : 1);
      (void)!ftruncate(fd, 0);
      close(fd);
      close(peer);
    }
  }
}

#endif
