/* An OpenMP runtime with a place for each of two CPUs, which no machine has; as LLVM's it begins with the first
 * question that it is asked: then it calls omp_stub_begin, which the test sets. */
#include <stddef.h>

enum { PLACES = 2, FIRST_CPU = 4094 };

#pragma GCC visibility push(default)

int omp_get_num_places(void);
int omp_get_num_procs(void);
int omp_get_place_num_procs(int place);
void omp_get_place_proc_ids(int place, int *ids);

void (*omp_stub_begin)(void);

int omp_get_num_places(void) {
  void (*begin)(void) = omp_stub_begin;
  omp_stub_begin = NULL;
  if (begin)
    begin();
  return PLACES;
}

int omp_get_num_procs(void) { return PLACES; }

int omp_get_place_num_procs(int place) { return place < PLACES; }

void omp_get_place_proc_ids(int place, int *ids) { ids[0] = FIRST_CPU + place; }
