/* What a frozen part of the network makes of each sample, computed once and kept.
 *
 * A network that begins with frozen layers, as in fine-tuning, computes the same values from the same sample in every
 * epoch. Where one value alone passes from that part to the rest (graph/graph_cut.h), a session computes it for all
 * samples before the first step, and its plans for steps and evaluations begin behind it: the bits of all that follows
 * are the same.
 *
 *     whole network   pictures -> conv1 ... pool | dropout fc -> loss
 *     front, once     pictures -> conv1 ... pool = features
 *     steps           features                   | dropout fc -> loss
 *
 * Features are in memory, up to 1 GiB, or in the file features-KEY of the cache's folder, up to 16 GiB, with a
 * checksum. The key is a digest of all that they depend on: the network with the weights up to there, the samples, what
 * is done to them. A file that is damaged or of another key is made again.
 *
 * Nothing is kept where a sample is not the same in every epoch: random transforms (unless --keep-views N asks for N
 * fixed views of each sample), windows of a text, samples that are skipped; nor on a GPU, in stages, with --tta or
 * --arithmetic native, in a run of one epoch, and in rehearsals. */
#pragma once

#include "train/run/session.h"

/* Chooses where plans of the session's stage begin: sets compute.cut, -1 for the samples. Feeds read samples until
 * features are kept. */
hd_status hd__features_choose(hd_session *session, hd_ctx *ctx, int stages);

/* Computes the features of all samples if there is such a cut, or takes those that are there, and lets the feeds read
 * them; after weights have been set. All ranks. */
hd_status hd__features_keep(hd_session *session, hd_ctx *ctx);

void hd__kept_features_fini(session_features *features);
