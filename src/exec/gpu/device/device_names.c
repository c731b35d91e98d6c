/* Devices by name and number: see heddle/device.h. */
#include "heddle/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "exec/gpu/device/cuda_device.h"

_Static_assert((int)HD_CUDA_TEXT_BYTES == (int)HD_DEVICE_NAME_BYTES, "a GPU's name is told whole");

int32_t hd_device_count(hd_ctx *ctx) { return hd__cuda_count(ctx); }

hd_status hd_device_name(char name[HD_DEVICE_NAME_BYTES], hd_ctx *ctx, hd_device device) {
  hd_cuda gpu;
  snprintf(name, HD_DEVICE_NAME_BYTES, "cpu");
  if (device.kind == HD_CPU)
    return HD_OK;
  HD_TRY(hd__cuda_find(&gpu, ctx, device.index));
  snprintf(name, HD_DEVICE_NAME_BYTES, "%s", gpu.name);
  return HD_OK;
}

static void uuid_text(hd_cuda_uuid *out, const cu_uuid *uuid) {
  int at = snprintf(out->text, sizeof out->text, "GPU");
  for (int i = 0; i < 16; i++)
    at += snprintf(out->text + at, sizeof out->text - (size_t)at, "%s%02x",
                   i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid->byte[i]);
}

int hd__cuda_uuids(hd_cuda_uuid out[HD_CUDA_MOST]) {
  hd_cuda_driver driver;
  hd_ctx quiet = {0};
  int count = 0;
  if (hd__cuda_driver_open(&driver, &quiet) != HD_OK || driver.device_count(&count) != CU_DONE)
    return 0;
  count = count < HD_CUDA_MOST ? count : HD_CUDA_MOST;
  for (int i = 0; i < count; i++) {
    cu_uuid uuid = {{0}};
    cu_device device;
    if (driver.device_get(&device, i) == CU_DONE)
      driver.device_uuid(&uuid, device);
    uuid_text(&out[i], &uuid);
  }
  return count;
}

bool hd__cuda_is_shown_one(int count) { return count == 1 && getenv("CUDA_VISIBLE_DEVICES"); }

const char *hd_device_text(char text[HD_DEVICE_TEXT_BYTES], hd_device device) {
  if (device.kind == HD_CPU)
    snprintf(text, HD_DEVICE_TEXT_BYTES, "cpu");
  else
    snprintf(text, HD_DEVICE_TEXT_BYTES, "cuda:%d", (int)device.index);
  return text;
}

hd_status hd_device_parse(hd_device *out, hd_ctx *ctx, const char *text) {
  int64_t number = 0;
  *out = (hd_device){strcmp(text, "cpu") ? HD_CUDA : HD_CPU, 0};
  if (out->kind == HD_CPU || !strcmp(text, "cuda"))
    return HD_OK;
  if (strncmp(text, "cuda:", 5) || !hd__parse_int64(&number, text + 5) || number < 0 || number > 1023)
    return hd__fail(ctx, HD_E_USAGE, "expected a device cpu, cuda or cuda:N, found '%.60s'", text);
  out->index = (int32_t)number;
  return HD_OK;
}
