/* What crosses between hosts in a step, so that each then finishes all sums by itself.
 *
 * Hosts have neighbouring ranges of shards, as lanes have inside them. Each host sums what it can, the complete subtrees
 * inside its range (its cover), and everybody gets everybody's covers, puts them together in the order of the tree, and
 * updates all weights: all hosts get the same bits, and weights never cross. The lane that speaks for its host moves the
 * bytes while the others wait at a meeting. With the sums go the losses of the host's samples, what a gather reads, and
 * the flags that were raised by then; flags that are raised later, to stop, are heard of a step later, by all hosts at
 * once. */
#include <string.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "exec/exec_state.h"

/* ---- the layout ---- */

static void lay_hosts(hd_exec *exec, part_layout *layout, host_layout *hosts, const hd_subtree *piece) {
  const hd_part *part = &layout->part;
  hd_subtree cover[HD_MAX_SHARDS];
  int32_t covers = 0, pieces = 0;
  for (int h = 0; h < exec->hosts; h++) {
    hd_range_plan range;
    hd__tree_range(&range, part, part->lo + exec->border[exec->host_lane[h]],
                   part->lo + exec->border[exec->host_lane[h + 1]]);
    hosts->cover[h] = covers;
    hosts->piece[h] = pieces;
    for (int32_t c = 0; c < range.covers; c++)
      cover[covers++] = range.cover[c];
    for (int l = exec->host_lane[h]; l < exec->host_lane[h + 1]; l++)
      pieces += layout->range[l].covers;
    if (h == exec->host)
      hd__tree_cut_fold(hosts->shards, &range.pushes);
  }
  hosts->cover[exec->hosts] = covers;
  hosts->piece[exec->hosts] = pieces;
  hd__tree_fold_covers(&hosts->covers, part, cover, covers);
  hd_fold own;
  const int32_t first = hosts->piece[exec->host];
  hd__tree_fold_covers(&own, part, piece + first, hosts->piece[exec->host + 1] - first);
  for (int32_t i = 0; i < own.count; i++)
    own.step[i].piece += first;
  hd__tree_cut_fold(hosts->lanes, &own);
}

void hd__exec_lay_hosts(hd_exec *exec, part_layout *layout, const hd_subtree *piece) {
  if (layout->hosts)
    lay_hosts(exec, layout, layout->hosts, piece);
}

/* ---- what a gather reads: of the outputs of a phase's calls, each piece ---- */

/* Copies one piece's outputs out of its slot, or into it; returns how many floats they are. */
static int64_t copy_piece(const lane_at *at, const hd_phase *phase, int32_t piece, float *flat, bool out) {
  const hd_plan *plan = at->exec->plan;
  float *slot =
      at->exec->lane[at->layout->piece_lane[piece]].cover + at->layout->piece_slot[piece] * plan->direct_elems;
  int64_t used = 0;
  for (int i = phase->call0; i < phase->call1; i++) {
    const hd_node *node = &plan->graph->nodes[plan->calls[i].node];
    for (int o = 0; plan->gathered[plan->calls[i].node] && o < HD_MAX_OUT; o++) {
      if (node->out[o] < 0)
        continue;
      const int64_t elems = hd__shape_elems(&plan->graph->values[node->out[o]].shape);
      float *part = slot + plan->place[node->out[o]].offset;
      if (flat)
        memcpy(out ? flat + used : part, out ? part : flat + used, (size_t)elems * sizeof *flat);
      used += elems;
    }
  }
  return used;
}

static void copy_pieces(const lane_at *at, const hd_phase *phase, int host, bool out) {
  const int32_t *first = at->layout->hosts->piece;
  const int64_t each = copy_piece(at, phase, 0, NULL, out);
  for (int32_t p = first[host]; p < first[host + 1]; p++)
    copy_piece(at, phase, p, at->exec->crossing + p * each, out);
}

/* ---- blocks of all hosts ---- */

typedef struct crossing {
  const lane_at *at;
  hd_blocks block[HOST_BLOCKS];
  int count;
} crossing;

/* Room for the bytes of one more block of each host. */
static int64_t *add_block(crossing *c, void *data) {
  int64_t *bytes = c->at->exec->block_bytes + (ptrdiff_t)c->count * c->at->exec->hosts;
  c->block[c->count++] = (hd_blocks){data, bytes};
  return bytes;
}

static void add_gathered(crossing *c, const hd_phase *phase) {
  const int32_t *first = c->at->layout->hosts->piece;
  const int64_t each = copy_piece(c->at, phase, 0, NULL, true);
  int64_t *bytes = add_block(c, c->at->exec->crossing);
  for (int h = 0; h < c->at->exec->hosts; h++)
    bytes[h] = (first[h + 1] - first[h]) * each * (int64_t)sizeof(float);
  copy_pieces(c->at, phase, c->at->exec->host, true);
}

static void take_gathered(const lane_at *at, const hd_phase *phase) {
  for (int h = 0; h < at->exec->hosts; h++)
    if (h != at->exec->host)
      copy_pieces(at, phase, h, false);
}

static void add_flags(crossing *c, uint32_t flags) {
  hd_exec *exec = c->at->exec;
  int64_t *bytes = add_block(c, exec->host_flags);
  for (int h = 0; h < exec->hosts; h++)
    bytes[h] = sizeof *exec->host_flags;
  exec->host_flags[exec->host] = flags;
}

static void take_flags(const lane_at *at) {
  hd_exec *exec = at->exec;
  uint32_t all = 0;
  for (int h = 0; h < exec->hosts; h++)
    all |= exec->host_flags[h];
  *exec->agreed_flags = all;
}

static void add_losses(crossing *c) {
  const hd_exec *exec = c->at->exec;
  const hd_part *part = &c->at->layout->part;
  int64_t *bytes = add_block(c, exec->losses + c->at->layout->first);
  for (int h = 0; h < exec->hosts; h++) {
    int64_t row0, row1;
    hd__exec_host_rows(&row0, &row1, exec, part, h);
    bytes[h] = (row1 - row0) * (int64_t)sizeof *exec->losses;
  }
}

static void add_sums(crossing *c) {
  const hd_exec *exec = c->at->exec;
  const int32_t *cover = c->at->layout->hosts->cover;
  int64_t *bytes = add_block(c, exec->host_sum);
  for (int h = 0; h < exec->hosts; h++)
    bytes[h] = (cover[h + 1] - cover[h]) * exec->plan->grad_elems * (int64_t)sizeof *exec->host_sum;
}

/* False: a host is lost, and this one's world is broken. Whoever moves must not come to the next meeting then, where the
 * others see that: what they would go on with is not there. */
static bool move(const crossing *c) {
  const hd_status status = hd__hosts_join_blocks(c->at->exec->settings.world, NULL, c->block, c->count);
  hd__trace_leaf(c->at->lane->track, HD_SLICE_CROSS, 0);
  return status == HD_OK;
}

/* ---- all lanes ---- */

uint32_t hd__exec_cross_phase(const lane_at *at, const hd_phase *phase) {
  if (hd__exec_leads(at)) {
    crossing c = {.at = at};
    add_gathered(&c, phase);
    if (!move(&c))
      return HD_MEETING_BROKEN;
    take_gathered(at, phase);
  }
  const uint32_t all = hd__exec_meet(at, 0);
  hd__trace_leaf(at->lane->track, HD_SLICE_WAIT, 0);
  return all;
}

static bool move_sums(const lane_at *at, uint32_t flags) {
  const hd_plan *plan = at->exec->plan;
  const hd_phase *last = &plan->phases[plan->segments - 1];
  crossing c = {.at = at};
  add_flags(&c, flags | at->exec->carried);
  add_losses(&c);
  if (at->layout->shards.count > 0)
    add_sums(&c);
  if (plan->gathers)
    add_gathered(&c, last);
  if (!move(&c))
    return false;
  if (plan->gathers)
    take_gathered(at, last);
  take_flags(at);
  return true;
}

uint32_t hd__exec_cross_sums(const lane_at *at) {
  if (at->layout->shards.count > 0)
    hd__exec_hand_in(at);
  uint32_t all = hd__exec_meet(at, at->lane->flags);
  hd__trace_leaf(at->lane->track, HD_SLICE_WAIT, 0);
  if (all & HD_MEETING_BROKEN)
    return all;
  if (hd__exec_leads(at) && !move_sums(at, all))
    return HD_MEETING_BROKEN;
  all = hd__exec_meet(at, 0);
  hd__trace_leaf(at->lane->track, HD_SLICE_WAIT, 0);
  return all;
}

uint32_t hd__exec_cross_outcome(const lane_at *at, const hd_exec_outcome *out, uint32_t flags) {
  const hd_exec *exec = at->exec;
  if (hd__exec_leads(at)) {
    crossing c = {.at = at};
    void *const array[] = {out->loss, out->guess, out->probability};
    add_flags(&c, flags);
    for (int i = 0; i < 3; i++) {
      int64_t *bytes = array[i] ? add_block(&c, array[i]) : NULL;
      for (int h = 0; bytes && h < exec->hosts; h++)
        bytes[h] = 4 * (hd__tree_share(at->step->samples, exec->speed, exec->lane_count, exec->host_lane[h + 1]) -
                        hd__tree_share(at->step->samples, exec->speed, exec->lane_count, exec->host_lane[h]));
    }
    if (!move(&c))
      return HD_MEETING_BROKEN;
    take_flags(at);
  }
  const uint32_t all = hd__exec_meet(at, 0);
  return all & HD_MEETING_BROKEN ? all : *exec->agreed_flags;
}
