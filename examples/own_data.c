/* A custom data set: rings of four sizes, drawn by callbacks on demand.
 *
 *     own_data [STEPS] */
#include <heddle.h>
#include <stdio.h>

enum { SIDE = 16, RINGS = 4 };

typedef struct split {
  int64_t count, salt;
} split;

static int64_t len(void *self) { return ((const split *)self)->count; }

/* A ring whose size and place depend on the index alone. */
static int get(void *self, int64_t index, hd_custom_sample *sample) {
  int64_t salt = (index + ((const split *)self)->salt) * 2654435761 % 1000003;
  int x = 6 + (int)(salt % 5), y = 6 + (int)(salt / 5 % 5), radius = 1 + (int)(salt / 25 % RINGS);
  sample->label = radius - 1;
  for (int i = 0; i < SIDE * SIDE; i++) {
    int dx = i % SIDE - x, dy = i / SIDE - y, far = dx * dx + dy * dy;
    sample->bytes[i] = far >= radius * radius && far < (radius + 1) * (radius + 1) ? 255 : 0;
  }
  return 0;
}

static const char *const names[RINGS] = {"tiny", "small", "middle", "large"};
static const char model[] = "model: rings\n"
                            "input: [1, 16, 16]\n"
                            "layers: [flat: {op: flatten}, fc1: {op: linear, out: 32}, relu1: {op: relu}, "
                            "fc2: {op: linear, out: 4}]\n";

int main(int argc, char **argv) {
  split train = {4000, 0}, test = {500, 4000};
  const hd_custom_data rings = {sizeof rings, "rings", 1,     SIDE, SIDE, HD_U8, RINGS, 0,
                                names,        &train,  &test, len,  get,  NULL};
  hd_ctx *ctx;
  hd_config *config = NULL;
  hd_session *session = NULL;
  if (hd_ctx_create(&ctx) != HD_OK)
    return 1;
  int failed = hd_data_add(ctx, &rings) || hd_config_create(&config, ctx) ||
               hd_config_set_text(config, ctx, HD_OPT_DATA, "rings") ||
               hd_config_set_text(config, ctx, HD_OPT_MODEL, model) ||
               hd_config_set_text(config, ctx, HD_OPT_MAX_STEPS, argc > 1 ? argv[1] : "200") ||
               hd_session_create(&session, ctx, config) || hd_session_train(session, ctx, NULL, NULL);
  if (failed)
    fprintf(stderr, "own_data: %s\n", hd_ctx_message(ctx));
  else
    printf("test accuracy %.2f %%\n", 100 * hd_session_report(session)->test_accuracy);
  hd_session_destroy(session);
  hd_config_destroy(config);
  hd_ctx_destroy(ctx);
  return failed;
}
