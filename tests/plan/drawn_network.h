/* Random networks and experiments with them, drawn from the table of operations, so that a new operation or loss is
 * among them from its first day.
 *
 * A network is a chain of layers of any operation after any other, with branches, values read several times, shared
 * weights, frozen parameters, groups that end to train, stages; what a shape rule refuses, or what takes more than a
 * million multiplications a sample, is drawn again. Sides of inputs are 1 to 9, batches 1 to 20 samples. The same seed
 * draws the same network. */
#ifndef HD_TEST_DRAWN_NETWORK_H
#define HD_TEST_DRAWN_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "op/op.h"

enum { DRAWN_MOST_LAYERS = 14, DRAWN_LINE = 200, DRAWN_TEXT = 8192, DRAWN_MOST_OPTIONS = 16 };

typedef struct drawn_network {
  int input[3];
  int layers;
  char line[DRAWN_MOST_LAYERS][DRAWN_LINE]; /* "name: {op: ..." without the brace at the end */
  hd_op op[DRAWN_MOST_LAYERS];
  bool flat;   /* the last value */
  int outputs; /* scores */
  hd_op loss_op;
  char loss[2 * DRAWN_LINE];  /* "loss: {...}\n" */
  char rules[3 * DRAWN_LINE]; /* of parameters, or "" */
} drawn_network;

/* Options of `heddle train`, "key" and "value". The data has `samples` samples. */
typedef struct drawn_experiment {
  int samples, options;
  char key[DRAWN_MOST_OPTIONS][32], value[DRAWN_MOST_OPTIONS][32];
} drawn_experiment;

void draw_network(drawn_network *out, uint64_t seed);

/* Continues with the draws of draw_network: some layers are frozen, end to train after a step or have other settings,
 * some weights are muon's; a stage begins somewhere. */
void draw_rules(drawn_network *network);
void draw_experiment(drawn_experiment *out);

/* The model file. */
void drawn_text(char text[DRAWN_TEXT], const drawn_network *network);

/* Whether it can be trained; finds out whether its last value is flat. */
bool drawn_is_valid(drawn_network *network);

/* Leaves layers and rules out, one after the other, as long as `fails` is true of what remains. */
void drawn_shrink(drawn_network *network, bool (*fails)(void *arg, const drawn_network *network), void *arg);

#endif
