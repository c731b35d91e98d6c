/* Loading OpenBLAS: see blas.h. */
#include "tensor/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/environment.h"

/* OpenBLAS 0.3.21 treats every Zen CPU as one without AVX-512, at half of its speed. NULL: its detection is right. */
static const char *better_core(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
#endif
  return NULL;
}

typedef struct opening {
  const char *library;
  void *handle;
} opening;

static void open_library(void *arg) {
  opening *o = arg;
  o->handle = dlopen(o->library, RTLD_NOW | RTLD_LOCAL);
}

/* Loads the library with the variables that its constructor reads, unless the user set them. */
static void *open_with(const char *library, const char *core) {
  static char type[64];
  opening o = {.library = library};
  snprintf(type, sizeof type, "OPENBLAS_CORETYPE=%s", core ? core : "");
  hd__environment_during((const char *const[]){"OPENBLAS_NUM_THREADS=1", core ? type : NULL, NULL}, open_library, &o);
  return o.handle;
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
  const char *library = secure_getenv("HEDDLE_BLAS");
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
