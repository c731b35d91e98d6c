/* The losses against PyTorch 2: means over a batch and their gradients, with weights, ignored labels, smoothing and
 * large scores. The numbers below are what PyTorch printed in float64; scores, labels and targets come from formulas.
 *
 * A loss is read from a model file, as users write it, and its divisor comes from the batch's targets, as in training.
 */
#include <stdlib.h>

#include "graph/graph.h"
#include "kernel/kernel.h"
#include "tap.h"
#include "train/records/loss_score.h"
#include "train/settings/model_source.h"

enum { ROWS = 7, MOST = 32, SHOWN = 3 };

static const double TOLERANCE = 1e-9; /* relative: PyTorch's exponentials and heddle's, both in double */

typedef struct loss_case {
  hd_op op, gradient;
  const char *text; /* behind "loss: " */
  int scores;
  double scale;                            /* of the scores */
  double loss, weighted_sum, shown[SHOWN]; /* the sum is of gradients times weigh(); shown: those of `elements` */
} loss_case;

static const int elements[SHOWN][2] = {{0, 0}, {1, 2}, {6, 1}}; /* row, score; the last score if there are fewer */

/* Of probabilities. */
static const loss_case soft_cases[] = {
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "cross_entropy",
     5,
     1,
     9.496921516712188,
     0.3168464372562404,
     {0.00017450447491996603, -0.03493200923893305, -0.04351601551870546}},
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "{op: cross_entropy, weight: [1, 2.5, 0, 0.5, 3]}",
     5,
     1,
     15.578710493761033,
     -0.05643266510997008,
     {0.0002704819361259473, 0.0012125285367966306, -0.1692355383397077}},
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "{op: cross_entropy, label_smoothing: 0.25}",
     18,
     1,
     36.50095986612619,
     -0.4228881625287683,
     {-0.0019297443126754653, -0.027994778293642778, -0.060672997933952394}},
};

static const loss_case cases[] = {
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "cross_entropy",
     5,
     1,
     3.7023400352563027,
     0.42495286061678189,
     {-0.14278734106717486, 0.00031291059014106596, 0.025450736649660674}},
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "{op: cross_entropy, weight: [1, 2.5, 0, 0.5, 3]}",
     5,
     1,
     4.8087921848754744,
     0.33509557912796839,
     {-0.11758957499649696, 0.00012884553711690953, 0.010479715091036748}},
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "{op: cross_entropy, ignore_index: 3}",
     5,
     1,
     3.9135193781489122,
     0.44551077934400551,
     {-0.19990227749404482, 0, 0}},
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "{op: cross_entropy, label_smoothing: 0.1}",
     18,
     1,
     6.1812432682023353,
     -0.070183253643156501,
     {-0.12935687065995463, -0.0006766601557340404, 0.0024770317583971196}},
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "{op: cross_entropy, weight: [1, 2.5, 0, 0.5, 3], ignore_index: 1, label_smoothing: 0.25}",
     5,
     1,
     5.3782941807624463,
     0.5542465052169866,
     {-0.13324375436954108, 0.00026467020749431828, 0.00069374808283798734}},
    {HD_OP_cross_entropy,
     HD_OP_cross_entropy_dx,
     "{op: cross_entropy, label_smoothing: 1}",
     5,
     20,
     76.714285714285765,
     -0.075000000000025019,
     {-0.028571428571428574, -0.028571428571428574, -0.028571428571415206}},
    {HD_OP_mse, HD_OP_mse_dx, "mse", 1, 1, 2.75, -1.25, {-0.71428571428571419, 0.071428571428571425, -0.5}},
    {HD_OP_mse,
     HD_OP_mse_dx,
     "mse",
     18,
     1,
     9.2395833333333339,
     -0.40525793650793651,
     {-0.03968253968253968, -0.0079365079365079361, 0.0079365079365079361}},
    {HD_OP_l1,
     HD_OP_l1_dx,
     "l1",
     3,
     1,
     1.3452380952380953,
     -0.19642857142857142,
     {-0.047619047619047616, -0.047619047619047616, 0.047619047619047616}},
    {HD_OP_huber,
     HD_OP_huber_dx,
     "huber",
     3,
     1,
     0.96577380952380953,
     -0.1130952380952381,
     {-0.047619047619047616, -0.023809523809523808, 0.023809523809523808}},
    {HD_OP_huber,
     HD_OP_huber_dx,
     "{op: huber, delta: 0.25}",
     18,
     1,
     0.61780753968253965,
     -0.0049603174603174592,
     {-0.001984126984126984, -0.001984126984126984, 0.001984126984126984}},
    {HD_OP_bce_with_logits,
     HD_OP_bce_with_logits_dx,
     "bce_with_logits",
     1,
     1,
     0.7673682803894154,
     -0.020760302329535976,
     {0.0015695632329418827, 0.097025528453627566, 0.013621352128444213}},
    {HD_OP_bce_with_logits,
     HD_OP_bce_with_logits_dx,
     "{op: bce_with_logits, pos_weight: 4}",
     3,
     1,
     2.7248951757852113,
     0.039631195428725327,
     {0.00052318774431396099, -0.032416920635184587, -0.016327759636698011}},
    {HD_OP_bce_with_logits,
     HD_OP_bce_with_logits_dx,
     "{op: bce_with_logits, pos_weight: [3, 0.25, 1]}",
     3,
     20,
     17.19030475959639,
     -0.032180039722096918,
     {3.9019107733288167e-41, -0.011904761904757449, 0.011904761904759956}},
};

static double weigh(int row, int i) { return ((row * 11 + i * 17) % 23 - 11) / 8.0; }

typedef struct problem {
  double score[ROWS * MOST], target[ROWS * MOST], loss[ROWS], dx[ROWS * MOST], weight[MOST];
  int32_t label[ROWS];
  float float_target[ROWS * MOST];
} problem;

static void fill(problem *p, const loss_case *c, bool soft) {
  bool chances = c->op == HD_OP_bce_with_logits || soft;
  for (int n = 0; n < ROWS; n++) {
    p->label[n] = n * 3 % c->scores;
    for (int i = 0; i < c->scores; i++) {
      double target = chances ? (n * 5 + i * 3) % 5 * 0.25 : ((n * 5 + i * 3) % 9 - 4) * 0.5;
      p->score[n * c->scores + i] = ((n * 7 + i * 5) % 13 - 6) * 0.75 * c->scale;
      p->target[n * c->scores + i] = target;
      p->float_target[n * c->scores + i] = (float)target;
    }
  }
}

/* What the mean divides by. */
static double divisor_of(const hd_target *target, const problem *p, bool classes, int scores) {
  hd_split data = {.count = ROWS, .channels = 1, .height = 1, .width = scores};
  if (classes)
    data.labels = p->label;
  else
    data.targets = p->float_target, data.outputs = scores;
  hd_feed feed = {.split = &data, .count = ROWS};
  return hd__divisor(hd__target_share(target, &feed, 0, 0, ROWS));
}

/* Runs the loss, or its gradient, over all rows. */
static void run(void *out, int64_t out_stride, hd_op op, problem *p, const hd_graph *graph, double divisor) {
  const hd_node *node = hd__graph_loss_node(graph);
  bool classes = node->op == HD_OP_cross_entropy && !node->geom.cross_entropy.soft_labels;
  int scores = node->geom.ci;
  hd_call call = {.g = &node->geom,
                  .rows = ROWS,
                  .in = {p->score, classes ? (void *)p->label : p->target},
                  .in_stride = {scores, classes ? 1 : scores},
                  .out = {out},
                  .out_stride = {out_stride},
                  .divisor = (float)divisor};
  if (node->in[2] >= 0) {
    for (int i = 0; i < scores; i++)
      p->weight[i] = (double)graph->values[node->in[2]].constant[i];
    call.in[2] = p->weight;
  }
  hd__kernels_reference_f64()->run[op](&call);
}

static void compare(problem *p, const loss_case *c, double divisor) {
  double loss = 0, sum = 0;
  for (int n = 0; n < ROWS; n++) {
    loss += p->loss[n];
    for (int i = 0; i < c->scores; i++)
      sum += p->dx[n * c->scores + i] * weigh(n, i);
  }
  near(loss / divisor, c->loss, TOLERANCE * (1 + c->loss), "%s, %d scores: the mean", c->text, c->scores);
  near(sum, c->weighted_sum, TOLERANCE, "%s, %d scores: the gradients' weighted sum", c->text, c->scores);
  for (int s = 0; s < SHOWN; s++) {
    int n = elements[s][0], i = elements[s][1] < c->scores ? elements[s][1] : c->scores - 1;
    near(p->dx[n * c->scores + i], c->shown[s], TOLERANCE, "%s, %d scores: the gradient at %d, %d", c->text, c->scores,
         n, i);
  }
}

static void check(hd_ctx *ctx, const loss_case *c, bool soft) {
  char text[512];
  hd_network network;
  hd_graph *graph;
  problem *p = calloc(1, sizeof *p);
  snprintf(text, sizeof text,
           "model: m\ninput: [1, 1, 2]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: %d}\n"
           "loss: %s\n",
           c->scores, c->text);
  if (!p || hd__network_from_text(&network, ctx, text, "m.yaml") != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  network.target.of_classes = soft;
  if (hd__network_graph(&graph, ctx, &network) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  fill(p, c, soft);
  double divisor = divisor_of(&network.target, p, c->op == HD_OP_cross_entropy && !soft, c->scores);
  run(p->loss, 1, c->op, p, graph, divisor);
  run(p->dx, c->scores, c->gradient, p, graph, divisor);
  compare(p, c, divisor);
  hd__graph_destroy(graph);
  hd__network_fini(&network);
  free(p);
}

/* A batch of which no label counts has the loss 0, and no gradient. */
static void test_nothing_counts(hd_ctx *ctx) {
  hd_network network;
  hd_graph *graph;
  problem *p = calloc(1, sizeof *p);
  const loss_case c = {.op = HD_OP_cross_entropy, .scores = 3, .scale = 1};
  const char *text = "model: m\ninput: [1, 1, 2]\nlayers:\n  - f: {op: flatten}\n  - l: {op: linear, out: 3}\n"
                     "loss: {op: cross_entropy, ignore_index: 1, label_smoothing: 0.1, weight: [1, 2, 3]}\n";
  if (!p || hd__network_from_text(&network, ctx, text, "m.yaml") != HD_OK ||
      hd__network_graph(&graph, ctx, &network) != HD_OK)
    bail_out("%s", hd_ctx_message(ctx));
  fill(p, &c, false);
  for (int n = 0; n < ROWS; n++)
    p->label[n] = 1;
  double divisor = divisor_of(&network.target, p, true, 3), sum = 0;
  run(p->loss, 1, HD_OP_cross_entropy, p, graph, divisor);
  run(p->dx, 3, HD_OP_cross_entropy_dx, p, graph, divisor);
  for (int n = 0; n < ROWS; n++)
    sum += fabs(p->loss[n]) + fabs(p->dx[3 * n]) + fabs(p->dx[3 * n + 1]) + fabs(p->dx[3 * n + 2]);
  near(divisor, 1, 0, "no label counts: nothing is divided by 0");
  near(sum, 0, 0, "no label counts: neither a loss nor a gradient");
  hd__graph_destroy(graph);
  hd__network_fini(&network);
  free(p);
}

int main(void) {
  hd_ctx *ctx;
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("no context");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check(ctx, &cases[i], false);
  for (size_t i = 0; i < sizeof soft_cases / sizeof *soft_cases; i++)
    check(ctx, &soft_cases[i], true);
  test_nothing_counts(ctx);
  hd_ctx_destroy(ctx);
  return done_testing();
}
