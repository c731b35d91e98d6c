/* Custom operations against built-in ones: networks that differ in nothing else end in the same bits, on any number of
 * threads. And what is refused. */
#include "scratch.h"

#include "heddle.h"

enum { TEXT = HD_SHA256_TEXT_BYTES };

static const char *data;
static int runs;

/* As leaky_relu computes, with the slope behind `user`. */
static void leak_forward(const hd_custom_call *c) {
  float slope = *(const float *)c->user;
  for (int64_t i = 0; i < c->y_elems; i++)
    c->y[i] = c->x[0][i] < 0 ? slope * c->x[0][i] : c->x[0][i];
}

static void leak_backward(const hd_custom_call *c) {
  float slope = *(const float *)c->user;
  for (int64_t i = 0; i < c->y_elems; i++)
    c->dx[0][i] = c->y[i] > 0 ? c->dy[i] : slope * c->dy[i];
}

static void plus_forward(const hd_custom_call *c) {
  for (int64_t i = 0; i < c->y_elems; i++)
    c->y[i] = c->x[0][i] + c->x[1][i];
}

static void plus_backward(const hd_custom_call *c) {
  for (int i = 0; i < 2; i++)
    for (int64_t k = 0; c->dx[i] && k < c->x_elems; k++)
      c->dx[i][k] = c->dy[k];
}

/* The largest of 2 x 2: the first of equals. */
static int64_t largest(const hd_custom_call *c, int y, int x, int channel) {
  int64_t best = -1;
  for (int k = 0; k < 4; k++) {
    int64_t at = ((2 * y + k / 2) * (int64_t)c->x_shape.width + 2 * x + k % 2) * c->x_shape.channels + channel;
    if (best < 0 || c->x[0][at] > c->x[0][best])
      best = at;
  }
  return best;
}

static int pool_shape(hd_custom_shape *y, const hd_custom_shape *x, void *user) {
  *y = (hd_custom_shape){x->channels, x->height / 2, x->width / 2};
  return x->height % 2 || x->width % 2;
}

static void pool(const hd_custom_call *c, int back) {
  for (int y = 0; y < c->y_shape.height; y++)
    for (int x = 0; x < c->y_shape.width; x++)
      for (int k = 0; k < c->y_shape.channels; k++) {
        int64_t at = (y * (int64_t)c->y_shape.width + x) * c->y_shape.channels + k, from = largest(c, y, x, k);
        if (back)
          c->dx[0][from] = c->dy[at];
        else
          c->y[at] = c->x[0][from];
      }
}

static void pool_forward(const hd_custom_call *c) { pool(c, 0); }

static void pool_backward(const hd_custom_call *c) {
  memset(c->dx[0], 0, (size_t)c->x_elems * sizeof *c->dx[0]);
  pool(c, 1);
}

static float slope = 0.2f;
static const hd_custom_op leak = {sizeof leak, "leak", 1, NULL, leak_forward, leak_backward, 2, &slope};
static const hd_custom_op plus = {sizeof plus, "plus", 2, NULL, plus_forward, plus_backward, 1, NULL};
static const hd_custom_op pool2 = {sizeof pool2, "pool2", 1, pool_shape, pool_forward, pool_backward, 3, NULL};

static hd_ctx *context(int with_operations) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  if (with_operations &&
      (hd_custom_op_add(ctx, &leak) || hd_custom_op_add(ctx, &plus) || hd_custom_op_add(ctx, &pool2)))
    bail_out("%s", hd_ctx_message(ctx));
  return ctx;
}

/* A network with three of its operations as named. */
static hd_status build(hd_model **model, hd_ctx *ctx, const char *act, const char *join, const char *shrink) {
  hd_status status = hd_model_create(model, ctx, "net", 1, 28, 28);
  const char *const layer[][2] = {{"conv1", "op: conv2d, out: 6, kernel: 3"},
                                  {"act1", act},
                                  {"pool1", shrink},
                                  {"conv2", "op: conv2d, out: 6, kernel: 3, padding: 1"},
                                  {"sum", join},
                                  {"act2", act},
                                  {"flat", "op: flatten"},
                                  {"act3", act},
                                  {"fc", "op: linear, out: 10"}};
  for (size_t i = 0; i < sizeof layer / sizeof *layer && status == HD_OK; i++)
    status = hd_model_add(*model, ctx, layer[i][0], "%s", layer[i][1]);
  return status;
}

static hd_status train(char digest[TEXT], hd_ctx *ctx, const char *text, const char *threads) {
  hd_config *config;
  hd_session *session = NULL;
  char out[SCRATCH_PATH_BYTES];
  snprintf(digest, TEXT, "none");
  snprintf(out, sizeof out, "%s/run-%d", scratch(), runs++);
  if (hd_config_create(&config, ctx) != HD_OK)
    return HD_E_NOMEM;
  hd_status status = HD_OK;
  const char *const pair[][2] = {{"data", data},     {"out", out},         {"model", text},
                                 {"max-steps", "6"}, {"threads", threads}, {"batch", "16"}};
  for (size_t i = 0; i < sizeof pair / sizeof *pair && status == HD_OK; i++)
    status = hd_config_set(config, ctx, pair[i][0], pair[i][1]);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, NULL, NULL);
  if (status == HD_OK)
    memcpy(digest, hd_session_report(session)->weights_sha256, TEXT);
  hd_session_destroy(session);
  hd_config_destroy(config);
  return status;
}

static void test_equal_bits(void) {
  static const char *const act[] = {"op: leaky_relu, negative_slope: 0.2", "op: leak"};
  static const char *const join[] = {"op: add, from: [conv2, pool1]", "op: plus, from: [conv2, pool1]"};
  static const char *const shrink[] = {"op: max_pool2d, kernel: 2", "op: pool2"};
  char want[TEXT], found[TEXT];
  hd_ctx *ctx = context(1);
  for (int own = 0; own < 8; own++) {
    hd_model *model;
    if (build(&model, ctx, act[own & 1], join[own >> 1 & 1], shrink[own >> 2]) != HD_OK)
      bail_out("%s", hd_ctx_message(ctx));
    hd_status status = train(found, ctx, hd_model_text(model), own % 2 ? "1" : "3");
    if (own == 0)
      memcpy(want, found, TEXT);
    if (!is_int(status, HD_OK, "it trains with%s%s%s as custom operations", own & 1 ? " an activation" : "",
                own & 2 ? " a sum" : "",
                own & 4 ? " a pool"
                : own   ? ""
                        : " nothing"))
      diag("%s", hd_ctx_message(ctx));
    is_str(found, want, "to the bits of the built-in one");
    hd_model_destroy(model);
  }
  hd_ctx_destroy(ctx);
}

static hd_status predict(hd_ctx *ctx) {
  hd_predictor *predictor;
  double probability[10];
  int32_t label;
  hd_status status = hd_predictor_create(&predictor, ctx, in_scratch("run-%d", runs - 1), NULL);
  if (status == HD_OK)
    status = hd_predict_item(probability, &label, predictor, ctx, 0);
  hd_predictor_destroy(predictor);
  return status;
}

static void test_checkpoint(void) {
  hd_ctx *with = context(1), *without = context(0);
  hd_status status = predict(with);
  if (!is_int(status, HD_OK, "a program that has the operations reads the checkpoint"))
    diag("%s", hd_ctx_message(with));
  refuses_at(predict(without), HD_E_FORMAT, without, "", "'leak'", "another program gets the name of the missing one");
  hd_ctx_destroy(with);
  hd_ctx_destroy(without);
}

/* Of a network of these layers. */
static void test_misfit(const char *says, const char *const layer[][2], const char *name) {
  hd_ctx *ctx = context(1);
  hd_model *model;
  hd_status status = hd_model_create(&model, ctx, "net", 1, 7, 7);
  for (; layer[0][0] && status == HD_OK; layer++)
    status = hd_model_add(model, ctx, layer[0][0], "%s", layer[0][1]);
  status = status == HD_OK ? hd_model_check(NULL, model, ctx) : status;
  ok(status != HD_OK && strstr(hd_ctx_message(ctx), says) && strstr(hd_ctx_message(ctx), "expect"), "%s", name);
  diag("%s", hd_ctx_message(ctx));
  hd_model_destroy(model);
  hd_ctx_destroy(ctx);
}

static void test_misfits(void) {
  test_misfit("1x7x7", (const char *const[][2]){{"p", "op: pool2"}, {NULL}},
              "a shape that the operation does not take");
  test_misfit("from: [A, B]", (const char *const[][2]){{"p", "op: plus"}, {NULL}}, "too few inputs");
  test_misfit("'scale'", (const char *const[][2]){{"p", "op: leak, scale: 2"}, {NULL}}, "a setting");
  test_misfit("flatten",
              (const char *const[][2]){
                  {"c", "op: conv2d, out: 2, kernel: 2"}, {"f", "op: flatten"}, {"p", "op: pool2"}, {NULL}},
              "a flattened image");
  test_misfit(
      "2x6x6",
      (const char *const[][2]){{"c", "op: conv2d, out: 2, kernel: 2"}, {"p", "op: plus, from: [c, input]"}, {NULL}},
      "two shapes");
}

static void test_refused(void) {
  hd_ctx *ctx = context(1);
  hd_custom_op op = leak;
  static const char *const bad[] = {"", "a b", "a-b", "op\n", "x23456789012345678901234567890123", NULL};
  for (int i = 0; i < 6; i++) {
    op.name = bad[i];
    refuses_at(hd_custom_op_add(ctx, &op), HD_E_USAGE, ctx, "", "1 to 32", "a name like '%s'",
               bad[i] ? bad[i] : "(null)");
  }
  op.name = "conv2d";
  refuses(hd_custom_op_add(ctx, &op), HD_E_USAGE, ctx, "", "'conv2d'", "a built-in operation's name");
  op.name = "max_pool1d";
  refuses(hd_custom_op_add(ctx, &op), HD_E_USAGE, ctx, "", "'max_pool1d'", "a name that models have for one of those");
  refuses(hd_custom_op_add(ctx, &leak), HD_E_USAGE, ctx, "", "'leak'", "a name that is taken");
  op.name = "three";
  op.inputs = 3;
  refuses(hd_custom_op_add(ctx, &op), HD_E_USAGE, ctx, "", "3 inputs", "three inputs");
  op.inputs = 1;
  op.backward = NULL;
  refuses(hd_custom_op_add(ctx, &op), HD_E_USAGE, ctx, "", "no backward", "an operation without a gradient");
  char name[HD_CUSTOM_OPS][16];
  hd_custom_op many[HD_CUSTOM_OPS];
  hd_status status = HD_OK;
  int count = 0;
  for (; count < HD_CUSTOM_OPS && status == HD_OK; count++) {
    many[count] = leak;
    snprintf(name[count], sizeof name[count], "op%d", count);
    many[count].name = name[count];
    status = hd_custom_op_add(ctx, &many[count]);
  }
  refuses(status, HD_E_USAGE, ctx, "", "32", "one too many");
  is_int(count, HD_CUSTOM_OPS - 3 + 1, "when 32 are there");
  hd_ctx_destroy(ctx);
}

int main(void) {
  const char *build_folder = getenv("BUILDDIR");
  char command[2 * SCRATCH_PATH_BYTES];
  data = strdup(in_scratch("data"));
  snprintf(command, sizeof command, "mkdir '%s' && '%s/tests/bits/make_idx' '%s' 96 32", data,
           build_folder ? build_folder : ".", data);
  if (system(command) != 0)
    bail_out("no data set");
  test_equal_bits();
  test_checkpoint();
  test_misfits();
  test_refused();
  free((void *)data);
  return done_testing();
}
