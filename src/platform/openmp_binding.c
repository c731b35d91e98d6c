/* Asking the OpenMP runtime that the program has loaded, if any: see openmp_binding.h. */
#include "platform/openmp_binding.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Functions of the OpenMP standard; the library links none of them. */
typedef struct runtime {
  int (*num_places)(void);
  int (*all_procs)(void); /* of the mask that the process started with */
  int (*num_procs)(int place);
  void (*proc_ids)(int place, int *ids);
} runtime;

static bool may_bind(void) {
  static const char *const variable[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  for (size_t i = 0; i < sizeof variable / sizeof *variable; i++)
    if (getenv(variable[i]))
      return true;
  return false;
}

/* Called for each loaded library: the path of a runtime ends the search. Opening it here could wait for a lock. */
static int find(struct dl_phdr_info *info, size_t bytes, void *path) {
  static const char *const names[] = {"libgomp", "libomp", "libiomp5"};
  const char *slash = strrchr(info->dlpi_name, '/'), *file = slash ? slash + 1 : info->dlpi_name;
  bool is_one = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const size_t length = strlen(names[i]);
    is_one |= !strncmp(file, names[i], length) && (file[length] == '.' || file[length] == '-');
  }
  if (is_one)
    snprintf(path, PATH_MAX, "%s", info->dlpi_name);
  return is_one;
}

static bool look_up(void *function, void *library, const char *name) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
  return found != NULL;
}

static bool open_runtime(runtime *r) {
  char path[PATH_MAX];
  void *library = may_bind() && dl_iterate_phdr(find, path) ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  if (!library)
    return false;
  const bool whole = look_up(&r->num_places, library, "omp_get_num_places") &&
                     look_up(&r->all_procs, library, "omp_get_num_procs") &&
                     look_up(&r->num_procs, library, "omp_get_place_num_procs") &&
                     look_up(&r->proc_ids, library, "omp_get_place_proc_ids");
  dlclose(library); /* the program keeps it loaded */
  return whole;
}

/* False: without memory. */
static bool read_place(hd_cpu_set *place, const runtime *r, int number) {
  const int count = r->num_procs(number);
  *place = (hd_cpu_set){0};
  if (count <= 0)
    return true;
  HD_OWNED int *id = hd__malloc((size_t)count * sizeof *id);
  if (!id)
    return false;
  r->proc_ids(number, id);
  for (int i = 0; i < count; i++)
    hd__cpu_set_add(place, id[i]);
  return true;
}

/* The number of places. False: this first question has made the runtime begin and bind this thread, as LLVM's does; the
 * thread has its mask back. */
static bool count_places(int *places, const runtime *r, const hd_cpu_set *mask) {
  hd_cpu_set now;
  *places = r->num_places();
  if (!hd__cpu_set_read(&now) || !memcmp(&now, mask, sizeof now))
    return true;
  hd__cpu_set_bind(mask);
  return false;
}

/* As hd__openmp_has_bound; *procs: the CPUs that there would be without places. */
static bool read_places(hd_cpu_set *all, int *procs) {
  runtime r;
  hd_cpu_set mask, place;
  bool is_place = false;
  int places;
  *all = (hd_cpu_set){0};
  *procs = 0;
  if (!open_runtime(&r) || !hd__cpu_set_read(&mask) || !count_places(&places, &r, &mask))
    return false;
  for (int i = 0; i < places; i++) {
    if (!read_place(&place, &r, i))
      return false;
    is_place |= !memcmp(&place, &mask, sizeof place);
    hd__cpu_set_join(all, &place);
  }
  *procs = r.all_procs();
  return is_place;
}

bool hd__openmp_has_bound(hd_cpu_set *all) {
  int procs;
  return read_places(all, &procs);
}

const char *hd__openmp_limit(void) {
  static const char *const lists[] = {"OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
  hd_cpu_set all;
  int procs;
  if (!read_places(&all, &procs) || hd__cpu_set_count(&all) >= procs)
    return NULL;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (getenv(lists[i]))
      return lists[i];
  return NULL;
}

bool hd__openmp_unbound(hd_cpu_set *out) { return hd__openmp_has_bound(out) || hd__cpu_set_read(out); }
