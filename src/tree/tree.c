/* Shards, covers and folds: see tree.h. Every order of additions in heddle comes out of push() below. */
#include "tree/tree.h"

#include <stddef.h>

typedef struct stack {
  hd_subtree *entry;
  int32_t depth;
} stack;

int64_t hd__tree_first_sample(int64_t samples, int32_t shards, int32_t i) { return samples * i / shards; }

int32_t hd__tree_default_shards(int64_t batch) {
  int32_t shards = 1;
  while (shards < 16 && 2 * shards <= batch)
    shards *= 2;
  return shards;
}

hd_part hd__tree_part(int64_t samples, int32_t shards, int32_t parts, int32_t index) {
  int32_t size = shards / parts;
  return (hd_part){.samples = samples, .shards = shards, .lo = index * size, .hi = (index + 1) * size};
}

int hd__tree_has_samples(const hd_part *part, int32_t lo, int32_t hi) {
  return hd__tree_first_sample(part->samples, part->shards, lo) <
         hd__tree_first_sample(part->samples, part->shards, hi);
}

/* Pushes one subtree and merges as far as the tree inside [root, root + root_size) allows. Returns the additions. An
 * empty sibling costs none: the subtree then simply stands for its parent. */
static int32_t push(stack *s, hd_subtree top, const hd_part *part, hd_subtree root) {
  int32_t merges = 0;
  for (;;) {
    if (top.size >= root.size)
      break;
    int is_right = (top.start / top.size) & 1;
    if (is_right) {
      hd_subtree left = {top.start - top.size, top.size};
      if (hd__tree_has_samples(part, left.start, left.start + left.size)) {
        hd_subtree below = s->depth > 0 ? s->entry[s->depth - 1] : (hd_subtree){-1, 0};
        if (below.start != left.start || below.size != left.size)
          break; /* the left half belongs to an earlier range: it stays apart in the cover */
        s->depth--;
        merges++;
      }
      top = (hd_subtree){left.start, 2 * top.size};
    } else {
      int32_t right = top.start + top.size;
      if (hd__tree_has_samples(part, right, right + top.size))
        break; /* the right half comes later */
      top.size *= 2;
    }
  }
  s->entry[s->depth++] = top;
  return merges;
}

void hd__tree_range(hd_range_plan *out, const hd_part *part, int32_t lo, int32_t hi) {
  stack s = {out->cover, 0};
  hd_subtree root = {part->lo, part->hi - part->lo};
  int64_t first = hd__tree_first_sample(part->samples, part->shards, part->lo);
  out->pushes.count = 0;
  out->depth = 0;
  for (int32_t i = lo; i < hi; i++) {
    int64_t row0 = hd__tree_first_sample(part->samples, part->shards, i) - first;
    int64_t row1 = hd__tree_first_sample(part->samples, part->shards, i + 1) - first;
    if (row0 == row1)
      continue;
    if (out->depth < s.depth + 1)
      out->depth = s.depth + 1;
    int32_t merges = push(&s, (hd_subtree){i, 1}, part, root);
    out->pushes.step[out->pushes.count++] =
        (hd_fold_step){.row0 = (int32_t)row0, .row1 = (int32_t)row1, .piece = i, .merges = merges};
  }
  out->covers = s.depth;
}

void hd__tree_fold_covers(hd_fold *out, const hd_part *part, const hd_subtree *piece, int32_t count) {
  hd_subtree entry[HD_MAX_SHARDS];
  stack s = {entry, 0};
  hd_subtree root = {part->lo, part->hi - part->lo};
  out->count = 0;
  for (int32_t i = 0; i < count; i++) {
    int32_t merges = push(&s, piece[i], part, root);
    out->step[out->count++] = (hd_fold_step){.row0 = 0, .row1 = 0, .piece = i, .merges = merges};
  }
}

int32_t hd__tree_cut_fold(hd_fold out[HD_MAX_COVER], const hd_fold *fold) {
  int32_t begin[HD_MAX_SHARDS + 1], depth = 0; /* of each sum on the stack: its first step */
  for (int32_t i = 0; i < fold->count; i++) {
    begin[depth++] = i;
    depth -= fold->step[i].merges;
  }
  begin[depth] = fold->count;
  for (int32_t c = 0; c < depth; c++) {
    out[c].count = begin[c + 1] - begin[c];
    for (int32_t i = 0; i < out[c].count; i++)
      out[c].step[i] = fold->step[begin[c] + i];
  }
  return depth;
}

static int64_t speed_of(const int32_t *speed, int32_t lane) { return speed ? speed[lane] : 1; }

/* The speed of the lanes before `lane`, all added. */
static int64_t speed_before(const int32_t *speed, int32_t lane) {
  int64_t sum = 0;
  for (int32_t l = 0; l < lane; l++)
    sum += speed_of(speed, l);
  return sum;
}

int64_t hd__tree_share(int64_t items, const int32_t *speed, int32_t lanes, int32_t lane) {
  return items * speed_before(speed, lane) / speed_before(speed, lanes);
}

/* The lane that would be done first with one more item; of several the last, for the first has other work as well. */
static int32_t next_taker(const int32_t *taken, const int32_t *speed, int32_t lanes) {
  int32_t best = -1;
  for (int32_t l = lanes - 1; l >= 0; l--)
    if (speed_of(speed, l) > 0 &&
        (best < 0 || (taken[l] + 1) * speed_of(speed, best) < (taken[best] + 1) * speed_of(speed, l)))
      best = l;
  return best;
}

/* Nobody is done earlier with less than the whole part of his share, so only what is left is dealt one by one. */
void hd__tree_deal(int32_t *border, int32_t items, const int32_t *speed, int32_t lanes) {
  int32_t *taken = border + 1, left = items;
  int64_t all = speed_before(speed, lanes);
  for (int32_t l = 0; l < lanes; l++) {
    taken[l] = (int32_t)(items * speed_of(speed, l) / all);
    left -= taken[l];
  }
  for (; left > 0; left--)
    taken[next_taker(taken, speed, lanes)]++;
  border[0] = 0;
  for (int32_t l = 0; l < lanes; l++)
    border[l + 1] += border[l];
}

void hd__tree_split(int32_t *lo, int32_t *hi, const int64_t *weight, int32_t count, const int32_t *speed, int32_t lanes,
                    int32_t lane) {
  int64_t total = 0, sum = 0;
  int64_t all = speed_before(speed, lanes), begin = speed_before(speed, lane), end = begin + speed_of(speed, lane);
  for (int32_t i = 0; i < count; i++)
    total += weight[i];
  *lo = *hi = count;
  for (int32_t i = 0; i < count; i++) {
    /* An item belongs to the lane in whose share of the total its middle falls. */
    int64_t middle = 2 * sum + weight[i];
    int64_t at = total > 0 ? middle * all / (2 * total) : 0;
    sum += weight[i];
    if (at >= begin && *lo == count)
      *lo = i;
    if (at >= end) {
      *hi = i;
      return;
    }
  }
}

int32_t hd__tree_push_part(hd_subtree *pending, int32_t *depth, const hd_part *part, int32_t parts, int32_t index) {
  int32_t size = part->shards / parts;
  stack s = {pending, *depth};
  hd_part whole = *part;
  whole.lo = 0;
  whole.hi = part->shards;
  int32_t merges = push(&s, (hd_subtree){index * size, size}, &whole, (hd_subtree){0, part->shards});
  *depth = s.depth;
  return merges;
}
