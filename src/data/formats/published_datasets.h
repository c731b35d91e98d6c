/* Names of published data sets; their reader is declared in format.h. */
#ifndef HD_DATA_FORMATS_PUBLISHED_DATASETS_H
#define HD_DATA_FORMATS_PUBLISHED_DATASETS_H

#include "data/formats/format.h"

bool hd__data_is_published(const char *name);

#endif
