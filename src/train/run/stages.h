/* The stages of a session: how many its network is cut into, and what each rank has done for each. */
#pragma once

#include "exec/executor.h"
#include "heddle/session.h"

struct hd_session;

/* The stages of the session's training plan: those of --stages, or of the model file. The latter alone are left out
 * where a host has fewer threads, or the device runs none. HD_E_UNSUPPORTED: such a device, and --stages. With --stages
 * auto as many as the host with the fewest has ranks, or threads if one process runs there, cut by the time that the
 * layers take: rank 0 measures it. Collective over all ranks. */
hd_status hd__stages_choose(hd_stages *out, struct hd_session *session, hd_ctx *ctx);

/* Whether each stage runs on one host, of several. */
bool hd__stages_are_apart(const struct hd_session *session);

/* Notes which stages of the plan this host runs. */
void hd__stages_find(struct hd_session *session);

/* Cuts stages->count stages, or as many as there are layers with parameters, by measured time: stage_times.c. */
hd_status hd__stages_measure(hd_stages *stages, struct hd_session *session, hd_ctx *ctx);

/* The stages for the report. */
typedef struct hd_stage_accounts {
  hd_stage *of;
  hd_stage_rank *rank; /* ranks entries for each stage */
  int count;
  hd_graph *graph; /* as written: the names of layers */
} hd_stage_accounts;

/* Gathers what ranks have done for the stages, for the session's report. Collective over all ranks. */
hd_status hd__stages_note(struct hd_session *session, hd_ctx *ctx);
void hd__stages_fini(hd_stage_accounts *accounts);
