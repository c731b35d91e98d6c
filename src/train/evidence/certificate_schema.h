/* The entries that a certificate may contain; there are no others. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "heddle/config.h"

/* Whether a certificate states this setting: settings that define the result, and where data and first weights were. A
 * recipe is left out, since the settings that it gave are there. */
bool hd__certificate_states(int option);

/* The steps between two entries of the chain. */
int64_t hd__certificate_every(int64_t steps);

/* Checks that every entry of a certificate is known, of its type and in its range, and that none is missing; the
 * message names the first that is not. `path` is for messages. */
hd_status hd__certificate_check(hd_ctx *ctx, json_t *certificate, const char *path);
