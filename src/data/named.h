/* Names of published data sets; what they are opened by is in format.h. */
#ifndef HD_DATA_NAMED_H
#define HD_DATA_NAMED_H

#include "data/format.h"

bool hd__data_is_published(const char *name);

#endif
