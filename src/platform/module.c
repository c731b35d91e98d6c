/* Searching and loading modules: see module.h. */
#include "platform/module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PKGLIBDIR
#define PKGLIBDIR "/usr/local/lib/heddle"
#endif

/* Whether the module is in the folder; its path is in `path` then. */
static int is_in(char path[PATH_MAX], const char *folder, int length, const char *below, const char *name) {
  const int n = snprintf(path, PATH_MAX, "%.*s%s/heddle-%s.so", length, folder, below, name);
  return n > 0 && n < PATH_MAX && access(path, R_OK) == 0;
}

static int is_in_list(char path[PATH_MAX], const char *list, const char *name) {
  for (; *list; list += strcspn(list, ":"), list += *list == ':')
    if (is_in(path, list, (int)strcspn(list, ":"), "", name))
      return 1;
  return 0;
}

static int look_for(char path[PATH_MAX], const char *name) {
  static const char here = 0;
  const char *list = secure_getenv("HEDDLE_MODULE_PATH");
  Dl_info library;
  if (list)
    return is_in_list(path, list, name);
  if (dladdr(&here, &library) && library.dli_fname && strrchr(library.dli_fname, '/')) {
    const int length = (int)(strrchr(library.dli_fname, '/') - library.dli_fname);
    if (is_in(path, library.dli_fname, length, "", name) || is_in(path, library.dli_fname, length, "/heddle", name))
      return 1;
  }
  return is_in(path, PKGLIBDIR, (int)strlen(PKGLIBDIR), "", name);
}

hd_status hd__module_find(void **out, hd_ctx *ctx, const char *name, const char *symbol, const char *what,
                          const char *remedy) {
  char path[PATH_MAX];
  *out = NULL;
  if (!look_for(path, name))
    return hd__fail(ctx, HD_E_UNSUPPORTED, "expected the module heddle-%s.so for %s, found none in %s; %s", name, what,
                    secure_getenv("HEDDLE_MODULE_PATH") ? "HEDDLE_MODULE_PATH" : PKGLIBDIR, remedy);
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  *out = module ? dlsym(module, symbol) : NULL;
  if (*out)
    return HD_OK;
  const char *why = dlerror();
  return hd__fail(ctx, HD_E_UNSUPPORTED, "expected a module for %s in %s, found: %.300s; %s", what, path,
                  why ? why : "not a module of heddle", remedy);
}
