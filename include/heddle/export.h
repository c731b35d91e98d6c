/* Trained networks for other programs.
 *
 *     hd_model_export(ctx, "runs/cnn-1", HD_EXPORT_ONNX, "cnn.onnx");
 *
 * An exported network takes what hd_predict_pixels takes, samples in planes that are not normalised yet, or rows of
 * numbers as they are in a table (in C as doubles). It computes the scores of the last layer, before any softmax of the
 * loss. Dropout is left out and batch norm uses its running statistics, as in evaluation. The network of a text takes
 * tokens, has scores for each place, and in C writes what heddle/generate.h does.
 *
 * Thread safety: any thread, with a context of its own. */
#ifndef HEDDLE_EXPORT_H
#define HEDDLE_EXPORT_H

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hd_export_format {
  HD_EXPORT_ONNX, /* opset 17: input "pixels" of floats, batch x channels x height x width; output "scores" */
  HD_EXPORT_C     /* one C file without dependencies, whose scores have the bits of heddle's own; it states its use */
} hd_export_format;

/* Writes the network of a checkpoint, a run's folder (its last step) or a step's, to a file, atomically. HD_E_IO,
 * HD_E_FORMAT: the checkpoint is missing or damaged, or the file cannot be written. HD_E_UNSUPPORTED: the format has no
 * form of an operation, or is not part of this build. If an earlier heddle stored some weights in another order, the
 * context's message notes that they were converted. */
HD_API hd_status hd_model_export(hd_ctx *ctx, const char *checkpoint, hd_export_format format, const char *path);

#ifdef __cplusplus
}
#endif
#endif
