/* Cutting a network behind the part of it that computes the same from a sample in every step: the first nodes, as far
 * as they read nothing but samples, frozen parameters and each other, draw no random numbers and use no statistics of a
 * batch.
 *
 *     samples | conv1 (frozen)  relu  pool  conv2 (frozen)  relu | dropout  fc (trained)  loss
 *               front ................................ features     rest
 *
 * Both parts keep all parameters of the network, so that weights lie where they lie for the whole. */
#pragma once

#include "graph/graph.h"

/* The last node of such a part, behind which its output alone is read; -1: none that has a parameter. Of a graph as
 * written, before any pass. */
int hd__graph_cut(const hd_graph *graph);

/* Keeps the nodes up to this one, whose output becomes the scores. The loss is 0, and its label -1. */
hd_status hd__graph_keep_front(hd_graph *graph, hd_ctx *ctx, int last);

/* Keeps the nodes behind this one, whose samples are its output. */
void hd__graph_keep_rest(hd_graph *graph, int last);
