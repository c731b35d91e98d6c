/* Finds the driver's functions; see cuda_driver.h. The library stays loaded, since unloading it is unsafe. */
#include "exec/gpu/device/cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  size_t offset;
  const char *name;
} calls[] = {
#define CALL(field, name, parameters) {offsetof(hd_cuda_driver, field), name},
    HD_CUDA_CALLS(CALL)
#undef CALL
};

/* The name of the first missing function, NULL if there is none. */
static const char *find_calls(hd_cuda_driver *driver) {
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    void *function = dlsym(driver->library, calls[i].name);
    if (!function)
      return calls[i].name;
    memcpy((char *)driver + calls[i].offset, &function, sizeof function);
  }
  return NULL;
}

const char *hd__cuda_driver_error(char text[HD_CUDA_ERROR_BYTES], const hd_cuda_driver *driver, cu_result error) {
  const char *name = NULL, *words = NULL;
  if (driver->error_name(error, &name) != CU_DONE || !name)
    name = "an unknown error";
  if (driver->error_text(error, &words) != CU_DONE || !words)
    words = "the driver has no words for it";
  snprintf(text, HD_CUDA_ERROR_BYTES, "%s: %s", name, words);
  return text;
}

static const char *name_of(void) {
  const char *wanted = secure_getenv("HEDDLE_CUDA_DRIVER");
  return wanted && *wanted ? wanted : "libcuda.so.1";
}

bool hd__cuda_driver_there(void) { return dlopen(name_of(), RTLD_NOW | RTLD_LOCAL) != NULL; }

hd_status hd__cuda_driver_open(hd_cuda_driver *driver, hd_ctx *ctx) {
  const char *name = name_of();
  char text[HD_CUDA_ERROR_BYTES];
  *driver = (hd_cuda_driver){0};
  snprintf(driver->file, sizeof driver->file, "%s", name);
  driver->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!driver->library)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--device cuda expects NVIDIA's driver, found none: %.96s cannot be loaded; install the driver, or "
                    "use --device cpu",
                    name);
  const char *missing = find_calls(driver);
  if (missing)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "--device cuda expects a newer driver, found %.96s without %s; update NVIDIA's driver, or use "
                    "--device cpu",
                    name, missing);
  const cu_result error = driver->init(0);
  if (error == CU_DONE)
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED,
                  "--device cuda expects a GPU that the driver can use, found none (%s); see nvidia-smi, or use "
                  "--device cpu",
                  hd__cuda_driver_error(text, driver, error));
}
