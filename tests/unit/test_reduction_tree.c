/* The reduction tree over shards: whatever the ranges, the same additions. Sums are strings that show the order of
 * additions. */
#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "reduce/reduction_tree.h"

enum { TEXT = 4096 };

typedef struct term {
  char text[TEXT];
} term;

static void merge(term *left, const term *right) {
  char sum[2 * TEXT + 8];
  snprintf(sum, sizeof sum, "(%s+%s)", left->text, right->text);
  memcpy(left->text, sum, TEXT);
  left->text[TEXT - 1] = 0;
}

/* Runs pushes over leaf terms; returns how many sums are left on the stack. */
static int run(const hd_reduction *reduction, const term *leaf, term *stack) {
  hd_walk w = hd__reduction_walk(reduction);
  while (hd__walk_push(&w)) {
    if (leaf)
      stack[w.top] = leaf[w.step->term];
    else
      snprintf(stack[w.top].text, TEXT, "%d", w.step->term);
    while (hd__walk_merge(&w))
      merge(&stack[w.top], &stack[w.top + 1]);
  }
  return w.top + 1;
}

/* The text of the sum when the micro-batch is cut at the given borders. */
static const char *sum_text(const hd_micro_batch *micro_batch, const int *border, int ranges) {
  static term partial[HD_MAX_SHARDS], stack[HD_MAX_SHARDS];
  static hd_range_plan range, kept;
  static int32_t cut[HD_MAX_SHARDS + 1], first[HD_MAX_SHARDS + 1];
  static int64_t row[HD_MAX_SHARDS + 1];
  hd_partial_sums sums = {.first = first, .row = row, .ranges = ranges, .end = 1, .range = &kept};
  int subtrees = 0;
  for (int r = 0; r <= ranges; r++)
    cut[r] = border[r] - micro_batch->lo;
  hd__tree_lay_out(&sums, micro_batch, cut);
  for (int r = 0; r < ranges; r++) {
    hd__tree_range(&range, micro_batch, border[r], border[r + 1]);
    int left = run(&range.pushes, NULL, partial + subtrees);
    if (left != range.subtree_count || range.depth > HD_MAX_SUBTREES ||
        range.depth > hd__tree_most_sums(border[r], border[r + 1]))
      return "wrong number of partial sums";
    if (first[r] != subtrees || first[r + 1] != subtrees + left ||
        memcmp(&sums.subtree[subtrees], range.subtree, (size_t)left * sizeof *range.subtree))
      return "partial sums in another place";
    if (r == 0 && (kept.pushes.count != range.pushes.count ||
                   memcmp(kept.pushes.step, range.pushes.step, (size_t)kept.pushes.count * sizeof *kept.pushes.step)))
      return "other additions";
    for (int k = 0; k < range.pushes.count; k++)
      if (range.pushes.step[k].row0 < row[r] || range.pushes.step[k].row1 > row[r + 1])
        return "samples of another range";
    subtrees += left;
  }
  for (int k = 0; k < subtrees; k++)
    if (sums.reduction.step[k].row0 != (k ? sums.reduction.step[k - 1].row1 : 0))
      return "samples without a partial sum";
  int left = run(&sums.reduction, partial, stack);
  return left == 1 ? stack[0].text : "not one sum";
}

static void test_cuts(int64_t samples, int shards) {
  hd_micro_batch micro_batch = hd__tree_micro_batch(samples, shards, 1, 0);
  int whole[2] = {0, shards}, border[4] = {0, 0, 0, shards};
  char want[TEXT];
  snprintf(want, sizeof want, "%s", sum_text(&micro_batch, whole, 1));
  int wrong = 0;
  for (int a = 0; a <= shards; a++)
    for (int b = a; b <= shards; b++) {
      border[1] = a;
      border[2] = b;
      wrong += strcmp(sum_text(&micro_batch, border, 3), want) != 0;
    }
  is_int(wrong, 0, "%lld samples in %d shards: every cut into three ranges adds alike: %s", (long long)samples, shards,
         want);
}

/* Of every range: each partial sum gets the steps that add it, in order, and no others. */
static void test_cut(int64_t samples, int shards) {
  static hd_reduction cut[HD_MAX_SUBTREES];
  hd_micro_batch micro_batch = hd__tree_micro_batch(samples, shards, 1, 0);
  int wrong = 0;
  for (int lo = 0; lo <= shards; lo++)
    for (int hi = lo; hi <= shards; hi++) {
      hd_range_plan range;
      hd__tree_range(&range, &micro_batch, lo, hi);
      int at = 0, left = hd__tree_split_reduction(cut, &range.pushes);
      wrong += left != range.subtree_count;
      for (int c = 0; c < left; c++) {
        int merges = 0;
        for (int i = 0; i < cut[c].count; i++, at++) {
          const hd_reduction_step *step = &cut[c].step[i];
          merges += step->merges;
          wrong += step->term != range.pushes.step[at].term || step->merges != range.pushes.step[at].merges ||
                   step->term < range.subtree[c].start || step->term >= range.subtree[c].start + range.subtree[c].size;
        }
        wrong += merges != cut[c].count - 1;
      }
      wrong += at != range.pushes.count;
    }
  ok(wrong == 0, "%lld samples in %d shards: each range's reduction is cut into its partial sums", (long long)samples,
     shards);
}

static void test_micro_batches(void) {
  int wrong = 0;
  for (int64_t samples = 1; samples < 70; samples++)
    for (int parts = 1; parts <= 8; parts *= 2) {
      static term pending[HD_MAX_SUBTREES];
      hd_subtree stack[HD_MAX_SUBTREES];
      hd_micro_batch all = hd__tree_micro_batch(samples, 8, 1, 0);
      int depth = 0, whole[2] = {0, 8};
      char want[TEXT];
      snprintf(want, sizeof want, "%s", sum_text(&all, whole, 1));
      for (int p = 0; p < parts; p++) {
        hd_micro_batch micro_batch = hd__tree_micro_batch(samples, 8, parts, p);
        int cut[2] = {micro_batch.lo, micro_batch.hi}, before = depth;
        if (!hd__tree_has_samples(&micro_batch, micro_batch.lo, micro_batch.hi))
          continue;
        term sum;
        snprintf(sum.text, TEXT, "%s", sum_text(&micro_batch, cut, 1));
        int merges = hd__tree_push_micro_batch(stack, &depth, &micro_batch, parts, p);
        for (int m = 0; m < merges; m++) {
          term left = pending[before - 1 - m];
          merge(&left, &sum);
          sum = left;
        }
        pending[depth - 1] = sum;
      }
      wrong += depth != 1 || strcmp(pending[0].text, want) != 0;
    }
  is_int(wrong, 0, "1 to 69 samples in 8 shards: 1, 2, 4 and 8 micro-batches add alike");
}

/* Speeds of many sorts, from a counter: all alike, two kinds, any, mostly nothing. Never all 0. */
static void make_speeds(int32_t *speed, int threads, int sort) {
  for (int l = 0; l < threads; l++) {
    uint32_t mix = (uint32_t)(l + 31 * threads) * 2654435761u >> 8;
    const int32_t of_sort[] = {1, l < threads / 3 ? 1000 : 550, (int32_t)(mix % 1001), mix % 5 ? 0 : 7};
    speed[l] = of_sort[sort];
  }
  speed[threads / 2] += speed[threads / 2] == 0;
}

static void test_split(void) {
  int wrong = 0;
  int64_t weight[40];
  int32_t speed[12];
  for (int count = 0; count < 40; count++)
    for (int threads = 1; threads < 12; threads++)
      for (int sort = 0; sort < 4; sort++) {
        int end = 0;
        make_speeds(speed, threads, sort);
        for (int i = 0; i < count; i++)
          weight[i] = 1 + i * 7 % 5 * 100;
        for (int thread = 0; thread < threads; thread++) {
          int32_t lo, hi;
          hd__tree_split(&lo, &hi, weight, count, (hd_thread_speeds){sort ? speed : NULL, threads}, thread);
          wrong += hi < lo || (hi > lo && lo != end) || (hi > lo && speed[thread] == 0);
          end = hi > lo ? hi : end;
        }
        wrong += end != count;
      }
  is_int(wrong, 0, "split: ranges follow each other and hold everything");
  int32_t lo, hi;
  for (int i = 0; i < 40; i++)
    weight[i] = 10;
  hd__tree_split(&lo, &hi, weight, 40, (hd_thread_speeds){(const int32_t[]){3, 0, 1}, 3}, 0);
  ok(lo == 0 && hi == 30, "split: in proportion to the threads' speeds");
}

/* When the last thread is done: the least possible, found by trying ends. */
static double earliest_end(int items, const int32_t *speed, int threads) {
  double best = 1e30;
  for (int l = 0; l < threads; l++)
    for (int n = 0; n <= items && speed[l] > 0; n++) {
      double end = (double)n / speed[l];
      int64_t fit = 0;
      for (int o = 0; o < threads; o++)
        fit += (int64_t)(end * speed[o] * (1 + 1e-12));
      if (fit >= items && end < best)
        best = end;
    }
  return best;
}

static void check_deal(int items, const int32_t *speed, int threads, int *unassigned, int *idle, int *late) {
  static int32_t border[257];
  double end = 0;
  hd__tree_distribute(border, items, speed, threads);
  *unassigned += border[0] != 0 || border[threads] != items;
  for (int l = 0; l < threads; l++) {
    int taken = border[l + 1] - border[l];
    *unassigned += taken < 0;
    *idle += speed[l] == 0 && taken > 0;
    if (speed[l] > 0 && (double)taken / speed[l] > end)
      end = (double)taken / speed[l];
  }
  *late += end > earliest_end(items, speed, threads) * (1 + 1e-9);
}

static void test_deal(void) {
  static int32_t speed[256], border[257], plain[257];
  int unassigned = 0, idle = 0, late = 0, unlike = 0;
  for (int threads = 1; threads <= 256; threads += threads < 20 ? 1 : 59)
    for (int items = 1; items <= 256; items *= 2)
      for (int sort = 0; sort < 4; sort++) {
        make_speeds(speed, threads, sort);
        if (threads < 20 || items < 33)
          check_deal(items, speed, threads, &unassigned, &idle, &late);
        hd__tree_distribute(border, items, speed, threads);
        hd__tree_distribute(plain, items, NULL, threads);
        unlike += sort == 0 && memcmp(plain, border, (size_t)(threads + 1) * sizeof *border) != 0;
        unassigned += border[threads] != items;
      }
  is_int(unassigned, 0, "deal: 1 to 256 threads share all items, in order");
  is_int(idle, 0, "deal: a thread of speed 0 gets none");
  is_int(late, 0, "deal: no other way is done earlier");
  is_int(unlike, 0, "deal: without speeds all are alike");
  hd__tree_distribute(border, 16, (const int32_t[]){1000, 1000, 500, 500}, 4);
  ok(border[1] == 5 && border[2] == 10 && border[3] == 13 && border[4] == 16, "deal: 16 to 2 fast and 2 slow threads");
  hd__tree_distribute(border, 16, NULL, 6);
  ok(border[1] == 2 && border[6] - border[5] == 3, "deal: the first thread, which has other work, gets less");
}

/* A range of shards of all micro-batches holds a row if one of its shards does. */
static void test_holds(void) {
  enum { SHARDS = 8 };
  int wrong = 0;
  for (int64_t samples = 1; samples < 20; samples++)
    for (int micro_batches = 1; micro_batches <= 4; micro_batches *= 2)
      for (int lo = 0; lo <= SHARDS / micro_batches; lo++)
        for (int hi = lo; hi <= SHARDS / micro_batches; hi++)
          for (int64_t row = 0; row < samples; row++) {
            int held[2] = {0};
            for (int s = 0; s < SHARDS; s++)
              for (int64_t r = row; r < samples; r++)
                if (s % (SHARDS / micro_batches) >= lo && s % (SHARDS / micro_batches) < hi &&
                    hd__tree_first_sample(samples, SHARDS, s) <= r && r < hd__tree_first_sample(samples, SHARDS, s + 1))
                  held[r > row] = 1;
            const hd_shard_range range = {lo, hi};
            wrong += hd__tree_holds(samples, SHARDS, micro_batches, range, row, 1) != held[0];
            wrong += hd__tree_holds(samples, SHARDS, micro_batches, range, row, samples - row) != (held[0] | held[1]);
          }
  is_int(wrong, 0, "each row is held by the ranges of shards that it is in");
}

/* Any speeds leave the sum as it is. */
static void test_speeds(void) {
  int wrong = 0, whole[2] = {0, 16};
  for (int64_t samples = 1; samples < 70; samples += 4) {
    hd_micro_batch micro_batch = hd__tree_micro_batch(samples, 16, 1, 0);
    char want[TEXT];
    snprintf(want, sizeof want, "%s", sum_text(&micro_batch, whole, 1));
    for (int threads = 1; threads < 40; threads++)
      for (int sort = 0; sort < 4; sort++) {
        int32_t speed[40], border[41];
        make_speeds(speed, threads, sort);
        hd__tree_distribute(border, 16, speed, threads);
        wrong += strcmp(sum_text(&micro_batch, border, threads), want) != 0;
      }
  }
  is_int(wrong, 0, "1 to 69 samples in 16 shards: threads of any speeds add alike");
}

int main(void) {
  hd_micro_batch full = hd__tree_micro_batch(64, 4, 1, 0);
  is_str(sum_text(&full, (int[]){0, 4}, 1), "((0+1)+(2+3))", "four shards");
  hd_micro_batch ragged = hd__tree_micro_batch(3, 4, 1, 0);
  is_str(sum_text(&ragged, (int[]){0, 4}, 1), "(1+(2+3))", "an empty shard passes the other side through");
  for (int shards = 1; shards <= 16; shards *= 2)
    for (int64_t samples = 1; samples <= 2 * shards + 1; samples += shards > 4 ? 3 : 1)
      test_cuts(samples, shards);
  test_cut(64, 16);
  test_cut(11, 16);
  test_cut(200, 32);
  test_micro_batches();
  test_split();
  test_deal();
  test_holds();
  test_speeds();
  is_int(hd__tree_default_shards(1), 1, "one sample, one shard");
  is_int(hd__tree_default_shards(64), 16, "a batch of 64 has 16 shards");
  is_int(hd__tree_first_sample(100, 8, 8), 100, "shards end at the last sample");
  return done_testing();
}
