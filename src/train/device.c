/* Reading --device, and refusing what a GPU does not do yet; see device.h. */
#include "train/device.h"

#include <string.h>

#include "base/number.h"

enum { CPU = -1 };

/* The GPU's number, or CPU; false if it is neither. */
static bool parse(int *index, const char *text) {
  int64_t number = 0;
  *index = strcmp(text, "cpu") ? 0 : CPU;
  if (*index == CPU || !strcmp(text, "cuda"))
    return true;
  if (strncmp(text, "cuda:", 5) || !hd__parse_int64(&number, text + 5) || number < 0 || number > 1023)
    return false;
  *index = (int)number;
  return true;
}

hd_status hd__device_check(hd_ctx *ctx, const char *text) {
  int index;
  return parse(&index, text) ? HD_OK
                             : hd__fail(ctx, HD_E_USAGE, "--device expects cpu, cuda or cuda:N, found '%.60s'", text);
}

static hd_status refuse(hd_ctx *ctx, const char *what, const char *remedy) {
  return hd__fail(ctx, HD_E_UNSUPPORTED, "--device cuda expects %s; %s, or use --device cpu", what, remedy);
}

/* What only the CPU does. */
static hd_status check_settings(hd_ctx *ctx, const hd_config *config) {
  if (strcmp(hd__config_text(config, HD_OPT_arithmetic), "portable"))
    return refuse(ctx, "--arithmetic portable, found native", "leave it out");
  if (strcmp(hd__config_text(config, HD_OPT_precision), "f32"))
    return refuse(ctx, "--precision f32, found bf16", "leave it out");
  if (hd__config_int(config, HD_OPT_procs) > 1)
    return refuse(ctx, "one process, found --procs", "leave it out");
  if (hd__config_has(config, HD_OPT_profile))
    return refuse(ctx, "no --profile, found one", "leave it out");
  return HD_OK;
}

hd_status hd__device_open(hd_cuda **out, hd_ctx *ctx, const hd_config *config) {
  const char *text = hd__config_text(config, HD_OPT_device);
  int index;
  *out = NULL;
  HD_TRY(hd__device_check(ctx, text));
  parse(&index, text);
  if (index == CPU)
    return HD_OK;
  HD_TRY(check_settings(ctx, config));
  return hd__cuda_open(out, ctx, index);
}
