/* The tags of transfers between hosts. */
#pragma once

#include "exec/exchange/transport.h"

/* Those of groups of ranks come last, two of each group. */
enum { HD_TAG_HOSTS, HD_TAG_FAULT, HD_TAG_GROUPS = 16, HD_TAGS_OF_GROUP = 2 };
enum { HD_CLUSTER_MOST_GROUPS = (HD_TRANSPORT_TAGS - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP };
