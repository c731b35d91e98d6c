/* What a process does, one line an event on standard error, for HEDDLE_LOG=plan,exec,data,ranks,save:
 *
 *     heddle: 15:31:22.123456 rank 0 saver: save: step 938 written in 2.1 ms
 *
 * The time is UTC; a line is one write, so that those of threads and ranks do not mix. With a topic off an event costs
 * one test of a word that does not change after hd__log_start. */
#pragma once

#include "base/status.h"

typedef enum hd_log_topic { HD_LOG_PLAN, HD_LOG_EXEC, HD_LOG_DATA, HD_LOG_RANKS, HD_LOG_SAVE } hd_log_topic;

extern unsigned hd__log_topics; /* a bit for each that is on */

/* Turns on the topics of HEDDLE_LOG. Any thread may call it, before events are wanted. HD_E_USAGE names an unknown
 * topic, and those that are known. */
hd_status hd__log_start(hd_ctx *ctx);

/* The rank of this process, and the name of the calling thread: "thread 3", "loader 1"; number -1: without one. Names
 * are kept by pointer. */
void hd__log_rank(int rank);
void hd__log_thread(const char *name, int number);

void hd__log_event(hd_log_topic topic, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

#define HD_LOG(topic, ...) \
  ((hd__log_topics >> HD_LOG_##topic & 1) != 0 ? hd__log_event(HD_LOG_##topic, __VA_ARGS__) : (void)0)
