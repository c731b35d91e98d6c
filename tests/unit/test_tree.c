/* The tree over shards: whatever the ranges, the same additions. Sums are made of strings that show who was added to
 * whom. */
#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "tree/tree.h"

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

/* Runs pushes over leaf terms; what is left is on the stack. */
static int run(const hd_fold *fold, const term *piece, term *stack) {
  int depth = 0;
  for (int i = 0; i < fold->count; i++) {
    if (piece)
      stack[depth++] = piece[fold->step[i].piece];
    else
      snprintf(stack[depth++].text, TEXT, "%d", fold->step[i].piece);
    for (int m = 0; m < fold->step[i].merges; m++, depth--)
      merge(&stack[depth - 2], &stack[depth - 1]);
  }
  return depth;
}

/* The sum's text when the part is cut at the given borders. */
static const char *sum_text(const hd_part *part, const int *border, int ranges) {
  static term cover[HD_MAX_SHARDS], stack[HD_MAX_SHARDS];
  static hd_range_plan range;
  static hd_fold fold;
  hd_subtree piece[HD_MAX_SHARDS];
  int pieces = 0;
  for (int r = 0; r < ranges; r++) {
    hd__tree_range(&range, part, border[r], border[r + 1]);
    int left = run(&range.pushes, NULL, cover + pieces);
    if (left != range.covers || range.depth > HD_MAX_COVER)
      return "wrong number of covers";
    for (int c = 0; c < left; c++)
      piece[pieces + c] = range.cover[c];
    pieces += left;
  }
  hd__tree_fold_covers(&fold, part, piece, pieces);
  int left = run(&fold, cover, stack);
  return left == 1 ? stack[0].text : "not one sum";
}

static void test_cuts(int64_t samples, int shards) {
  hd_part part = hd__tree_part(samples, shards, 1, 0);
  int whole[2] = {0, shards}, border[4] = {0, 0, 0, shards};
  char want[TEXT];
  snprintf(want, sizeof want, "%s", sum_text(&part, whole, 1));
  int wrong = 0;
  for (int a = 0; a <= shards; a++)
    for (int b = a; b <= shards; b++) {
      border[1] = a;
      border[2] = b;
      wrong += strcmp(sum_text(&part, border, 3), want) != 0;
    }
  is_int(wrong, 0, "%lld samples in %d shards: every cut into three ranges adds alike: %s", (long long)samples, shards,
         want);
}

static void test_parts(void) {
  int wrong = 0;
  for (int64_t samples = 1; samples < 70; samples++)
    for (int parts = 1; parts <= 8; parts *= 2) {
      static term pending[HD_MAX_COVER];
      hd_subtree stack[HD_MAX_COVER];
      hd_part all = hd__tree_part(samples, 8, 1, 0);
      int depth = 0, whole[2] = {0, 8};
      char want[TEXT];
      snprintf(want, sizeof want, "%s", sum_text(&all, whole, 1));
      for (int p = 0; p < parts; p++) {
        hd_part part = hd__tree_part(samples, 8, parts, p);
        int cut[2] = {part.lo, part.hi}, before = depth;
        if (!hd__tree_has_samples(&part, part.lo, part.hi))
          continue;
        term sum;
        snprintf(sum.text, TEXT, "%s", sum_text(&part, cut, 1));
        int merges = hd__tree_push_part(stack, &depth, &part, parts, p);
        for (int m = 0; m < merges; m++) {
          term left = pending[before - 1 - m];
          merge(&left, &sum);
          sum = left;
        }
        pending[depth - 1] = sum;
      }
      wrong += depth != 1 || strcmp(pending[0].text, want) != 0;
    }
  is_int(wrong, 0, "1 to 69 samples in 8 shards: 1, 2, 4 and 8 parts add alike");
}

static void test_split(void) {
  int wrong = 0;
  for (int count = 0; count < 40; count++)
    for (int lanes = 1; lanes < 12; lanes++) {
      int64_t weight[40];
      for (int i = 0; i < count; i++)
        weight[i] = 1 + i * 7 % 5 * 100;
      for (int weighted = 0; weighted < 2; weighted++) {
        int end = 0;
        for (int lane = 0; lane < lanes; lane++) {
          int32_t lo, hi;
          hd__tree_split(&lo, &hi, weighted ? weight : NULL, count, lanes, lane);
          wrong += hi < lo || (hi > lo && lo != end);
          end = hi > lo ? hi : end;
        }
        wrong += end != count;
      }
    }
  is_int(wrong, 0, "split: ranges follow each other and cover everything");
}

int main(void) {
  hd_part full = hd__tree_part(64, 4, 1, 0);
  is_str(sum_text(&full, (int[]){0, 4}, 1), "((0+1)+(2+3))", "four shards");
  hd_part ragged = hd__tree_part(3, 4, 1, 0);
  is_str(sum_text(&ragged, (int[]){0, 4}, 1), "(1+(2+3))", "an empty shard passes the other side through");
  for (int shards = 1; shards <= 16; shards *= 2)
    for (int64_t samples = 1; samples <= 2 * shards + 1; samples += shards > 4 ? 3 : 1)
      test_cuts(samples, shards);
  test_parts();
  test_split();
  is_int(hd__tree_default_shards(1), 1, "one sample, one shard");
  is_int(hd__tree_default_shards(64), 16, "a batch of 64 has 16 shards");
  is_int(hd__tree_first_sample(100, 8, 8), 100, "shards end at the last sample");
  return done_testing();
}
