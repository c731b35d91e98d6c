/* Reading --device, and refusing what a GPU does not do yet; see device.h. */
#include "train/device.h"

#include <string.h>

#include "base/number.h"

enum { AUTO = -2, CPU = -1 };

/* The GPU's number, or CPU; false if it is neither. */
static bool parse(int *index, const char *text) {
  int64_t number = 0;
  *index = !strcmp(text, "auto") ? AUTO : !strcmp(text, "cpu") ? CPU : 0;
  if (*index < 0 || !strcmp(text, "cuda"))
    return true;
  if (strncmp(text, "cuda:", 5) || !hd__parse_int64(&number, text + 5) || number < 0 || number > 1023)
    return false;
  *index = (int)number;
  return true;
}

hd_status hd__device_check(hd_ctx *ctx, const char *text) {
  int index;
  return parse(&index, text)
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE, "--device expects auto, cpu, cuda or cuda:N, found '%.60s'", text);
}

static hd_status refuse(hd_ctx *ctx, const char *what, const char *remedy) {
  return hd__fail(ctx, HD_E_UNSUPPORTED, "--device cuda expects %s; %s, or use --device cpu", what, remedy);
}

static bool is_native(const hd_config *config) { return !strcmp(hd__config_text(config, HD_OPT_arithmetic), "native"); }

/* What only the other device does. */
static hd_status check_cpu_settings(hd_ctx *ctx, const hd_config *config) {
  const char *precision = hd__config_text(config, HD_OPT_precision);
  if (!strcmp(precision, "tf32"))
    return hd__fail(ctx, HD_E_USAGE, "--precision tf32 expects a GPU, found --device cpu; use --device cuda, or f32");
  if (strcmp(precision, "f32") && is_native(config))
    return hd__fail(
        ctx, HD_E_USAGE,
        "--precision bf16 expects --arithmetic portable, whose promise it keeps, found native; leave one out");
  return HD_OK;
}

/* Which numbers come out must not depend on which device was faster. */
static hd_status check_auto_settings(hd_ctx *ctx, const hd_config *config) {
  if (is_native(config))
    return hd__fail(ctx, HD_E_USAGE,
                    "--device auto expects --arithmetic portable, found native, whose numbers are each device's own; "
                    "name the device");
  return check_cpu_settings(ctx, config);
}

static hd_status check_settings(hd_ctx *ctx, const hd_config *config) {
  const char *precision = hd__config_text(config, HD_OPT_precision);
  if (strcmp(precision, "f32") && !is_native(config))
    return hd__fail(ctx, HD_E_USAGE,
                    "--precision %s on a GPU expects --arithmetic native, since NVIDIA's libraries compute it, found "
                    "portable; give that, or --precision f32",
                    precision);
  if (hd__config_int(config, HD_OPT_procs) > 1)
    return refuse(ctx, "one process, found --procs", "leave it out");
  if (hd__config_has(config, HD_OPT_profile))
    return refuse(ctx, "no --profile, found one", "leave it out");
  return HD_OK;
}

hd_cuda_precision hd__device_precision(const hd_config *config) {
  const char *precision = hd__config_text(config, HD_OPT_precision);
  return !strcmp(precision, "tf32") ? HD_CUDA_TF32 : !strcmp(precision, "bf16") ? HD_CUDA_BF16 : HD_CUDA_F32;
}

hd_status hd__device_open(hd_cuda **out, hd_ctx *ctx, const hd_config *config) {
  return hd__device_open_named(out, ctx, config, hd__config_text(config, HD_OPT_device));
}

hd_status hd__device_open_named(hd_cuda **out, hd_ctx *ctx, const hd_config *config, const char *text) {
  int index;
  *out = NULL;
  HD_TRY(hd__device_check(ctx, text));
  parse(&index, text);
  if (index == AUTO)
    return check_auto_settings(ctx, config);
  if (index == CPU)
    return check_cpu_settings(ctx, config);
  HD_TRY(check_settings(ctx, config));
  HD_TRY(hd__cuda_open(out, ctx, index));
  const hd_status status = is_native(config) ? hd__cuda_native_create(&(*out)->native, ctx, *out) : HD_OK;
  if (status != HD_OK) {
    hd__cuda_close(*out);
    *out = NULL;
  }
  return status;
}
