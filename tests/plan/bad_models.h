/* Models that must be refused, each with one line of error. */
#ifndef HD_TEST_BAD_MODELS_H
#define HD_TEST_BAD_MODELS_H

#include "base/status.h"

typedef struct bad_model {
  const char *what, *text;
  int line; /* where the mistake is */
  hd_status status;
  const char *found; /* a text of the message */
} bad_model;

extern const bad_model bad_models[];
extern const int bad_model_count;

#endif
