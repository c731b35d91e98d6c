/* Devices from C: counted, named, chosen; a session that moves between them has the digest of one that never did. */
#include "scratch.h"

#include "cuda/cuda_table.h"
#include "heddle.h"

enum { TEXT = HD_SHA256_TEXT_BYTES };

static const hd_device cpu = {HD_CPU, 0}, gpu = {HD_CUDA, 0};

static void test_names(hd_ctx *ctx) {
  char text[HD_DEVICE_TEXT_BYTES], name[HD_DEVICE_NAME_BYTES];
  hd_device device;
  ok(hd_device_count(ctx) >= 1, "there is a GPU");
  is_int(hd_device_name(name, ctx, gpu), HD_OK, "the first one has a name");
  ok(*name, "%s", name);
  is_int(hd_device_name(name, ctx, cpu), HD_OK, "so has the CPU");
  is_int(hd_device_name(name, ctx, (hd_device){HD_CUDA, 999}), HD_E_UNSUPPORTED, "%s", hd_ctx_message(ctx));
  is_int(hd_device_name(name, ctx, (hd_device){HD_CUDA, -1}), HD_E_UNSUPPORTED, "nor is there one below the first");
  is_str(hd_device_text(text, cpu), "cpu", "the CPU as text");
  is_str(hd_device_text(text, (hd_device){HD_CUDA, 3}), "cuda:3", "a GPU as text");
  is_int(hd_device_parse(&device, ctx, "cuda:3") == HD_OK && device.kind == HD_CUDA && device.index == 3, 1,
         "and back");
  is_int(hd_device_parse(&device, ctx, "cpu") == HD_OK && device.kind == HD_CPU && device.index == 0, 1,
         "the CPU, too");
  is_int(hd_device_parse(&device, ctx, "cuda:x"), HD_E_USAGE, "%s", hd_ctx_message(ctx));
}

static hd_session *open_session(hd_ctx *ctx, const char *device, int run, const char *optimizer) {
  hd_session *session = NULL;
  hd_config *config;
  char out[SCRATCH_PATH_BYTES];
  snprintf(out, sizeof out, "%s/run-%d", scratch(), run);
  hd_config_create(&config, ctx);
  const char *const pairs[] = {"model", "mlp", "data",   "random:1x28x28", "max-steps", "12",      "threads",    "2",
                               "out",   out,   "device", device,           "optimizer", optimizer, "save-every", "2"};
  hd_status status = HD_OK;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && status == HD_OK; i += 2)
    status = hd_config_set(config, ctx, pairs[i], pairs[i + 1]);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  hd_config_destroy(config);
  if (!session)
    bail_out("%s", hd_ctx_message(ctx));
  return session;
}

static void end(char digest[TEXT], hd_session *session, hd_ctx *ctx) {
  if (hd_session_train(session, ctx, NULL, NULL) != HD_OK)
    diag("%s", hd_ctx_message(ctx));
  memcpy(digest, hd_session_report(session)->weights_sha256, TEXT);
}

static void test_moves(hd_ctx *ctx, const char *optimizer, int run) {
  char want[TEXT], found[TEXT];
  hd_session *session = open_session(ctx, "cpu", run, optimizer);
  end(want, session, ctx);
  hd_session_destroy(session);
  session = open_session(ctx, "cpu", run + 1, optimizer);
  is_int(hd_session_device(session).kind, HD_CPU, "it begins on the CPU");
  int failed = hd_session_step(NULL, session, ctx, 3);
  failed |= hd_session_to(session, ctx, gpu);
  is_str(hd_session_report(session)->device, "cuda:0", "goes to the GPU");
  failed |= hd_session_step(NULL, session, ctx, 4);
  is_int(hd_session_report(session)->gpu_memory != NULL, 1, "whose memory it tells");
  failed |= hd_session_to(session, ctx, gpu);
  failed |= hd_session_to(session, ctx, cpu);
  is_int(hd_session_device(session).kind, HD_CPU, "and comes back");
  failed |= hd_session_step(NULL, session, ctx, 1);
  is_int(hd_session_report(session)->gpu_memory == NULL, 1, "leaves nothing there");
  is_int(hd_session_to(session, ctx, (hd_device){HD_CUDA, 999}), HD_E_UNSUPPORTED, "there is no GPU 999: %s",
         hd_ctx_message(ctx));
  failed |= hd_session_to(session, ctx, gpu);
  end(found, session, ctx);
  is_int(failed, 0, "no call failed");
  is_str(found, want, "%s: the digest of a session that stayed where it was", optimizer);
  hd_session_destroy(session);
}

int main(void) {
  hd_ctx *ctx;
  cuda_table_environment();
  hd_ctx_create(&ctx);
  if (hd_device_count(ctx) == 0)
    skip_all("%s", hd_ctx_message(ctx));
  test_names(ctx);
  test_moves(ctx, "adamw", 0);
  test_moves(ctx, "sgd", 2);
  hd_ctx_destroy(ctx);
  return done_testing();
}
