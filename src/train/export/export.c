/* Exporting a checkpoint's network; see heddle/export.h. */
#include "heddle/export.h"

#include "base/alloc.h"
#include "base/rounding.h"
#include "platform/file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/export/exported.h"
#include "train/settings/run_record.h"

typedef hd_status export_fn(FILE *to, hd_ctx *ctx, const hd_exported *network);

typedef struct export_job {
  export_fn *write;
  const hd_exported *network;
} export_job;

static hd_status write_network(FILE *to, hd_ctx *ctx, void *arg) {
  const export_job *job = arg;
  return job->write(to, ctx, job->network);
}

/* A sample of the model's input, for a feed with its normalisation; its pixels are never read. */
static hd_split sample_of(const hd_trained *trained) {
  static const uint8_t no_pixel;
  static const int32_t no_label;
  const hd_shape input = hd__shape_image(&trained->plan->graph->values[trained->plan->graph->input].shape);
  return (hd_split){.elem = hd__record_has_floats(trained->record) ? HD_ELEM_F32 : HD_ELEM_U8,
                    .images = &no_pixel,
                    .labels = &no_label,
                    .count = 1,
                    .channels = input.dim[0],
                    .height = input.dim[1],
                    .width = input.dim[2],
                    .classes = 1};
}

/* Those of evaluation, else of training, whose random ones evaluation leaves out. */
static const char *transforms_of(const hd_trained *trained) {
  const hd_transform_lists lists = hd__transform_lists(trained->run);
  return *lists.eval ? lists.eval : lists.train;
}

/* How samples are normalised, whose numbers the feed owns; tokens of a text are not. */
static hd_status find_normalisation(hd_affine *out, hd_feed *feed, hd_ctx *ctx, hd_trained *trained,
                                    const hd_split *sample) {
  if (hd__network_reads_text(&trained->network))
    return HD_OK;
  HD_TRY(hd__trained_feed(feed, ctx, trained, sample, HD_PIPELINE_FITTED));
  hd__feed_affine(out, feed);
  return HD_OK;
}

static hd_status export_trained(hd_trained *trained, hd_ctx *ctx, export_fn *write, const char *path,
                                const char *checkpoint) {
  char digest[HD_SHA256_TEXT_BYTES];
  HD_FEED_OWNED feed = {0};
  const hd_split sample = sample_of(trained);
  HD_TRY(hd_digest(digest, ctx, checkpoint));
  hd_exported network = {
      .trained = trained, .digest = digest, .bytes = sample.elem == HD_ELEM_U8, .transforms = transforms_of(trained)};
  HD_TRY(find_normalisation(&network.normalise, &feed, ctx, trained, &sample));
  HD_TRY(hd__file_write_named(ctx, path, write_network, &(export_job){write, &network}));
  if (trained->tta == HD_TTA_NONE)
    return HD_OK;
  return hd__fail(ctx, HD_OK, "note: the views of --tta %s are not exported: the file computes one, the sample itself",
                  hd_choice_name(HD_OPT_TTA, (int)trained->tta));
}

hd_status hd_model_export(hd_ctx *ctx, const char *checkpoint, hd_export_format format, const char *path) {
  HD_ROUNDING_TO_NEAREST;
  HD_RELEASED(hd__trained_fini) hd_trained trained = {0};
  HD_CONFIG_OWNED *config = NULL;
  if (format != HD_EXPORT_C && format != HD_EXPORT_ONNX)
    return hd__fail(ctx, HD_E_USAGE, "expected HD_EXPORT_C or HD_EXPORT_ONNX, found format %d", (int)format);
  HD_TRY(hd_config_create(&config, ctx));
  HD_TRY(hd__trained_open(&trained, ctx, checkpoint, config));
  return export_trained(&trained, ctx, format == HD_EXPORT_C ? hd__export_c : hd__export_onnx, path, checkpoint);
}
