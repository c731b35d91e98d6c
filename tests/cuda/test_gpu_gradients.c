/* The gradients of a GPU, parameter by parameter, against those of the CPU's kernels: one step of plain gradient
 * descent at learning rate 1 takes a gradient from the weights. Portable ones have the same bits. Native ones, by
 * NVIDIA's libraries, are off by what their precision rounds away, and no more: an index, a stride or a padding that
 * is wrong shows in its parameter here, where a loss may hide it. By default the stubs compute, with HD_GPU=real the
 * machine's GPU. */
#include "scratch.h"

#include <math.h>
#include <unistd.h>

#include "cuda/cuda_table.h"
#include "heddle.h"
#include "train/run/session.h"

enum { MOST_PARAMS = 64, PATH = 1024 };

typedef struct way {
  const char *device, *arithmetic, *precision;
  /* Of the difference, relative to the gradient, both as norms. Where a factor is rounded by eps, a share of about
   * eps of the ReLUs changes its side and of the maxima its place; each takes a whole term of a gradient away, so
   * the norm is off by about sqrt(eps), 0.02 and 0.06. A smooth network's is off by a few eps. */
  double bound, smooth;
} way;

/* `make check` takes the first two. */
static const way ways[] = {{"cuda", "portable", "f32", 0, 0},      {"cuda", "native", "f32", 1e-4, 1e-5},
                           {"cuda", "native", "tf32", 0.12, 3e-3}, {"cuda", "native", "bf16", 0.25, 2e-2},
                           {"cuda:0,1", "portable", "f32", 0, 0},  {"cuda:0,1", "native", "tf32", 0.12, 3e-3}};

/* A step's gradients, in the store's order. */
typedef struct gradients {
  int count;
  char name[MOST_PARAMS][HD_NAME_BYTES];
  int64_t elems[MOST_PARAMS];
  float *of[MOST_PARAMS];
} gradients;

static void take(gradients *g, const hd_session *s, int half, float sign) {
  const hd_directory *d = s->compute.store->directory;
  for (int i = 0, p = 0; i < d->entries; i++) {
    const hd_store_entry *e = &d->entry[i];
    if (e->same_as >= 0 || !e->trained)
      continue;
    const int64_t elems = hd__store_entry_elems(e);
    if (p == g->count) {
      snprintf(g->name[p], sizeof g->name[p], "%s", e->name);
      g->elems[p] = elems;
      g->of[p] = calloc((size_t)elems, sizeof(float));
      g->count++;
    }
    for (int64_t k = 0; k < elems; k++)
      g->of[p][k] += sign * s->compute.store->weights[half][e->offset + k];
    p++;
  }
}

static void drop(gradients *g) {
  for (int p = 0; p < g->count; p++)
    free(g->of[p]);
  *g = (gradients){0};
}

/* The first step of two: the last one would be followed by an evaluation. HD_E_UNSUPPORTED: there is no such GPU or
 * library. */
static hd_status descend(gradients *out, hd_ctx *ctx, const char *model, const way *how) {
  static int run;
  char folder[SCRATCH_PATH_BYTES];
  hd_session *session = NULL;
  hd_config *config;
  hd_status status = hd_config_create(&config, ctx);
  snprintf(folder, sizeof folder, "%s/run-%d", scratch(), run++);
  const char *const pairs[] = {"model",     model,         "data", "random:1x28x28", "max-steps",
                               "2",         "batch",       "64",   "optimizer",      "sgd",
                               "lr",        "1",           "out",  folder,           "device",
                               how->device, "threads",     "2",    "arithmetic",     how->arithmetic,
                               "precision", how->precision};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && status == HD_OK; i += 2)
    status = hd_config_set(config, ctx, pairs[i], pairs[i + 1]);
  if (status == HD_OK)
    status = hd_session_create(&session, ctx, config);
  if (status == HD_OK) {
    take(out, session, hd__store_buffer(session->compute.store), 1);
    status = hd_session_step(NULL, session, ctx, 1);
  }
  if (status == HD_OK)
    take(out, session, hd__store_buffer(session->compute.store), -1);
  hd_session_destroy(session);
  hd_config_destroy(config);
  return status;
}

static double norm_of(const gradients *g, int p) {
  double sum = 0;
  for (int64_t k = 0; k < g->elems[p]; k++)
    sum += (double)g->of[p][k] * (double)g->of[p][k];
  return sqrt(sum);
}

/* How far a parameter's gradient is off, relative to its norm; and where that is nothing but what rounding leaves,
 * as of a bias before a batch norm, to a thousandth of the largest parameter's. */
static double off_by(const gradients *found, const gradients *wanted, int p) {
  double difference = 0, largest = 0;
  for (int64_t k = 0; k < wanted->elems[p]; k++) {
    const double d = (double)found->of[p][k] - (double)wanted->of[p][k];
    difference += d * d;
  }
  for (int q = 0; q < wanted->count; q++)
    largest = fmax(largest, norm_of(wanted, q));
  return sqrt(difference) / fmax(norm_of(wanted, p), 1e-3 * largest);
}

static void compare(hd_ctx *ctx, const char *name, const char *model, const gradients *wanted, const way *how) {
  gradients found = {0};
  double worst = 0;
  int at = 0;
  const hd_status status = descend(&found, ctx, model, how);
  const char *text = how->bound == 0 ? "portable" : how->precision;
  if (status == HD_E_UNSUPPORTED) {
    skip(1, "%s, %s on %s: %s", name, text, how->device, hd_ctx_message(ctx));
  } else if (status != HD_OK || found.count == 0 || found.count != wanted->count) {
    fail("%s, %s on %s: %s", name, text, how->device, hd_ctx_message(ctx));
  } else {
    for (int p = 0; p < wanted->count; p++) {
      const double off = off_by(&found, wanted, p);
      at = off > worst || off != off ? p : at;
      worst = off > worst || off != off ? off : worst;
    }
    ok(worst <= (strcmp(name, "smooth") ? how->bound : how->smooth),
       "%s, %s on %s: gradients of %d parameters, off by %.1e at most (%s)", name, text, how->device, wanted->count,
       worst, wanted->name[at]);
  }
  drop(&found);
}

int main(void) {
  static const char *const models[] = {"mixed", "norm", "shared", "groups", "tiles", "native", "smooth", "cnn"};
  const char *source = getenv("SRCDIR") ? getenv("SRCDIR") : ".";
  const way cpu = {"cpu", "portable", "f32", 0, 0};
  char path[PATH];
  hd_ctx *ctx;
  cuda_table_environment();
  setenv("STUB_CUDA_GPUS", "2", 1);
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
    if (!strcmp(models[m], "native") && check_depth() == 1) /* wide layers */
      continue;
    gradients wanted = {0};
    snprintf(path, sizeof path, "%s/tests/bits/%s.yaml", source, models[m]);
    const char *model = access(path, R_OK) == 0 ? path : models[m];
    if (descend(&wanted, ctx, model, &cpu) != HD_OK)
      bail_out("%s: %s", models[m], hd_ctx_message(ctx));
    for (size_t w = 0; w < (check_depth() > 1 ? sizeof ways / sizeof *ways : 2); w++)
      compare(ctx, models[m], model, &wanted, &ways[w]);
    drop(&wanted);
  }
  hd_ctx_destroy(ctx);
  return done_testing();
}
