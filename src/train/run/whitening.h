/* First weights of a convolution that whiten the patches it sees (`init: whiten` in model files).
 *
 * The outputs of such a convolution are uncorrelated and of about the same variance (Page, "How to train your
 * ResNet", 2019; Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", arXiv 2404.00498, section 3.2). Filter i
 * is the eigenvector of the i-th largest eigenvalue of the matrix of second moments of all patches, of the kernel's
 * size, of some training samples, over sqrt(eigenvalue + eps). With more filters than a patch has numbers, the
 * negatives follow. */
#pragma once

#include "graph/graph.h"
#include "platform/threads.h"
#include "data/feed/feed.h"

/* The samples that first weights may be computed from. */
typedef struct hd_first_samples {
  const hd_feed *seen;     /* all training samples in file order, as an evaluation sees them */
  const uint32_t *members; /* those to use, in file order; NULL: all */
  int64_t count;
  hd_threads *threads;
} hd_first_samples;

/* The weight of a convolution that reads the samples, in file order, allocated: the caller frees it. Fails as reading a
 * sample does. */
hd_status hd__whiten(float **weight, hd_ctx *ctx, const hd_node *conv, const hd_first_samples *samples);
