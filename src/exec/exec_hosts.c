/* What crosses between hosts in a step, so that each then finishes all sums by itself.
 *
 * Hosts have neighbouring ranges of shards, as lanes have inside them. Each host sums what it can, the complete
 * subtrees inside its range (its cover), and everybody gets everybody's covers, puts them together in the order of the
 * tree, and updates all weights: all hosts get the same bits, and weights never cross. With more hosts, or large
 * gradients, each host owns a range of the numbers instead: it alone gets everybody's covers of them, sums them in the
 * same order, and hands the sums to all. That is twice as many latencies, and bytes that do not grow with the hosts;
 * docs/scaling.md has the model which chooses. The lane that speaks for its host moves the bytes while the others wait
 * at a meeting. With the sums go the losses of the host's samples, what a gather reads, and the flags that were raised
 * by then; flags that are raised later, to stop, are heard of a step later, by all hosts at once. */
#include <limits.h>
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

/* ---- owners ---- */

/* A network between hosts that the choice is made for: latency, a byte, a message, an addition, in seconds. */
static const double LATENCY_S = 10e-6, BYTE_S = 8 / 25e9, MESSAGE_S = 1e-6, ADD_S = 0.1e-9;

/* The model of docs/scaling.md, for so many covers, of which the host that has fewest hands in `least`. */
static bool owners_pay(int hosts, int32_t covers, int32_t least, int64_t elems) {
  const double sum_s = BYTE_S * 4 * (double)elems, add_s = ADD_S * (double)elems;
  const double everybody_s = LATENCY_S + (hosts - 1) * MESSAGE_S + (covers - least) * sum_s + covers * add_s;
  const double owners_s = 2 * LATENCY_S + 2 * (hosts - 1) * MESSAGE_S + (double)(covers + hosts - 1) / hosts * sum_s +
                          covers * add_s / hosts;
  return owners_s < everybody_s;
}

hd_status hd__exec_choose_owners(hd_exec *exec, hd_ctx *ctx) {
  const hd_part part = hd__tree_part(exec->settings.batch, exec->settings.shards, exec->settings.parts, 0);
  const int64_t elems = exec->plan->grad_elems;
  int32_t covers = 0, least = INT32_MAX;
  for (int h = 0; h < exec->hosts; h++) {
    hd_range_plan range;
    hd__tree_range(&range, &part, part.lo + exec->border[exec->host_lane[h]],
                   part.lo + exec->border[exec->host_lane[h + 1]]);
    covers += range.covers;
    least = range.covers < least ? range.covers : least;
  }
  exec->has_owners = exec->said_owners ? exec->said_owners == 2 : owners_pay(exec->hosts, covers, least, elems);
  if (!exec->has_owners)
    return HD_OK;
  exec->owned_bytes = hd__calloc(2 * (size_t)exec->hosts + 1, sizeof *exec->owned_bytes);
  if (!exec->owned_bytes)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d hosts", exec->hosts);
  exec->owned_each = exec->owned_bytes + exec->hosts + 1;
  for (int h = 0; h < exec->hosts; h++) {
    const int64_t end = h + 1 < exec->hosts ? elems * (h + 1) / exec->hosts / OWNED_ALIGN * OWNED_ALIGN : elems;
    exec->owned_bytes[h + 1] = end * (int64_t)sizeof(float);
    exec->owned_each[h] = exec->owned_bytes[h + 1] - exec->owned_bytes[h];
  }
  return HD_OK;
}

/* Each lane its share of what this host owns. */
static void sum_owned(const lane_at *at) {
  const hd_exec *exec = at->exec;
  const int64_t size = sizeof(float), lanes = hd__exec_host_lanes(exec), lane = at->index - hd__exec_host_first(exec);
  const int64_t first = exec->owned_bytes[exec->host] / size, count = exec->owned_each[exec->host] / size;
  const int64_t lo = count * lane / lanes / OWNED_ALIGN * OWNED_ALIGN;
  const int64_t hi = lane + 1 < lanes ? count * (lane + 1) / lanes / OWNED_ALIGN * OWNED_ALIGN : count;
  for (int64_t e = lo; e < hi; e += FOLD_ELEMS)
    hd__exec_sum_owned(at, first + e, hi - e < FOLD_ELEMS ? hi - e : FOLD_ELEMS);
  hd__trace_leaf(at->lane->track, HD_SLICE_NORM, 0);
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
  hd_slices slices; /* data NULL: there are none */
} crossing;

/* Room for the bytes of one more block of each host. */
static int64_t *add_block(crossing *c, void *data) {
  int64_t *bytes = c->at->exec->block_bytes + (ptrdiff_t)c->count * c->at->exec->hosts;
  c->block[c->count++] = (hd_blocks){.data = data, .bytes = bytes};
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
  if (exec->has_owners) {
    c->slices = (hd_slices){.data = exec->host_sum,
                            .stride = exec->plan->grad_elems * (int64_t)sizeof *exec->host_sum,
                            .row = cover,
                            .from = exec->owned_bytes};
    return;
  }
  int64_t *bytes = add_block(c, exec->host_sum);
  for (int h = 0; h < exec->hosts; h++)
    bytes[h] = (cover[h + 1] - cover[h]) * exec->plan->grad_elems * (int64_t)sizeof *exec->host_sum;
}

/* What the ranks of all hosts have spent, for the first. */
static void add_spent(crossing *c) {
  const hd_exec *exec = c->at->exec;
  const hd_world *world = exec->settings.world;
  const int64_t each = HD_SPENT_KINDS + hd__hosts_ranks(world);
  int64_t *bytes = add_block(c, exec->host_spent);
  for (int h = 0; h < exec->hosts; h++)
    bytes[h] = (hd__hosts_first(world, h + 1) - hd__hosts_first(world, h)) * each * (int64_t)sizeof *exec->host_spent;
  c->block[c->count - 1].to_first = true;
  for (int r = 0; r < hd__world_ranks(world); r++)
    hd__exec_spent_here(exec->host_spent + (hd__hosts_first(world, exec->host) + r) * each, exec, r);
}

/* False: a host is lost, and this one's world is broken. Whoever moves must not come to the next meeting then, where
 * the others see that: what they would go on with is not there. */
static bool move(const crossing *c) {
  lane_state *lane = c->at->lane;
  int last;
  hd__tally_end(lane->tally, HD_SPENT_COMPUTE);
  const hd_status status = hd__hosts_join_blocks(&last, c->at->exec->settings.world, NULL, c->block, c->count,
                                                 c->slices.data ? &c->slices : NULL);
  hd__tally_waited(lane->tally, last);
  lane->held_by = last;
  hd__trace_leaf(lane->track, HD_SLICE_CROSS, last);
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
  if (at->last && at->step->reports)
    add_spent(&c);
  if (!move(&c))
    return false;
  if (plan->gathers)
    take_gathered(at, last);
  take_flags(at);
  return true;
}

static bool move_owned(const lane_at *at) {
  const hd_exec *exec = at->exec;
  crossing c = {.at = at, .block = {{.data = exec->owned_sum, .bytes = exec->owned_each}}, .count = 1};
  return move(&c);
}

static uint32_t meet(const lane_at *at, uint32_t flags) {
  const uint32_t all = hd__exec_meet(at, flags);
  hd__trace_leaf(at->lane->track, HD_SLICE_WAIT, 0);
  return all;
}

uint32_t hd__exec_cross_sums(const lane_at *at) {
  const bool sums = at->layout->shards.count > 0;
  if (sums)
    hd__exec_hand_in(at);
  uint32_t all = meet(at, at->lane->flags);
  if (all & HD_MEETING_BROKEN)
    return all;
  if (hd__exec_leads(at) && !move_sums(at, all))
    return HD_MEETING_BROKEN;
  all = meet(at, 0);
  if (!sums || !at->exec->has_owners || all & HD_MEETING_BROKEN)
    return all;
  sum_owned(at);
  all = meet(at, 0);
  if (all & HD_MEETING_BROKEN)
    return all;
  if (hd__exec_leads(at) && !move_owned(at))
    return HD_MEETING_BROKEN;
  return meet(at, 0);
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
