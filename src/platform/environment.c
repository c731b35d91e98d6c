/* Copies of the environment: see environment.h. */
#include "platform/environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"

extern char **environ;

static bool is_set(const char *variable, const char *const *set) {
  for (; *set; set++)
    if (!strncmp(variable, *set, strcspn(*set, "=") + 1))
      return true;
  return false;
}

static size_t count_of(const char *const *list) {
  size_t count = 0;
  while (list && list[count])
    count++;
  return count;
}

/* Without an environment, after clearenv, the list is NULL. The copy has room for one more pointer behind the NULL. */
char **hd__environment_with(const char *const *set) {
  const size_t count = count_of((const char *const *)environ), more = count_of(set);
  char **copy = hd__calloc(count + more + 2, sizeof *copy);
  size_t kept = 0;
  for (size_t i = 0; copy && i < count; i++)
    if (!is_set(environ[i], set))
      copy[kept++] = environ[i];
  for (size_t i = 0; copy && i < more; i++)
    copy[kept++] = (char *)(size_t)set[i]; /* as exec and getenv take them */
  return copy;
}

void hd__environment_during(const char *const *set, void (*call)(void *arg), void *arg) {
  enum { MOST = 8 };
  static char **lists; /* all lists made here, linked behind the NULL of each */
  const char *lacking[MOST + 1] = {NULL};
  char **before = environ;
  size_t count = 0;
  for (; *set && count < MOST; set++) {
    const char *const wanted[] = {*set, NULL};
    bool there = false; /* in a setuid program the user's variables do not count */
    for (char **at = before; at && *at && !there && !getauxval(AT_SECURE); at++)
      there = is_set(*at, wanted);
    if (!there)
      lacking[count++] = *set;
  }
  char **list = count > 0 ? hd__environment_with(lacking) : NULL;
  if (list) {
    list[count_of((const char *const *)list) + 1] = (char *)lists;
    lists = list;
    __atomic_store_n(&environ, list, __ATOMIC_RELEASE);
  }
  call(arg);
  if (list) /* unless the library has replaced the list */
    __atomic_compare_exchange_n(&environ, &list, before, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}
