/* GPUs through NVIDIA's management library, which is loaded at run time.
 *
 * The library, or functions of it, may be missing; each query may fail. Values that could not be read are unknown,
 * never an error. */
#pragma once

#include "base/tools_api.h"
#include "heddle/monitor.h"

typedef struct hd_nvml hd_nvml;

/* NULL if there is nothing to query; `note` then gets the reason in one line. */
HD_TOOLS_API hd_nvml *hd__nvml_open(char note[HD_LOOK_TEXT_BYTES]);
HD_TOOLS_API void hd__nvml_close(hd_nvml *nvml);

HD_TOOLS_API int hd__nvml_count(const hd_nvml *nvml);

/* The present state of GPU number `index`. */
HD_TOOLS_API void hd__nvml_look(hd_gpu *out, const hd_nvml *nvml, int index);
