/* A look at the machine as one JSON object in one line, for heddle devices and heddle top. */
#ifndef HD_CLI_MACHINE_JSON_H
#define HD_CLI_MACHINE_JSON_H

#include <stdio.h>

#include "heddle/tools.h"

void look_json(FILE *to, const hd_look *look);

#endif
