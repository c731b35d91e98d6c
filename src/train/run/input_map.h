/* The normalisation that a network from an ONNX file begins with, and what its data get; see onnx/onnx.h.
 *
 * Such a network's scores are its own only if its samples are normalised as its first nodes do it. Without --transforms
 * the data get that normalisation; transforms that are given must have it. Both are said in one line. */
#pragma once

#include "data/dataset/dataset.h"
#include "kernel/kernel.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

/* Sets --transforms if neither list of transforms is given, and writes the line to `note`, "" for a network without a
 * normalisation of its own. HD_E_USAGE: the transforms that are given normalise otherwise, or the file does not say
 * what its numbers are of pixels. */
hd_status hd__input_map_adopt(char *note, size_t bytes, hd_ctx *ctx, hd_config *config, const hd_network *network,
                              const hd_dataset *data, const hd_kernels *kernels);

/* Fine-tuning: resizes pictures to the input that the network states, by a transform before the others, and adds the
 * line to `note`; for data without transforms of their own. */
hd_status hd__input_size_adopt(char *note, size_t bytes, hd_ctx *ctx, hd_config *config, const hd_network *network,
                               const hd_dataset *data);
