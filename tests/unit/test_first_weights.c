/* First weights: eigenvectors of symmetric matrices; filters that whiten patches; those that copy inputs, as PyTorch's.
 * Constants are bits that every machine must find. */
#include "scratch.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/philox.h"
#include "base/symmetric_eigen.h"
#include "graph/model.h"
#include "train/run/first_weights.h"

enum { SAMPLES = 150, CHANNELS = 3, SIDE = 9, WIDTH = 8, PIXELS = SIDE * WIDTH, ELEMS = CHANNELS * PIXELS };

static hd_ctx *ctx;
static uint8_t images[SAMPLES * ELEMS];
static int32_t labels[SAMPLES];
static const hd_split data = {.images = images,
                              .labels = labels,
                              .count = SAMPLES,
                              .channels = CHANNELS,
                              .height = SIDE,
                              .width = WIDTH,
                              .classes = 7};
static const double mean[3] = {0.5, 0.4, 0.45}, std_dev[3] = {0.25, 0.2, 0.3};

static double draw(uint32_t index, uint32_t block) {
  uint32_t word[4];
  hd__rng_block(word, 3, HD_RNG_TEST, 0, index, 0, block);
  return (double)hd__rng_uniform(word[0]);
}

/* ---- Eigenvectors ---- */

/* A B^T of two n x rank matrices that are equal; rank < n: with eigenvalues of 0. */
static void draw_matrix(double *a, int n, int rank) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      a[i * n + j] = 0;
      for (int k = 0; k < rank; k++)
        a[i * n + j] += (draw((uint32_t)i, (uint32_t)k) - 0.5) * (draw((uint32_t)j, (uint32_t)k) - 0.5);
    }
}

static void check_eigen(const double *given, int n, const char *name, uint64_t digest) {
  static double a[75 * 75], v[75 * 75], values[75];
  double wrong = 0, skew = 0;
  int order = 0;
  memcpy(a, given, (size_t)(n * n) * sizeof *a);
  hd__symmetric_eigen(values, v, a, n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double product = 0, dot = 0;
      for (int k = 0; k < n; k++) {
        product += given[j * n + k] * v[i * n + k];
        dot += v[i * n + k] * v[j * n + k];
      }
      wrong = fmax(wrong, fabs(product - values[i] * v[i * n + j]));
      skew = fmax(skew, fabs(dot - (i == j)));
      order += i < j && values[i] < values[j];
    }
  ok(wrong < 1e-13 && skew < 1e-13 && order == 0, "%s: a v = lambda v but for %.1e, v orthogonal but for %.1e, sorted",
     name, wrong, skew);
  const uint64_t found = hd__xxh3(v, (size_t)(n * n) * sizeof *v) + 31 * hd__xxh3(values, (size_t)n * sizeof *values);
  if (digest && !ok(found == digest, "%s: its bits", name))
    diag("found 0x%016llx", (unsigned long long)found);
}

static void test_eigen(void) {
  static double a[75 * 75];
  static const double diagonal[9] = {1, 0, 0, 0, 5, 0, 0, 0, 3}, zero[9], one[1] = {4}, turned[4] = {2, 1, 1, 2};
  check_eigen(one, 1, "1 x 1", 0);
  check_eigen(turned, 2, "2 x 2", 0);
  check_eigen(diagonal, 3, "a diagonal", 0);
  check_eigen(zero, 3, "zeros", 0);
  draw_matrix(a, 12, 12);
  check_eigen(a, 12, "12 x 12", 0xb71cd603bfc87b3b);
  draw_matrix(a, 12, 5);
  check_eigen(a, 12, "12 x 12 of rank 5", 0x89879c2bd37067ed);
  draw_matrix(a, 75, 75);
  check_eigen(a, 75, "75 x 75", 0x71e40c62e1032ac6);
}

/* ---- Whitening ---- */

/* Neighbouring pixels resemble each other, as in pictures. */
static void draw_images(void) {
  for (int i = 0; i < SAMPLES; i++)
    for (int c = 0; c < CHANNELS; c++)
      for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < WIDTH; x++) {
          const uint32_t key = (uint32_t)((i * CHANNELS + c) * 64), pixel = (uint32_t)(y * WIDTH + x);
          const double smooth = draw(key + 1 + (uint32_t)(x / 3), 0) + draw(key + 9 + (uint32_t)(y / 3), 1);
          const double grey = draw((uint32_t)(i * 999), 2);
          images[i * ELEMS + c * PIXELS + y * WIDTH + x] =
              (uint8_t)(40 * smooth + 100 * grey + 60 * draw(key + 31, pixel));
        }
}

static hd_graph *graph_of(const char *conv) {
  char text[512];
  hd_graph *graph;
  snprintf(text, sizeof text,
           "model: m\ninput: [%d, %d, %d]\nlayers:\n  - conv: {op: conv2d, %s}\n  - flat: {op: flatten}\n"
           "  - fc: {op: linear, out: 7}\n",
           CHANNELS, SIDE, WIDTH, conv);
  if (hd__model_parse(&graph, NULL, ctx, text, strlen(text), "m.yaml") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  return graph;
}

static float *whiten(const hd_graph *graph, const uint32_t *members, int64_t count, int threads) {
  float *weight;
  hd_feed feed;
  hd_threads *team;
  const hd_placement_request request = {.threads = threads, .policy = HD_PLACEMENT_ALL};
  if (hd__threads_open(&team, ctx, &request) != HD_OK ||
      hd__feed_init(&feed, ctx, &data, hd__kernels_reference(), mean, std_dev) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  const hd_first_samples samples = {.seen = &feed, .members = members, .count = count, .threads = team};
  if (hd__whiten(&weight, ctx, &graph->nodes[0], &samples) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd__threads_destroy(team);
  hd__feed_fini(&feed);
  return weight;
}

static double pixel(int64_t sample, int c, int y, int x) {
  return ((double)images[sample * ELEMS + c * PIXELS + y * WIDTH + x] / 255 - mean[c]) / std_dev[c];
}

/* The largest difference of filters' mean products from those of whitened patches: 1 - eps / (eigenvalue + eps) on the
 * diagonal, so below 1, and 0 beside it. */
static double whiteness(const float *weight, const hd_geom *g, const uint32_t *members, int64_t count, int filters) {
  static double z[64], sum[64][64];
  const int size = CHANNELS * g->window.kh * g->window.kw;
  double wrong = 0, patches = 0;
  memset(sum, 0, sizeof sum);
  for (int64_t i = 0; i < count; i++)
    for (int y = 0; y + g->window.dilation[0] * (g->window.kh - 1) < SIDE; y++)
      for (int x = 0; x + g->window.dilation[1] * (g->window.kw - 1) < WIDTH; x++, patches++)
        for (int f = 0; f < filters; f++) {
          const float *w = weight + f * size;
          z[f] = 0;
          for (int c = 0; c < CHANNELS; c++)
            for (int ky = 0; ky < g->window.kh; ky++)
              for (int kx = 0; kx < g->window.kw; kx++)
                z[f] += (double)*w++ * pixel(members ? members[i] : i, c, y + ky * g->window.dilation[0],
                                             x + kx * g->window.dilation[1]);
          for (int e = 0; e <= f; e++)
            sum[f][e] += z[f] * z[e];
        }
  for (int f = 0; f < filters; f++)
    for (int e = 0; e <= f; e++)
      wrong = fmax(wrong, fabs(sum[f][e] / patches - (e == f)));
  return wrong;
}

static void check_whitening(const char *conv, const uint32_t *members, int64_t count, int filters, uint64_t digest) {
  hd_graph *graph = graph_of(conv);
  const hd_geom *g = &graph->nodes[0].geom;
  const int elems = g->co * CHANNELS * g->window.kh * g->window.kw;
  float *weight = whiten(graph, members, count, 1);
  const double wrong = whiteness(weight, g, members, count, filters);
  ok(wrong < 2e-5, "%s: its outputs are uncorrelated, of variance 1, but for %.1e", conv, wrong);
  for (int threads = 2; threads < 6; threads++) {
    float *again = whiten(graph, members, count, threads);
    is_bytes(again, weight, (size_t)elems * sizeof *weight, "the same by %d threads", threads);
    hd__free(again);
  }
  const uint64_t found = hd__xxh3(weight, (size_t)elems * sizeof *weight);
  if (!ok(found == digest, "its bits"))
    diag("found 0x%016llx", (unsigned long long)found);
  hd__free(weight);
  hd__graph_destroy(graph);
}

static void test_whitening(void) {
  uint32_t odd[SAMPLES / 2];
  for (int i = 0; i < SAMPLES / 2; i++)
    odd[i] = (uint32_t)(2 * i + 1);
  draw_images();
  check_whitening("out: 24, kernel: 2, init: whiten, init_eps: 1e-9", NULL, SAMPLES, 12, 0x0496b12a5ae5fd52);
  check_whitening("out: 5, kernel: [1, 2], dilation: 2, init: whiten, init_eps: 1e-9", odd, SAMPLES / 2, 5,
                  0xb75717f6be2e5a0c);
  check_whitening("out: 27, kernel: 3, padding: 1, stride: 2, init: whiten, init_eps: 1e-9", NULL, SAMPLES, 27,
                  0x8c8064e3c6c27d7c);

  hd_graph *graph = graph_of("out: 20, kernel: 2, init: whiten, init_samples: 50, init_eps: 0.25"),
           *exact = graph_of("out: 20, kernel: 2, init: whiten, init_samples: 50, init_eps: 1e-9");
  uint32_t third[50];
  int opposite = 0;
  for (int i = 0; i < 50; i++)
    third[i] = (uint32_t)(3 * i);
  float *some = whiten(graph, NULL, SAMPLES, 2), *given = whiten(graph, third, 50, 1),
        *whole = whiten(exact, third, 50, 1);
  is_bytes(some, given, 240 * sizeof *some, "50 samples of 150 are those at even distances");
  for (int i = 0; i < 8 * 12; i++)
    opposite += some[12 * 12 + i] == -some[i];
  is_int(opposite, 8 * 12, "outputs beyond the eigenvectors are their negatives");
  double short_2 = 0, long_2 = 0; /* 1 / (lambda + eps) and 1 / lambda */
  for (int k = 0; k < 12; k++) {
    short_2 += (double)given[11 * 12 + k] * (double)given[11 * 12 + k];
    long_2 += (double)whole[11 * 12 + k] * (double)whole[11 * 12 + k];
  }
  near(1 / short_2 - 1 / long_2, 0.25, 1e-6, "eps is added to the eigenvalue");
  hd__free(some);
  hd__free(given);
  hd__free(whole);
  hd__graph_destroy(graph);
  hd__graph_destroy(exact);
  memset(images, 7, sizeof images);
  graph = graph_of("out: 24, kernel: 2, init: whiten");
  some = whiten(graph, NULL, SAMPLES, 2);
  int finite = 0;
  for (int i = 0; i < 24 * 12; i++)
    finite += isfinite(some[i]);
  is_int(finite, 24 * 12, "samples that are all alike give finite weights");
  hd__free(some);
  hd__graph_destroy(graph);
}

/* ---- Filters that copy inputs ---- */

/* In file order. */
static void first_weights(float *weight, hd_graph *graph) {
  hd_plan *plan;
  hd_store *store;
  if (hd__plan_create(&plan, ctx, graph, hd__kernels_reference(), &(hd_plan_settings){.train = true}) != HD_OK ||
      hd__store_create(&store, ctx, NULL, plan) != HD_OK ||
      hd__first_weights(store, ctx, plan, 5, &(hd_first_samples){0}, NULL) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  hd__store_to_file_order(weight, store->weights[0] + store->directory->entry[0].offset, &store->directory->entry[0]);
  hd__store_destroy(store);
  hd__plan_destroy(plan);
}

/* torch.nn.init.dirac_(weight, groups): entry (o, c, y, x) is 1 at c = o mod (outputs of a group), in the middle. Rows
 * that it leaves zero are drawn, as those of the same layer without `init`. */
static void check_dirac(const char *conv, int groups, const int8_t *torch, int elems, int row) {
  static float copied[512], drawn[512];
  char with[128];
  int wrong = 0, kept = 0, rest = 0;
  snprintf(with, sizeof with, "%s, init: dirac", conv);
  first_weights(copied, graph_of(with));
  first_weights(drawn, graph_of(conv));
  const int per_group = elems / row / groups;
  for (int i = 0; i < elems; i++) {
    const int filter = i / row % per_group, copies = filter < CHANNELS / groups;
    wrong += copies && copied[i] != torch[i];
    kept += !copies && copied[i] == drawn[i];
    rest += !copies;
  }
  is_int(wrong, 0, "%s: the first outputs copy the inputs, as PyTorch's dirac_ has it", conv);
  is_int(kept, rest, "the others are drawn as ever");
}

static void test_dirac(void) {
  /* w = torch.empty(3, 3, 2, 3); torch.nn.init.dirac_(w); the same of torch.empty(6, 1, 1, 3) with groups 3. */
  static const int8_t even[54] = {[4] = 1, [6 + 18 + 4] = 1, [12 + 36 + 4] = 1};
  static const int8_t grouped[18] = {[1] = 1, [7] = 1, [13] = 1};
  static const int8_t more[5 * 27] = {[4] = 1, [27 + 9 + 4] = 1, [54 + 18 + 4] = 1};
  check_dirac("out: 3, kernel: [2, 3]", 1, even, 54, 18);
  check_dirac("out: 2, kernel: [2, 3]", 1, even, 36, 18);
  check_dirac("out: 5, kernel: 3, bias: false", 1, more, 5 * 27, 27);
  check_dirac("out: 6, kernel: [1, 3], groups: 3", 3, grouped, 18, 3);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_eigen();
  test_whitening();
  test_dirac();
  hd_ctx_destroy(ctx);
  return done_testing();
}
