/* Shards, subtrees and reductions: see reduction_tree.h. push() below defines every order of additions in heddle. */
#include "reduce/reduction_tree.h"

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

hd_micro_batch hd__tree_micro_batch(int64_t samples, int32_t shards, int32_t micro_batches, int32_t index) {
  int32_t size = shards / micro_batches;
  return (hd_micro_batch){.samples = samples, .shards = shards, .lo = index * size, .hi = (index + 1) * size};
}

int hd__tree_has_samples(const hd_micro_batch *micro_batch, int32_t lo, int32_t hi) {
  return hd__tree_first_sample(micro_batch->samples, micro_batch->shards, lo) <
         hd__tree_first_sample(micro_batch->samples, micro_batch->shards, hi);
}

/* Pushes one subtree and merges as far as the tree below `root` allows. Returns the number of additions. With an empty
 * sibling no addition is needed: the subtree then represents its parent. */
static int32_t push(stack *s, hd_subtree top, const hd_micro_batch *micro_batch, hd_subtree root) {
  int32_t merges = 0;
  for (;;) {
    if (top.size >= root.size)
      break;
    int is_right = (top.start / top.size) & 1;
    if (is_right) {
      hd_subtree left = {top.start - top.size, top.size};
      if (hd__tree_has_samples(micro_batch, left.start, left.start + left.size)) {
        hd_subtree below = s->depth > 0 ? s->entry[s->depth - 1] : (hd_subtree){-1, 0};
        if (below.start != left.start || below.size != left.size)
          break; /* the left sibling belongs to an earlier range: the two stay separate subtrees */
        s->depth--;
        merges++;
      }
      top = (hd_subtree){left.start, 2 * top.size};
    } else {
      int32_t right = top.start + top.size;
      if (hd__tree_has_samples(micro_batch, right, right + top.size))
        break; /* the right sibling comes later */
      top.size *= 2;
    }
  }
  s->entry[s->depth++] = top;
  return merges;
}

void hd__tree_range(hd_range_plan *out, const hd_micro_batch *micro_batch, int32_t lo, int32_t hi) {
  stack s = {out->subtree, 0};
  hd_subtree root = {micro_batch->lo, micro_batch->hi - micro_batch->lo};
  int64_t first = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, micro_batch->lo);
  out->pushes.count = 0;
  out->depth = 0;
  for (int32_t i = lo; i < hi; i++) {
    int64_t row0 = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, i) - first;
    int64_t row1 = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, i + 1) - first;
    if (row0 == row1)
      continue;
    if (out->depth < s.depth + 1)
      out->depth = s.depth + 1;
    int32_t merges = push(&s, (hd_subtree){i, 1}, micro_batch, root);
    out->pushes.step[out->pushes.count++] =
        (hd_reduction_step){.row0 = (int32_t)row0, .row1 = (int32_t)row1, .term = i, .merges = merges};
  }
  out->subtree_count = s.depth;
}

void hd__tree_reduce(hd_reduction *out, const hd_micro_batch *micro_batch, const hd_subtree *subtree, int32_t count) {
  hd_subtree entry[HD_MAX_SHARDS];
  stack s = {entry, 0};
  hd_subtree root = {micro_batch->lo, micro_batch->hi - micro_batch->lo};
  int64_t first = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, micro_batch->lo);
  out->count = 0;
  for (int32_t i = 0; i < count; i++) {
    int32_t merges = push(&s, subtree[i], micro_batch, root), end = subtree[i].start + subtree[i].size;
    int64_t row0 = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, subtree[i].start) - first;
    int64_t row1 = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, end) - first;
    out->step[out->count++] =
        (hd_reduction_step){.row0 = (int32_t)row0, .row1 = (int32_t)row1, .term = i, .merges = merges};
  }
}

void hd__tree_lay_out(hd_partial_sums *sums, const hd_micro_batch *micro_batch, const int32_t *border) {
  const int64_t first = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, micro_batch->lo);
  int32_t count = 0;
  for (int32_t r = 0; r < sums->ranges; r++) {
    const int32_t lo = micro_batch->lo + border[r], hi = micro_batch->lo + border[r + 1];
    hd_range_plan other, *range = r >= sums->begin && r < sums->end ? &sums->range[r - sums->begin] : &other;
    hd__tree_range(range, micro_batch, lo, hi);
    sums->first[r] = count;
    sums->row[r] = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, lo) - first;
    sums->row[r + 1] = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, hi) - first;
    for (int32_t c = 0; c < range->subtree_count; c++)
      sums->subtree[count++] = range->subtree[c];
  }
  sums->first[sums->ranges] = count;
  hd__tree_reduce(&sums->reduction, micro_batch, sums->subtree, count);
}

int32_t hd__tree_levels(int32_t shards) {
  int32_t levels = 0;
  while (1 << levels < shards)
    levels++;
  return levels;
}

int32_t hd__tree_most_sums(int32_t lo, int32_t hi) {
  int32_t sums = 0, most = 0;
  for (int32_t end = lo + 1; end <= hi; end++) {
    sums++;
    most = sums > most ? sums : most;
    for (int32_t size = 2; end % size == 0 && end - size >= lo; size *= 2)
      sums--;
  }
  return most;
}

int hd__tree_holds(int64_t samples, int32_t shards, int32_t micro_batches, hd_shard_range range, int64_t first,
                   int64_t rows) {
  for (int32_t p = 0; p < micro_batches; p++) {
    const int32_t start = hd__tree_micro_batch(samples, shards, micro_batches, p).lo;
    const int64_t from = hd__tree_first_sample(samples, shards, start + range.lo);
    const int64_t to = hd__tree_first_sample(samples, shards, start + range.hi);
    if (from < to && first < to && from < first + rows)
      return 1;
  }
  return 0;
}

int32_t hd__tree_split_reduction(hd_reduction out[HD_MAX_SUBTREES], const hd_reduction *reduction) {
  int32_t begin[HD_MAX_SHARDS + 1], depth = 0; /* first step of each sum on the stack */
  for (int32_t i = 0; i < reduction->count; i++) {
    begin[depth++] = i;
    depth -= reduction->step[i].merges;
  }
  begin[depth] = reduction->count;
  for (int32_t c = 0; c < depth; c++) {
    out[c].count = begin[c + 1] - begin[c];
    for (int32_t i = 0; i < out[c].count; i++)
      out[c].step[i] = reduction->step[begin[c] + i];
  }
  return depth;
}

static int64_t speed_of(const int32_t *speed, int32_t thread) { return speed ? speed[thread] : 1; }

/* The sum of the speeds of the threads before `thread`. */
static int64_t speed_before(const int32_t *speed, int32_t thread) {
  int64_t sum = 0;
  for (int32_t l = 0; l < thread; l++)
    sum += speed_of(speed, l);
  return sum;
}

int64_t hd__tree_share(int64_t items, const int32_t *speed, int32_t threads, int32_t thread) {
  return items * speed_before(speed, thread) / speed_before(speed, threads);
}

/* The thread that would finish first with one more item; of several the last, since the first thread has other work as
 * well. */
static int32_t next_thread(const int32_t *taken, const int32_t *speed, int32_t threads) {
  int32_t best = -1;
  for (int32_t l = threads - 1; l >= 0; l--)
    if (speed_of(speed, l) > 0 &&
        (best < 0 || (taken[l] + 1) * speed_of(speed, best) < (taken[best] + 1) * speed_of(speed, l)))
      best = l;
  return best;
}

/* A thread with the integer part of its share of the items never finishes later than the optimum, so only the remaining
 * items are distributed one by one. */
void hd__tree_distribute(int32_t *border, int32_t items, const int32_t *speed, int32_t threads) {
  int32_t *taken = border + 1, left = items;
  int64_t all = speed_before(speed, threads);
  for (int32_t l = 0; l < threads; l++) {
    taken[l] = (int32_t)(items * speed_of(speed, l) / all);
    left -= taken[l];
  }
  for (; left > 0; left--)
    taken[next_thread(taken, speed, threads)]++;
  border[0] = 0;
  for (int32_t l = 0; l < threads; l++)
    border[l + 1] += border[l];
}

void hd__tree_split(int32_t *lo, int32_t *hi, const int64_t *weight, int32_t count, hd_thread_speeds of,
                    int32_t thread) {
  int64_t total = 0, sum = 0;
  int64_t all = speed_before(of.speed, of.threads), begin = speed_before(of.speed, thread),
          end = begin + speed_of(of.speed, thread);
  for (int32_t i = 0; i < count; i++)
    total += weight[i];
  *lo = *hi = count;
  for (int32_t i = 0; i < count; i++) {
    /* An item belongs to the thread whose share of the total contains the item's middle. */
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

int32_t hd__tree_push_micro_batch(hd_subtree *pending, int32_t *depth, const hd_micro_batch *micro_batch,
                                  int32_t micro_batches, int32_t index) {
  int32_t size = micro_batch->shards / micro_batches;
  stack s = {pending, *depth};
  hd_micro_batch whole = *micro_batch;
  whole.lo = 0;
  whole.hi = micro_batch->shards;
  int32_t merges = push(&s, (hd_subtree){index * size, size}, &whole, (hd_subtree){0, micro_batch->shards});
  *depth = s.depth;
  return merges;
}
