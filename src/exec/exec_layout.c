/* Laying the shards of each batch part out over the lanes: ranges, covers and the folds that join them.
 *
 * Made once for the full batch and again only when the number of samples changes (the last batch of an epoch). */
#include "exec/exec_cuda.h"
#include "exec/exec_state.h"

static void lay_part(hd_exec *exec, part_layout *layout) {
  const hd_part *part = &layout->part;
  hd_subtree piece[HD_MAX_SHARDS];
  int32_t pieces = 0;
  layout->first = hd__tree_first_sample(part->samples, part->shards, part->lo);
  for (int l = 0; l < exec->lane_count; l++) {
    hd_range_plan *range = &layout->range[l];
    hd__tree_range(range, part, part->lo + exec->border[l], part->lo + exec->border[l + 1]);
    for (int32_t c = 0; c < range->covers; c++, pieces++) {
      piece[pieces] = range->cover[c];
      layout->piece_lane[pieces] = l;
      layout->piece_slot[pieces] = c;
      layout->piece_rows[pieces] =
          hd__tree_first_sample(part->samples, part->shards, piece[pieces].start + piece[pieces].size) -
          hd__tree_first_sample(part->samples, part->shards, piece[pieces].start);
    }
  }
  hd__tree_fold_covers(&layout->covers, part, piece, pieces);
  hd__exec_lay_hosts(exec, layout, piece);
  hd_range_plan whole;
  hd__tree_range(&whole, part, part->lo, part->hi);
  layout->shards = whole.pushes;
}

void hd__exec_host_rows(int64_t *row0, int64_t *row1, const hd_exec *exec, const hd_part *part, int host) {
  const int64_t first = hd__tree_first_sample(part->samples, part->shards, part->lo);
  const int32_t lo = part->lo + exec->border[exec->host_lane[host]],
                hi = part->lo + exec->border[exec->host_lane[host + 1]];
  *row0 = hd__tree_first_sample(part->samples, part->shards, lo) - first;
  *row1 = hd__tree_first_sample(part->samples, part->shards, hi) - first;
}

bool hd__exec_fetches(const hd_exec *exec, int64_t samples, int64_t first, int64_t rows) {
  if (exec->cuda)
    return hd__exec_cuda_fetches(exec->cuda, samples, first, rows);
  for (int p = 0; p < exec->settings.parts; p++) {
    const hd_part part = hd__tree_part(samples, exec->settings.shards, exec->settings.parts, p);
    const int64_t lo = part.lo + exec->border[exec->first_lane];
    const int64_t hi = part.lo + exec->border[exec->first_lane + exec->own_lanes];
    const int64_t begin = hd__tree_first_sample(part.samples, part.shards, lo);
    const int64_t end = hd__tree_first_sample(part.samples, part.shards, hi);
    if (first < end && begin < first + rows)
      return true;
  }
  return false;
}

void hd__exec_layout(hd_exec *exec, int parity, int64_t samples) {
  if (exec->layout[parity][0].samples == samples)
    return;
  hd_subtree pending[HD_MAX_COVER];
  int32_t depth = 0;
  for (int p = 0; p < exec->settings.parts; p++) {
    part_layout *layout = &exec->layout[parity][p];
    layout->samples = samples;
    layout->part = hd__tree_part(samples, exec->settings.shards, exec->settings.parts, p);
    lay_part(exec, layout);
    if (layout->shards.count == 0)
      continue;
    layout->merges = hd__tree_push_part(pending, &depth, &layout->part, exec->settings.parts, p);
    layout->level = depth - 1;
  }
}
