/* UNIX sockets under abstract addresses: see local_socket.h. */
#include "platform/local_socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { QUEUE = 4096 }; /* waiting connections; the system may set a lower limit */

/* The name is ended by its length; the leading zero makes it abstract. */
static socklen_t address_of(struct sockaddr_un *address, const char *name) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  const int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "%s", name);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(void) { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

static int close_with(int fd, int why) {
  if (fd >= 0)
    close(fd);
  errno = why;
  return -1;
}

int hd__local_listen(const char *name) {
  struct sockaddr_un address;
  const socklen_t length = address_of(&address, name);
  const int fd = open_socket();
  if (fd >= 0 && bind(fd, (const struct sockaddr *)(const void *)&address, length) == 0 && listen(fd, QUEUE) == 0)
    return fd;
  return close_with(fd, errno);
}

/* For a connected socket these are the credentials that the peer had when it began to listen. */
bool hd__local_peer_is_same_user(int fd, uid_t *user) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  *user = (uid_t)-1;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0)
    return false;
  *user = peer.uid;
  return peer.uid == geteuid();
}

hd_name_holder hd__local_connect(int *fd, uid_t *user, const char *name) {
  struct sockaddr_un address;
  const socklen_t length = address_of(&address, name);
  const int opened = open_socket();
  *user = (uid_t)-1;
  *fd = -1;
  if (opened < 0 || connect(opened, (const struct sockaddr *)(const void *)&address, length) != 0) {
    const int why = errno;
    close_with(opened, why);
    return opened >= 0 && why == ECONNREFUSED ? HD_NAME_FREE : HD_NAME_UNKNOWN;
  }
  if (!hd__local_peer_is_same_user(opened, user)) {
    close(opened);
    return *user == (uid_t)-1 ? HD_NAME_UNKNOWN : HD_NAME_OTHER_USER;
  }
  *fd = opened;
  return HD_NAME_SAME_USER;
}

pid_t hd__local_socket_maker(int fd) {
  struct ucred maker = {0};
  socklen_t length = sizeof maker;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &maker, &length) == 0 && maker.pid > 0 ? maker.pid : 0;
}
