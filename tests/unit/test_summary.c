/* A summary's memory is what a session takes, to the byte, for many settings; and its costs follow the operations'
 * rules. */
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heddle.h"

static hd_config *config_of(hd_ctx *ctx, const char *settings) {
  hd_config *config;
  char copy[512], *rest = copy;
  if (hd_config_create(&config, ctx) != HD_OK)
    bail_out("out of memory");
  snprintf(copy, sizeof copy, "%s", settings);
  for (char *name; (name = strtok_r(rest, " ", &rest));) {
    char *value = strtok_r(rest, " ", &rest);
    if (hd_config_set(config, ctx, name, value) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
  }
  return config;
}

static const char *source_folder(void) {
  const char *folder = getenv("SRCDIR");
  return folder ? folder : ".";
}

/* On noise, where the settings name no data: the built-in digits take longer to draw than all else here. */
static void check_memory(hd_ctx *ctx, const char *settings, int index) {
  hd_config *config = config_of(ctx, settings);
  hd_summary *summary;
  hd_session *session = NULL;
  if (!strstr(settings, " data ") && hd_config_set(config, ctx, "data", "random:1x28x28") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  if (hd_config_set(config, ctx, "out", in_scratch("run-%d", index)) != HD_OK ||
      hd_summary_create(&summary, ctx, config, NULL) != HD_OK || hd_session_create(&session, ctx, config) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const hd_memory *m = &summary->memory;
  is_int(m->total_bytes, hd_session_report(session)->memory_bytes, "%s: the summary's memory is the session's",
         settings);
  ok(m->total_bytes == m->weights_bytes + m->optimizer_bytes + m->packed_bytes + m->activations_bytes +
                           m->samples_bytes + m->gradients_bytes + m->evaluation_bytes + m->checkpoint_bytes +
                           m->other_bytes &&
         m->other_bytes >= 0,
     "%s: its parts make up the whole", settings);
  is_int(summary->params, hd_session_report(session)->parameters, "%s: the parameters too", settings);
  hd_session_destroy(session);
  hd_summary_destroy(summary);
  hd_config_destroy(config);
}

/* Backward: twice forward, but for the first layer, whose input needs no gradient. */
static void check_costs(hd_ctx *ctx) {
  hd_config *config = config_of(ctx, "model cnn");
  hd_summary *s;
  if (hd_summary_create(&s, ctx, config, (int32_t[]){1, 28, 28}) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  is_int(s->layer_count, 10, "the layers are the model file's; the loss is none");
  ok(s->layers[0].flops_bwd == s->layers[0].flops_fwd && s->layers[0].flops_fwd == 2 * s->layers[0].macs,
     "the first convolution has one gradient");
  ok(s->layers[3].flops_bwd == 2 * s->layers[3].flops_fwd, "the second has two");
  hd_summary_destroy(s);
  is_int(hd_summary_create(&s, ctx, config, (int32_t[]){1, 0, 28}), HD_E_USAGE, "an input without rows is refused");
  ok(s == NULL, "and leaves no summary");
  hd_config_destroy(config);
}

/* The results of torchinfo and ptflops for each built-in model (tools/pytorch/torch_summary.py compares every
 * layer). */
static void check_peers(hd_ctx *ctx) {
  static const struct {
    const char *settings;
    int64_t params, macs, frozen;
  } peers[] = {
      {"model simplenet", 7850, 7840, 0},
      {"model mlp", 101770, 101632, 0},
      {"model lenet5", 61706, 416520, 0},
      {"model cnn", 225034, 2631040, 0},
      {"model fastmnist", 215194, 1244160, 0},
      {"model allconv", 53002, 11531072, 0},
      {"model resnet", 51642, 3867008, 0},
      {"model regression", 50769, 50696, 0},
      {"model mnist-99", 15066, 610048, 0},
      {"model cifar-94", 1972792, 118147360, 1440},
      {"model cifar-fast", 498104, 33066272, 864},
      {"model cifar-resnet", 272474, 40813184, 0},
      /* Parameters are those that torchvision states for resnet18 and mobilenet_v3_small (num_params of its weights);
       * multiply-adds, rounded, the 1.81 and 0.06 G that it states. M5 of PyTorch's tutorial on audio has 26,915
       * parameters with 35 outputs, of which 10 leave 25,290. The numbers of unet-small are heddle's own. */
      {"model resnet18", 11689512, 1814073344, 0},
      {"model mobilenetv3-small", 2542856, 56510400, 0},
      {"model m5", 25290, 1878656, 0},
      {"model unet-small", 117226, 19104512, 0},
  };
  for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
    hd_config *config = config_of(ctx, peers[i].settings);
    hd_summary *s;
    if (hd_summary_create(&s, ctx, config, NULL) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    is_int(s->params, peers[i].params, "%s: as many parameters as PyTorch's", peers[i].settings);
    is_int(s->trainable, peers[i].params - peers[i].frozen, "%s: all of them trainable but the frozen ones",
           peers[i].settings);
    is_int(s->macs, peers[i].macs, "%s: as many multiply-adds", peers[i].settings);
    hd_summary_destroy(s);
    hd_config_destroy(config);
  }
}

int main(void) {
  static const char *const settings[] = {
      "model cnn threads 1 data digits",
      "model cnn threads 4 batch 256",
      "model cnn threads 3 batch 50 optimizer sgd",
      "model cnn threads 2 optimizer sgd momentum 0.9 clip-grad-norm 1",
      "model cnn threads 2 accumulate 4 shards 32 batch 200",
      "model mlp threads 5 batch 7 optimizer adam",
      "recipe fastmnist threads 2",
      "model resnet threads 3 batch 100",
      "model simplenet threads 8 batch 1",
      "recipe mnist-99 threads 2",
      "recipe cifar-fast threads 2 batch 32 data random:3x32x32",
      "model cnn threads 3 transforms [horizontal_flip,to_float,normalise] val-split 0.1",
      "model cnn threads 2 transforms [to_float,normalise,one_hot,mixup]",
      "model cnn threads 2 eval-transforms [to_float,normalise]",
      "model cnn threads 2 data random:1x60x40 transforms [\"random_crop\":28,to_float,normalise]"};
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  int count = (int)(sizeof settings / sizeof *settings);
  for (int i = 0; i < count; i++)
    check_memory(ctx, settings[i], i);
  /* Batch norm adds phases, which compute the whole batch however --accumulate cuts it. */
  char norm[512];
  snprintf(norm, sizeof norm, "model %s/tests/bits/norm.yaml threads 3 accumulate 4", source_folder());
  check_memory(ctx, norm, count);
  check_costs(ctx);
  check_peers(ctx);
  hd_ctx_destroy(ctx);
  return done_testing();
}
