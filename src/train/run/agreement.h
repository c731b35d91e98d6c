/* What all ranks of a run must have in common, compared before the first step. It determines the calls in which ranks
 * wait for each other, and the bytes that they exchange there. */
#pragma once

#include "train/run/session.h"

/* The settings, the model, the checkpoint that is resumed, and this heddle. Every option is compared unless
 * agreement.c lists it as one that ranks may set differently. HD_E_USAGE names the first that differs, the ranks and
 * both values; like the calls below, of all ranks. */
hd_status hd__agree_on_settings(const hd_session *session, hd_ctx *ctx);

/* The data, the kind of the device that computes, and on each host the table of kernels. */
hd_status hd__agree_on_input(const hd_session *session, hd_ctx *ctx);

/* The plan: its phases, calls and parameters. */
hd_status hd__agree_on_plan(const hd_session *session, hd_ctx *ctx, const hd_plan *plan);

/* The step at which a call that trains ends: one gather, and no allocation where it is the same. */
hd_status hd__agree_on_end(const hd_session *session, hd_ctx *ctx, int64_t end);
