/* The tags of transfers between hosts. */
#pragma once

#include "base/reduction.h"
#include "exec/exchange/transport.h"

/* LEFT: the number of a rank that has left. Of a save: two, for requests and replies. Of stages on several hosts:
 * two for each shard, for what passes forward and backward. Those of groups of ranks come last, two of each group. */
enum {
  HD_TAG_HOSTS,
  HD_TAG_FAULT,
  HD_TAG_SAVE,
  HD_TAG_LEFT = HD_TAG_SAVE + 2,
  HD_TAG_STAGES = 16,
  HD_TAG_GROUPS = HD_TAG_STAGES + 2 * HD_MAX_SHARDS,
  HD_TAGS_OF_GROUP = 2
};
enum { HD_CLUSTER_MOST_GROUPS = (HD_TRANSPORT_TAGS - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP };
