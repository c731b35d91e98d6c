/* Follows PyTorch's loss trajectories, its losses in float64: each loss must be within 1e-3, relative, for as many
 * steps as float32 can follow float64 (the number is in the files), each learning rate within 1e-6.
 *
 * tests/golden/networks.json holds those of networks on the built-in digits, on noise of their input's shape, and of
 * the recipe cifar-94 on coloured noise, from heddle's first weights (tools/pytorch/torch_golden.py made it).
 * Others, from PyTorch's first weights and on MNIST in file order, are not part of the project: they are looked for
 * in the folder HD_SHARED, or ../shared beside the source folder, and skipped where they are not.
 *
 * With HD_GPU=real, as make check-gpu sets it, the machine's GPU follows them, once by heddle's kernels and once by
 * NVIDIA's libraries; with HD_GPU=stub the stub does, which takes minutes. */
#include <jansson.h>
#include <unistd.h>

#include "base/safetensors.h"
#include "heddle/session.h"
#include "platform/file.h"
#include "cuda/cuda_table.h"
#include "tap.h"

static const double LOSS_TOLERANCE = 1e-3, LR_TOLERANCE = 1e-6;

enum { MOST_STEPS = 100, MOST_SETTINGS = 16, PATH = 1024 };

/* Where the trajectories of some cases come from. */
typedef struct golden_source {
  char data[2 * PATH]; /* a folder of samples */
  char init[2 * PATH]; /* folder of NAME.init.safetensors; "": heddle's first weights */
  const char *out;     /* runs go there */
  json_t *cases;
  const char *device, *arithmetic;
} golden_source;

/* The cases of ../shared, whose file has no settings of heddle. */
typedef struct golden_case {
  const char *name;
  const char *const *settings; /* name, value, ..., NULL */
} golden_case;

static const golden_case shared_cases[] = {
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
  double test_loss; /* after the last step */
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

/* Beyond the steps whose losses are compared, only a schedule is left to be looked at. */
static bool has_schedule(const char *const *settings) {
  for (; *settings; settings += 2)
    if (!strcmp(settings[0], "schedule") || !strcmp(settings[0], "recipe"))
      return true;
  return false;
}

static void run_path(char path[2 * PATH], const golden_source *from, const char *name) {
  snprintf(path, 2 * PATH, "%s/%s-%s-%s", from->out, name, from->device, from->arithmetic);
}

static hd_status configure(hd_config *config, hd_ctx *ctx, const golden_source *from, const char *name,
                           const char *const *settings, int steps) {
  char init[3 * PATH], out[2 * PATH], count[16];
  snprintf(init, sizeof init, "%s/%s.init.safetensors", from->init, name);
  run_path(out, from, name);
  snprintf(count, sizeof count, "%d", steps);
  const char *const common[] = {"data",       from->data,   "no-shuffle",
                                "true",       "max-steps",  count,
                                "log-every",  "1",          "device",
                                from->device, "arithmetic", from->arithmetic,
                                "out",        out,          *from->init ? "init" : NULL,
                                init,         NULL};
  hd_status status = set_all(config, ctx, settings);
  return status == HD_OK ? set_all(config, ctx, common) : status;
}

static hd_status train(trajectory *out, hd_ctx *ctx, const golden_source *from, const char *name,
                       const char *const *settings, int steps) {
  hd_config *config;
  hd_session *session = NULL;
  hd_status status = hd_config_create(&config, ctx);
  if (status == HD_OK)
    status = configure(config, ctx, from, name, settings, steps);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status == HD_OK)
    status = hd_session_train(session, ctx, record, out);
  out->test_loss = status == HD_OK ? hd_session_report(session)->test_loss : NAN;
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

/* The most that weights of the run differ from these, relative to the largest of each parameter; 1: one is missing. */
static double off_by(const char *run, const json_t *want) {
  char path[3 * PATH];
  HD_MAPPED file = {0};
  HD_ST_OWNED list = {0};
  hd_ctx quiet = {0};
  const char *name;
  const json_t *values;
  double off = 0;
  snprintf(path, sizeof path, "%s/last/model.safetensors", run);
  if (hd__file_map(&file, &quiet, path) != HD_OK || hd__st_parse(&list, &quiet, path, file.bytes, file.length) != HD_OK)
    return 1;
  json_object_foreach((json_t *)want, name, values) {
    const hd_st_tensor *t = hd__st_find(&list, name);
    const size_t count = json_array_size(values);
    double most = 1e-2, here = 0;
    if (!t || t->length != count * sizeof(float))
      return 1;
    for (size_t i = 0; i < count; i++) {
      float got;
      const double truth = json_number_value(json_array_get(values, i));
      memcpy(&got, (const char *)t->bytes + i * sizeof got, sizeof got);
      most = fmax(most, fabs(truth));
      here = fmax(here, fabs(got - truth));
    }
    off = fmax(off, here / most);
  }
  return off;
}

static void follow(const golden_source *from, const char *name, const char *const *settings) {
  const json_t *want = json_object_get(from->cases, name);
  const int listed = (int)json_array_size(json_object_get(want, "losses"));
  const int steps = (int)json_integer_value(json_object_get(want, "steps")),
            all = has_schedule(settings) ? listed : steps;
  trajectory t = {0};
  char run[2 * PATH];
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  const hd_status status = train(&t, ctx, from, name, settings, all);
  if (status == HD_E_UNSUPPORTED && !strcmp(from->device, "cuda")) {
    skip(1, "%s: %s", name, hd_ctx_message(ctx));
  } else if (status != HD_OK) {
    fail("%s: %s", name, hd_ctx_message(ctx));
  } else {
    double loss = worst(t.loss, json_object_get(want, "losses"), steps),
           lr = worst(t.lr, json_object_get(want, "lr"), t.steps);
    is_int(t.steps, all, "%s, %s %s: %d steps ran", name, from->device, from->arithmetic, all);
    ok(steps > 0 && loss <= LOSS_TOLERANCE, "%s: the losses of %d steps, off by %.1e at most", name, steps, loss);
    const json_t *test = json_object_get(want, "test_loss");
    if (test && steps == listed)
      ok(fabs(t.test_loss / json_number_value(test) - 1) <= LOSS_TOLERANCE, "%s: the loss on the test set, %.6f", name,
         t.test_loss);
    const json_t *weights = json_object_get(want, "weights");
    run_path(run, from, name);
    if (weights && steps == listed)
      ok(off_by(run, weights) <= LOSS_TOLERANCE, "%s: the weights at the end", name);
    ok(lr <= LR_TOLERANCE, "%s: the learning rates of %d steps, off by %.1e at most", name, t.steps, lr);
  }
  hd_ctx_destroy(ctx);
}

/* Writes the samples of this kind into a folder of their own: NULL, what make_data calls planes, or rows. */
static void make_data(golden_source *from, const char *kind) {
  const char *build = getenv("BUILDDIR") ? getenv("BUILDDIR") : ".";
  const bool digits = !kind, planes = kind && !strcmp(kind, "planes");
  char command[5 * PATH];
  kind = digits ? "digits" : kind;
  snprintf(from->data, sizeof from->data, "%s/%.*s", from->out, (int)strcspn(kind, " "), kind);
  if (access(from->data, R_OK) == 0)
    return;
  const char *maker = digits ? "make_idx" : planes ? "make_data planes" : "make_data rows";
  const char *counts = digits ? "6400 50" : planes ? "320 50" : "800 50";
  snprintf(command, sizeof command, "mkdir '%s' && '%s'/tests/bits/%s '%s' %s %s", from->data, build, maker, from->data,
           counts, digits || planes ? "" : kind);
  if (system(command) != 0)
    bail_out("no data: %.900s", command);
}

/* Trajectories that stand beside this file: heddle's first weights, the settings and the kind of data in the file. */
static void follow_own(const char *source, const char *out, const char *device, const char *arithmetic) {
  const char *settings[2 * MOST_SETTINGS + 3], *label, *name;
  char path[PATH];
  golden_source own = {.out = out, .device = device, .arithmetic = arithmetic};
  json_t *one, *setting;
  snprintf(path, sizeof path, "%s/tests/golden/networks.json", source);
  json_t *losses = json_load_file(path, 0, NULL);
  if (!losses)
    bail_out("no %s", path);
  own.cases = json_object_get(losses, "cases");
  json_object_foreach(own.cases, label, one) {
    int count = 0;
    json_object_foreach(json_object_get(one, "settings"), name, setting) {
      settings[count++] = name;
      settings[count++] = json_string_value(setting);
    }
    const char *file = json_string_value(json_object_get(one, "file"));
    if (file) {
      snprintf(path, sizeof path, "%s/%s", source, file);
      settings[count++] = "model";
      settings[count++] = path;
    }
    settings[count] = NULL;
    make_data(&own, json_string_value(json_object_get(one, "data")));
    follow(&own, label, settings);
  }
  json_decref(losses);
}

static void follow_shared(const char *from, const char *out, const char *device, const char *arithmetic) {
  golden_source shared = {.out = out, .device = device, .arithmetic = arithmetic};
  char path[2 * PATH];
  snprintf(shared.data, sizeof shared.data, "%s/data/mnist", from);
  snprintf(shared.init, sizeof shared.init, "%s/golden", from);
  snprintf(path, sizeof path, "%s/golden/losses.json", from);
  json_t *losses = json_load_file(path, 0, NULL);
  if (!losses || access(shared.data, R_OK) != 0) {
    skip(1, "no PyTorch trajectories and MNIST in %s", from);
  } else {
    shared.cases = json_object_get(losses, "cases");
    for (size_t i = 0; i < sizeof shared_cases / sizeof *shared_cases; i++)
      follow(&shared, shared_cases[i].name, shared_cases[i].settings);
  }
  json_decref(losses);
}

int main(void) {
  const char *source = getenv("SRCDIR") ? getenv("SRCDIR") : ".", *packed = getenv("HD_SHARED");
  char folder[] = "/tmp/heddle-golden.XXXXXX", command[PATH], shared[PATH];
  snprintf(shared, sizeof shared, "%s%s", packed ? packed : source, packed ? "" : "/../shared");
  const int gpu = getenv("HD_GPU") != NULL;
  if (!mkdtemp(folder))
    bail_out("no temporary folder");
  if (gpu)
    cuda_table_environment();
  for (int native = 0; native < (gpu ? 2 : 1); native++) {
    const char *arithmetic = native ? "native" : "portable";
    follow_own(source, folder, gpu ? "cuda" : "cpu", arithmetic);
    follow_shared(shared, folder, gpu ? "cuda" : "cpu", arithmetic);
  }
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  if (system(command) != 0)
    diag("%s is left behind", folder);
  return done_testing();
}
