/* Holding names of Unix sockets. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/claim.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"

/* Jobs that can hold one CPU: when the first of them ends, the others are still seen. */
enum { HOLDERS = 8 };

/* A socket, and a CPU's name for one of its holders; the length that goes with it, or 0. */
static socklen_t name_of(struct sockaddr_un *address, int *fd, int cpu, int holder) {
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  const int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "heddle/cpu/%d/%d", cpu, holder);
  *fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  /* The length ends the name; the leading zero makes it an abstract one. */
  return *fd < 0 ? 0 : (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* A socket that holds a name of the CPU; -1 if none can be had, *taken says whether another one has one. */
static int hold(int cpu, bool *taken) {
  struct sockaddr_un address;
  *taken = false;
  for (int holder = 0; holder < HOLDERS; holder++) {
    int fd;
    const socklen_t bytes = name_of(&address, &fd, cpu, holder);
    if (fd < 0)
      return -1;
    if (bind(fd, (const struct sockaddr *)(const void *)&address, bytes) == 0)
      return fd;
    *taken |= errno == EADDRINUSE;
    close(fd);
  }
  return -1;
}

/* By a call to whoever holds the name: one who looks must not hold it meanwhile, or a run that starts just then would
 * take it for taken. */
bool hd__claim_seen(int cpu) {
  struct sockaddr_un address;
  bool taken = false;
  for (int holder = 0; holder < HOLDERS && !taken; holder++) {
    int fd;
    const socklen_t bytes = name_of(&address, &fd, cpu, holder);
    if (fd < 0)
      return false;
    taken = connect(fd, (const struct sockaddr *)(const void *)&address, bytes) == 0;
    close(fd);
  }
  return taken;
}

bool hd__claim_take(hd_claim *claim, const hd_placement *place) {
  bool complete = true;
  *claim = (hd_claim){.socket = hd__malloc((size_t)place->lanes * sizeof *claim->socket)};
  for (; claim->socket && claim->count < place->lanes; claim->count++) {
    const int cpu = place->lane[claim->count].cpu;
    bool taken = false;
    claim->socket[claim->count] = cpu < 0 ? -1 : hold(cpu, &taken);
    complete &= !taken;
  }
  return complete;
}

void hd__claim_drop(hd_claim *claim) {
  for (int i = 0; i < claim->count; i++)
    if (claim->socket[i] >= 0)
      close(claim->socket[i]);
  hd__free(claim->socket);
  *claim = (hd_claim){0};
}
