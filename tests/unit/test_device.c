/* Devices from C: counted, named, chosen; a session that moves between them has the digest of one that never did. */
#include "scratch.h"

#include <pthread.h>

#include "cuda/cuda_table.h"
#include "base/alloc.h"
#include "heddle.h"
#include "heddle/experimental.h"

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

/* A network whose frozen layers make fewer numbers of a sample than it has, which a CPU keeps, and workers that read
 * them: a GPU's read samples. */
static const char *const frozen[] = {"model",
                                     "model: frozen\ninput: [1, 8, 8]\nlayers: [flat: {op: flatten}, fc1: {op: linear, "
                                     "out: 8}, relu: {op: relu}, fc2: {op: linear, out: 10}]\n",
                                     "data",
                                     "random:1x8x8",
                                     "freeze",
                                     "fc1.*",
                                     "batch",
                                     "2048",
                                     "workers",
                                     "2",
                                     NULL};
static const char *const plain[] = {"model", "mlp", "data", "random:1x28x28", NULL};

static hd_session *open_session(hd_ctx *ctx, const char *device, int run, const char *optimizer,
                                const char *const *of) {
  hd_session *session = NULL;
  hd_config *config;
  char out[SCRATCH_PATH_BYTES];
  snprintf(out, sizeof out, "%s/run-%d", scratch(), run);
  hd_config_create(&config, ctx);
  const char *const pairs[] = {"max-steps", "12",   "threads",   "2",       "out",        out,
                               "device",    device, "optimizer", optimizer, "save-every", "2"};
  hd_status status = HD_OK;
  for (; *of && status == HD_OK; of += 2)
    status = hd_config_set(config, ctx, of[0], of[1]);
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

static void test_moves(hd_ctx *ctx, const char *optimizer, int run, const char *const *of) {
  char want[TEXT], found[TEXT];
  hd_session *session = open_session(ctx, "cpu", run, optimizer, of);
  end(want, session, ctx);
  hd_session_destroy(session);
  session = open_session(ctx, "cpu", run + 1, optimizer, of);
  is_int(hd_session_device(session).kind, HD_CPU, "it begins on the CPU");
  int failed = hd_session_step(NULL, session, ctx, 3);
  failed |= hd_session_to(session, ctx, gpu);
  is_str(hd_session_report(session)->device, "cuda:0", "goes to the GPU");
  failed |= hd_session_step(NULL, session, ctx, 4);
  is_int(hd_session_report(session)->gpu_memory != NULL, 1, "whose memory it reports");
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
  is_str(found, want, "%s: the digest of a session that stayed where it was", of == frozen ? "workers" : optimizer);
  hd_session_destroy(session);
}

/* A move that fails, for lack of memory at any place, changes nothing. */
static void test_failed_move(hd_ctx *ctx, int run) {
  char want[TEXT], found[TEXT];
  int failures = 0, moved = 0;
  hd_session *session = open_session(ctx, "cpu", run, "sgd", plain);
  end(want, session, ctx);
  hd_session_destroy(session);
  session = open_session(ctx, "cpu", run + 1, "sgd", plain);
  is_int(hd_session_step(NULL, session, ctx, 3), HD_OK, "steps before a move");
  hd_status status = HD_E_NOMEM;
  for (long room = 0; status != HD_OK && room < 10000; room++) {
    hd__alloc_fail_after(room);
    status = hd_session_to(session, ctx, gpu);
    hd__alloc_fail_after(-1);
    if (status == HD_OK)
      break;
    failures++;
    moved += hd_session_device(session).kind != HD_CPU || strcmp(hd_session_report(session)->device, "cpu") != 0;
  }
  ok(status == HD_OK && failures > 0 && moved == 0, "after %d failures the session was %d times not on the CPU",
     failures, moved);
  is_int(hd_session_to(session, ctx, cpu), HD_OK, "it comes back");
  hd__alloc_fail_after(0);
  ok(hd_session_to(session, ctx, gpu) != HD_OK, "it fails again");
  hd__alloc_fail_after(-1);
  end(found, session, ctx);
  is_str(found, want, "and has the digest of a session that never tried");
  hd_session_destroy(session);
}

/* ---- Tensors ---- */

static int same(hd_ctx *ctx, const hd_tensor *here, const hd_tensor *there) {
  hd_tensor *back;
  if (!there || hd_tensor_to(&back, ctx, there, cpu) != HD_OK) {
    diag("%s", hd_ctx_message(ctx));
    return 0;
  }
  const size_t bytes = (size_t)hd_tensor_elems(here) * 4;
  const int equal = hd_tensor_elems(back) == hd_tensor_elems(here) && hd_tensor_device(back).kind == HD_CPU &&
                    !memcmp(hd_tensor_data(back), hd_tensor_data(here), bytes);
  hd_tensor_destroy(back);
  return equal;
}

/* The same call here and there, and the same bits. */
#define BOTH(name, what, here, there)                                                                                  \
  do {                                                                                                                 \
    hd_tensor *mine_, *its_;                                                                                           \
    hd_status mine_status_ = hd_tensor_##name(&mine_, ctx, UNPACK here);                                               \
    hd_status its_status_ = hd_tensor_##name(&its_, ctx, UNPACK there);                                                \
    hd_tensor *dense_ = NULL;                                                                                          \
    if (mine_status_ == HD_OK)                                                                                         \
      hd_tensor_clone(&dense_, ctx, mine_);                                                                            \
    ok(its_status_ == HD_OK && dense_ && hd_tensor_device(its_).kind == HD_CUDA && same(ctx, dense_, its_), "%s",      \
       what);                                                                                                          \
    hd_tensor_destroy(dense_);                                                                                         \
    hd_tensor_destroy(mine_);                                                                                          \
    hd_tensor_destroy(its_);                                                                                           \
  } while (0)
#define UNPACK(...) __VA_ARGS__

/* Fails so, with a line that has `text`, and leaves NULL. */
#define REFUSED(status, text, name, ...)                                                                               \
  do {                                                                                                                 \
    hd_tensor *none_;                                                                                                  \
    const hd_status found_ = hd_tensor_##name(&none_, ctx, __VA_ARGS__);                                               \
    ok(found_ == (status) && !none_ && strstr(hd_ctx_message(ctx), text), #name ": %s", hd_ctx_message(ctx));          \
  } while (0)

static void test_tensors(hd_ctx *ctx) {
  hd_tensor *a, *b, *far_a, *far_b, *view, *far_view, *ints, *far_ints, *again;
  double value;
  hd_tensor_randn(&a, ctx, 1, HD_DIMS(33, 70));
  hd_tensor_randn(&b, ctx, 2, HD_DIMS(70, 19));
  hd_tensor_arange(&ints, ctx, HD_I32, 0, 10, 1);
  is_int(hd_tensor_to(&far_a, ctx, a, gpu), HD_OK, "to a GPU");
  is_int(hd_tensor_to(&far_b, ctx, b, gpu), HD_OK, "another one");
  is_int(hd_tensor_to(&far_ints, ctx, ints, gpu), HD_OK, "integers, too");
  is_int(hd_tensor_device(far_a).kind == HD_CUDA && hd_tensor_device(far_a).index == 0, 1, "it has its device");
  ok(same(ctx, a, far_a) && same(ctx, ints, far_ints), "and back, with the same bits");
  BOTH(matmul, "a product of matrices has the CPU's bits", (a, b), (far_a, far_b));
  BOTH(add, "so has a sum", (a, a), (far_a, far_a));
  BOTH(relu, "relu", (a), (far_a));
  BOTH(tanh, "tanh", (a), (far_a));
  BOTH(clone, "a copy", (a), (far_a));
  BOTH(transpose, "a view of what is there", (a, 0, 1), (far_a, 0, 1));
  BOTH(slice, "a slice of it", (a, 0, 3, 30, 7), (far_a, 0, 3, 30, 7));
  hd_tensor_transpose(&view, ctx, a, 0, 1);
  is_int(hd_tensor_to(&far_view, ctx, view, gpu), HD_OK, "a view goes over dense");
  is_int(hd_tensor_to(&again, ctx, far_view, gpu), HD_OK, "to where it is: a view");
  ok(hd_tensor_data(again) == hd_tensor_data(far_view), "of the same elements");
  REFUSED(HD_E_USAGE, "expected both tensors on cpu, found cuda:0; move one with hd_tensor_to", add, a, far_a);
  REFUSED(HD_E_USAGE, "expected both tensors on cuda:0, found cpu", matmul, far_a, b);
  REFUSED(HD_E_UNSUPPORTED, "expected a tensor on cpu, found cuda:0", exp, far_a);
  REFUSED(HD_E_UNSUPPORTED, "move it with hd_tensor_to", sum, far_a, HD_ALL_DIMS, 0);
  REFUSED(HD_E_UNSUPPORTED, "expected float32 on cuda:0, found int32", relu, far_ints);
  REFUSED(HD_E_SHAPE, "transpose or reshape", matmul, far_a, far_a);
  REFUSED(HD_E_UNSUPPORTED, "expects a GPU of that number", to, a, (hd_device){HD_CUDA, 999});
  is_int(hd_tensor_item(&value, ctx, far_a), HD_E_UNSUPPORTED, "an element is not read unasked");
  is_int(hd_tensor_fill(far_a, ctx, 0), HD_E_UNSUPPORTED, "nor written");
  hd_tensor *all[] = {a, b, far_a, far_b, view, far_view, ints, far_ints, again};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    hd_tensor_destroy(all[i]);
}

/* A session goes on in another thread, and tensors come and go beside it. */
static void *train_there(void *arg) {
  hd_session *session = arg;
  hd_ctx *ctx;
  hd_tensor *a, *far;
  hd_ctx_create(&ctx);
  hd_tensor_zeros(&a, ctx, HD_F32, HD_DIMS(5));
  int failed = hd_tensor_to(&far, ctx, a, gpu);
  failed |= hd_session_step(NULL, session, ctx, 4);
  hd_tensor_destroy(far);
  failed |= hd_session_step(NULL, session, ctx, 8);
  if (failed)
    diag("%s", hd_ctx_message(ctx));
  hd_tensor_destroy(a);
  hd_ctx_destroy(ctx);
  return failed ? session : NULL;
}

static void test_threads(hd_ctx *ctx) {
  pthread_t thread;
  void *failed = ctx;
  hd_session *session = open_session(ctx, "cuda", 9, "adam", plain);
  if (pthread_create(&thread, NULL, train_there, session) == 0)
    pthread_join(thread, &failed);
  is_int(failed == NULL, 1, "a session that was made on a GPU goes on in another thread");
  hd_session_destroy(session);
}

int main(void) {
  hd_ctx *ctx;
  cuda_table_environment();
  hd_ctx_create(&ctx);
  if (hd_device_count(ctx) == 0)
    skip_all("%s", hd_ctx_message(ctx));
  test_names(ctx);
  test_moves(ctx, "adamw", 0, plain);
  test_moves(ctx, "sgd", 2, plain);
  test_moves(ctx, "sgd", 6, frozen);
  test_failed_move(ctx, 4);
  test_tensors(ctx);
  test_threads(ctx);
  hd_ctx_destroy(ctx);
  return done_testing();
}
