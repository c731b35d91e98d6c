/* Claims of CPUs: see cpu_claim.h. */
#include "platform/cpu_claim.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "platform/local_socket.h"

/* Jobs that can claim one CPU: when the first of them ends, the claims of the others remain. */
enum { HOLDERS = 8, NAME_BYTES = 48, YIELDS = 100 };

static const char *name_of(char name[NAME_BYTES], int cpu, int holder) {
  snprintf(name, NAME_BYTES, "heddle/cpu/%d/%d", cpu, holder);
  return name;
}

static hd_name_holder holder_of(const char *name) {
  uid_t user;
  int fd;
  const hd_name_holder found = hd__local_connect(&fd, &user, name);
  if (fd >= 0)
    close(fd);
  return found;
}

/* Whether a name that could not be bound is held by this user. A holder that does not listen yet is about to. */
static bool is_of_same_user(const char *name) {
  hd_name_holder found = HD_NAME_FREE;
  for (int i = 0; i < YIELDS && found == HD_NAME_FREE; i++) {
    found = holder_of(name);
    if (found == HD_NAME_FREE)
      sched_yield();
  }
  return found == HD_NAME_SAME_USER;
}

/* A socket that holds a name of the CPU; -1 if none can be had, *taken says whether a job of this user has one. */
static int hold(int cpu, bool *taken) {
  char name[NAME_BYTES];
  *taken = false;
  for (int holder = 0; holder < HOLDERS; holder++) {
    const int fd = hd__local_listen(name_of(name, cpu, holder));
    if (fd >= 0)
      return fd;
    *taken |= errno == EADDRINUSE && is_of_same_user(name);
  }
  return -1;
}

/* Connects to the holder instead of binding the name, which would make a run that starts at that moment see a claim. */
hd_claimed hd__claim_find(int cpu) {
  hd_claimed seen = HD_CLAIMED_NOT;
  for (int holder = 0; holder < HOLDERS; holder++) {
    char name[NAME_BYTES];
    const hd_name_holder found = holder_of(name_of(name, cpu, holder));
    if (found == HD_NAME_SAME_USER)
      return HD_CLAIMED_SAME_USER;
    if (found == HD_NAME_OTHER_USER)
      seen = HD_CLAIMED_OTHER_USER;
  }
  return seen;
}

/* Whether an earlier thread has its CPU: a job claims it once. */
static bool is_held(const hd_claim *claim, const hd_placement *place) {
  for (int i = 0; i < claim->count; i++)
    if (place->thread[i].cpu == place->thread[claim->count].cpu)
      return true;
  return false;
}

bool hd__claim_take(hd_claim *claim, const hd_placement *place) {
  bool complete = true;
  *claim = (hd_claim){.socket = hd__malloc((size_t)place->threads * sizeof *claim->socket)};
  for (; claim->socket && claim->count < place->threads; claim->count++) {
    const int cpu = place->thread[claim->count].cpu;
    bool taken = false;
    claim->socket[claim->count] = cpu < 0 || is_held(claim, place) ? -1 : hold(cpu, &taken);
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
