/* Follows PyTorch's loss trajectories: its initial weights, MNIST in file order, its losses in float64.
 *
 * The trajectories and MNIST are not part of the project: they are looked for in ../shared beside the source folder,
 * and the test skips where they are not. Each loss must be within 1e-3, relative, for as many steps as float32 can
 * follow float64 (the file says how many), each learning rate within 1e-6. */
#include <jansson.h>
#include <unistd.h>

#include "heddle/session.h"
#include "tap.h"

static const double LOSS_TOLERANCE = 1e-3, LR_TOLERANCE = 1e-6;

enum { MOST_STEPS = 100, PATH = 1024 };

typedef struct golden_case {
  const char *name;
  const char *const *settings; /* name, value, ..., NULL */
} golden_case;

static const golden_case cases[] = {
    {"simplenet-sgd", (const char *const[]){"model", "simplenet", "optimizer", "sgd", "lr", "0.01", NULL}},
    {"mlp-momentum", (const char *const[]){"model", "mlp", "optimizer", "sgd", "lr", "0.05", "momentum", "0.9",
                                           "weight-decay", "1e-4", NULL}},
    {"cnn-sgd", (const char *const[]){"model", "cnn", "optimizer", "sgd", "lr", "0.01", NULL}},
    {"cnn-adamw",
     (const char *const[]){"model", "cnn", "optimizer", "adamw", "lr", "0.001", "weight-decay", "0.01", NULL}},
    {"fastmnist-adam-onecycle", (const char *const[]){"recipe", "fastmnist", NULL}},
};

typedef struct trajectory {
  int steps;
  double loss[MOST_STEPS], lr[MOST_STEPS];
} trajectory;

static void record(void *user, const hd_event *event) {
  trajectory *t = user;
  if (event->kind != HD_EVENT_LOG || event->step > MOST_STEPS)
    return;
  t->steps = (int)event->step;
  t->loss[event->step - 1] = event->loss;
  t->lr[event->step - 1] = event->lr;
}

/* Stops at the first setting that is refused; the message is in the context. */
static hd_status set_all(hd_config *config, hd_ctx *ctx, const char *const *settings) {
  hd_status status = HD_OK;
  for (; *settings && status == HD_OK; settings += 2)
    status = hd_config_set(config, ctx, settings[0], settings[1]);
  return status;
}

static hd_status train(trajectory *out, hd_ctx *ctx, const golden_case *c, const char *shared, const char *folder) {
  char data[PATH + 32], init[PATH + 64];
  hd_config *config;
  hd_session *session = NULL;
  snprintf(data, sizeof data, "%s/data/mnist", shared);
  snprintf(init, sizeof init, "%s/golden/%s.init.safetensors", shared, c->name);
  const char *const common[] = {"data", data,        "init", init,  "no-shuffle", "true", "max-steps",
                                "100",  "log-every", "1",    "out", folder,       NULL};
  hd_status status = hd_config_create(&config, ctx);
  if (status == HD_OK)
    status = set_all(config, ctx, c->settings);
  if (status == HD_OK)
    status = set_all(config, ctx, common);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, record, out);
  hd_session_destroy(session);
  hd_config_destroy(config);
  return status;
}

static double worst(const double *got, const json_t *want, int count) {
  double off = 0;
  for (int i = 0; i < count; i++) {
    double truth = json_number_value(json_array_get(want, (size_t)i)), here = fabs(got[i] - truth) / fabs(truth);
    off = here > off || !(here == here) ? here : off;
  }
  return off;
}

static void follow(const golden_case *c, const json_t *want, const char *shared, const char *folder) {
  trajectory t = {0};
  hd_ctx *ctx;
  char out[PATH];
  snprintf(out, sizeof out, "%s/%s", folder, c->name);
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  if (train(&t, ctx, c, shared, out) != HD_OK) {
    fail("%s: %s", c->name, hd_ctx_message(ctx));
  } else {
    int steps = (int)json_integer_value(json_object_get(want, "steps"));
    double loss = worst(t.loss, json_object_get(want, "losses"), steps),
           lr = worst(t.lr, json_object_get(want, "lr"), t.steps);
    is_int(t.steps, MOST_STEPS, "%s: 100 steps ran", c->name);
    ok(steps > 0 && loss <= LOSS_TOLERANCE, "%s: the losses of %d steps, off by %.1e at most", c->name, steps, loss);
    ok(lr <= LR_TOLERANCE, "%s: the learning rates of %d steps, off by %.1e at most", c->name, t.steps, lr);
  }
  hd_ctx_destroy(ctx);
}

int main(void) {
  const char *source = getenv("SRCDIR");
  char shared[PATH], path[PATH + 32], folder[] = "/tmp/heddle-golden.XXXXXX", command[PATH];
  snprintf(shared, sizeof shared, "%s/../shared", source ? source : ".");
  snprintf(path, sizeof path, "%s/golden/losses.json", shared);
  json_t *losses = json_load_file(path, 0, NULL);
  snprintf(path, sizeof path, "%s/data/mnist", shared);
  if (!losses || access(path, R_OK) != 0)
    skip_all("no PyTorch trajectories and MNIST in %s", shared);
  if (!mkdtemp(folder))
    bail_out("no temporary folder");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    follow(&cases[i], json_object_get(json_object_get(losses, "cases"), cases[i].name), shared, folder);
  json_decref(losses);
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command) != 0)
    diag("%s is left behind", folder);
  return done_testing();
}
