/* A look at the machine in plain lines, in which unknown values are left out, and as JSON: for heddle devices, and for
 * heddle top without a terminal. */
#pragma once

#include <stdio.h>

#include "heddle/tools.h"

void look_print_use(FILE *to, const hd_look *look);  /* CPUs, memory, temperature, power: one line */
void look_print_cpus(FILE *to, const hd_look *look); /* use of each */
void look_print_gpus(FILE *to, const hd_look *look); /* or why there is none */
void look_print_jobs(FILE *to, const hd_look *look);
void look_json(const hd_look *look); /* one object in one line */

/* "3:07", "1:02:03", "25h30m", "12d05h": at most seven characters; "" for an unknown time. */
enum { LOOK_TIME_BYTES = 24 };
const char *look_time(char text[LOOK_TIME_BYTES], double seconds);

/* "0-3,8", the CPUs that a rank's threads are bound to; "" if they are not bound. */
const char *look_cpus(char *text, const hd_job_rank *rank);

/* "41.2 of 79.6 GiB" */
enum { LOOK_PART_BYTES = 48 };
const char *look_part(char text[LOOK_PART_BYTES], int64_t used_bytes, int64_t bytes);
