/* Internal interface of pipelines; heddle/transform.h defines transforms and their application. */
#pragma once

#include <stdbool.h>

#include "base/yaml_bind.h"
#include "heddle/transform.h"
#include "kernel/kernel.h"

/* Pixels / 255, normalised by the training set: one FMA per pixel. */
#define HD_TRANSFORMS_DEFAULT "[to_float, normalise]"

/* hd_pipeline_create from a parsed list, with these kernels. */
hd_status hd__pipeline_create(hd_pipeline **out, hd_ctx *ctx, const hd_yaml_node *list, const hd_pipeline_input *input,
                              hd_pipeline_mode mode, const hd_kernels *kernels);

/* The factor and the summand, per channel, of the pass that writes the result. */
const float *hd__pipeline_scale(const hd_pipeline *pipeline);
float *hd__pipeline_shift(hd_pipeline *pipeline);

/* Whether it draws anything. */
bool hd__pipeline_draws(const hd_pipeline *pipeline);

/* The target that a pipeline without mixing makes from a sample, whose pixels it does not read. */
void hd__pipeline_target(float *target, const hd_pipeline *pipeline, const hd_sample *sample);

/* A mask, the class of each pixel of a sample, through the transforms that move pixels, drawn as for the sample with
 * this key: by the nearest pixel, and HD_NO_CLASS outside of the picture. The result is in `scratch`, of the pipeline's
 * size. sample->pixels is the mask. */
const uint8_t *hd__pipeline_mask(const hd_pipeline *pipeline, const hd_sample *sample, const hd_sample_key *key,
                                 void *scratch);

/* HD_E_USAGE if a transform does to pixels what cannot be done to their classes: one_hot, mixup, those of programs. */
hd_status hd__pipeline_check_masks(hd_ctx *ctx, const hd_pipeline *pipeline);

/* Whether HD_PIPELINE_FITTED left out a transform of the program that evaluations apply. */
bool hd__pipeline_lacks_program(const hd_pipeline *pipeline);

/* Whether the result shows all of the picture in its place: it is resized at most, and colours change. */
bool hd__pipeline_keeps_frame(const hd_pipeline *pipeline);

/* ---- A list of transforms as text ---- */

/* Checks a list as far as possible without samples, and writes it as one line in canonical form. `evaluation`:
 * refuses random transforms. */
hd_status hd__transforms_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *list, bool evaluation);
