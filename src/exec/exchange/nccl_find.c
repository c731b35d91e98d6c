/* Finding NCCL: see nccl_find.h. */
#include "exec/exchange/nccl_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heddle/dtype.h"
#include "heddle/group.h"
#include "platform/module.h"

hd_status hd__nccl_find(const hd_nccl **out, hd_ctx *ctx, const char *what, const char *instead) {
  const char *library = secure_getenv("HEDDLE_NCCL");
  char remedy[160], why[HD_NCCL_WHY_BYTES] = "";
  void *found;
  snprintf(remedy, sizeof remedy, "build heddle where nccl_functions.h is (./configure --with-cuda=DIR), or %s",
           instead);
  HD_TRY(hd__module_find(&found, ctx, "nccl", HD_NCCL_SYMBOL, what, remedy));
  const hd_nccl *nccl = found;
  if (nccl->version != HD_NCCL_VERSION)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "expected the module heddle-nccl.so of this heddle, found another build's; "
                    "install both from one build");
  if (library && !strcmp(library, "none"))
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s expects NVIDIA's NCCL, found HEDDLE_NCCL=none; unset it, or %s", what,
                    instead);
  if (nccl->open(library && *library ? library : NULL, why) != 0)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s expects NVIDIA's NCCL, found none: %s; install libnccl2, or %s", what,
                    why, instead);
  *out = nccl;
  return HD_OK;
}

void hd__nccl_name(char name[HD_NCCL_NAME_BYTES], const hd_nccl *nccl) {
  char why[HD_NCCL_WHY_BYTES];
  int version = 0;
  if (nccl->number(&version, why) == 0 && version > 0)
    snprintf(name, HD_NCCL_NAME_BYTES, "NCCL %d.%d.%d", version / 10000 % 1000, version / 100 % 100, version % 100);
  else
    snprintf(name, HD_NCCL_NAME_BYTES, "NCCL");
}

hd_nccl_call hd__nccl_sum_of_floats(float *output, const float *input, int64_t count) {
  return (hd_nccl_call){.kind = HD_NCCL_ALL_REDUCE,
                        .input = input,
                        .output = output,
                        .count = count,
                        .dtype = (int32_t)HD_F32,
                        .op = (int32_t)HD_REDUCE_SUM};
}
