/* Opening OpenBLAS. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tensor/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS 0.3.21 takes every Zen CPU for one without AVX-512, at half of its speed. NULL: it knows better. */
static const char *better_core(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
#endif
  return NULL;
}

/* Opens the library with a variable set, unless the user set it, and puts the environment back. */
static void *open_with(const char *library, const char *core) {
  const char *const name[2] = {"OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS"}, *const value[2] = {core, "1"};
  bool ours[2];
  for (int i = 0; i < 2; i++) {
    ours[i] = value[i] && !getenv(name[i]);
    if (ours[i])
      setenv(name[i], value[i], 1);
  }
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  for (int i = 0; i < 2; i++)
    if (ours[i])
      unsetenv(name[i]);
  return handle;
}

/* A function of the library under the type of a pointer to it; C has no cast from data to code. */
static bool find(void *function, void *handle, const char *name) {
  void *symbol = dlsym(handle, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void describe(hd_blas *blas, void *handle) {
  char *(*config)(void), *(*core)(void);
  const char *version = find(&config, handle, "openblas_get_config") ? config() : "OpenBLAS";
  int words = 0, end = 0;
  while (version[end] && !(version[end] == ' ' && ++words == 2))
    end++;
  snprintf(blas->name, sizeof blas->name, "%.*s %s", end, version,
           find(&core, handle, "openblas_get_corename") ? core() : "");
}

bool hd__blas_open(hd_blas *out, const char *library) {
  void (*set_threads)(int);
  int (*get_threads)(void);
  void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  void *handle = loaded ? loaded : open_with(library, better_core());
  if (!handle)
    return false;
  bool usable = find(&out->sgemm, handle, "cblas_sgemm") && find(&set_threads, handle, "openblas_set_num_threads") &&
                find(&get_threads, handle, "openblas_get_num_threads");
  if (usable && !loaded)
    set_threads(1);
  if (!usable || get_threads() != 1) {
    dlclose(handle);
    return false;
  }
  describe(out, handle);
  return true;
}

static hd_blas blas;
static const hd_blas *opened;

static void open_once(void) {
  const char *library = getenv("HEDDLE_BLAS");
  if (!library || !*library)
    library = "libopenblas.so.0";
  if (strcmp(library, "none") && hd__blas_open(&blas, library))
    opened = &blas;
}

const hd_blas *hd__blas(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_once);
  return opened;
}
