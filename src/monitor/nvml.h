/* GPUs through NVIDIA's management library, which is loaded while the program runs.
 *
 * The library, or parts of it, may be missing; each question may fail by itself. Whatever was not answered is unknown,
 * never an error. */
#ifndef HD_MONITOR_NVML_H
#define HD_MONITOR_NVML_H

#include "heddle/monitor.h"

typedef struct hd_nvml hd_nvml;

/* NULL if there is nothing to ask; `note` gets one line: why. */
hd_nvml *hd__nvml_open(char note[HD_LOOK_TEXT_BYTES]);
void hd__nvml_close(hd_nvml *nvml);

int hd__nvml_count(const hd_nvml *nvml);

/* GPU number `index` as it is now. */
void hd__nvml_look(hd_gpu *out, const hd_nvml *nvml, int index);

#endif
